//! What stands above an answer: what to run, and the chart that shows why.

use super::Page;
use super::text::escape;
use crate::report::answer::Answer;
use crate::report::chart::Chart;
use crate::report::charts::{Subject, families};
use crate::report::picture::{Form, render};
use crate::report::recommend::recommend;
use std::fmt::Write;
use vsweep_record::table::Column;

/// Workloads whose chart is shown with their answer.
const MOST_PICTURES: usize = 3;
/// Points of a chart that is shown so; a larger one stands in `charts/` only, so that the page stays small.
const MOST_MARKS: usize = 600;
/// What to run for a workload, a paragraph for each goal.
pub fn recommended(page: &Page<'_>, answer: &Answer, told: &[&Column]) -> String {
    let mut html = String::new();
    for each in recommend(page.inputs.points, answer, told) {
        let (lead, server, why) = (escape(&each.lead()), escape(&each.server), escape(&each.why));
        let _ = write!(html, "<p class=\"lead\">{lead} <strong>{server}</strong>: {why}</p>");
    }
    html
}

/// The chart of each workload that has one, in order, by the workload's name: what each server can be.
pub fn pictures(page: &Page<'_>) -> Vec<String> {
    let subject = Subject {
        experiment: page.inputs.experiment,
        points: page.inputs.points,
    };
    let charts = families::of_each(&subject).into_iter().enumerate();
    let charts = charts.map(|(i, chart)| chart.filter(|_| i < MOST_PICTURES));
    charts
        .map(|chart| chart.as_ref().map_or(String::new(), picture))
        .collect()
}

/// A chart as a part of the page; nothing if it cannot be drawn, which the charts' files tell of.
fn picture(chart: &Chart) -> String {
    let series = chart.panels.iter().flat_map(|panel| &panel.series);
    if series.map(|series| series.points.len()).sum::<usize>() > MOST_MARKS {
        return String::new();
    }
    let Some(svg) = render(chart, Form::Svg)
        .ok()
        .and_then(|svg| String::from_utf8(svg).ok())
    else {
        return String::new();
    };
    let svg = svg.replacen(
        "<svg ",
        &format!("<svg role=\"img\" aria-label=\"{}\" ", escape(&chart.title)),
        1,
    );
    format!("<div class=\"picture\">{svg}</div>")
}

/// Why there is no best point.
pub fn nothing_measured(page: &Page<'_>) -> &'static str {
    let points = &page.inputs.points.points;
    if points.iter().any(|point| !point.cut.is_empty()) {
        return "<p class=\"note\">Every run of the searches was cut short as soon as its verdict was certain, so no point has \
                figures to compare.</p>";
    }
    "<p class=\"empty\">No run was measured yet, so there is no answer. What went wrong stands below.</p>"
}
