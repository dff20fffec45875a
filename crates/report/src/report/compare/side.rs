//! One side of a comparison as it is read from disk: runs, where they were measured, and what served them.

use super::super::environment::facts;
use super::super::rows::{Runs, read_runs};
use super::super::source::read_any;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use vsweep_plan::error::Result;
use vsweep_plan::matrix::ServeFlags;
use vsweep_record::journal::{self, Check, Directory, State};
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
    /// The machine and the versions.
    pub facts: Vec<(String, String)>,
    /// Programs and environment variables of its servers.
    pub servers: BTreeMap<String, BTreeSet<String>>,
    /// What could not be believed.
    pub damaged: Vec<String>,
}

impl Side {
    /// Reads a directory that `vsweep run` or `vllm bench sweep` wrote.
    ///
    /// # Errors
    /// If the directory holds no results.
    pub fn read(root: &Path) -> Result<Side> {
        let name = root.display().to_string();
        let directory = Directory::at(root);
        if !directory.is_experiment() {
            let Runs { table, damaged } = read_any(root)?;
            return Ok(Side {
                name,
                table,
                damaged,
                ..Side::default()
            });
        }
        let state = journal::load(&directory, Check::Hashes)?;
        let Runs { table, mut damaged } = read_runs(&directory, &state);
        damaged.extend(state.damage.iter().cloned());
        let launches = state
            .runs()
            .map(|run| state.start_of(run).map(|launch| launch.to_string()));
        let manifest = fs::read(directory.manifest()).ok();
        let manifest = manifest.and_then(|content| serde_json::from_slice(&content).ok());
        Ok(Side {
            name,
            table,
            launches: launches.collect(),
            facts: facts(&manifest.unwrap_or(Value::Null), &state),
            servers: of_servers(&state),
            damaged,
        })
    }
}

fn of_servers(state: &State) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut note = |name: String, value: &str| {
        found.entry(name).or_default().insert(value.to_owned());
    };
    for server in state.servers.values() {
        if let Some(flags) = ServeFlags::of(&server.argv) {
            note("server program".into(), &flags.program.join(" "));
        }
        for (name, value) in &server.env {
            note(format!("environment {name}"), value);
        }
        for model in server.starts.iter().map(|start| start.model.as_str()) {
            note("model".into(), model);
        }
    }
    found
}
