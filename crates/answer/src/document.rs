//! The answer as one document: everything that a report, a script or an agenda may say about the best server. Its JSON is `answer.json`.

use super::asked::{Goal, Target};
use super::experiment::Config;
use super::model::NoiseEstimate;
use super::optimization::OptimizationState;
use super::planned::PlannedComparison;
pub use super::{
    estimate::Estimate,
    warning::{Alone, Warning},
};
use serde::{Deserialize, Serialize};
use vsweep_strategy::stats::{Better, Verdict};

/// The version of the document's format.
pub const VERSION: u32 = 1;

/// Everything that an experiment answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The version of the format.
    pub version: u32,
    /// The largest relative difference that does not matter.
    pub margin: f64,
    /// Number of GPUs that the user has; `None` if unknown.
    pub gpus: Option<u32>,
    /// Price per GPU-hour, by which costs are computed; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_gpu_hour: Option<f64>,
    /// Number of planned runs and searches without a result. Above 0, the answer is preliminary.
    #[serde(default)]
    pub open: u64,
    /// The result of the plan's own comparison; `None` without `[compare]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<PlannedComparison>,
    /// The server configs, in the order of their ids.
    pub configs: Vec<Config>,
    /// The optimisation that chose the servers; `None` for a plan without `[optimize]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimization: Option<Box<OptimizationState>>,
    /// The answers, in the order of the questions.
    pub questions: Vec<QuestionAnswer>,
    /// Joint answers to the questions that are asked for several workloads.
    pub together: Vec<Together>,
    /// The frontiers.
    pub frontiers: Vec<Frontier>,
    /// The noise of each metric, as far as it is known.
    pub noise: Vec<MetricNoise>,
    /// The figures of every point, which are those of one server.
    pub estimates: Vec<PointEstimates>,
    /// Remarks on the figures, the gravest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<Remark>,
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuestionAnswer {
    /// The question's name.
    pub question: String,
    /// The workload; empty if the experiment has only one.
    pub workload: String,
    /// The load at which entrants are compared; `None` if each competes at its own.
    pub load: Option<String>,
    /// The figure by which entrants are compared.
    pub goal: Goal,
    /// The good direction.
    pub better: Better,
    /// The targets that an entrant must meet.
    pub targets: Vec<Target>,
    /// The recommended config; `None` if nothing competes, or no entrant meets the targets.
    pub winner: Option<Winner>,
    /// The point that comes nearest to the targets, if none meets them.
    pub nearest: Option<Nearest>,
    /// Ids of other configs that may be the best. With a probability of 95 %, the winner or one of these is within the margin of the best.
    pub ties: Vec<String>,
    /// Ids of configs with at least an even chance of being at most the margin worse than the winner.
    pub as_good: Vec<String>,
    /// Ids of configs with a chance below 5 % of being within the margin of the best.
    pub ruled_out: Vec<String>,
    /// The configs that compete, best estimate first; after them those that miss the targets by plain estimates, but may meet them.
    pub entrants: Vec<Entrant>,
    /// Ids of configs that need more GPUs than the user has.
    pub too_large: Vec<String>,
    /// The effect of each setting at the winner.
    pub effects: Vec<Effect>,
    /// Figures of the winner and its ties without neighbours, as multiples of those measured next to other servers of the sweep.
    #[serde(default)]
    pub alone: Vec<Alone>,
    /// Warnings to read before deploying the winner.
    pub warnings: Vec<Warning>,
    /// The starts that would make the answer surer; `None` if it is sure, or more starts would not help.
    pub advice: Option<Advice>,
}

/// The recommended config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Winner {
    /// Its id.
    pub config: String,
    /// The id of the recommended point; `None` for a search.
    pub point: Option<String>,
    /// The load of that point, or the load found; of one server.
    pub load: String,
    /// Number of its servers on the user's GPUs.
    pub replicas: u32,
    /// The figure by which it won, of all replicas.
    pub value: Estimate,
    /// The probability that it is within the margin of the best.
    pub probability: f64,
    /// The reason why it was chosen.
    pub chosen: WinReason,
    /// Each target, and the chance that it is met.
    pub meets: Vec<TargetChance>,
    /// True if a search found that even the highest load allowed meets the target.
    pub at_ceiling: bool,
}

/// Reason why a config won.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WinReason {
    /// It has the best estimate.
    Best,
    /// It is within the margin of the best; its server never died, and at most one request in a hundred failed.
    FewerFailures {
        /// The id of the config with the best estimate.
        best: String,
    },
    /// It is within the margin of the best and meets more of the other targets.
    MoreTargets {
        /// The id of the config with the best estimate.
        best: String,
    },
    /// It is within the margin of the best and has more throughput per GPU by more than the margin.
    MorePerGpu {
        /// The id of the config with the best estimate.
        best: String,
    },
    /// It is within the margin of the best and needs fewer changes from the defaults.
    FewerChanges {
        /// The id of the config with the best estimate.
        best: String,
    },
}

