//! The next step of an optimisation, and what it believes of candidates.

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

/// The value that a candidate is expected to have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Logarithm of the value.
    pub ln_value: f64,
    /// Standard deviation of its error.
    pub sd: f64,
    /// The reason why it needs no start, if it needs none.
    pub excluded: Option<Exclusion>,
}

/// The reason why a candidate needs no (further) start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exclusion {
    /// Its upper bound lies below the best one's lower bound.
    CannotWin,
    /// Candidates that need less memory did not fit.
    Memory,
    /// It failed for another reason.
    Failed,
    /// It was measured and meets no target.
    Unmet,
}

/// The best of the measured candidates by a model that knows more of their measurements than their values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Its position.
    pub winner: usize,
    /// The probability that it lies within the margin of the best measured one.
    pub probability: f64,
    /// False if more starts of the measured ones are not expected to raise that probability by enough.
    pub is_decidable: bool,
}

/// The starts that may still make the best candidate surer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outlook {
    /// A start of any candidate.
    Open,
    /// Only more starts of the measured ones: no other is likely to be better.
    Finalists,
    /// Nothing: more starts of the measured ones are not expected to suffice.
    Undecidable,
    /// Nothing is needed: it is known well enough.
    Certain,
}
