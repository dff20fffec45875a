//! The points of an experiment with the runs that count, and each run's figures with their sampling errors.

use super::Evidence;
use crate::table::{self, Points, Sampling, Table, Workload};
use std::collections::BTreeMap;
use vsweep_answer::answer::{Figure, Metric, Point, Run, Scale};
use vsweep_metrics::threads;

/// The largest sampling error, relative: what was measured lies within a factor of ten of the truth.
const WIDEST: f64 = 1.0;

/// Every point that has a run that counts.
pub(super) fn points(
    evidence: &Evidence<'_>,
    workloads: &[Workload<'_>],
    metrics: &[(&Metric, Sampling)],
) -> Vec<Point> {
    points_by(evidence, workloads, metrics, &|point| Some(&point.used))
}

/// Every point that was measured on a start without neighbours, by these runs alone.
pub(super) fn alone(
    evidence: &Evidence<'_>,
    workloads: &[Workload<'_>],
    metrics: &[(&Metric, Sampling)],
) -> Vec<Point> {
    points_by(evidence, workloads, metrics, &|point| {
        Some(&point.alone[..]).filter(|rows| !rows.is_empty())
    })
}

/// The points by some of their rows; without those that `rows` leaves out.
fn points_by(
    evidence: &Evidence<'_>,
    workloads: &[Workload<'_>],
    metrics: &[(&Metric, Sampling)],
    rows: &dyn Fn(&table::Point) -> Option<&[usize]>,
) -> Vec<Point> {
    let node = |row: usize| {
        let record = evidence.runs.get(row);
        let machine = record.and_then(|run| evidence.state.measured_at(run));
        machine.map_or_else(String::new, |machine| machine.node)
    };
    let mut found = Vec::new();
    for workload in workloads {
        let name = evidence.names.workload(workload);
        for at in &workload.points {
            let point = &evidence.points.points[*at];
            let Some(rows) = rows(point) else { continue };
            found.push(Point {
                id: point.id.to_string(),
                config: evidence.config_of(point.row),
                workload: name.clone(),
                load: evidence.names.load(point.row),
                runs: runs(evidence.points.runs, rows, metrics, &node),
            });
        }
    }
    found
}

/// Metrics, each with the chance errors of its figures.
pub(super) fn sampled<'m>(points: &Points<'_>, metrics: &'m [Metric]) -> Vec<(&'m Metric, Sampling)> {
    let samplings = threads::map(threads::cores(), metrics, |metric| points.sampling(&metric.name));
    metrics.iter().zip(samplings).collect()
}

/// The runs of some rows. `node` names the node of a row; it is empty where that is not known.
pub(super) fn runs(
    table: &Table,
    rows: &[usize],
    metrics: &[(&Metric, Sampling)],
    node: &dyn Fn(usize) -> String,
) -> Vec<Run> {
    let run = |row: &usize| {
        let figures = metrics
            .iter()
            .filter_map(|(metric, sampling)| Some((metric.name.clone(), figure(table, *row, metric, sampling)?)));
        Run {
            // Runs whose launch is not known count as one start.
            start: table.launch(*row).map_or_else(String::new, |launch| launch.to_string()),
            node: node(*row),
            disturbed: table.is_disturbed(*row),
            figures: figures.collect::<BTreeMap<String, Figure>>(),
        }
    };
    rows.iter().map(run).collect()
}

fn figure(table: &Table, row: usize, metric: &Metric, sampling: &Sampling) -> Option<Figure> {
    let value = table.cell(&metric.name, row).number()?;
    if metric.scale == Scale::Share
        && let Some(of) = requests(table, row).filter(|of| *of > 0.0)
    {
        return Some(Figure::Share { met: value * of, of });
    }
    let error = sampling.error(row).unwrap_or(0.0).min(WIDEST);
    // Errors are relative; those of other scales are in the figure's own unit.
    let size = if metric.scale == Scale::Log { 1.0 } else { value.abs() };
    Some(Figure::Value {
        value,
        error: error * size,
    })
}

/// The requests of a run, failed ones included.
fn requests(table: &Table, row: usize) -> Option<f64> {
    let count = |name: &str| table.cell(name, row).number();
    Some(count("completed")? + count("failed").unwrap_or(0.0))
}
