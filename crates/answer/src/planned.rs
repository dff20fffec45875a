//! The result of the plan's own comparison, as data. Its verdicts come from pairs of starts and its stopping rule (docs/verdicts.md),
//! because the model's intervals are not valid if the data decide when to stop.

use super::estimate::Estimate;
use serde::{Deserialize, Serialize};
use vsweep_base::cause::Cause;
use vsweep_strategy::stats::{RequirementVerdict, Verdict};

/// The result of the plan's comparison, as far as it has one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedComparison {
    /// Names of the servers, in order: the base or the old end of the axis comes first.
    pub servers: Vec<String>,
    /// True if the comparison has ended. Until then the fields below are empty or 0.
    pub ended: bool,
    /// Number of starts used, failed ones included.
    pub starts: usize,
    /// The server that ended the comparison of two, because its last starts gave no result.
    pub broken: Option<BrokenServer>,
    /// For two servers: the finding on each metric at each load.
    pub findings: Vec<PairedFinding>,
    /// For an ordered axis of servers: the place at which a metric changed.
    pub change: Option<LocatedChange>,
}

/// A server whose starts give no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenServer {
    /// Its name.
    pub server: String,
    /// True if it became ready on some start.
    pub was_ready: bool,
    /// The cause of its last failure.
    pub cause: Option<Cause>,
}

/// One metric at one load, by pairs of starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairedFinding {
    /// The metric.
    pub metric: String,
    /// The load.
    pub load: String,
    /// Number of pairs of starts on which the finding rests.
    pub pairs: usize,
    /// The new figure divided by the base's; `None` with fewer than four pairs in which both are above 0. The intervals of all findings
    /// together are valid at any number of looks.
    pub ratio: Option<Estimate>,
    /// The verdict.
    pub verdict: Verdict,
    /// The state of the metric's requirement, if it has one.
    pub requirement: Option<RequirementVerdict>,
    /// If undecided, the number of further starts that would decide in four of five cases.
    pub more_starts: Option<usize>,
}

/// The place on an axis of servers at which a metric changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocatedChange {
    /// The metric.
    pub metric: String,
    /// The last server that is known to be before the change.
    pub old: String,
    /// The first server that is known to be after the change.
    pub new: String,
    /// The figure of `new` divided by the figure of `old`.
    pub ratio: Option<Estimate>,
    /// The probability of such a finding if nothing changed.
    pub doubt: f64,
}
