//! The roofline (Williams, Waterman and Patterson, 2009) with the points of a sweep. The chart shows the MFU of each point against its
//! arithmetic intensity (operations per byte read), relative to that of the hardware: MFU / MBU. On the slope, memory bandwidth is the
//! limit; on the flat part, arithmetic is. Points without MFU or MBU are not drawn, for example if the GPU is unknown.

use super::multiples::groups;
use super::{ChartContext, labelled};
use crate::chart::{Axis, Chart, MOST_CURVES, Mark, Panel, Scale, Series, Style};
use crate::findings::variation::{settings, swept, varying};
use crate::texts::words::axis_title;
use itertools::Itertools;
use vsweep_record::table::{Column, Point, Section};

/// Minimum number of points for a chart. A chart of fewer says no more than the sentence of `findings::bound`.
const FEWEST: usize = 12;
/// Greatest number of points of a curve that are labelled with their load.
const MOST_LABELS: usize = 6;

/// Draws the chart, if enough points have both MFU and MBU. `recommended` are indices of points.
pub fn charts(subject: &ChartContext<'_>, recommended: &[usize]) -> Vec<Chart> {
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
    // Each combination of the other parameters is a curve, because a line through points of several prompt lengths would show none of them.
    let curve_by = varying
        .iter()
        .copied()
        .filter(|column| load.is_none_or(|load| load.name != column.name));
    let curve_by: Vec<&Column> = curve_by.collect();
    let curves = groups(&placed, &curve_by, |(point, _)| point.row);
    let marks = |curve: &[(&Point, (f64, f64))], load: Option<&Column>| {
        labelled(curve.iter().map(|(point, (x, y))| (*point, *x, *y)), load, MOST_LABELS)
    };
    let [first, .., last] = placed.as_slice() else {
        return Vec::new();
    };
    let (left, right) = (0.7 * first.1.0.min(1.0), 1.4 * last.1.0.max(1.0));
    let roof = vec![Mark::at(left, left), Mark::at(1.0, 1.0), Mark::at(right, 1.0)];
    let mut series = vec![Series::new("The hardware's limits", Style::Limit, roof)];
    match curves.len() {
        ..=MOST_CURVES => series.extend(curves.iter().enumerate().map(|(number, curve)| {
            let name = match curve_by.is_empty() {
                true => "The server".to_owned(),
                false => settings(&curve_by, curve[0].0.row),
            };
            Series::new(name, Style::Curve(number), marks(curve, load))
        })),
        _ => series.push(Series::new("Points", Style::Background, marks(&placed, None))),
    }
    let chosen = placed.iter().filter(|(point, _)| subject.is_among(point, recommended));
    let chosen = chosen.map(|(_, (x, y))| Mark::at(*x, *y)).collect();
    series.push(Series::new("Recommended", Style::Ring, chosen));
    let numbers = match (load, curves.len()) {
        (Some(_), ..=MOST_CURVES) => " The number next to a point is its load.",
        _ => "",
    };
    let note = format!(
        "Left of 1 memory bandwidth is the nearer limit, right of 1 compute; the distance below the line is unused capacity.{numbers}"
    );
    let x = Axis::of("Operations for each byte, relative to the hardware's", Scale::Log);
    let y = Axis::of(axis_title("mfu"), Scale::Log);
    let panel = Panel::of(x, y, series);
    vec![Chart {
        name: "roofline".into(),
        ..subject.chart(
            "Roofline: how near to the hardware's limits".to_owned(),
            note,
            vec![panel],
        )
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vsweep_plan::Params;
    use vsweep_record::table::{Cell, Points, RunRow, TableBuilder};

    /// The chart of one server at growing loads, each with its MFU and MBU.
    fn chart(shares: &[(f64, Option<f64>)], recommended: &[usize]) -> Vec<Chart> {
        let mut builder = TableBuilder::new();
        for (at, (mfu, mbu)) in shares.iter().enumerate() {
            let mut metrics = vec![("mfu", Cell::Float(*mfu))];
            metrics.extend(mbu.map(|mbu| ("mbu", Cell::Float(mbu))));
            builder.push(RunRow {
                point: &at.to_string(),
                bench: Some(&Params::from_iter([("max_concurrency".to_owned(), json!(1 << at))])),
                metrics: Some(&metrics.into_iter().collect()),
                ..RunRow::default()
            });
        }
        let table = builder.finish();
        let points = Points::of(&table);
        let subject = ChartContext {
            experiment: "roof",
            points: &points,
        };
        charts(&subject, recommended)
    }

    #[test]
    fn points_lie_below_the_roof_at_their_ratio_of_operations_to_bytes() {
        let mut shares = vec![(0.4, Some(0.2)), (0.01, Some(0.7)), (0.3, Some(0.4))];
        shares.extend([(0.1, Some(0.5)); 10]);
        let charts = chart(&shares, &[1]);
        let [roof, server, chosen] = charts[0].panels[0].series.as_slice() else {
            panic!("{charts:?}");
        };
        let places: Vec<(f64, f64)> = server.points.iter().map(|mark| (mark.x, mark.y)).collect();
        assert_eq!(places[..2], [(0.01 / 0.7, 0.01), (0.2, 0.1)]);
        assert_eq!(
            (chosen.points[0].x, chosen.points[0].y),
            places[0],
            "the recommended point"
        );
        assert_eq!(places[11..], [(0.3 / 0.4, 0.3), (2.0, 0.4)]);
        assert_eq!(server.points[12].label, ["1"], "the load of the first point");
        // The roof reaches from left of all points to right of them, with its corner at the hardware's own ratio.
        let roof: Vec<(f64, f64)> = roof.points.iter().map(|mark| (mark.x, mark.y)).collect();
        assert!(roof[0].0 < places[0].0 && roof[0].0 == roof[0].1 && roof[1] == (1.0, 1.0) && roof[2].0 > 2.0);
    }

    #[test]
    fn without_the_figures_there_is_no_chart() {
        assert!(chart(&[(0.1, Some(0.5)); 11], &[]).is_empty(), "few points");
        assert!(chart(&[(0.1, None); 20], &[]).is_empty(), "no bandwidth");
    }
}
