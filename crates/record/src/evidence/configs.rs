//! The server configs of an experiment: their settings as far as they differ, their GPUs, the time of a start, and what happened to their
//! servers.

use super::Evidence;
use crate::journal::{RunRecord, StartRecord};
use crate::table::{Cell, Column, Section};
use itertools::Itertools;
use std::collections::BTreeMap;
use vsweep_answer::answer::{Config, Facts};
use vsweep_plan::ids::ServerId;

/// Every config that has a row, in the order of the rows.
pub(super) fn configs(evidence: &Evidence<'_>) -> Vec<Config> {
    let rows = evidence.points.points.iter().map(|point| point.row);
    let firsts = rows.map(|row| (evidence.config_of(row), row));
    let firsts = firsts.unique_by(|(id, _)| id.clone()).collect_vec();
    let columns = evidence.points.runs.columns().iter();
    let settings = columns.filter(|column| column.section == Section::Serve && !column.is_combo());
    let differing = settings.filter(|column| !firsts.iter().map(|(_, row)| &column.cells[*row]).all_equal());
    let differing = differing.collect_vec();
    // Results that count no more because their run was tried again.
    let spares = evidence.state.spares().into_iter();
    let retries = spares.map(|spare| spare.run.server.0.as_str()).counts();
    let config = |(id, row): (String, usize)| {
        let retries = retries.get(id.as_str()).copied().unwrap_or(0);
        config(evidence, id, row, &differing, retries as u32)
    };
    firsts.into_iter().map(config).collect()
}

fn config(evidence: &Evidence<'_>, id: String, row: usize, differing: &[&Column], retries: u32) -> Config {
    let set = differing.iter().filter(|column| column.cells[row] != Cell::Missing);
    let settings: BTreeMap<String, String> = set
        .map(|column| (column.name.clone(), column.cells[row].to_string()))
        .collect();
    let gpus = evidence.points.runs.cell("gpu_count", row).number();
    Config {
        name: evidence.names.config(row),
        changes: settings.len(),
        settings,
        gpus: gpus.filter(|gpus| gpus.fract() == 0.0).map_or(0, |gpus| gpus as u32),
        seconds_per_start: seconds_per_start(evidence, &id),
        facts: facts(evidence, &id, retries),
        id,
    }
}

fn runs_of<'e>(evidence: &Evidence<'e>, id: &str) -> impl Iterator<Item = (usize, &'e RunRecord)> {
    let runs = evidence.runs.iter().copied().enumerate();
    runs.filter(move |(_, run)| run.server.0 == id)
}

/// Mean time until a start is ready, and of the runs on it.
fn seconds_per_start(evidence: &Evidence<'_>, id: &str) -> Option<f64> {
    let starts = evidence.state.starts_of(&ServerId(id.to_owned()));
    let ready = starts.iter().filter_map(StartRecord::ready_seconds).collect_vec();
    let measured: f64 = runs_of(evidence, id).map(|(_, run)| run.seconds).sum();
    let launches = ready.len() as f64;
    (launches > 0.0).then(|| (ready.iter().sum::<f64>() + measured) / launches)
}

fn facts(evidence: &Evidence<'_>, id: &str, retries: u32) -> Facts {
    let starts = evidence.state.starts_of(&ServerId(id.to_owned()));
    let deaths = starts.iter().filter(|start| start.exit.cause.is_some()).count();
    let count = |name: &str, row: usize| evidence.points.runs.cell(name, row).number().unwrap_or(0.0) as u64;
    let used = evidence.points.points.iter().flat_map(|point| &point.used);
    let own = used.filter(|row| evidence.config_of(**row) == id);
    let (mut failed_requests, mut requests) = (0, 0);
    for row in own {
        failed_requests += count("failed", *row);
        requests += count("failed", *row) + count("completed", *row);
    }
    let is_simulated = |row: usize| evidence.points.runs.cell("simulated", row) == &Cell::Bool(true);
    Facts {
        launches: starts.len() as u32,
        deaths: deaths as u32,
        retries,
        requests,
        failed_requests,
        simulated: runs_of(evidence, id).any(|(row, _)| is_simulated(row)),
    }
}
