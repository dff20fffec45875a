//! The input of an answer: points with their runs, searches, questions, and facts about the servers. It does not depend on how results are
//! stored.

use super::asked::{FrontierQuestion, Question};
use super::planned::PlannedComparison;
use super::run_figures::{Figure, RunFigures};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use vsweep_base::units::is_zero;
use vsweep_strategy::stats::Better;

/// Everything that an answer is made from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// The metrics that questions, targets and effects name.
    pub metrics: Vec<Metric>,
    /// The server configs.
    pub configs: Vec<Config>,
    /// The points that have at least one valid run, of all workloads.
    pub points: Vec<Point>,
    /// Points that were measured again on a start without neighbours. They have only the runs of that start, and compete in no question.
    #[serde(default)]
    pub alone: Vec<Point>,
    /// The results of searches.
    pub searches: Vec<Search>,
    /// The questions, in the order of the answer.
    pub questions: Vec<Question>,
    /// Questions for a Pareto frontier of two metrics.
    pub frontiers: Vec<FrontierQuestion>,
    /// The result of the plan's own comparison.
    #[serde(default)]
    pub comparison: Option<PlannedComparison>,
    /// Number of planned runs and searches without a result.
    #[serde(default)]
    pub open: u64,
    /// Number of GPUs that the user has. If it is unknown, figures are those of one server.
    pub gpus: Option<u32>,
    /// The largest relative difference that does not matter: 0.01 for 1 %.
    pub margin: f64,
    /// The seed of the model's random draws.
    pub seed: u64,
}

/// A metric that runs have figures of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name, such as `output_throughput`.
    pub name: String,
    /// The scale on which noise is added to it.
    pub scale: Scale,
    /// The good direction.
    pub better: Better,
    /// The noise that is assumed before any measurement.
    pub prior: NoisePrior,
}

/// The scale on which noise is added to a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Positive figures. Noise multiplies them. A point with a figure of 0 has the range of its runs as its interval.
    Log,
    /// Figures that can be below 0.
    Linear,
    /// Counts, such as failed requests. They have no noise: a count is within its limit, or it is not.
    Count,
    /// Shares of a count, such as attainment. Noise is added to the angle, `asin(sqrt(share))`.
    Share,
}

/// The assumed noise of a metric, as standard deviations on its scale. On a logarithmic scale they are relative.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoisePrior {
    /// Scale of the half-normal prior of the standard deviation between starts.
    pub start: f64,
    /// Median of the log-normal prior of the standard deviation between runs of a start.
    pub run: f64,
    /// Spread of the logarithm of the standard deviation between runs.
    pub run_spread: f64,
    /// Scale of the half-normal prior of the standard deviation between nodes.
    pub node: f64,
}

/// A server config.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Its id.
    pub id: String,
    /// Its name for people, such as `TP 2, seqs 64`.
    #[serde(default)]
    pub name: String,
    /// The settings that differ between configs, by name. A setting that this config leaves unset has no entry.
    pub settings: BTreeMap<String, String>,
    /// Number of settings that differ from the defaults of the server's program.
    pub changes: usize,
    /// Number of GPUs of one server. 0 if unknown: the config then has one replica.
    pub gpus: u32,
    /// Seconds that a start takes until all its points are measured and the server is stopped; `None` if unknown.
    pub seconds_per_start: Option<f64>,
    /// Time until a launch is ready and to stop it, in seconds; `None` if unknown.
    #[serde(skip)]
    pub seconds_around_runs: Option<f64>,
    /// Facts that a user must know before deploying it.
    pub facts: Facts,
}

/// Returns the number of servers that fit on the user's GPUs, if each needs this many; 1 if either number is unknown.
pub fn replicas_on(gpus: Option<u32>, each: u32) -> u32 {
    match gpus {
        Some(gpus) if each > 0 => gpus / each,
        _ => 1,
    }
}

/// Totals over the launches and runs of a config.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Launches of the server.
    pub launches: u32,
    /// Launches that failed, or died under a load.
    pub deaths: u32,
    /// Runs or starts that were tried again.
    pub retries: u32,
    /// Requests sent in runs that count.
    pub requests: u64,
    /// Number of failed requests.
    pub failed_requests: u64,
    /// True if the server was simulated.
    pub simulated: bool,
    /// Versions of its server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    /// Versions, of this config or of others, that no session measured together with one of `versions`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_versions: Vec<String>,
}

impl Facts {
    /// Returns true if the server died, or failed more than one request in a hundred.
    pub(crate) fn has_failed(&self) -> bool {
        self.deaths > 0 || self.failed_requests.saturating_mul(100) > self.requests
    }
}

/// A config under one load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Its id.
    pub id: String,
    /// The id of its config.
    pub config: String,
    /// The workload; empty if the experiment has only one.
    pub workload: String,
    /// The load. Equal loads have equal texts.
    pub load: String,
    /// The runs that count: valid, not superseded, and not measured before the server changed.
    pub runs: Vec<Run>,
    /// Time of all its runs on a start of its config with their preparation, those that do not count included, in seconds.
    #[serde(default)]
    pub seconds: f64,
    /// Number of runs that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u32,
    /// Names of doubts, by the metric that they concern. Disturbances and failed requests are left out, because runs and configs have them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub doubts: BTreeMap<String, Vec<String>>,
}

