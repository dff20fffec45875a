//! Writes a comparison as text, as Markdown and as one offline page, all from the same data, and as JSON in the Bencher Metric Format.

use super::words::{DROPPED, HEADS, STARTS, cells, grounds, show_limit, tally, word};
use super::{Comparison, Figure, LimitVerdict, Side, changes, frontiers};
use crate::chart::Chart;
use crate::html::text::{self, safe};
use crate::picture::{Form, render};
use crate::texts::align::{align, fitting};
use crate::texts::changes::change;
use crate::texts::markdown::environment;
use crate::texts::template::{fill, plain};
use crate::texts::words::axis_title;
use itertools::Itertools;
use minijinja::{Value, context};
use serde_json::{Map, json};
use std::cmp::Reverse;
use std::path::Path;
use vsweep_answer::{RequirementVerdict, Verdict};
use vsweep_base::units::show_many;

/// Most points without a counterpart that are named, and most changes of settings and other facts that are listed.
const MOST_NAMED: usize = 5;
/// Most rows of changes in Markdown, and most rows of limits that are not met.
const MOST_ROWS: usize = 8;

/// Formats a comparison for the terminal: the tally, changes, a block for each point, and limits.
pub fn to_text(comparison: &Comparison) -> String {
    plain(include_str!("compare.txt.jinja"), parts(comparison))
}

/// Formats a comparison as Markdown, short enough for a pull request's comment or a job's summary.
pub fn to_markdown(comparison: &Comparison) -> String {
    fill(&environment(), include_str!("compare.md.jinja"), parts(comparison))
}

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
fn parts(comparison: &Comparison) -> Value {
    let of_limit = |judged: &LimitVerdict| {
        let measured = judged.measured.as_ref();
        [
            show_limit(&judged.limit),
            judged.settings.clone(),
            grounds(judged, measured.map(|measured| change(measured.ratio))),
            measured.map_or(String::new(), |measured| format!("{:.3}", measured.p_value)),
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
        (requirement, row)
    };
    let judged = comparison.limits.iter();
    let judged = judged.map(|judged| (judged.requirement, of_limit(judged)));
    let limits = comparison.lone().map(of_lone).chain(judged).collect_vec();
    let (met, mut unmet): (Vec<_>, Vec<_>) = limits
        .iter()
        .partition(|(verdict, _)| *verdict == RequirementVerdict::Met);
    unmet.sort_by_key(|(verdict, _)| Reverse(*verdict));
    let weighed = changes::by_weight(comparison);
    let has_changed = |(_, figure): &&(&str, &Figure)| figure.verdict != Verdict::Same;
    let changed = weighed.iter().filter(has_changed);
    let more = |count: usize| count.saturating_sub(MOST_ROWS);
    let unsaid = more(changed.clone().count()) + more(unmet.len());
    let changed = changed.take(MOST_ROWS).map(|(settings, figure)| {
        let cells = cells(figure);
        [(*settings).to_owned()].into_iter().chain(cells).collect_vec()
    });
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
    // In the terminal, a number of starts common to all rows is shown once.
    let starts = comparison.figures().map(|figure| figure.starts).unique().collect_vec();
    let tables = |dropped: &[&str]| {
        let is_shown = |head: &str| !dropped.contains(&head) && (head != STARTS || starts.len() > 1);
        let shown = |cells: [String; 8]| {
            let kept = HEADS.into_iter().zip(cells).filter(|(head, _)| is_shown(head));
            kept.map(|(_, cell)| cell).collect_vec()
        };
        let points = comparison.points.iter().map(|pair| {
            let rows = pair.figures.iter().map(cells);
            let rows = [HEADS.map(str::to_owned)].into_iter().chain(rows);
            align(&rows.map(shown).collect_vec())
        });
        points.collect_vec()
    };
    let tables = fitting(DROPPED.iter().map(|dropped| tables(dropped)), |tables| {
        tables.iter().flat_map(|table| table.lines()).collect()
    });
    let tables = tables.unwrap_or_default();
    let points = comparison.points.iter().zip(&tables).map(|(pair, table)| {
        context! { settings => pair.settings.clone(), aligned => table.lines().map(str::to_owned).collect_vec() }
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
        starts => starts.iter().exactly_one().ok().copied(),
        heads => HEADS,
        sentences => changes::sentences(comparison),
        limits => limits.iter().map(|(_, row)| row.clone()).collect_vec(),
        unmet => unmet.iter().take(MOST_ROWS).map(|(_, row)| row.clone()).collect_vec(),
        met => met.len(),
        changed => changed.collect_vec(),
        changed_heads => ["at"].into_iter().chain(HEADS).collect_vec(),
        unsaid,
        most => MOST_NAMED,
        rows => rows.collect_vec(),
        points => points.collect_vec(),
        lone => lone.collect_vec(),
        changes => changes.map(|change| [&change.name, &change.base, &change.new].map(String::clone)).collect_vec(),
    }
}
