//! The order in which charts name the settings of servers. The setting that explains most of the differences in throughput comes first;
//! only points at the load with the highest throughput count. The order decides the colours of curves; no verdict depends on it.

use super::variation::{varying, within};
use crate::ordered::Order;
use itertools::Itertools;
use std::collections::BTreeMap;
use vsweep_record::table::{Column, MetricSet, Points, Section, Workload};

/// The names of the settings of each workload, in the order of [`Points::workloads`].
#[derive(Debug, Default)]
pub struct Ranking(Vec<Vec<String>>);

impl Ranking {
    /// Ranking of a table.
    pub fn of(points: &Points<'_>) -> Ranking {
        let varied = varying(points);
        let of_workload = |workload: &Workload<'_>| {
            let (server, load): (Vec<&Column>, Vec<&Column>) =
                within(&varied, workload).partition(|column| column.section == Section::Serve);
            let measured = at_best_load(points, workload, &load);
            let explained = server.iter().map(|column| (explained(column, &measured), column));
            let ranked = explained.sorted_by(|(one, _), (other, _)| other.total_cmp(one));
            ranked.map(|(_, column)| column.name.clone()).collect()
        };
        Ranking(points.workloads().iter().map(of_workload).collect())
    }

    /// The settings of the workload with the index `place`, the one that explains most first.
    pub fn of_workload(&self, place: usize) -> &[String] {
        self.0.get(place).map_or(&[], Vec::as_slice)
    }

    /// The first setting of the first workload that has one.
    pub fn leading(&self) -> Option<&str> {
        self.0.iter().find_map(|names| names.first()).map(String::as_str)
    }
}

/// Sorts settings by their rank; settings without a rank come last.
pub fn sort(columns: &mut Vec<&Column>, ranked: &[String]) {
    columns.order_by_key(|column| {
        let place = ranked.iter().position(|name| *name == column.name);
        place.unwrap_or(usize::MAX)
    });
}

/// The points at the load with the highest throughput: their rows, and the logarithms of their throughputs.
fn at_best_load(points: &Points<'_>, workload: &Workload<'_>, load: &[&Column]) -> Vec<(usize, f64)> {
    let metric = MetricSet::of(points, workload).throughput.1;
    let log = |at: &usize| {
        let point = &points.points[*at];
        let value = points.spread(point, metric)?.value;
        (value > 0.0).then(|| (point.row, value.ln()))
    };
    let measured = workload.points.iter().filter_map(log).collect_vec();
    let load_of = |row: usize| load.iter().map(|column| column.cells.at(row).to_string()).collect_vec();
    let best = measured.iter().max_by(|(_, one), (_, other)| one.total_cmp(other));
    let best = best.map(|(row, _)| load_of(*row));
    let at_best = measured.into_iter().filter(|(row, _)| Some(load_of(*row)) == best);
    at_best.collect()
}

/// The sum of squares between the values of a setting, as in a one-way analysis of variance of the logarithms.
fn explained(column: &Column, measured: &[(usize, f64)]) -> f64 {
    let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
    let all = measured.iter().map(|(_, log)| *log).collect_vec();
    let mut by_value: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (row, log) in measured {
        let value = column.cells.at(*row).to_string();
        by_value.entry(value).or_default().push(*log);
    }
    let of_value = |logs: &Vec<f64>| logs.len() as f64 * (mean(logs) - mean(&all)).powi(2);
    by_value.values().map(of_value).sum()
}
