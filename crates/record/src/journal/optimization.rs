//! An optimisation as its session declares it: the servers to choose from, with what was predicted of them, and the rules. With the results
//! that are recorded it decides which server starts next.

use super::rank::Rank;
use serde::{Deserialize, Serialize};
use vsweep_base::ids::{PointId, SearchId, ServerId};
use vsweep_strategy::selection::optimized::{Axis, Candidate, Optimized, Reason, Rules, WarmStart};

/// The servers to choose from, and the rules of the choice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Optimization {
    /// The figure to optimise; none for the first question that the results allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// The settings in which the servers differ.
    pub axes: Vec<Axis>,
    /// The servers, in the order of the plan.
    pub contestants: Vec<Contestant>,
    /// The rules.
    pub rules: Rules,
    /// At most this many starts, failed ones included, beside the budget of the rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_starts: Option<usize>,
    /// GPUs that the user has; none if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Repetitions of each load on each start.
    pub runs: u32,
    /// True if the durations were predicted, instead of assumed.
    pub is_predicted: bool,
}

/// The figure to optimise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// A metric of the result.
    Metric(String),
    /// The highest load that meets the target of this name.
    Load(String),
}

/// A server that may be started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contestant {
    /// The server config.
    pub server: ServerId,
    /// Short text for people.
    pub name: String,
    /// Its points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<PointId>,
    /// Its searches and explorations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<SearchId>,
    /// The settings and predictions by which it is chosen.
    #[serde(flatten)]
    pub candidate: Candidate,
}

/// A start that an optimisation asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposedStart {
    /// The server config.
    pub server: ServerId,
    /// The number of its start, from 0.
    pub slot: u32,
    /// The reason for it.
    pub reason: Reason,
    pub(super) rank: Rank,
}

impl Optimization {
    /// The optimisation before any result, with costs that are so many times those predicted.
    pub fn begin(&self, costs: f64) -> Optimized {
        let candidates = self.contestants.iter().map(|own| Candidate {
            start_s: own.candidate.start_s * costs,
            warm: own.candidate.warm.map(|warm| WarmStart {
                start_s: warm.start_s * costs,
                ..warm
            }),
            measure_s: own.candidate.measure_s * costs,
            ..own.candidate.clone()
        });
        Optimized::new(&self.axes, candidates.collect(), self.rules.clone())
    }

    /// The position of a server.
    pub fn position(&self, server: &ServerId) -> Option<usize> {
        self.contestants.iter().position(|own| own.server == *server)
    }
}
