//! The points of an experiment with the runs that count, and each run's figures with their sampling errors.

use super::Evidence;
use crate::table::Workload;
use std::collections::BTreeMap;
use vsweep_answer::answer::{Figure, Metric, Point, Run, Scale};

/// The largest sampling error, relative: what was measured lies within a factor of ten of the truth.
const WIDEST: f64 = 1.0;

/// Every point that has a run that counts.
pub(super) fn points(evidence: &Evidence<'_>, workloads: &[Workload<'_>], metrics: &[Metric]) -> Vec<Point> {
    let mut found = Vec::new();
    for workload in workloads {
        let name = evidence.names.workload(workload);
        for at in &workload.points {
            let point = &evidence.points.points[*at];
            let runs = point.used.iter().map(|row| run(evidence, *row, metrics));
            found.push(Point {
                id: point.id.to_string(),
                config: evidence.config_of(point.row),
                workload: name.clone(),
                load: evidence.names.load(point.row),
                runs: runs.collect(),
            });
        }
    }
    found
}

fn run(evidence: &Evidence<'_>, row: usize, metrics: &[Metric]) -> Run {
    let table = evidence.points.runs;
    let record = evidence.runs.get(row);
    let machine = record.and_then(|run| evidence.state.measured_at(run));
    // Runs whose launch is not known count as one start.
    let start = table.launch(row).map_or_else(String::new, |launch| launch.to_string());
    let figures = metrics
        .iter()
        .filter_map(|metric| Some((metric.name.clone(), figure(evidence, row, metric)?)));
    Run {
        start,
        node: machine.map_or_else(String::new, |machine| machine.node),
        disturbed: table.is_disturbed(row),
        figures: figures.collect::<BTreeMap<String, Figure>>(),
    }
}

fn figure(evidence: &Evidence<'_>, row: usize, metric: &Metric) -> Option<Figure> {
    let table = evidence.points.runs;
    let value = table.cell(&metric.name, row).number()?;
    let count = |name: &str| table.cell(name, row).number();
    let requests = count("completed").map(|completed| completed + count("failed").unwrap_or(0.0));
    match (metric.scale, requests) {
        (Scale::Share, Some(of)) if of > 0.0 => Some(Figure::Share { met: value * of, of }),
        _ => {
            let error = table.error(row, &metric.name).unwrap_or(0.0).min(WIDEST);
            // Errors are relative; those of other scales are in the figure's own unit.
            let size = if metric.scale == Scale::Log { 1.0 } else { value.abs() };
            Some(Figure::Value {
                value,
                error: error * size,
            })
        }
    }
}
