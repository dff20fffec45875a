//! Line charts over a swept parameter: one curve for each combination of the other parameters, split into several
//! pictures before they become unreadable.

use super::Subject;
use super::ladder::{Ladder, scale_of_figures};
use crate::report::chart::{Axis, Chart, MOST_CURVES, Mark, Panel, Scale, Series, Style};
use crate::report::words::{axis_title, short_setting};
use std::cmp::Ordering;
use vsweep_record::table::{Cell, Column, Point, Points, Section};

/// What to draw against what.
pub struct Request<'a> {
    /// File name of the chart.
    pub name: String,
    /// Title of the chart.
    pub title: String,
    /// Column along the x axis.
    pub x: &'a Column,
    /// One panel for each of these metrics.
    pub ys: &'a [String],
    /// Parameters whose combinations make the curves.
    pub curve_by: Vec<&'a Column>,
}

/// More pictures of one kind than this help nobody.
pub(super) const MOST_PICTURES: usize = 8;

/// One curve before it is drawn: the settings it stands for and its points.
struct Curve<'a> {
    settings: Vec<&'a Cell>,
    points: Vec<&'a Point>,
}

/// The charts that the request takes, or why there is none.
pub fn draw(subject: &Subject<'_>, request: &Request<'_>) -> Result<Vec<Chart>, String> {
    let points = subject.points;
    for y in request.ys {
        if !points.points.iter().any(|point| points.spread(point, y).is_some()) {
            return Err(format!("no run has a number for {y}"));
        }
    }
    // What is unset wherever something was measured tells no curve from another.
    let is_drawn = |column: &&Column| {
        let drawn = points.points.iter().filter(|point| !point.used.is_empty());
        drawn.map(|point| point.row).any(|row| !column.cells[row].is_missing())
    };
    let request = &Request {
        name: request.name.clone(),
        title: request.title.clone(),
        curve_by: request.curve_by.iter().copied().filter(is_drawn).collect(),
        ..*request
    };
    let curves = group(points, &request.curve_by);
    let split = split_by(&curves, &request.curve_by);
    let mut pictures: Vec<(String, Vec<Curve<'_>>)> = Vec::new();
    for curve in curves {
        let key = split.map_or(String::new(), |at| {
            short_setting(&request.curve_by[at].name, curve.settings[at])
        });
        match pictures.iter_mut().find(|(known, _)| *known == key) {
            Some((_, curves)) => curves.push(curve),
            None => pictures.push((key, vec![curve])),
        }
    }
    let mut parts: Vec<(String, Vec<Curve<'_>>)> = Vec::new();
    for (key, mut curves) in pictures {
        while curves.len() > MOST_CURVES {
            let rest = curves.split_off(MOST_CURVES);
            parts.push((key.clone(), curves));
            curves = rest;
        }
        parts.push((key, curves));
    }
    let count = parts.len();
    let drawn = parts.into_iter().take(MOST_PICTURES).enumerate();
    Ok(drawn
        .map(|(i, (key, curves))| picture(subject, request, (split, &key), &curves, (i + 1, count)))
        .collect())
}

fn group<'a>(points: &'a Points<'_>, curve_by: &[&'a Column]) -> Vec<Curve<'a>> {
    let mut curves: Vec<Curve<'a>> = Vec::new();
    for point in points.points.iter().filter(|point| !point.used.is_empty()) {
        let settings: Vec<&Cell> = curve_by.iter().map(|column| &column.cells[point.row]).collect();
        match curves.iter_mut().find(|curve| curve.settings == settings) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve {
                settings,
                points: vec![point],
            }),
        }
    }
    curves.sort_by(|a, b| {
        let pairs = a.settings.iter().zip(&b.settings);
        pairs
            .map(|(a, b)| a.order(b))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    });
    curves
}

