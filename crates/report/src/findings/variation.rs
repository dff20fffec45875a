//! The varied parameters of a sweep: those that distinguish its points, and the load for the x axis.

use crate::ordered::Order;
use crate::sentences::parts::DEFAULT_SETTINGS;
use crate::texts::words::{SIZING, short_name, short_setting};
use itertools::Itertools;
use std::collections::{BTreeMap, HashSet};
use vsweep_record::table::{Cell, Column, Points, Section, Workload};

/// The parameters that sweeps are usually run for. Labels name them first, in this order.
const FOREMOST: [&str; 6] = [
    "max_concurrency",
    "request_rate",
    "batch_size",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
];

/// The parameters with more than one value among the points, foremost first. Of several that change together, one to one, only the first is
/// kept, except settings of the server. Those that only size a run, such as `num_prompts`, count if nothing else varies. For a single
/// point, its load and its lengths.
pub fn varying<'t>(points: &Points<'t>) -> Vec<&'t Column> {
    if let [point] = &points.points[..] {
        let columns = points.runs.columns().iter();
        let of_load =
            columns.filter(|column| column.section == Section::Bench && (is_load(column) || length(column).is_some()));
        let known = of_load.filter(|column| !column.cells.at(point.row).is_missing());
        return known.sorted_by_key(|column| !is_load(column)).collect();
    }
    let params = points
        .runs
        .columns()
        .iter()
        .filter(|column| matches!(column.section, Section::Serve | Section::Bench) && varies(points, column));
    let mut params: Vec<&Column> = params.collect();
    params.order_by_key(|column| {
        let place = FOREMOST.iter().position(|name| bare_name(column) == *name);
        (
            SIZING.contains(&bare_name(column).as_str()),
            // The load comes first, then the name of a combination, which represents its other parameters.
            (!is_load(column), !column.is_combo()),
            place.unwrap_or(FOREMOST.len()),
        )
    });
    let mut kept: Vec<&Column> = Vec::new();
    for column in params {
        let is_sizing = SIZING.contains(&bare_name(column).as_str());
        // With few measured servers, settings that the plan varies independently look as if they changed together.
        let are_of_server = |earlier: &Column| [earlier, column].iter().all(|one| is_free_setting(one));
        let mut earlier = kept.iter();
        let follows = earlier.any(|earlier| !are_of_server(earlier) && points.is_one_to_one(earlier, column));
        if !follows && (kept.is_empty() || !is_sizing) {
            kept.push(column);
        }
    }
    without_implied(points, kept)
}

/// Returns true for a setting of the server, other than the name of a combination.
fn is_free_setting(column: &Column) -> bool {
    column.section == Section::Serve && !column.is_combo()
}

/// Leaves out parameters that the name of a combination implies, except the load. Keeps all if no parameter for an x axis would remain.
fn without_implied<'t>(points: &Points<'t>, params: Vec<&'t Column>) -> Vec<&'t Column> {
    let combos: Vec<&Column> = params.iter().copied().filter(|column| column.is_combo()).collect();
    let is_implied = |column: &Column| {
        let is_kept = is_load(column) || column.is_combo();
        !is_kept && combos.iter().any(|combo| follows_from(points, &[*combo], column))
    };
    let remaining: Vec<&Column> = params.iter().copied().filter(|column| !is_implied(column)).collect();
    match swept(points, &remaining).is_none() && swept(points, &params).is_some() {
        true => params,
        false => remaining,
    }
}

fn is_load(column: &Column) -> bool {
    matches!(
        bare_name(column).as_str(),
        "max_concurrency" | "request_rate" | "batch_size"
    )
}

/// The parameters that distinguish the points of one workload.
pub fn varying_within<'t>(points: &Points<'t>, workload: &Workload<'_>) -> Vec<&'t Column> {
    within(&varying(points), workload).collect()
}

/// Parameters that the points of one workload do not share.
pub fn within<'t>(varied: &[&'t Column], workload: &Workload<'_>) -> impl Iterator<Item = &'t Column> {
    let is_shared = |column: &&Column| workload.settings.iter().any(|shared| shared.name == column.name);
    varied.iter().copied().filter(move |column| !is_shared(column))
}

