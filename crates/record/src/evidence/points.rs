//! The points of an experiment with the runs that count, and each run's figures with their sampling errors.

use super::Evidence;
use crate::table::{self, Points, Table, Workload};
use std::collections::BTreeMap;
use vsweep_answer::answer::{Figure, Metric, Point, Run, Scale};

/// The largest sampling error, relative: what was measured lies within a factor of ten of the truth.
const WIDEST: f64 = 1.0;

/// Every point that has a run that counts.
pub(super) fn points(evidence: &Evidence<'_>, workloads: &[Workload<'_>], metrics: &[(&Metric, f64)]) -> Vec<Point> {
    points_by(evidence, workloads, metrics, &|point| Some(&point.used))
}

/// Every point that was measured on a start without neighbours, by these runs alone.
pub(super) fn alone(evidence: &Evidence<'_>, workloads: &[Workload<'_>], metrics: &[(&Metric, f64)]) -> Vec<Point> {
    points_by(evidence, workloads, metrics, &|point| {
        Some(&point.alone[..]).filter(|rows| !rows.is_empty())
    })
}

/// The points by some of their rows; without those that `rows` leaves out.
fn points_by(
    evidence: &Evidence<'_>,
    workloads: &[Workload<'_>],
    metrics: &[(&Metric, f64)],
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

/// Metrics, each with the part of its assumed errors that is left (see [`Points::assumed_part`]).
pub(super) fn with_parts<'m>(points: &Points<'_>, metrics: &'m [Metric]) -> Vec<(&'m Metric, f64)> {
    let part = |metric: &'m Metric| (metric, points.assumed_part(&metric.name));
    metrics.iter().map(part).collect()
}

/// The runs of some rows. `node` names the node of a row; it is empty where that is not known.
pub(super) fn runs(
    table: &Table,
    rows: &[usize],
    metrics: &[(&Metric, f64)],
    node: &dyn Fn(usize) -> String,
) -> Vec<Run> {
    let run = |row: &usize| {
        let figures = metrics
            .iter()
            .filter_map(|(metric, part)| Some((metric.name.clone(), figure(table, *row, metric, *part)?)));
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

fn figure(table: &Table, row: usize, metric: &Metric, part: f64) -> Option<Figure> {
    let value = table.cell(&metric.name, row).number()?;
    let count = |name: &str| table.cell(name, row).number();
    let requests = count("completed").map(|completed| completed + count("failed").unwrap_or(0.0));
    match (metric.scale, requests) {
        (Scale::Share, Some(of)) if of > 0.0 => Some(Figure::Share { met: value * of, of }),
        _ => {
            let error = table.error(row, &metric.name, part).unwrap_or(0.0).min(WIDEST);
            // Errors are relative; those of other scales are in the figure's own unit.
            let size = if metric.scale == Scale::Log { 1.0 } else { value.abs() };
            Some(Figure::Value {
                value,
                error: error * size,
            })
        }
    }
}