/// The parameter that gets a picture for each of its values, if there are too many curves for one: the one that makes
/// the fewest pictures, a bench parameter if two are equal. `None` also where cutting the list into parts is simpler.
fn split_by(curves: &[Curve<'_>], curve_by: &[&Column]) -> Option<usize> {
    if curves.len() <= MOST_CURVES {
        return None;
    }
    let values = |at: usize| {
        let mut counts: Vec<(&Cell, usize)> = Vec::new();
        for curve in curves {
            match counts.iter_mut().find(|(value, _)| *value == curve.settings[at]) {
                Some((_, count)) => *count += 1,
                None => counts.push((curve.settings[at], 1)),
            }
        }
        counts
    };
    let pictures = |at: usize| {
        values(at)
            .iter()
            .map(|(_, count)| count.div_ceil(MOST_CURVES))
            .sum::<usize>()
    };
    let best = (0..curve_by.len()).min_by_key(|at| (pictures(*at), curve_by[*at].section != Section::Bench))?;
    (pictures(best) <= 2 * curves.len().div_ceil(MOST_CURVES)).then_some(best)
}

fn picture(
    subject: &Subject<'_>,
    request: &Request<'_>,
    (split, key): (Option<usize>, &str),
    curves: &[Curve<'_>],
    (number, count): (usize, usize),
) -> Chart {
    let note = subject.reading().to_owned() + &note_part(number, count);
    let title = if key.is_empty() {
        request.title.clone()
    } else {
        format!("{}, {key}", request.title)
    };
    let cells = curves.iter().flat_map(|curve| &curve.points);
    let ladder = Ladder::of(cells.map(|point| &request.x.cells[point.row]), None);
    let panels = request.ys.iter();
    let mut panels: Vec<Panel> = panels
        .map(|y| panel(subject.points, request, split, curves, &ladder, y))
        .collect();
    share_scale(&mut panels);
    Chart {
        name: name_part(&request.name, number, count),
        title,
        note,
        footer: subject.footer(),
        simulated: subject.is_simulated(),
        columns: request.ys.len(),
        panels,
    }
}

/// Panels side by side are read against each other, so where one needs a logarithmic axis all have one, if they can.
fn share_scale(panels: &mut [Panel]) {
    let needs_log = panels.iter().any(|panel| panel.y.scale == Scale::Log);
    let is_positive = |panel: &Panel| {
        let marks = panel.series.iter().flat_map(|series| &series.points);
        marks
            .map(|mark| mark.bar.map_or(mark.y, |(low, _)| low))
            .all(|low| low > 0.0)
    };
    if needs_log && panels.iter().all(is_positive) {
        for panel in panels {
            panel.y.scale = Scale::Log;
        }
    }
}

/// The name of one of several pictures of a kind.
pub(super) fn name_part(name: &str, number: usize, count: usize) -> String {
    match count {
        1 => name.to_owned(),
        _ => format!("{name}_{number}"),
    }
}

/// Which of several pictures it is, to follow its note.
pub(super) fn note_part(number: usize, count: usize) -> String {
    let mut note = String::new();
    if count > 1 {
        note += &format!(" Picture {number} of {count}.");
    }
    if number == MOST_PICTURES && count > MOST_PICTURES {
        note += " The others are not drawn; all figures are in points.csv.";
    }
    note
}

fn panel(
    points: &Points<'_>,
    request: &Request<'_>,
    split: Option<usize>,
    curves: &[Curve<'_>],
    ladder: &Ladder,
    y: &str,
) -> Panel {
    let series: Vec<Series> = curves
        .iter()
        .enumerate()
        .map(|(i, curve)| Series {
            name: curve_name(request, split, curve),
            style: Style::Curve(i),
            points: marks(points, request.x, curve, ladder, y),
        })
        .collect();
    let values = series.iter().flat_map(|series| &series.points).map(|mark| mark.y);
    Panel {
        title: String::new(),
        x: Axis {
            title: axis_title(&request.x.name),
            scale: ladder.scale,
            ticks: ladder.ticks.clone(),
            covers: None,
        },
        y: Axis {
            title: axis_title(y),
            scale: scale_of_figures(values),
            ticks: Vec::new(),
            covers: None,
        },
        series,
    }
}

/// The settings of a curve without the one that the whole picture shares.
fn curve_name(request: &Request<'_>, split: Option<usize>, curve: &Curve<'_>) -> String {
    let settings = request.curve_by.iter().zip(&curve.settings).enumerate();
    let own = settings.filter(|(at, _)| Some(*at) != split);
    let own: Vec<String> = own
        .map(|(_, (column, value))| short_setting(&column.name, value))
        .collect();
    own.join(", ")
}

fn marks(points: &Points<'_>, x: &Column, curve: &Curve<'_>, ladder: &Ladder, y: &str) -> Vec<Mark> {
    let mark = |point: &&Point| {
        let x = ladder.place(&x.cells[point.row])?;
        let spread = points
            .spread(point, y)
            .filter(|spread| spread.min.is_finite() && spread.max.is_finite())?;
        let (low, high) = spread.reach();
        Some(Mark {
            x,
            y: spread.median,
            bar: (high > low && high.is_finite()).then_some((low, high)),
            label: Vec::new(),
            suspect: point.is_suspect(),
        })
    };
    let mut marks: Vec<Mark> = curve.points.iter().filter_map(mark).collect();
    marks.sort_by(|a, b| a.x.total_cmp(&b.x));
    marks
}
