//! One side of a comparison: the points of a table with the figures that are compared, and nothing that is asked of them alone.

use super::metrics::metric;
use super::points::{runs, sampled};
use super::{MARGIN, Names};
use crate::table::{Measure, Points};
use itertools::Itertools;
use vsweep_answer::{Config, Experiment, MetricNoise, Point};

/// The experiment of a side. `known` is the noise that other experiments measured before it began; `node` names the node of a row, and is
/// empty where that is not known.
pub fn side(
    points: &Points<'_>,
    measures: &[Measure],
    names: &dyn Names,
    known: &[MetricNoise],
    node: &dyn Fn(usize) -> String,
) -> Experiment {
    let table = points.runs;
    let is_known = |measure: &&Measure| table.column(&measure.metric).is_some();
    let metrics = measures.iter().filter(is_known).unique_by(|measure| &measure.metric);
    let metrics = metrics
        .map(|measure| metric(points, &measure.metric, (measure.better, false), known))
        .collect_vec();
    let sampled = sampled(points, &metrics);
    let measured = points.points.iter().filter(|point| !point.used.is_empty());
    let points = measured.map(|point| Point {
        id: point.id.to_string(),
        config: names.config(point.row),
        workload: String::new(),
        load: names.load(point.row),
        runs: runs(table, &point.used, &sampled, node),
        ..Point::default()
    });
    let points = points.collect_vec();
    let configs = points.iter().map(|point| &point.config).unique();
    let configs = configs.map(|id| Config {
        id: id.clone(),
        ..Config::default()
    });
    Experiment {
        configs: configs.collect(),
        points,
        metrics,
        margin: MARGIN,
        ..Experiment::default()
    }
}
