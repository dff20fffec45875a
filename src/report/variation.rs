//! What a sweep varied: which parameters tell its points apart, and which of them is the load along the x axis.

use super::words::short_setting;
use crate::table::{Cell, Column, Points, Section};
use std::collections::BTreeMap;

/// The parameters that a sweep is run for; where several vary, labels name them first and in this order.
const FOREMOST: [&str; 5] = [
    "max_concurrency",
    "request_rate",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
];

/// Parameters that decide how long a run takes rather than what is measured; they follow the load and tell nothing apart.
const SIZING: [&str; 2] = ["num_prompts", "num_warmups"];

/// The parameters with more than one value among the points, foremost first. Of several that change together, one to
/// one, only the first is kept.
pub fn varying<'t>(points: &Points<'t>) -> Vec<&'t Column> {
    let params = points.runs.columns().iter().filter(|column| {
        matches!(column.section, Section::Serve | Section::Bench) && distinct(points, column).len() > 1
    });
    let mut params: Vec<&Column> = params.collect();
    params.sort_by_key(|column| {
        let place = FOREMOST.iter().position(|name| plain(column) == *name);
        (
            SIZING.contains(&plain(column).as_str()),
            place.unwrap_or(FOREMOST.len()),
        )
    });
    let mut kept: Vec<&Column> = Vec::new();
    for column in params {
        let is_sizing = SIZING.contains(&plain(column).as_str());
        let follows = kept.iter().any(|earlier| is_one_to_one(points, earlier, column));
        if !follows && (kept.is_empty() || !is_sizing) {
            kept.push(column);
        }
    }
    kept
}

/// The parameter along the x axis: the load with the most values, else the first other numeric parameter, bench before
/// serve.
pub fn swept<'t>(points: &Points<'t>, varying: &[&'t Column]) -> Option<&'t Column> {
    let is_load = |column: &Column| matches!(plain(column).as_str(), "max_concurrency" | "request_rate");
    let numbers = |column: &Column| {
        let cells = distinct(points, column).into_values();
        cells.filter(|cell| cell.number().is_some()).count()
    };
    let numeric: Vec<&Column> = varying.iter().copied().filter(|column| numbers(column) > 1).collect();
    let loads = numeric.iter().copied().filter(|column| is_load(column));
    // `max_by_key` takes the last of equals; reversed, the foremost wins.
    let load = loads.rev().max_by_key(|column| numbers(column));
    let side = |section| numeric.iter().copied().find(move |column| column.section == section);
    load.or_else(|| side(Section::Bench)).or_else(|| side(Section::Serve))
}

/// What tells the point of a row from the others: `concurrency 8, TP 2`.
pub fn settings(varying: &[&Column], row: usize) -> String {
    let told = varying.iter().filter(|column| !column.cells[row].is_missing());
    let told: Vec<String> = told
        .map(|column| short_setting(&column.name, &column.cells[row]))
        .collect();
    if told.is_empty() {
        "the only point".into()
    } else {
        told.join(", ")
    }
}

/// The values a parameter takes among the points, by their text.
fn distinct<'t>(points: &Points<'t>, column: &'t Column) -> BTreeMap<String, &'t Cell> {
    let cells = points.points.iter().map(|point| &column.cells[point.row]);
    cells.map(|cell| (cell.to_string(), cell)).collect()
}

fn is_one_to_one(points: &Points<'_>, a: &Column, b: &Column) -> bool {
    let mut forth = BTreeMap::new();
    let mut back = BTreeMap::new();
    points.points.iter().all(|point| {
        let (from, to) = (a.cells[point.row].to_string(), b.cells[point.row].to_string());
        let same_to = forth.entry(from.clone()).or_insert_with(|| to.clone()) == &to;
        let same_from = back.entry(to).or_insert_with(|| from.clone()) == &from;
        same_to && same_from
    })
}

fn plain(column: &Column) -> String {
    let name = column.name.replace('-', "_");
    let bare = name.strip_prefix("serve.").or_else(|| name.strip_prefix("bench."));
    bare.map(str::to_owned).unwrap_or(name)
}
