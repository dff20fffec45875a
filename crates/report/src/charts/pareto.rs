//! Charts of the trade-off between two figures: one figure of every point against another, such as throughput per GPU against speed per
//! user.

use super::{ChartContext, numbered, of_workload};
use crate::chart::{Axis, Chart, Mark, Panel, Scale, Series, Style};
use crate::findings::variation::{name_workload, varying_within};
use crate::texts::words::{axis_title, short_name, short_setting, throughput_in_words};
use itertools::Itertools;
use std::collections::BTreeMap;
use vsweep_base::units::show_many;
use vsweep_record::table::{Better, Column, Measure, PlacedPoint, Tradeoff, distinct};

/// Maximum number of characters in a line of a label with several settings, not counting the separator before the last one.
const SHORT_LINE: usize = 24;

/// Most settings that a label names. If there are more, the note names them, and the labels have only the values.
const MOST_NAMED: usize = 3;

/// Returns the Pareto charts of a report, one for each workload with several points, or the reason why there is none. The points with the
/// indices `recommended` are ringed.
pub fn charts(subject: &ChartContext<'_>, label_by: &[String], recommended: &[usize]) -> Result<Vec<Chart>, String> {
    let [x, y] = Measure::of_frontier(subject.points.runs);
    let mut tradeoffs = Tradeoff::of_each(subject.points, &x, &y);
    let is_prefill = |tradeoff: &Tradeoff<'_>| {
        let mut placed = tradeoff.placed.iter();
        placed.all(|placed| subject.points.reads_prompts_only(placed.point))
    };
    tradeoffs.retain(|tradeoff| !is_prefill(tradeoff));
    let largest = tradeoffs.iter().map(|tradeoff| tradeoff.placed.len()).max();
    match largest.unwrap_or(0) {
        0 => Err(
            "no run has output_throughput and a number of users (max_concurrency, or latencies of its requests)".into(),
        ),
        1 => Err("a frontier needs at least two measured points of one workload".into()),
        _ => {
            let lone = tradeoffs.iter().filter(|tradeoff| tradeoff.placed.len() == 1).count();
            tradeoffs.retain(|tradeoff| tradeoff.placed.len() > 1);
            let draw = |each: &Tradeoff<'_>| draw(subject, each, label_by, recommended);
            let mut charts: Vec<Chart> = tradeoffs.iter().map(draw).collect();
            if lone > 0 {
                let lone = show_many(lone as u64, "workload");
                let note = format!(" Not drawn: {lone} with a single point.");
                charts.iter_mut().for_each(|chart| chart.note += &note);
            }
            Ok(numbered("pareto", charts))
        }
    }
}

