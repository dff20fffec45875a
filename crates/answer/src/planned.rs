//! The result of the plan's own comparison, as data. Its pairs of starts and its stopping rule decide it (docs/verdicts.md), because an
//! interval of the model does not hold where the data decide when to stop.

use super::estimate::Estimate;
use serde::{Deserialize, Serialize};
use vsweep_strategy::stats::{Requirement, Verdict};

/// The result of the plan's comparison, as far as it has one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedComparison {
    /// Names of the servers in their order: the base or the old end first.
    pub servers: Vec<String>,
    /// True if it has ended.
    pub ended: bool,
    /// Starts used, failed ones included; 0 while it continues.
    pub starts: usize,
    /// Of two servers: each metric at each load.
    pub findings: Vec<PairedFinding>,
    /// Of an ordered axis of servers: where a metric changed.
    pub change: Option<LocatedChange>,
}

/// One metric at one load, by pairs of starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairedFinding {
    /// The metric.
    pub metric: String,
    /// The load.
    pub load: String,
    /// The pairs it rests on.
    pub pairs: usize,
    /// New over base; none with fewer than four pairs. Its interval holds however often it was looked at, for all findings together.
    pub ratio: Option<Estimate>,
    /// The verdict.
    pub verdict: Verdict,
    /// Result of its requirement, if it has one.
    pub requirement: Option<Requirement>,
    /// If undecided, the further starts that would decide in four of five cases.
    pub more_starts: Option<usize>,
}

/// The place on an axis of servers at which a metric changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocatedChange {
    /// The metric.
    pub metric: String,
    /// The last server before the change, as far as is known.
    pub old: String,
    /// The first one behind it.
    pub new: String,
    /// New over old.
    pub ratio: Option<Estimate>,
    /// The chance of seeing this where nothing changed.
    pub doubt: f64,
}
