//! The result of a comparison of two experiments, as data.

use super::document::{Estimate, MetricNoise};
use serde::{Deserialize, Serialize};
use vsweep_strategy::stats::Verdict;

/// The result of a comparison of two experiments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The relative difference that does not matter.
    pub margin: f64,
    /// Every metric at every point that both measured.
    pub points: Vec<ComparedPoint>,
    /// The requirements, limit by limit.
    pub requirements: Vec<ComparedRequirement>,
    /// The noise of the base's metrics.
    pub base_noise: Vec<MetricNoise>,
    /// The noise of the new one's metrics.
    pub new_noise: Vec<MetricNoise>,
}

/// One metric at one point of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedPoint {
    /// The metric.
    pub metric: String,
    /// The id of the base's point.
    pub base: String,
    /// The id of the new one's point.
    pub new: String,
    /// The base's figure.
    pub was: Estimate,
    /// The new one's figure.
    pub is: Estimate,
    /// New over base.
    pub ratio: Estimate,
    /// The verdict of the interval.
    pub verdict: Verdict,
}

/// A limit at a compared point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedRequirement {
    /// The metric.
    pub metric: String,
    /// The change that is not allowed: 0.05 for `+5 %`.
    pub change: f64,
    /// The id of the base's point.
    pub base: String,
    /// The id of the new one's point.
    pub new: String,
    /// The state of the requirement.
    pub held: Held,
}

/// The state of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// It is kept.
    Met,
    /// It is broken, also considering how many were judged.
    Broken,
    /// Neither is certain.
    Undecided,
}