/// A target, and the chance that a point meets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetChance {
    /// The target.
    pub target: Target,
    /// The figure that it bounds.
    pub value: Estimate,
    /// True if the plain estimate keeps the limit.
    pub is_met: bool,
    /// The probability that the figure keeps the limit.
    pub probability: f64,
}

/// The point that comes nearest to the targets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nearest {
    /// The id of its config.
    pub config: String,
    /// Its id.
    pub point: String,
    /// Its load.
    pub load: String,
    /// Each target, and the chance that it is met.
    pub meets: Vec<TargetChance>,
    /// The probability that it meets all of them.
    pub probability: f64,
}

/// A config that competes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entrant {
    /// Its id.
    pub config: String,
    /// The id of its best point, or of the one most likely to meet the targets; `None` for a search.
    pub point: Option<String>,
    /// The load of that point, or the load found; of one server. Empty if its search ended undecided.
    pub load: String,
    /// Number of its servers on the user's GPUs.
    pub replicas: u32,
    /// True if it meets the targets by its plain estimates.
    pub meets: bool,
    /// True if a search found that even the highest load allowed meets the target: it may hold more.
    #[serde(default)]
    pub at_ceiling: bool,
    /// The figure by which it competes, of all replicas.
    pub value: Estimate,
    /// The probability of being within the margin of the best.
    pub probability: f64,
    /// The probability of being at most the margin worse than the winner.
    pub as_good: f64,
    /// The winner's figure as a multiple of this one. `None` for the winner, for an entrant with a better estimate or at the highest load
    /// allowed, and for an undecided search.
    pub winner_over: Option<Estimate>,
    /// True if it has the default settings of the server's own program.
    pub is_default: bool,
    /// True if all its runs at this point were disturbed.
    pub is_disturbed: bool,
}

/// The effect of one setting of the winner, everything else equal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The metric.
    pub metric: String,
    /// Its good direction.
    pub better: Better,
    /// The setting.
    pub setting: String,
    /// The winner's value of it; `None` if the winner leaves it unset.
    pub own: Option<String>,
    /// The value in the config that it is compared with; `None` if unset.
    pub other: Option<String>,
    /// The id of the config with the other value.
    pub config: String,
    /// The winner's figure as a multiple of the other's.
    pub ratio: Estimate,
    /// The verdict on the ratio: `improved` if the winner's value is better.
    pub verdict: Verdict,
}

/// Starts that would make an answer surer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// Ids of the configs to start again: the winner and its ties.
    pub configs: Vec<String>,
    /// Number of further starts of each.
    pub starts: u32,
    /// Duration of all these starts, one after another, in seconds; `None` if unknown.
    pub seconds: Option<f64>,
    /// The probability, expected after these starts, that the winner is within the margin of the best.
    pub expected: f64,
}

/// One answer for several workloads: a config whose smallest share of a workload's best is within the margin of the largest possible.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Together {
    /// The questions' name.
    pub question: String,
    /// The id of the config; `None` if no config competes in all workloads.
    pub config: Option<String>,
    /// Its share of the best in each workload.
    pub shares: Vec<Share>,
    /// The probability that its smallest share is within the margin of the largest possible.
    pub probability: f64,
}

/// A config's share of a workload's best.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The workload.
    pub workload: String,
    /// Its figure as a share of the best one, at most 1.
    pub share: f64,
    /// The id of that workload's winner.
    pub winner: String,
}

/// The Pareto frontier of two metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Frontier {
    /// The workload.
    pub workload: String,
    /// One metric.
    pub x: String,
    /// The other metric.
    pub y: String,
    /// The points on the frontier, from the best x to the worst. No other point is at least as good in both metrics and better in one.
    pub points: Vec<FrontierPoint>,
}

/// A point on a frontier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrontierPoint {
    /// Its id.
    pub point: String,
    /// The id of its config.
    pub config: String,
    /// Its figure in the metric `x`.
    pub x: Estimate,
    /// Its figure in the metric `y`.
    pub y: Estimate,
    /// The probability that no point beats it by more than the margin in both.
    pub probability: f64,
}

/// The noise of a metric, as standard deviations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricNoise {
    /// The metric.
    pub metric: String,
    /// Between runs of a start.
    pub run: NoiseEstimate,
    /// Between starts.
    pub start: NoiseEstimate,
    /// Between nodes; `None` if all runs were on one node.
    pub node: Option<NoiseEstimate>,
}

/// The figures of a point, of one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointEstimates {
    /// Its id.
    pub point: String,
    /// The id of its config.
    pub config: String,
    /// The workload.
    pub workload: String,
    /// The load.
    pub load: String,
    /// Number of runs that count.
    pub runs: usize,
    /// Number of disturbed runs.
    pub disturbed: usize,
    /// Number of launches on which the runs were measured.
    pub starts: usize,
    /// Each metric's estimate, in the order of [`Answer::noise`].
    pub figures: Vec<Option<Estimate>>,
}

/// A remark that a reader of the figures needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Its subject in a word or two.
    pub about: String,
    /// A sentence without its full stop.
    pub text: String,
}
