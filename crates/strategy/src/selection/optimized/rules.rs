//! The rules of an optimisation: when it ends, and what is measured in any case.

use serde::{Deserialize, Serialize};

/// The rules of an optimisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Difference of logarithms that does not matter in practice.
    pub margin: f64,
    /// Probability of being within the margin of the best at which the best candidate is known well enough.
    pub certainty: f64,
    /// Limit of what may be spent; None if only certainty ends it.
    pub budget: Option<Budget>,
    /// The server's defaults, which are measured first.
    pub defaults: Option<usize>,
}

/// A limit of what may be spent. What was asked for before the limit is reached may end behind it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// Seconds of servers, whatever GPUs they occupy.
    ServerSeconds(f64),
    /// Seconds of servers times their GPUs.
    GpuSeconds(f64),
    /// Starts, failed ones included.
    Starts(usize),
}
