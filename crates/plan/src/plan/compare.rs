//! The `[compare]` table as meant: what is asked of the servers of the plan, held against each other start by start.

use serde::Serialize;
use std::time::Duration;
use vsweep_strategy::stats::Margins;

/// What to compare, and how hard.
#[derive(Debug, Clone, PartialEq)]
pub struct Compare {
    /// Metrics of the result.
    pub metrics: Vec<String>,
    /// Changes that do not matter.
    pub margins: Margins,
    /// At most this many starts, failed ones included.
    pub max_starts: u32,
    /// At most this much time in starts and runs.
    pub max_time: Option<Duration>,
    /// Changes that must not happen.
    pub fail_on: Vec<Limit>,
}

/// A change of one metric that must not happen, at any load or point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// The metric.
    pub metric: String,
    /// `+5` forbids ratios above 1.05, `-5` those below 0.95.
    pub percent: f64,
}

impl Compare {
    /// Every metric that is judged.
    pub fn judged(&self) -> Vec<String> {
        let limited = self.fail_on.iter().map(|limit| &limit.metric);
        self.metrics.iter().chain(limited).cloned().collect()
    }
}

impl Limit {
    /// Reads `p99_ttft_ms:+5%`.
    ///
    /// # Errors
    /// If the text is no metric with a signed percentage; the sentence names the remedy.
    pub fn parse(text: &str) -> Result<Limit, String> {
        let wrong = || format!("`{text}` is no limit; write a metric and a signed change, such as p99_ttft_ms:+5%");
        let (metric, change) = text.rsplit_once(':').ok_or_else(wrong)?;
        let change = change.trim();
        let digits = change.strip_suffix('%').unwrap_or(change).trim();
        let percent: f64 = digits.parse().map_err(|_| wrong())?;
        let is_signed = digits.starts_with(['+', '-']) && percent != 0.0;
        match is_signed && percent.is_finite() && percent > -100.0 && !metric.trim().is_empty() {
            true => Ok(Limit {
                metric: metric.trim().to_owned(),
                percent,
            }),
            false => Err(wrong()),
        }
    }
}
