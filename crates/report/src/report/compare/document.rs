//! The forms of a comparison: a text, Markdown and one offline page, which templates fill in with the same words, and JSON in the Bencher
//! Metric Format.

use super::{Comparison, HEADS, STARTS, Side, frontiers};
use super::{cells, percent, show_limit, tally, word};
use crate::report::align::align;
use crate::report::html::text::{self, safe};
use crate::report::markdown::environment;
use crate::report::picture::{Form, render};
use crate::report::template::{fill, plain};
use itertools::Itertools;
use minijinja::{Value, context};
use serde_json::{Map, json};
use vsweep_plan::units::show_many;

/// Points without a counterpart that are named.
const MOST_NAMED: usize = 5;

/// In the terminal: the tally, changes, a block for each point, and limits.
pub fn to_text(comparison: &Comparison) -> String {
    plain(include_str!("compare.txt.jinja"), parts(comparison))
}

/// Formats it as Markdown, short enough for a pull request's comment or a job's summary.
pub fn to_markdown(comparison: &Comparison) -> String {
    fill(&environment(), include_str!("compare.md.jinja"), parts(comparison))
}

/// Formats it as one offline page: the tally first, then limits, both frontiers, a table for each point, and other changes.
///
/// # Errors
/// If a chart cannot be drawn.
pub fn to_html(comparison: &Comparison, base: &Side, new: &Side) -> Result<String, String> {
    let mut pictures = Vec::new();
    for chart in frontiers::charts(base, new) {
        let svg = render(&chart, Form::Svg)?;
        pictures.push(context! { title => chart.title.clone(), svg => safe(String::from_utf8_lossy(&svg)) });
    }
    let parts = context! { pictures, ..parts(comparison) };
    Ok(text::render(include_str!("page.html.jinja"), parts))
}

/// The new side in the Bencher Metric Format, for services that keep a history of results: a benchmark for each point, a measure for each
/// metric, its value and its 95 % interval.
pub fn to_bmf(comparison: &Comparison) -> String {
    let benchmarks = comparison.points.iter().map(|pair| {
        let measures = pair.figures.iter().map(|figure| {
            let (low, high) = figure.new_interval;
            let measure = json!({"value": figure.new, "lower_value": low, "upper_value": high});
            (figure.metric.clone(), measure)
        });
        (pair.settings.clone(), json!(Map::from_iter(measures)))
    });
    let benchmarks = Map::from_iter(benchmarks);
    serde_json::to_string_pretty(&benchmarks).expect("plain data always serialises") + "\n"
}

/// Data for all text forms.
fn parts(comparison: &Comparison) -> Value {
    let limits = comparison.limits.iter().map(|judged| {
        [
            show_limit(&judged.limit),
            judged.settings.clone(),
            percent(judged.ratio),
            format!("{:.3}", judged.p_value),
            word(judged.requirement),
        ]
    });
    // In the terminal, a number of starts common to all rows is shown once.
    let starts = comparison.figures().map(|figure| figure.starts).unique().collect_vec();
    let is_shown = |(column, _): &(usize, String)| match HEADS[*column] {
        STARTS => starts.len() > 1,
        _ => true,
    };
    let shown = |cells: [String; 7]| {
        let kept = cells.into_iter().enumerate().filter(is_shown);
        kept.map(|(_, cell)| cell).collect_vec()
    };
    let points = comparison.points.iter().map(|pair| {
        let rows = pair.figures.iter().map(cells).collect_vec();
        let aligned = [HEADS.map(str::to_owned)].into_iter().chain(rows.iter().cloned());
        context! {
            settings => pair.settings.clone(),
            aligned => align(&aligned.map(shown).collect_vec()).lines().map(str::to_owned).collect_vec(),
            rows,
            verdicts => pair.figures.iter().map(|figure| word(figure.verdict)).collect_vec(),
        }
    });
    let lone = [(&comparison.only_base, "base"), (&comparison.only_new, "new")];
    let lone = lone.into_iter().filter(|(settings, _)| !settings.is_empty());
    let lone = lone.map(|(settings, side)| {
        context! {
            side,
            count => show_many(settings.len() as u64, "point"),
            named => settings.iter().take(MOST_NAMED).join("; "),
            more => settings.len().saturating_sub(MOST_NAMED),
        }
    });
    let changes = comparison.changes.iter();
    context! {
        base => comparison.base.clone(),
        new => comparison.new.clone(),
        tally => tally(comparison),
        notes => comparison.notes(),
        starts => starts.iter().exactly_one().ok().copied(),
        heads => HEADS,
        limits => limits.collect_vec(),
        points => points.collect_vec(),
        lone => lone.collect_vec(),
        changes => changes.map(|change| [&change.name, &change.base, &change.new].map(String::clone)).collect_vec(),
    }
}
