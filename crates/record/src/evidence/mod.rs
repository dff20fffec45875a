//! The evidence of an experiment: its configs, points, runs and searches, and what the plan asks, as the room that answers takes them.
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
pub use comparison::ratio_so_far;
use itertools::Itertools;
pub use metrics::FRONTIER;
use metrics::metric;
pub use optimization::{BegunStart, NextProposal, OptimizationProgress, Results, Shares, first_results};
use points::{runs, sampled};
pub use recorded::Recorded;
use vsweep_answer::{Config, Experiment, MetricNoise, Point};
use vsweep_plan::Requirement;

/// The relative difference that does not matter, where a plan does not say.
pub const MARGIN: f64 = 0.01;

/// The sources of an experiment.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// The points with their runs.
    pub points: &'a Points<'a>,
    /// The run of each row of the table; empty where rows are of no journal.
    pub runs: &'a [&'a RunRecord],
    /// The record.
    pub state: &'a State,
    /// Only the starts of a search whose slot is below this count.
    pub starts: u32,
    /// The requirements of the plan.
    pub requirements: &'a [Requirement],
    /// The relative difference that does not matter.
    pub margin: f64,
    /// The GPUs that the user has; none if unknown.
    pub gpus: Option<u32>,
    /// The figure to optimise, whose question comes first; none without an optimisation.
    pub objective: Option<&'a Objective>,
    /// The names of configs, loads and workloads.
    pub names: &'a dyn Names,
}

/// The names of what is in an experiment. Equal loads have equal names, as have equal workloads.
pub trait Names {
    /// The server config of a row.
    fn config(&self, row: usize) -> String;
    /// The load of a row, without its workload.
    fn load(&self, row: usize) -> String;
    /// A workload; empty if it is the only one.
    fn workload(&self, workload: &Workload<'_>) -> String;
}

impl Evidence<'_> {
    /// The experiment with its questions. One that compares configs or searches loads has no questions about single points.
    pub fn experiment(&self) -> Experiment {
        let workloads = self.points.workloads();
        let metrics = metrics::metrics(self, &workloads);
        let searches = searches::searches(self);
        let targets = metrics::targets(self, &workloads);
        let sampled = points::sampled(self.points, &metrics);
        Experiment {
            configs: points::configs(self),
            points: points::points(self, &workloads, &sampled),
            questions: questions::questions(self, &workloads, &searches, &targets),
            frontiers: questions::frontiers(self, &workloads, &targets),
            alone: points::alone(self, &workloads, &sampled),
            searches,
            metrics,
            comparison: comparison::planned(self.state),
            gpus: self.gpus,
            open: self.state.open_work(),
            margin: self.margin,
            seed: 0,
        }
    }

    /// The experiment with the points' figures of some metrics, and no questions.
    pub fn about(&self, wanted: &[&str]) -> Experiment {
        let workloads = self.points.workloads();
        let mut metrics = metrics::metrics(self, &workloads);
        metrics.retain(|metric| wanted.contains(&&*metric.name));
        let sampled = points::sampled(self.points, &metrics);
        Experiment {
            configs: points::configs(self),
            points: points::points(self, &workloads, &sampled),
            metrics,
            gpus: self.gpus,
            margin: self.margin,
            ..Experiment::default()
        }
    }

    /// The identity of the server config of a row: its id in the record, else the text of its settings.
    fn config_of(&self, row: usize) -> String {
        match self.runs.get(row) {
            Some(run) => run.server.to_string(),
            None => self.names.config(row),
        }
    }
}

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
