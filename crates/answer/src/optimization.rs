//! The part of the document about an optimisation: the state of each server, its starts with their reason, its expected figure, and the
//! reason for the end.

use super::estimate::Estimate;
use serde::{Deserialize, Serialize};
use vsweep_base::units::is_zero;

pub use vsweep_strategy::selection::optimized::{EndReason, Reason};

/// The state of an optimisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OptimizationState {
    /// The name of the question whose figure is optimised.
    pub question: String,
    /// The reason for its end; `None` while it continues.
    pub ended: Option<EndReason>,
    /// The probability of the best config at which the optimisation ends.
    pub certainty: f64,
    /// The id of the best config so far; `None` before one was measured.
    pub best: Option<String>,
    /// The probability that this config is within the margin of the best of all servers, including those that were not started.
    pub probability: f64,
    /// Number of server starts that the optimisation chose, failed ones included.
    pub starts: usize,
    /// Number of starts that the optimisation did not choose, such as those for `--confirm`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_starts: usize,
    /// Server time of the chosen starts that have all their results, in seconds.
    pub seconds: f64,
    /// Predicted time for one start of every server, one after another, in seconds; `None` without a prediction.
    pub grid_seconds: Option<f64>,
    /// Expected relative change of the best figure from another hour of server time; negative if lower figures are better.
    pub hour_gain: f64,
    /// The id of the config with the fewest changes from the defaults, which is always measured.
    pub defaults: Option<String>,
    /// The figure of the best config as a multiple of the figure of the defaults; `None` if either was not measured.
    pub over_defaults: Option<f64>,
    /// The median relative error of the predicted figures of servers that were measured; `None` without predictions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction_error: Option<f64>,
    /// Every server of the plan that may compete, in the order of the plan.
    pub candidates: Vec<CandidateSummary>,
    /// The starts that have all their results, in order.
    #[serde(default)]
    pub history: Vec<CompletedStart>,
}

/// A start with all its results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompletedStart {
    /// The id of its config.
    pub config: String,
    /// Server time of the start, in seconds.
    pub seconds: f64,
    /// The figure that was measured on it, with the interval from its runs; `None` if nothing was measured.
    pub value: Option<Estimate>,
}

/// A server of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CandidateSummary {
    /// Its id.
    pub config: String,
    /// Its name for display.
    pub name: String,
    /// Its state.
    pub state: CandidateState,
    /// Number of its starts, failed ones included.
    pub starts: usize,
    /// Reason for the first start that the optimisation chose; `None` without one.
    pub reason: Option<Reason>,
    /// Its expected figure; `None` if nothing is known about it, or if the server did not work.
    pub value: Option<Estimate>,
    /// The figure that was predicted before the first start; `None` without a prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Estimate>,
}

/// The state of a server of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CandidateState {
    /// It was measured.
    Measured,
    /// It was measured until another server was known to be better.
    Beaten,
    /// Its search ended before the load that it holds was decided.
    Undecided,
    /// It was measured, and misses the targets.
    Unmet,
    /// It ran out of memory.
    DidNotFit,
    /// It failed for another reason, or its answers are in doubt, so that nothing measured on it counts.
    Failed,
    /// It was started, and results are missing.
    UnderWay,
    /// It was not started: the results of others show that it cannot win.
    CannotWin,
    /// It was not launched: it is predicted not to fit, or servers that need less memory did not.
    #[serde(rename = "memory")]
    RuledOutByMemory,
    /// It was not started, and is not ruled out.
    Open,
}

impl OptimizationState {
    /// Number of servers in a state.
    pub fn count(&self, state: CandidateState) -> usize {
        self.candidates
            .iter()
            .filter(|candidate| candidate.state == state)
            .count()
    }

    /// Number of servers that were started.
    pub fn started(&self) -> usize {
        self.candidates.iter().filter(|candidate| candidate.starts > 0).count()
    }
}
