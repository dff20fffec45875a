//! The frontiers of all sides of a comparison in one chart for each workload, which shows how far the frontier has moved at each speed.

use super::Side;
use crate::chart::{Chart, Mark, Series, Style};
use crate::charts::ChartContext;
use crate::charts::pareto;
use crate::findings::answer::estimate_by_table;
use crate::ordered::Order;
use std::iter;
use vsweep_record::journal::State;
use vsweep_record::table::{Better, EXPERIMENT, Measure, Points, Table, Tradeoff, frontier};

/// One chart for each workload of which two sides or more have a point; the first side is the base.
pub fn charts(sides: &[Side]) -> Vec<Chart> {
    let kinds = iter::once("base").chain(iter::repeat("new"));
    let names: Vec<String> = kinds
        .zip(sides)
        .map(|(kind, side)| format!("{kind}: {}", side.name))
        .collect();
    let tables = sides.iter().map(|side| side.table.clone());
    let stacked = Table::stack(names.iter().cloned().zip(tables).collect());
    let mut points = Points::of(&stacked);
    let [x, y] = Measure::of_frontier(&stacked);
    let figures = [x.metric.as_str(), y.metric.as_str()];
    points.adopt(&estimate_by_table(&State::default(), &stacked, &figures));
    let subject = ChartContext {
        experiment: &names.join(", "),
        points: &points,
    };
    let tradeoffs = Tradeoff::of_each(&points, &x, &y);
    let charts = tradeoffs.iter().filter_map(|tradeoff| {
        let curves: Vec<Series> = names
            .iter()
            .enumerate()
            .map(|(side, name)| Series {
                name: name.clone(),
                style: Style::Curve(side),
                points: frontier_of(&points, tradeoff, name),
            })
            .collect();
        if curves.iter().filter(|curve| !curve.points.is_empty()).count() < 2 {
            return None;
        }
        let mut chart = pareto::draw(&subject, tradeoff, &[], &[]);
        let series = &mut chart.panels.first_mut()?.series;
        let mut measured = series.clone();
        for series in &mut measured {
            series.name = "Measured points".into();
            series.style = Style::Background;
            series.points.iter_mut().for_each(|mark| mark.label.clear());
        }
        *series = measured.into_iter().chain(curves).collect();
        chart.note = "Points that no other point of their side beats are joined; up and to the right is better.".into();
        Some(chart)
    });
    charts.collect()
}

/// The points of one side that no other point of the side beats, from left to right.
fn frontier_of(points: &Points<'_>, tradeoff: &Tradeoff<'_>, side: &str) -> Vec<Mark> {
    let is_theirs = |row: usize| points.runs.cell(EXPERIMENT, row).to_string() == side;
    let of_side = tradeoff.placed.iter().filter(|placed| is_theirs(placed.point.row));
    let marks: Vec<Mark> = of_side
        .map(|placed| Mark {
            suspect: placed.point.is_suspect(),
            ..Mark::at(placed.x.value, placed.y.value)
        })
        .collect();
    let places: Vec<(f64, f64)> = marks.iter().map(|mark| (mark.x, mark.y)).collect();
    let mut kept: Vec<Mark> = frontier(&places, (Better::Higher, Better::Higher))
        .into_iter()
        .map(|at| marks[at].clone())
        .collect();
    kept.order_by(|a, b| a.x.total_cmp(&b.x));
    kept
}
