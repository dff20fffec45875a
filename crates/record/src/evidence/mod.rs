//! The evidence of an experiment: its configs, points, runs and searches, and the questions of its plan, as the input of `vsweep_answer`.
//! Nothing is judged here.

mod comparison;
mod metrics;
mod optimization;
mod points;
mod questions;
mod recorded;
mod searches;

use crate::journal::{Objective, RunRecord, State};
use crate::table::{Measure, Points, Workload};
pub use comparison::{broken, ratio_so_far};
use itertools::Itertools;
use metrics::metric;
pub use optimization::{BegunStart, NextProposal, OptimizationProgress, Results, Shares, first_results};
use points::{runs, sampled};
pub use recorded::JournalSources;
use vsweep_answer::{Config, Experiment, MetricNoise, Point};
use vsweep_plan::Requirement;

/// The largest relative difference that does not matter, unless the plan gives another.
pub const MARGIN: f64 = 0.01;

/// The sources of an experiment.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// The points with their runs.
    pub points: &'a Points<'a>,
    /// The run of each row of the table; empty if the rows are not from a journal.
    pub runs: &'a [&'a RunRecord],
    /// The state of the record.
    pub state: &'a State,
    /// Starts of a search count only if their slot is below this number; `u32::MAX` for all.
    pub starts: u32,
    /// The requirements of the plan.
    pub requirements: &'a [Requirement],
    /// The largest relative difference that does not matter.
    pub margin: f64,
    /// Number of GPUs that the user has; `None` if unknown.
    pub gpus: Option<u32>,
    /// The figure to optimise, whose question comes first; `None` without an optimisation.
    pub objective: Option<&'a Objective>,
    /// Names of configs, loads and workloads.
    pub names: &'a dyn Names,
}

/// Names of the configs, loads and workloads of an experiment. Equal loads have equal names, and so have equal workloads.
pub trait Names {
    /// Returns the name of the server config of a row.
    fn config(&self, row: usize) -> String;
    /// Returns the name of the load of a row, without its workload.
    fn load(&self, row: usize) -> String;
    /// Returns the name of a workload; empty if it is the only one.
    fn workload(&self, workload: &Workload<'_>) -> String;
}

impl Evidence<'_> {
    /// Returns the experiment with its questions. A comparison has no questions, and a search has none about single points.
    pub fn experiment(&self) -> Experiment {
        let workloads = self.points.workloads();
        let configs = points::configs(self);
        let gpus = self.shared_gpus(&configs);
        let metrics = metrics::metrics(self, &workloads);
        let searches = searches::searches(self);
        let targets = metrics::targets(self, &workloads);
        let sampled = points::sampled(self.points, &metrics);
        Experiment {
            configs,
            points: points::points(self, &workloads, &sampled),
            questions: questions::questions(&Evidence { gpus, ..*self }, &workloads, &searches, &targets),
            frontiers: questions::frontiers(self, &workloads, &targets),
            alone: points::alone(self, &workloads, &sampled),
            searches,
            metrics,
            comparison: comparison::planned(self.state),
            gpus,
            open: self.state.open_work(),
            margin: self.margin,
            seed: 0,
        }
    }

    /// Returns the experiment with the figures of the wanted metrics alone, and without questions.
    pub fn about(&self, wanted: &[&str]) -> Experiment {
        let workloads = self.points.workloads();
        let mut metrics = metrics::metrics(self, &workloads);
        metrics.retain(|metric| wanted.contains(&&*metric.name));
        let sampled = points::sampled(self.points, &metrics);
        let configs = points::configs(self);
        Experiment {
            gpus: self.shared_gpus(&configs),
            configs,
            points: points::points(self, &workloads, &sampled),
            metrics,
            margin: self.margin,
            ..Experiment::default()
        }
    }

    /// Returns the number of GPUs that each config gets for its replicas. `None` if the number of GPUs of a config is not known: it cannot
    /// be compared with replicas of others, so single servers are compared.
    fn shared_gpus(&self, configs: &[Config]) -> Option<u32> {
        self.gpus.filter(|_| configs.iter().all(|config| config.gpus > 0))
    }

    /// Returns the identity of the server config of a row: its id in the record, else its name.
    fn config_of(&self, row: usize) -> String {
        match self.runs.get(row) {
            Some(run) => run.server.to_string(),
            None => self.names.config(row),
        }
    }
}

/// Returns the experiment of one side of a comparison. `known` is the noise that other experiments measured before this one began. `node`
/// returns the name of a row's node, empty if unknown.
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
