//! A comparison in the terminal.

use super::super::align::align;
use super::{Comparison, HEADS, INTERVAL, STARTS, cells, percent, requirement_name, show_limit, tally};
use itertools::Itertools;
use vsweep_plan::units::show_many;

/// Points without a counterpart that are named.
const MOST_NAMED: usize = 5;

/// The whole comparison: changes, a block for each point, limits, and the tally as the last line.
pub fn to_text(comparison: &Comparison) -> String {
    let mut text = format!("base: {}\nnew:  {}\n", comparison.base, comparison.new);
    for change in &comparison.changes {
        text += &format!(
            "changed: {}: {} -> {}\n",
            change.name,
            or_none(&change.base),
            or_none(&change.new)
        );
    }
    let figures = || comparison.points.iter().flat_map(|pair| &pair.figures);
    // What is the same everywhere is told once.
    let starts: Vec<(usize, usize)> = figures().map(|figure| figure.starts).unique().collect();
    if let [(base, new)] = starts[..] {
        text += &format!("starts of each server: {base} in base, {new} in new\n");
    }
    let has_interval = figures().any(|figure| figure.interval.is_some());
    let is_shown = |(column, _): &(usize, String)| match HEADS[*column] {
        INTERVAL => has_interval,
        STARTS => starts.len() > 1,
        _ => true,
    };
    let shown = |cells: [String; 7]| {
        let kept = cells.into_iter().enumerate().filter(is_shown);
        kept.map(|(_, cell)| cell).collect::<Vec<String>>()
    };
    for pair in &comparison.points {
        text += &format!("\n{}\n", pair.settings);
        let mut rows = vec![shown(HEADS.map(str::to_owned))];
        rows.extend(pair.figures.iter().map(|figure| shown(cells(figure))));
        for line in align(&rows).lines() {
            text += &format!("  {line}\n");
        }
    }
    text.push('\n');
    for (settings, side) in [(&comparison.only_base, "base"), (&comparison.only_new, "new")] {
        if !settings.is_empty() {
            let named = settings
                .iter()
                .take(MOST_NAMED)
                .cloned()
                .collect::<Vec<String>>()
                .join("; ");
            let more = match settings.len().saturating_sub(MOST_NAMED) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            text += &format!(
                "{} without a counterpart, in {side} only: {named}{more}\n",
                show_many(settings.len() as u64, "point")
            );
        }
    }
    for judged in &comparison.limits {
        text += &format!(
            "limit {} at {}: {} ({}, p = {:.3})\n",
            show_limit(&judged.limit),
            judged.settings,
            requirement_name(judged.requirement),
            percent(judged.ratio),
            judged.p_value
        );
    }
    for note in comparison.notes() {
        text += &format!("note: {note}\n");
    }
    text + &tally(comparison) + "\n"
}

fn or_none(value: &str) -> &str {
    if value.is_empty() { "(none)" } else { value }
}
