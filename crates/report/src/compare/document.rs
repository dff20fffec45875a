//! The data of which all texts of a comparison are made, the offline page, and the JSON in the Bencher Metric Format.

use super::words::{HEADS, cells, grounds, show_limit, show_p, tally, word};
use super::{Comparison, LimitVerdict, Side, changes, frontiers};
use crate::chart::Chart;
use crate::html::text::{self, safe};
use crate::ordered::Ordered;
use crate::picture::{Form, render};
use crate::texts::changes::change;
use crate::texts::words::axis_title;
use itertools::Itertools;
use minijinja::{Value, context};
use serde_json::{Map, json};
use std::path::Path;
use vsweep_answer::RequirementVerdict::{self, Broken, Met, Undecided};
use vsweep_base::units::{show_count, show_many};

/// Most points without a counterpart that are named, and most changes of settings and other facts, and notes, that are listed.
const MOST_NAMED: usize = 5;

/// Formats comparisons with one base as one offline page: sentences, changes, limits, the frontiers of all sides, and a table of every
/// point that sorts. The first side is the base, and each further one belongs to a comparison.
///
/// # Errors
/// If a chart cannot be drawn.
pub fn to_html(comparisons: &[Comparison], sides: &[Side]) -> Result<String, String> {
    let picture = |chart: &Chart| {
        let svg = render(chart, Form::Svg)?;
        Ok::<Value, String>(context! { title => chart.title.clone(), svg => safe(String::from_utf8_lossy(&svg)) })
    };
    let is_simulated = sides.iter().any(Side::is_simulated);
    let titles = titles(sides);
    let parts = comparisons.iter().map(|comparison| {
        let picture = changes::chart(comparison, is_simulated).map(|chart| picture(&chart));
        Ok(context! { picture => picture.transpose()?, ..parts(comparison) })
    });
    let parts = context! {
        simulated => is_simulated.then_some(if sides.iter().any(Side::is_real) { "Some" } else { "All" }),
        comparisons => parts.collect::<Result<Vec<Value>, String>>()?,
        pictures => frontiers::charts(sides).iter().map(picture).collect::<Result<Vec<Value>, String>>()?,
        base => titles.first().copied(),
        names => titles.iter().skip(1).join(", "),
        heads => HEADS,
        script => safe(include_str!("sort.js").to_owned()),
        data => "null",
    };
    Ok(text::render(include_str!("page.html.jinja"), parts))
}

/// The names of the sides, without the folders that lead to them if the short names differ.
fn titles(sides: &[Side]) -> Vec<&str> {
    let short = sides.iter().map(|side| {
        let last = Path::new(&side.name).file_name().and_then(|name| name.to_str());
        last.unwrap_or(&side.name)
    });
    match short.clone().all_unique() {
        true => short.collect(),
        false => sides.iter().map(|side| side.name.as_str()).collect(),
    }
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
pub(super) fn parts(comparison: &Comparison) -> Value {
    let of_limit = |judged: &LimitVerdict| {
        let measured = judged.measured.as_ref();
        [
            show_limit(&judged.limit),
            judged.settings.clone(),
            grounds(judged, measured.map(|measured| change(measured.ratio))),
            measured.map_or(String::new(), |measured| {
                show_p(measured.p_value).trim_start_matches("= ").to_owned()
            }),
            word(judged.requirement),
        ]
    };
    // A point without a valid run breaks every limit, or leaves it undecided.
    let of_lone = |(settings, why, requirement): (&String, &str, RequirementVerdict)| {
        let row = [
            "(all)".to_owned(),
            settings.clone(),
            why.to_owned(),
            String::new(),
            word(requirement),
        ];
        (requirement, f64::INFINITY, row)
    };
    let judged = comparison.limits.iter();
    let judged = judged.map(|judged| (judged.requirement, judged.excess(), of_limit(judged)));
    // The worst first.
    let limits = comparison.lone().map(of_lone).chain(judged);
    let limits = limits
        .ordered_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)))
        .collect_vec();
    let unmet = limits.iter().filter(|(verdict, ..)| *verdict != Met);
    let verdicts = [Broken, Undecided, Met];
    let counts = verdicts.map(|verdict| (limits.iter().filter(|(found, ..)| *found == verdict).count(), verdict));
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let weighed = changes::by_weight(comparison);
    // Numbers by which a page sorts the cells. The other cells sort by their text.
    let rows = weighed.iter().map(|(settings, figure)| {
        let change = figure.ratio - 1.0;
        let by = [
            None,
            Some(figure.base),
            Some(figure.new),
            Some(change),
            Some(figure.interval.0 - 1.0),
            None,
            figure.more_starts.map(|more| more as f64),
            None,
        ];
        let mut cells = cells(figure);
        cells[0] = axis_title(&figure.metric);
        context! { at => *settings, cells => cells, by => by, verdict => word(figure.verdict) }
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
        lead => changes::lead(comparison),
        tally => tally(comparison),
        notes => comparison.notes(),
        sentences => changes::sentences(comparison),
        frontiers => comparison.frontiers.clone(),
        judged => counts.map(|(count, verdict)| format!("{} {}", show_count(*count as u64), word(verdict))).join(", "),
        limits => limits.iter().map(|(.., row)| row.clone()).collect_vec(),
        unmet => unmet.map(|(.., row)| row.clone()).collect_vec(),
        most => MOST_NAMED,
        figures => format!(
            "{} at {}",
            show_many(comparison.figures().count() as u64, "figure"),
            show_many(comparison.points.len() as u64, "point")
        ),
        rows => rows.collect_vec(),
        lone => lone.collect_vec(),
        changes => changes.map(|change| [&change.name, &change.base, &change.new].map(String::clone)).collect_vec(),
    }
}