/// Returns the Pareto chart of two figures. Points on the frontier are labelled with the columns `label_by`; if there are none, with all
/// settings that vary.
pub fn draw(subject: &ChartContext<'_>, tradeoff: &Tradeoff<'_>, label_by: &[String], recommended: &[usize]) -> Chart {
    let labels = label_columns(subject, tradeoff, label_by);
    let placed = || tradeoff.placed.iter();
    let mark = |placed: &PlacedPoint<'_>| {
        let (low, high) = placed.y.reach();
        Mark {
            bar: (high > low && low.is_finite() && high.is_finite()).then_some((low, high)),
            suspect: placed.point.is_suspect(),
            ..Mark::at(placed.x.value, placed.y.value)
        }
    };
    let places: Vec<(f64, f64)> = placed().map(|placed| (placed.x.value, placed.y.value)).collect();
    let distinct: BTreeMap<usize, usize> = distinct(&places, &tradeoff.frontier).into_iter().collect();
    let is_brief = labels.len() > MOST_NAMED;
    let labelled = |i: &usize| {
        let placed = &tradeoff.placed[*i];
        let cell = |column: &&Column| column.cells.at(placed.point.row);
        let settings = match is_brief {
            true => vec![labels.iter().map(cell).join("/")],
            false => join_short(labels.iter().map(|column| short_setting(&column.name, &cell(column)))),
        };
        let label = distinct.get(i).map(|others| {
            let more = (*others > 0).then(|| format!("and {others} as good"));
            let knee = placed.is_knee.then(|| "knee".to_owned());
            settings.into_iter().chain(more).chain(knee).collect()
        });
        Mark {
            label: label.unwrap_or_default(),
            ..mark(placed)
        }
    };
    let others = placed().filter(|placed| !placed.on_frontier).map(mark);
    let is_recommended = |placed: &&PlacedPoint<'_>| subject.is_among(placed.point, recommended);
    let ringed = placed().filter(is_recommended).map(|placed| Mark {
        bar: None,
        ..mark(placed)
    });
    let series = vec![
        Series::new("Measured points", Style::Background, others.collect()),
        Series::new(
            "Pareto frontier",
            Style::Frontier,
            tradeoff.frontier.iter().map(labelled).collect(),
        ),
        Series::new("Recommended", Style::Ring, ringed.collect()),
    ];
    let axis = |measure: &Measure| Axis::of(axis_title(&measure.metric), Scale::Linear);
    let panel = Panel::of(axis(&tradeoff.x).floating(), axis(&tradeoff.y), series);
    let workload = name_workload(subject.points, &tradeoff.workload);
    let title = of_workload(&plain_title(tradeoff), &workload);
    let names = labels.iter().map(|column| short_name(&column.name));
    let legend = match is_brief {
        true => format!(" Labels: {}.", names.collect_vec().join("/")),
        false => String::new(),
    };
    Chart {
        name: "pareto".into(),
        ..subject.chart(title, note(subject, tradeoff) + &legend, vec![panel])
    }
}

fn plain_title(tradeoff: &Tradeoff<'_>) -> String {
    let (x, y) = (tradeoff.x.metric.as_str(), tradeoff.y.metric.as_str());
    match (x, y) {
        ("tokens_per_user", "tokens_per_gpu" | "output_throughput") => {
            format!("Pareto frontier: {} against speed per user", throughput_in_words(y))
        }
        _ => format!("{} against {}", axis_title(y), axis_title(x)),
    }
}

fn note(subject: &ChartContext<'_>, tradeoff: &Tradeoff<'_>) -> String {
    let points = subject.points;
    let figures = if points.has_estimates() {
        "Estimates, bars are their 95 % intervals"
    } else if points.points.iter().any(|point| point.used.len() > 1) {
        "Medians over runs, bars from the lowest to the highest run"
    } else {
        "Each point is a single run"
    };
    let good = |better, good: &'static str, bad| if better == Better::Higher { good } else { bad };
    let (up, right) = (
        good(tradeoff.y.better, "up", "down"),
        good(tradeoff.x.better, "right", "left"),
    );
    let knee = match tradeoff.placed.iter().any(|placed| placed.is_knee) {
        true => " Knee: farthest from the line between the ends.",
        false => "",
    };
    let reading = format!("{figures}; {up} and to the {right} is better.{knee}");
    match tradeoff.left_out() {
        0 => reading,
        count => format!(
            "{reading} Left out, without these figures: {count} of {} points.",
            tradeoff.workload.points.len()
        ),
    }
}

/// Joins settings to lines of at most [`SHORT_LINE`] characters; a longer setting has a line of its own.
fn join_short(settings: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for setting in settings {
        match lines.last_mut() {
            Some(line) if line.chars().count() + setting.chars().count() <= SHORT_LINE => {
                line.push_str(", ");
                line.push_str(&setting);
            }
            _ => lines.push(setting),
        }
    }
    lines
}

fn label_columns<'a>(subject: &ChartContext<'a>, tradeoff: &Tradeoff<'_>, label_by: &[String]) -> Vec<&'a Column> {
    if label_by.is_empty() {
        // The title has the settings that all points share.
        return varying_within(subject.points, &tradeoff.workload);
    }
    let columns = label_by.iter().filter_map(|name| subject.points.runs.column(name));
    columns.collect()
}
