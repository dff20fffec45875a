//! One side of a comparison as it is read from disk: runs, where they were measured, and what served them.

use super::super::environment::facts;
use super::super::rows::{Runs, read_runs};
use itertools::Itertools;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use vsweep_plan::error::Result;
use vsweep_plan::matrix::ServeFlags;
use vsweep_plan::plan::spelling;
use vsweep_record::journal::{self, Check, Directory, Machine, ServerRecord, State};
use vsweep_record::table::Table;

/// Results, and what is known of how they came about.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// What it is called.
    pub name: String,
    /// Its runs.
    pub table: Table,
    /// The launch that each run was measured on, where known; empty if none is.
    pub launches: Vec<Option<String>>,
    /// Where each run was measured, where known; empty if nothing is.
    pub machines: Vec<Option<Machine>>,
    /// The machine and the versions.
    pub facts: Vec<(String, String)>,
    /// Programs, environment variables, models and flags of its servers; a flag as the setting that it is, `serve.dtype`.
    pub servers: BTreeMap<String, BTreeSet<String>>,
    /// What could not be believed.
    pub damaged: Vec<String>,
}

impl Side {
    /// Results of which nothing else is known.
    pub fn of(name: String, Runs { table, damaged }: Runs) -> Side {
        Side {
            name,
            table,
            damaged,
            ..Side::default()
        }
    }

    /// Reads a directory that `vsweep run` wrote.
    ///
    /// # Errors
    /// If its journals cannot be read.
    pub fn read(directory: &Directory) -> Result<Side> {
        let name = directory.root().display().to_string();
        let state = journal::load(directory, Check::Hashes)?;
        let Runs { table, mut damaged } = read_runs(directory, &state);
        damaged.extend(state.damage.iter().cloned());
        let launch = |run| state.start_of(run).map(|launch| launch.to_string());
        let launches = state.runs().map(launch).collect();
        let machines = state.runs().map(|run| state.measured_at(run)).collect();
        let manifest = fs::read(directory.manifest()).ok();
        let manifest = manifest.and_then(|content| serde_json::from_slice(&content).ok());
        Ok(Side {
            name,
            launches,
            machines,
            facts: facts(&manifest.unwrap_or(Value::Null), &state)
                .into_iter()
                .chain(clocks(&table))
                .collect(),
            servers: of_servers(&state),
            table,
            damaged,
        })
    }

    /// Its results by tensor and pipeline parallel size, 1 where nothing is said of it, each as a side of its own.
    pub fn by_parallelism(&self) -> Vec<Side> {
        let size = |name: &str, row: usize| self.table.cell(name, row).number().map_or(1, |size| size as u64);
        let of_row = |row: &usize| (size("tensor_parallel_size", *row), size("pipeline_parallel_size", *row));
        let rows = (0..self.table.rows()).into_group_map_by(of_row).into_iter().sorted();
        rows.map(|((tp, pp), rows)| Side {
            name: format!("{} TP {tp} PP {pp}", self.name),
            table: self.table.select(&rows),
            launches: rows.iter().filter_map(|row| self.launches.get(*row).cloned()).collect(),
            machines: rows.iter().filter_map(|row| self.machines.get(*row).cloned()).collect(),
            ..self.clone()
        })
        .collect()
    }
}

/// The median of each clock of the GPUs over all runs, in MHz.
fn clocks(table: &Table) -> impl Iterator<Item = (String, String)> {
    let rows: Vec<usize> = (0..table.rows()).collect();
    let clocks = [("SM", "gpu_sm_clock_mhz_mean"), ("memory", "gpu_memory_clock_mhz_mean")];
    clocks.into_iter().filter_map(move |(name, column)| {
        let spread = table.column(column)?.spread(&rows)?;
        Some((format!("{CLOCK}{name}"), format!("{:.0} MHz", spread.median)))
    })
}

/// Begins the name of the fact that is a clock.
pub const CLOCK: &str = "GPU clock, ";

fn told(values: &[String]) -> String {
    match values {
        [] => "true".into(),
        values => values.join(" "),
    }
}

fn of_servers(state: &State) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for server in state.servers.values() {
        // A parameter that was swept is a column.
        let is_swept = |name: &str| {
            let name = name.strip_prefix("serve.");
            name.is_some_and(|name| spelling::find(&server.params, name).is_some())
        };
        let told = of_server(server).into_iter().filter(|(name, _)| !is_swept(name));
        told.for_each(|(name, values)| found.entry(name).or_default().extend(values));
    }
    found
}

/// Program, environment variables, models and flags of a server. Where it listens says nothing.
pub fn of_server(server: &ServerRecord) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut note = |name: String, value: String| {
        found.entry(name).or_default().insert(value);
    };
    match ServeFlags::of(&server.argv) {
        Some(flags) => {
            note("server program".into(), flags.program.join(" "));
            let flags = flags.flags.iter();
            let flags = flags.map(|(name, values)| (spelling::canonical(name), told(values)));
            let flags = flags.filter(|(name, _)| !["host", "port"].contains(&name.as_str()));
            flags.for_each(|(name, value)| note(format!("serve.{name}"), value));
        }
        None => note("server command".into(), server.argv.join(" ")),
    }
    for (name, value) in &server.env {
        note(format!("environment {name}"), value.clone());
    }
    // A start that never got ready names no model.
    for start in server.starts.iter().filter(|start| !start.model.is_empty()) {
        note("model".into(), start.model.clone());
    }
    found
}
