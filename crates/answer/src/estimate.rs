//! A figure with its interval, as every document has it.

use serde::{Deserialize, Serialize};

/// A figure with what it may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The plain estimate, from its own runs.
    pub value: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}
