//! The frontiers of all sides of a comparison in one chart for each workload, and in words: how far the frontier has moved.

use super::Side;
use crate::chart::{Chart, Mark, Series, Style};
use crate::charts::{ChartContext, pareto};
use crate::findings::answer::estimate_by_table;
use crate::findings::variation::name_workload;
use crate::ordered::Ordered;
use crate::texts::changes::{change, changes};
use crate::texts::words::throughput_in_words;
use itertools::Itertools;
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
    let sides: Vec<&Side> = sides.iter().collect();
    of_each_workload(&names, &sides, |points, tradeoff, frontiers| {
        if frontiers.iter().filter(|frontier| !frontier.is_empty()).count() < 2 {
            return None;
        }
        let curves = names.iter().zip(frontiers).enumerate();
        let curves = curves.map(|(side, (name, points))| Series::new(name, Style::Curve(side), points));
        let subject = ChartContext {
            experiment: &names.join(", "),
            points,
        };
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
    })
}

/// One sentence for each workload of which both sides have a frontier of several points, the worst first: `Frontier, as measured: throughput
/// per GPU -9.4 to -5.9 % at equal speed per user, highest speed per user +0.4 %`.
pub fn sentences(base: &Side, new: &Side) -> Vec<String> {
    let names = ["base", "new"].map(str::to_owned);
    let found = of_each_workload(&names, &[base, new], |points, tradeoff, frontiers| {
        let [base, new] = frontiers.as_slice() else {
            return None;
        };
        let (ratios, speed) = moved(base, new)?;
        let of = match name_workload(points, &tradeoff.workload) {
            name if name.is_empty() => name,
            name => format!(" of {name}"),
        };
        let ends = ratios.into_iter().minmax().into_option();
        let least = ends.map_or(f64::INFINITY, |(least, _)| least);
        let throughput = match ends {
            None => "no speed per user in common".to_owned(),
            Some(ends) => format!(
                "{} {} at equal speed per user",
                throughput_in_words(&tradeoff.y.metric),
                changes(ends)
            ),
        };
        let sentence = format!(
            "Frontier{of}, as measured: {throughput}, highest speed per user {}",
            change(speed)
        );
        Some((least, sentence))
    });
    let sorted = found.into_iter().ordered_by(|(a, _), (b, _)| a.total_cmp(b));
    sorted.map(|(_, sentence)| sentence).collect()
}

/// The ratios of the new frontier to the base's, at each point of either that lies within both, and the ratio of their highest speeds. `None`
/// if a side has fewer than two points.
fn moved(base: &[Mark], new: &[Mark]) -> Option<(Vec<f64>, f64)> {
    let [[_, .., of_base], [_, .., of_new]] = [base, new] else {
        return None;
    };
    let places = base.iter().chain(new).map(|mark| mark.x);
    let ratios = places.filter_map(|x| Some(height(new, x)? / height(base, x)?));
    let ratios = ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0);
    Some((ratios.collect(), of_new.x / of_base.x))
}

/// The height of the line through some points at `x`; `None` outside it.
fn height(line: &[Mark], x: f64) -> Option<f64> {
    let mut parts = line.iter().tuple_windows::<(&Mark, &Mark)>();
    let (left, right) = parts.find(|(left, right)| (left.x..=right.x).contains(&x))?;
    Some(left.y + (right.y - left.y) * (x - left.x) / (right.x - left.x))
}

/// The results of a function for each workload, which gets the frontier of each side by its name.
fn of_each_workload<T>(
    names: &[String],
    sides: &[&Side],
    of: impl Fn(&Points<'_>, &Tradeoff<'_>, Vec<Vec<Mark>>) -> Option<T>,
) -> Vec<T> {
    let tables = sides.iter().map(|side| side.table.clone());
    let stacked = Table::stack(names.iter().cloned().zip(tables).collect());
    let mut points = Points::of(&stacked);
    let [x, y] = Measure::of_frontier(&stacked);
    let figures = [x.metric.as_str(), y.metric.as_str()];
    points.adopt(&estimate_by_table(&State::default(), &stacked, &figures));
    let tradeoffs = Tradeoff::of_each(&points, &x, &y);
    let found = tradeoffs.iter().filter_map(|tradeoff| {
        let frontiers = names.iter().map(|name| frontier_of(&points, tradeoff, name));
        of(&points, tradeoff, frontiers.collect())
    });
    found.collect()
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
    let kept = frontier(&places, (Better::Higher, Better::Higher)).into_iter();
    let kept = kept.map(|at| marks[at].clone());
    kept.ordered_by(|a, b| a.x.total_cmp(&b.x)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(places: &[(f64, f64)]) -> Vec<Mark> {
        places.iter().map(|(x, y)| Mark::at(*x, *y)).collect()
    }

    #[test]
    fn frontiers_are_compared_at_equal_speed() {
        let base = line_of(&[(10.0, 1000.0), (20.0, 600.0), (40.0, 200.0)]);
        let new = line_of(&[(15.0, 400.0), (30.0, 200.0)]);
        // At the speeds 20, 15 and 30, where both have a line.
        let (ratios, speed) = moved(&base, &new).expect("two lines");
        let percents = ratios.iter().map(|ratio| (ratio * 1000.0).round());
        assert_eq!(percents.collect_vec(), [556.0, 500.0, 500.0]);
        assert_eq!(speed, 0.75);
        assert!(moved(&base, &new[..1]).is_none());
        let (apart, _) = moved(&base, &line_of(&[(50.0, 9.0), (60.0, 8.0)])).expect("two lines");
        assert!(apart.is_empty());
    }
}