/// The parameter along the x axis: the load with the most values, else the first other numeric parameter, bench before serve.
pub fn swept<'t>(points: &Points<'t>, varying: &[&'t Column]) -> Option<&'t Column> {
    let counted = varying.iter().map(|column| (*column, count_numbers(points, column)));
    let numeric: Vec<(&Column, usize)> = counted.filter(|(_, numbers)| *numbers > 1).collect();
    let loads = numeric.iter().filter(|(column, _)| is_load(column));
    // `max_by_key` returns the last of equal items, so the order is reversed to get the first.
    let load = loads
        .rev()
        .max_by_key(|(_, numbers)| *numbers)
        .map(|(column, _)| *column);
    let columns = || numeric.iter().map(|(column, _)| *column);
    let side = |section| columns().find(|column| column.section == section);
    load.or_else(|| side(Section::Bench)).or_else(|| side(Section::Serve))
}

/// The parameters whose combinations are separate curves along `x`: those in `asked`, then the other varied ones. Parameters that follow
/// from `x`, `asked` or `facets` are left out; `facets` divide the pictures and panels. A line through points of several settings would
/// show the behaviour of none of them.
pub fn curves_along<'t>(
    points: &Points<'t>,
    x: &'t Column,
    asked: Vec<&'t Column>,
    facets: &[&'t Column],
) -> Vec<&'t Column> {
    let params = varying(points);
    let is_setting = !matches!(x.section, Section::Metric | Section::Derived);
    // If `x` is a figure, the points of a curve are connected along the load.
    let traced = if is_setting { Some(x) } else { swept(points, &params) };
    let named: Vec<&Column> = asked.iter().chain(facets).copied().collect();
    let follows = |column: &Column| {
        traced.is_some_and(|traced| points.is_one_to_one(traced, column)) || follows_from(points, &named, column)
    };
    let others: Vec<&Column> = params.into_iter().filter(|column| !follows(column)).collect();
    asked.into_iter().chain(others).collect()
}

/// Returns true if points that agree in some parameters also agree in this one.
pub fn follows_from(points: &Points<'_>, others: &[&Column], column: &Column) -> bool {
    let mut known: BTreeMap<Vec<String>, String> = BTreeMap::new();
    points.points.iter().all(|point| {
        let key = others
            .iter()
            .map(|column| column.cells.at(point.row).to_string())
            .collect();
        let value = column.cells.at(point.row).to_string();
        known.entry(key).or_insert_with(|| value.clone()) == &value
    })
}

/// Settings that distinguish the point of a row: `concurrency 8, TP 2`; `default settings` if several are all unset.
pub fn settings(varying: &[&Column], row: usize) -> String {
    let name = |column: &&Column| short_setting(&column.name, &column.cells.at(row));
    let mut set = varying
        .iter()
        .filter(|column| !column.cells.at(row).is_missing())
        .map(name)
        .peekable();
    match varying {
        [] => "the only point".into(),
        _ if set.peek().is_some() => set.join(", "),
        [unset] => name(unset),
        _ => DEFAULT_SETTINGS.into(),
    }
}

/// Name that distinguishes a workload: `512 in, 16 out`; empty if it is the only one.
pub fn name_workload(points: &Points<'_>, workload: &Workload<'_>) -> String {
    let Some(point) = workload.points.first().filter(|_| !workload.is_only()) else {
        return String::new();
    };
    let row = points.points[*point].row;
    let (lengths, others): (Vec<&Column>, Vec<&Column>) =
        workload.settings.iter().partition(|column| length(column).is_some());
    let columns = points.runs.columns().iter().filter(|_| !lengths.is_empty());
    let shown = columns.filter(|column| !column.cells.at(row).is_missing());
    let shown = shown.filter_map(|column| Some(format!("{} {}", column.cells.at(row), length(column)?)));
    let others = (!others.is_empty()).then(|| settings(&others, row));
    shown.chain(others).join(", ")
}

/// `in` or `out` if a column is the length of the prompts or of the answers.
pub fn length(column: &Column) -> Option<String> {
    let short = short_name(&column.name);
    let is_length = matches!(column.section, Section::Bench) && matches!(short.as_str(), "in" | "out");
    is_length.then_some(short)
}

/// True if the values of a parameter have different texts among the points.
pub fn varies(points: &Points<'_>, column: &Column) -> bool {
    let mut cells = points.points.iter().map(|point| column.cells.at(point.row));
    let Some(first) = cells.next().filter(|_| column.cells.same().is_none()) else {
        return false;
    };
    let text = first.to_string();
    cells.any(|cell| cell != first && cell.to_string() != text)
}

/// Number of distinct numbers among a parameter's values at the points.
fn count_numbers(points: &Points<'_>, column: &Column) -> usize {
    let numbers = points
        .points
        .iter()
        .filter_map(|point| match column.cells.at(point.row) {
            Cell::Integer(whole) => Some((false, whole.cast_unsigned())),
            Cell::Float(number) => Some((true, number.to_bits())),
            Cell::Missing | Cell::Bool(_) | Cell::Text(_) => None,
        });
    numbers.collect::<HashSet<(bool, u64)>>().len()
}

/// A column's name as vLLM spells settings in Python, without its side.
pub fn bare_name(column: &Column) -> String {
    let name = column.name.replace('-', "_");
    let bare = name.strip_prefix("serve.").or_else(|| name.strip_prefix("bench."));
    bare.map(str::to_owned).unwrap_or(name)
}