/// One repetition of a point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The launch of the server that it was measured on, unique among the launches of its config.
    pub start: String,
    /// The node of that launch.
    pub node: String,
    /// True if something disturbed it: the generator stalled, a stranger used the GPU, the GPU was throttled.
    pub disturbed: bool,
    /// Its figures by metric.
    pub figures: RunFigures,
}

/// The result of a search for one target on one config.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// The id of its config.
    pub config: String,
    /// The workload.
    pub workload: String,
    /// The target's name.
    pub target: String,
    /// The metrics that the target bounds.
    #[serde(default)]
    pub bounded: Vec<String>,
    /// The load that the search reports for one server, over all its starts; `None` if it ended undecided.
    pub load: Option<f64>,
    /// The highest load that the search may try; no draw exceeds it. `None` without such a bound.
    pub ceiling: Option<f64>,
    /// The slope `d ln(figure) / d ln(load)` of the limiting figure at the limit.
    pub slope: f64,
    /// The number of the plan's other targets that the config meets at this load.
    pub other_targets: usize,
    /// Throughput per GPU at this load.
    pub throughput_per_gpu: Option<f64>,
    /// The limit found on each start.
    pub starts: Vec<StartLimit>,
    /// Number of disturbed probes, and of all probes.
    pub disturbed: (u32, u32),
    /// Names of doubts about the bounded metrics at this load. Disturbances and failed requests are left out, as for points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// Reasons why this load may not last, each a sentence without its full stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_not_last: Vec<String>,
}

/// The limit that a search found on one start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StartLimit {
    /// The slot of the start.
    pub start: String,
    /// The node.
    pub node: String,
    /// The load that the search on it reports.
    #[serde(default)]
    pub load: Option<f64>,
    /// Quantiles of the search's posterior, ascending. The i-th of n has the probability (i + 1/2) / n.
    pub quantiles: Vec<f64>,
}

impl NoisePrior {
    /// For throughput.
    pub const THROUGHPUT: NoisePrior = NoisePrior {
        start: 0.02,
        run: 0.01,
        run_spread: 0.8,
        node: 0.03,
    };

    /// For latencies, means and tails alike. They are noisier than throughput.
    pub const LATENCY: NoisePrior = NoisePrior {
        start: 0.025,
        run: 0.015,
        run_spread: 0.9,
        node: 0.05,
    };

    /// For shares, as standard deviations of the angle (see [`Scale::Share`]): near one half, 0.01 of the angle is one percentage point.
    pub const SHARE: NoisePrior = NoisePrior {
        start: 0.03,
        run: 0.015,
        run_spread: 1.0,
        node: 0.04,
    };
}

impl Experiment {
    /// Drops runs, points and starts without figures, and sorts the rest, so that the answer does not depend on the order of the input.
    pub(super) fn in_order(mut self) -> Experiment {
        let own = &mut self;
        own.configs.sort_by(|a, b| a.id.cmp(&b.id));
        own.metrics.sort_by(|a, b| a.name.cmp(&b.name));
        for points in [&mut own.points, &mut own.alone] {
            for point in &mut *points {
                point.runs.retain(|run| !run.figures.is_empty());
                point.runs.sort_by(Run::order);
            }
            points.retain(|point| !point.runs.is_empty());
            points.sort_by(|a, b| a.id.cmp(&b.id));
        }
        for search in &mut own.searches {
            search.starts.retain(|start| !start.quantiles.is_empty());
            search.starts.sort_by_cached_key(|located| {
                let loads = located.quantiles.iter().map(|load| load.to_bits());
                (located.start.clone(), loads.collect::<Vec<u64>>())
            });
        }
        let key = |search: &Search| (search.workload.clone(), search.target.clone(), search.config.clone());
        own.searches.sort_by_key(key);
        self
    }
}

impl Point {
    /// Number of launches on which the point was measured.
    pub(super) fn starts(&self) -> usize {
        let starts: BTreeSet<_> = self.runs.iter().map(|run| (&run.start, &run.node)).collect();
        starts.len()
    }
}

impl Run {
    /// Compares by launch, node and disturbance, then by the figures, because runs have nothing else by which they could be ordered.
    fn order(&self, other: &Run) -> std::cmp::Ordering {
        let bits = |(_, figure): (&str, &Figure)| match *figure {
            Figure::Value { value, error } => (value.to_bits(), error.to_bits()),
            Figure::Share { met, of } => (met.to_bits(), of.to_bits()),
        };
        let name = |(name, _)| name;
        let (own, others) = (&self.figures, &other.figures);
        let first = (&self.start, &self.node, self.disturbed).cmp(&(&other.start, &other.node, other.disturbed));
        first
            .then_with(|| own.iter().map(name).cmp(others.iter().map(name)))
            .then_with(|| own.iter().map(bits).cmp(others.iter().map(bits)))
    }
}
