//! The next step of an optimisation.

use serde::{Deserialize, Serialize};

/// The next step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Start these, the most useful first. Empty if what is under way must end first.
    Start(Vec<Proposal>),
    /// Nothing more is worth a start.
    Ended(Ended),
}

/// A candidate to start next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// Its position in the list of candidates.
    pub candidate: usize,
    /// The reason for it.
    pub reason: Reason,
}

/// The reason for a start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The server's defaults are always measured.
    Defaults,
    /// It is unlike all that was started before.
    Spread,
    /// It may be better than the best one.
    Promising {
        /// Logarithm of the expected value.
        ln_value: f64,
        /// Upper bound of that.
        ln_upper: f64,
        /// Lower bound of the logarithm of the best one's value.
        ln_best: f64,
    },
    /// It is among the best and is measured on a fresh start.
    Finalist,
}

/// The reason for an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The best candidate is known with the certainty that was asked for.
    Certain,
    /// The budget is spent.
    Budget,
    /// No start is left that is expected to help.
    Exhausted,
}
