//! Results of starts.

use serde::{Deserialize, Serialize};

/// The result of one start of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trial {
    /// It was measured.
    Measured {
        /// Logarithm of its value; higher is better.
        ln_value: f64,
        /// Standard error of that on this start: of the runs, without the difference between starts.
        sd: f64,
    },
    /// Its first probe showed that it cannot be better than the best one was then.
    Beaten {
        /// Upper bound of the logarithm of its value.
        ln_below: f64,
    },
    /// It ran out of memory.
    DidNotFit,
    /// It failed for another reason.
    Failed,
    /// It was measured and meets no target.
    Unmet,
}
