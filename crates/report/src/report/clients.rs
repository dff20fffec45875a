//! Loads that several clients sent: what their figures do not have in common, in words. What each of them means by its figures is
//! told in the book.

use super::words::show_number;
use std::collections::BTreeMap;
use vsweep_plan::plan::commands::COMMAND;
use vsweep_record::table::{Points, Section};

/// One line if the points were measured by several clients: the input tokens that each of them counts for a request, and where to
/// read on.
pub fn remark(points: &Points<'_>) -> Option<String> {
    let of_bench = |name: &str| name == COMMAND || name == format!("bench.{COMMAND}");
    let mut columns = points.runs.columns().iter();
    let clients = columns.find(|column| column.section == Section::Bench && of_bench(&column.name))?;
    let number = |name: &str, row: usize| points.runs.cell(name, row).number();
    let mut tokens: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for point in &points.points {
        let seen = tokens.entry(clients.cells[point.row].to_string()).or_default();
        for row in &point.used {
            let share =
                number("total_input_tokens", *row).zip(number("completed", *row).filter(|completed| *completed > 0.0));
            seen.extend(share.map(|(tokens, requests)| tokens / requests));
        }
    }
    if tokens.len() < 2 {
        return None;
    }
    let shown = tokens.iter().map(|(client, seen)| match seen.len() {
        0 => format!("{client} unknown"),
        count => format!("{client} {}", show_number(seen.iter().sum::<f64>() / count as f64)),
    });
    Some(format!(
        "{} clients sent these loads; input tokens of a request as each counts them: {}. They also differ in where TTFT starts, in \
         TPOT, warm-up and their own lag: docs/moving.md, \"Why two clients disagree\"",
        tokens.len(),
        shown.collect::<Vec<_>>().join(", ")
    ))
}
