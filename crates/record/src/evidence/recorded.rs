//! The experiment from the figures in the journals alone, without run files, so that all sessions and reports see the same experiment.

use super::{Evidence, Names};
use crate::journal::{Objective, RunRecord, State};
use crate::table::{Column, Points, RunFigures, RunRow, TableBuilder, Workload, is_of_load};
use std::collections::BTreeMap;
use vsweep_answer::Experiment;
use vsweep_base::ids::ServerId;
use vsweep_plan::{Params, Requirement};

/// The sources of an experiment that needs no run files.
#[derive(Clone, Copy)]
pub struct JournalSources<'a> {
    /// The state of the record.
    pub state: &'a State,
    /// The servers, each with its parameters and, if it is known, its number of GPUs. Runs of other servers do not count.
    pub servers: &'a BTreeMap<ServerId, (Params, Option<f64>)>,
    /// Starts of a search count only if their slot is below this number; `u32::MAX` for all.
    pub starts: u32,
    /// The requirements of the plan.
    pub requirements: &'a [Requirement],
    /// The largest relative difference that does not matter.
    pub margin: f64,
    /// Number of GPUs that the user has; `None` if unknown.
    pub gpus: Option<u32>,
    /// The figure to optimise; `None` without an optimisation.
    pub objective: Option<&'a Objective>,
}

/// Adds a run to a table, with the figures of its journal line. `server` has the parameters and the number of GPUs of the run's server, if
/// they matter.
pub(super) fn push(builder: &mut TableBuilder, run: &RunRecord, state: &State, server: Option<&(Params, Option<f64>)>) {
    builder.push(RunRow {
        point: &run.point.0,
        run: run.run,
        outcome: run.outcome,
        validity: Some(run.validity),
        doubts: &run.doubts,
        serve: server.map(|(params, _)| params),
        bench: Some(&run.params),
        gpus: server.and_then(|(_, gpus)| *gpus),
        metrics: Some(&RunFigures::from(&run.figures())),
        errors: Some(&run.errors),
        slot: run.slot,
        launch: state.launch_of(run).map(|launch| launch.to_string()),
        order: run.rank.line.seq,
        ..RunRow::default()
    });
}

impl JournalSources<'_> {
    /// Returns the experiment with the runs for which `is_in` returns true.
    pub fn experiment(self, is_in: impl Fn(&RunRecord) -> bool) -> Experiment {
        let is_in = |run: &&RunRecord| is_in(run) && !run.is_lost() && self.servers.contains_key(&run.server);
        let runs: Vec<&RunRecord> = self.state.runs().filter(is_in).collect();
        let mut builder = TableBuilder::new();
        for run in &runs {
            push(&mut builder, run, self.state, self.servers.get(&run.server));
        }
        let table = builder.finish();
        let points = Points::of(&table);
        let evidence = Evidence {
            points: &points,
            runs: &runs,
            state: self.state,
            starts: self.starts,
            requirements: self.requirements,
            margin: self.margin,
            gpus: self.gpus,
            objective: self.objective,
            names: &Identities {
                runs: &runs,
                points: &points,
            },
        };
        evidence.experiment()
    }
}

/// Internal names that distinguish configs, loads and workloads.
pub(super) struct Identities<'a> {
    pub runs: &'a [&'a RunRecord],
    pub points: &'a Points<'a>,
}

impl Names for Identities<'_> {
    fn config(&self, row: usize) -> String {
        self.runs[row].server.to_string()
    }

    fn load(&self, row: usize) -> String {
        let params = self.runs[row].params.iter().filter(|(name, _)| is_of_load(name));
        let is_left_out = |name: &str| ["num_prompts", "num-prompts", "seed"].contains(&name);
        let params = params.filter(|(name, _)| !is_left_out(name));
        params.map(|(name, value)| format!("{name}={value} ")).collect()
    }

    fn workload(&self, workload: &Workload<'_>) -> String {
        let Some(first) = workload.points.first().filter(|_| !workload.is_only()) else {
            return String::new();
        };
        let row = self.points.points[*first].row;
        let setting = |column: &&Column| format!("{}={} ", column.name, column.cells.at(row));
        workload.settings.iter().map(setting).collect()
    }
}
