//! The roofline (Williams, Waterman and Patterson, 2009) with the points of a sweep: the arithmetic that each reached against its operations
//! for each byte read, both relative to the hardware's peaks. On the slope memory bandwidth is the limit, on the flat part arithmetic. Servers
//! whose GPU or model is not known have no figures for it.

use super::ChartContext;
use super::multiples::groups;
use crate::report::chart::{Axis, Chart, MOST_CURVES, Mark, Panel, Scale, Series, Style};
use crate::report::variation::{settings, swept, varying};
use crate::report::words::axis_title;
use itertools::Itertools;
use vsweep_record::table::{Column, Point, Section};

/// Fewest points that make a picture.
const FEWEST: usize = 4;
/// Greatest number of points of a curve that are labelled with their load.
const MOST_LABELS: usize = 6;

/// The chart, if enough points have the figures.
pub fn charts(subject: &ChartContext<'_>) -> Vec<Chart> {
    let points = subject.points;
    let place = |point| {
        let figure = |name: &str| Some(points.spread(point, name)?.value).filter(|share| *share > 0.0);
        let (mfu, mbu) = (figure("mfu")?, figure("mbu")?);
        Some((mfu / mbu, mfu))
    };
    let placed: Vec<(&Point, (f64, f64))> = points
        .points
        .iter()
        .filter_map(|point| Some((point, place(point)?)))
        .sorted_by(|(_, a), (_, b)| a.0.total_cmp(&b.0))
        .collect();
    if placed.len() < FEWEST {
        return Vec::new();
    }
    let varying = varying(points);
    let (_, bench): (Vec<&Column>, Vec<&Column>) = varying.iter().partition(|column| column.section == Section::Serve);
    let load = swept(points, &bench);
    // A line through the points of several lengths would show neither.
    let kinds = varying
        .iter()
        .copied()
        .filter(|column| load.is_none_or(|load| load.name != column.name));
    let kinds: Vec<&Column> = kinds.collect();
    let curves = groups(&placed, &kinds, |(point, _)| point.row);
    let marks = |own: &[(&Point, (f64, f64))], load: Option<&Column>| {
        let step = own.len().div_ceil(MOST_LABELS);
        let mark = |(i, (point, (x, y))): (usize, &(&Point, (f64, f64)))| Mark {
            label: load
                .filter(|_| i.is_multiple_of(step))
                .map(|load| load.cells[point.row].to_string())
                .into_iter()
                .collect(),
            suspect: point.is_suspect(),
            ..Mark::at(*x, *y)
        };
        own.iter().enumerate().map(mark).collect::<Vec<Mark>>()
    };
    let [first, .., last] = placed.as_slice() else {
        return Vec::new();
    };
    let (left, right) = (0.7 * first.1.0.min(1.0), 1.4 * last.1.0.max(1.0));
    let roof = vec![Mark::at(left, left), Mark::at(1.0, 1.0), Mark::at(right, 1.0)];
    let mut series = vec![Series::new("The hardware's limits", Style::Limit, roof)];
    match curves.len() {
        ..=MOST_CURVES => series.extend(curves.iter().enumerate().map(|(number, own)| {
            let name = match kinds.is_empty() {
                true => "The server".to_owned(),
                false => settings(&kinds, own[0].0.row),
            };
            Series::new(name, Style::Curve(number), marks(own, load))
        })),
        _ => series.push(Series::new("Points", Style::Background, marks(&placed, None))),
    }
    let note = "Left of 1 memory bandwidth is the nearer limit, right of 1 arithmetic; the distance below the line is what was not used. \
                The number next to a point is its load.";
    let x = Axis::of("Operations for each byte, relative to the hardware's", Scale::Log);
    let y = Axis::of(axis_title("mfu"), Scale::Log);
    let panel = Panel::of(x, y, series);
    vec![Chart {
        name: "roofline".into(),
        ..subject.chart(
            "Roofline: how near to the hardware's limits".to_owned(),
            note.to_owned(),
            vec![panel],
        )
    }]
}
