//! The `[compare]` table as meant: what is asked of the servers of the plan, held against each other start by start.

use std::time::Duration;

/// What to compare, and how hard.
#[derive(Debug, Clone, PartialEq)]
pub struct Compare {
    /// Metrics of the result.
    pub metrics: Vec<String>,
    /// A change below this does not matter, in percent.
    pub margin_percent: f64,
    /// At most this many starts, failed ones included.
    pub max_starts: u32,
    /// At most this much time in starts and runs.
    pub max_time: Option<Duration>,
    /// Changes that must not happen.
    pub fail_on: Vec<Limit>,
}

/// A change of one metric that must not happen at any load.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The metric.
    pub metric: String,
    /// `+5` forbids ratios above 1.05, `-5` those below 0.95.
    pub percent: f64,
}
