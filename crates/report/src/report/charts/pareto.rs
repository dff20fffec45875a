//! One figure of every point against another, such as tokens per second for each user against tokens per second for each
//! GPU: what one can be had for the other.

use super::{Subject, numbered, of_workload};
use crate::report::chart::{Axis, Chart, Mark, Panel, Scale, Series, Style};
use crate::report::variation::{name_workload, varying_within};
use crate::report::words::{axis_title, short_setting};
use std::collections::BTreeMap;
use vsweep_plan::units::show_many;
use vsweep_record::table::{Better, Column, Measure, Tradeoff, distinct};

/// Characters that fit a line of a label.
const SHORT_LINE: usize = 24;

/// The Pareto charts of a report, one for each workload with several points, or why there is none.
pub fn charts(subject: &Subject<'_>, label_by: &[String]) -> Result<Vec<Chart>, String> {
    let mut tradeoffs = Tradeoff::of_each(subject.points, &Measure::tokens_per_user(), &Measure::tokens_per_gpu());
    let is_prefill = |tradeoff: &Tradeoff<'_>| {
        let mut placed = tradeoff.placed.iter();
        placed.all(|placed| subject.points.reads_prompts_only(placed.point))
    };
    tradeoffs.retain(|tradeoff| !is_prefill(tradeoff));
    match tradeoffs
        .iter()
        .map(|tradeoff| tradeoff.placed.len())
        .max()
        .unwrap_or(0)
    {
        0 => Err(
            "no run has output_throughput and a number of users (max_concurrency, or latencies of its requests)".into(),
        ),
        1 => Err("a frontier needs at least two measured points of one workload".into()),
        _ => {
            let lone = tradeoffs.iter().filter(|tradeoff| tradeoff.placed.len() == 1).count() as u64;
            let lone = match lone {
                0 => String::new(),
                count => format!(" Not drawn: {} with a single point.", show_many(count, "workload")),
            };
            tradeoffs.retain(|tradeoff| tradeoff.placed.len() > 1);
            let mut charts: Vec<Chart> = tradeoffs.iter().map(|each| draw(subject, each, label_by)).collect();
            charts.iter_mut().for_each(|chart| chart.note += &lone);
            Ok(numbered("pareto", charts))
        }
    }
}

/// The Pareto chart of two figures; frontier points are labelled by these columns, or by what varies if none is given.
pub fn draw(subject: &Subject<'_>, tradeoff: &Tradeoff<'_>, label_by: &[String]) -> Chart {
    let places: Vec<(f64, f64)> = tradeoff
        .placed
        .iter()
        .map(|placed| (placed.x.median, placed.y.median))
        .collect();
    let front = &tradeoff.frontier;
    let labels = label_columns(subject, tradeoff, label_by);
    let mark = |i: usize, label: Vec<String>| {
        let y = tradeoff.placed[i].y;
        let has_bar = y.max > y.min && y.min.is_finite() && y.max.is_finite();
        Mark {
            x: places[i].0,
            y: places[i].1,
            bar: has_bar.then_some((y.min, y.max)),
            label,
            suspect: tradeoff.placed[i].point.is_suspect(),
        }
    };
    let settings = |i: usize| {
        let row = tradeoff.placed[i].point.row;
        let settings = labels
            .iter()
            .map(|column| short_setting(&column.name, &column.cells[row]));
        settings.collect::<Vec<String>>()
    };
    let distinct: BTreeMap<usize, usize> = distinct(&places, front).into_iter().collect();
    let label = |i: &usize| {
        let Some(others) = distinct.get(i) else {
            return mark(*i, Vec::new());
        };
        let mut lines = join_short(settings(*i));
        if *others > 0 {
            lines.push(format!("and {others} as good"));
        }
        mark(*i, lines)
    };
    let placed = tradeoff.placed.iter().enumerate();
    let mut series = vec![
        Series {
            name: "Measured points".into(),
            style: Style::Background,
            points: placed
                .clone()
                .filter(|(_, placed)| !placed.on_frontier)
                .map(|(i, _)| mark(i, Vec::new()))
                .collect(),
        },
        Series {
            name: "Pareto frontier".into(),
            style: Style::Frontier,
            points: front.iter().map(label).collect(),
        },
        Series {
            name: "Knee: farthest from the line between the ends".into(),
            style: Style::Ring,
            points: placed
                .filter(|(_, placed)| placed.is_knee)
                .map(|(i, _)| Mark {
                    bar: None,
                    ..mark(i, Vec::new())
                })
                .collect(),
        },
    ];
    series.retain(|series| !series.points.is_empty());
    let axis = |measure: &Measure| Axis::of(axis_title(&measure.metric), Scale::Linear);
    let panel = Panel {
        title: String::new(),
        x: axis(&tradeoff.x),
        y: axis(&tradeoff.y),
        series,
    };
    let workload = name_workload(subject.points, &tradeoff.workload);
    let title = of_workload(&plain_title(tradeoff), &workload);
    Chart {
        name: "pareto".into(),
        ..subject.chart(title, note(subject, tradeoff), vec![panel])
    }
}

fn plain_title(tradeoff: &Tradeoff<'_>) -> String {
    if tradeoff.x == Measure::tokens_per_user() && tradeoff.y == Measure::tokens_per_gpu() {
        "Throughput per GPU against speed per user".into()
    } else {
        format!(
            "{} against {}",
            axis_title(&tradeoff.y.metric),
            axis_title(&tradeoff.x.metric)
        )
    }
}

fn note(subject: &Subject<'_>, tradeoff: &Tradeoff<'_>) -> String {
    let points = subject.points;
    let figures = if points.points.iter().any(|point| point.used.len() > 1) {
        "Medians over runs, bars from the lowest to the highest run"
    } else {
        "Each point is a single run"
    };
    let good = match (tradeoff.y.better, tradeoff.x.better) {
        (Better::Higher, Better::Higher) => "up and to the right",
        (Better::Higher, Better::Lower) => "up and to the left",
        (Better::Lower, Better::Higher) => "down and to the right",
        (Better::Lower, Better::Lower) => "down and to the left",
    };
    let reading = format!("{figures}; {good} is better.");
    match tradeoff.left_out() {
        0 => reading,
        count => format!(
            "{reading} No figures for {count} of {} points.",
            tradeoff.workload.points.len()
        ),
    }
}

/// Puts settings on as few lines as stay short.
fn join_short(settings: Vec<String>) -> Vec<String> {
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

fn label_columns<'a>(subject: &Subject<'a>, tradeoff: &Tradeoff<'_>, label_by: &[String]) -> Vec<&'a Column> {
    if label_by.is_empty() {
        // The title says what all points share.
        return varying_within(subject.points, &tradeoff.workload);
    }
    let columns = label_by.iter().filter_map(|name| subject.points.runs.column(name));
    columns.collect()
}
