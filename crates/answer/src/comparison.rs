//! The result of a comparison of two experiments, as data.

use super::document::{Estimate, MetricNoise};
use serde::{Deserialize, Serialize};
use vsweep_strategy::stats::{RequirementVerdict, Verdict};

/// The result of a comparison of two experiments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Every metric at every point that both measured.
    pub points: Vec<ComparedPoint>,
    /// Every limit at every point that has its metric.
    pub limits: Vec<ComparedLimit>,
    /// The noise of the base's metrics.
    pub base_noise: Vec<MetricNoise>,
    /// The noise of the new experiment's metrics.
    pub new_noise: Vec<MetricNoise>,
}

/// One metric at one point of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedPoint {
    /// The metric.
    pub metric: String,
    /// The id of the base's point.
    pub base: String,
    /// The id of the new experiment's point.
    pub new: String,
    /// The base's figure.
    pub was: Estimate,
    /// The new experiment's figure.
    pub is: Estimate,
    /// The new figure divided by the base's.
    pub ratio: Estimate,
    /// The verdict of the interval.
    pub verdict: Verdict,
    /// Number of launches on which the point was measured, in the base and in the new experiment.
    pub starts: (usize, usize),
    /// If undecided, the further starts of each side that would decide in four of five cases; `None` if 1000 in all would not be enough, or
    /// if the sides were measured on different nodes.
    pub more_starts: Option<usize>,
}

/// A limit at a compared point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedLimit {
    /// The metric.
    pub metric: String,
    /// The change that is not allowed: 0.05 for `+5 %`.
    pub change: f64,
    /// The id of the base's point.
    pub base: String,
    /// The id of the new experiment's point.
    pub new: String,
    /// The state of the limit.
    pub requirement: RequirementVerdict,
    /// The probability of so large a change by chance if the limit is kept, after Holm's correction.
    pub p_value: f64,
}
