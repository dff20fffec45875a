//! What stands above an answer: what to run, and the chart that shows why.

use super::Page;
use super::text::escape;
use crate::report::answer::Answer;
use crate::report::chart::Chart;
use crate::report::charts::{Subject, effects, families};
use crate::report::effects::Mattered;
use crate::report::environment::sign;
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

/// The charts of each workload, in order, empty where there is none: what each server can be, and which setting mattered.
pub fn pictures(page: &Page<'_>) -> Vec<[String; 2]> {
    let subject = Subject {
        experiment: page.inputs.experiment,
        points: page.inputs.points,
    };
    let draw = |(i, chart): (usize, Option<Chart>)| {
        let shown = chart.filter(|_| i < MOST_PICTURES);
        let shown = shown.map(|chart| sign(chart, page.inputs.manifest, page.inputs.state));
        shown.as_ref().map_or(String::new(), picture)
    };
    let families = families::of_each(&subject, page.inputs.mattered)
        .into_iter()
        .enumerate()
        .map(draw);
    let effects = effects::of_each(&subject, page.inputs.mattered)
        .into_iter()
        .enumerate()
        .map(draw);
    families
        .zip(effects)
        .map(|(families, effects)| [families, effects])
        .collect()
}

/// Which setting of the server mattered for a workload: the chart, and what it says in sentences.
pub fn mattered(found: &[Mattered<'_>], picture: &str) -> String {
    let mut html = String::new();
    for found in found {
        let told = found.sentences().into_iter();
        let told: String = told
            .map(|sentence| format!("<li>{}.</li>", escape(&sentence)))
            .collect();
        let _ = write!(html, "<p>{}:</p><ul>{told}</ul>", escape(&found.subject()));
    }
    match html.is_empty() {
        true => html,
        false => format!(
            "<details class=\"mattered\" open><summary>Which setting mattered</summary>{picture}{html}</details>"
        ),
    }
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
