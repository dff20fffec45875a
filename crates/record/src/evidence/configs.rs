//! The server configs of an experiment: their settings as far as they differ, their GPUs, the time of a start, and what happened to their
//! servers.

use super::Evidence;
use crate::journal::StartRecord;
use crate::table::{Cell, Section};
use itertools::Itertools;
use std::collections::{BTreeMap, HashMap};
use vsweep_answer::{Config, Facts};
use vsweep_base::ids::ServerId;

/// Every config that has a row, in the order of the rows.
pub(super) fn configs(evidence: &Evidence<'_>) -> Vec<Config> {
    let rows = evidence.points.points.iter().map(|point| point.row);
    let firsts = rows.map(|row| (evidence.config_of(row), row));
    let firsts = firsts.unique_by(|(id, _)| id.clone()).collect_vec();
    let columns = evidence.points.runs.columns().iter();
    let settings = columns.filter(|column| column.section == Section::Serve && !column.is_combo());
    let differing = settings.filter(|column| !firsts.iter().map(|(_, row)| column.cells.at(*row)).all_equal());
    let differing = differing.collect_vec();
    // Results that count no more because their run was tried again.
    let spares = evidence.state.spares().into_iter();
    let retries = spares.map(|spare| spare.run.server.0.as_str()).counts();
    let mut tallies = tallies(evidence);
    let config = |(id, row): (String, usize)| {
        let tally = tallies.remove(&id).unwrap_or_default();
        let retries = retries.get(id.as_str()).copied().unwrap_or(0);
        let set = differing.iter().filter(|column| column.cells.at(row) != Cell::Missing);
        let settings: BTreeMap<String, String> = set
            .map(|column| (column.name.clone(), column.cells.at(row).to_string()))
            .collect();
        let gpus = evidence.points.runs.cell("gpu_count", row).number();
        let starts = evidence.state.starts_of(&ServerId(id.clone()));
        Config {
            name: evidence.names.config(row),
            changes: settings.len(),
            settings,
            gpus: gpus.filter(|gpus| gpus.fract() == 0.0).map_or(0, |gpus| gpus as u32),
            seconds_per_start: seconds_per_start(starts, tally.seconds),
            facts: Facts {
                launches: starts.len() as u32,
                deaths: starts.iter().filter(|start| start.exit.cause.is_some()).count() as u32,
                retries: retries as u32,
                requests: tally.requests,
                failed_requests: tally.failed_requests,
                simulated: tally.is_simulated,
            },
            id,
        }
    };
    firsts.into_iter().map(config).collect()
}

/// Mean time until a start is ready, and of the runs on it.
fn seconds_per_start(starts: &[StartRecord], measured: f64) -> Option<f64> {
    let ready = starts.iter().filter_map(StartRecord::ready_seconds).collect_vec();
    let launches = ready.len() as f64;
    (launches > 0.0).then(|| (ready.iter().sum::<f64>() + measured) / launches)
}

/// Sums over the runs of a config.
#[derive(Default)]
struct Tally {
    seconds: f64,
    requests: u64,
    failed_requests: u64,
    is_simulated: bool,
}

/// The sums of each config, in one pass over the rows.
fn tallies(evidence: &Evidence<'_>) -> HashMap<String, Tally> {
    let table = evidence.points.runs;
    let mut tallies: HashMap<String, Tally> = HashMap::new();
    for (row, run) in evidence.runs.iter().enumerate() {
        let tally = tallies.entry(run.server.0.clone()).or_default();
        tally.seconds += run.seconds;
        tally.is_simulated |= table.cell("simulated", row) == Cell::Bool(true);
    }
    let count = |name: &str, row: usize| table.cell(name, row).number().unwrap_or(0.0) as u64;
    // Requests of runs that failed are among them: too many failed requests are a reason for that.
    for row in 0..table.rows() {
        let tally = tallies.entry(evidence.config_of(row)).or_default();
        let failed = count("failed", row);
        tally.failed_requests += failed;
        tally.requests += failed + count("completed", row);
    }
    tallies
}
