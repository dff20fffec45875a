//! The good direction of a metric, and the verdict of a ratio against a margin.

use super::class::split_class;
use super::estimate::Interval;
use super::margin::Margin;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// The better direction of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Latencies.
    Lower,
    /// Throughputs.
    Higher,
}

impl Better {
    /// The good direction of a metric, by its name: times, failures, powers and costs are better low, rates, goodput and attainments high.
    /// None of a name that says nothing.
    pub fn by_name(metric: &str) -> Option<Better> {
        let (_, metric) = split_class(metric);
        let is_low = metric.ends_with("_ms")
            || metric.ends_with("_time")
            || ["duration", "failed", "gpu_count"].contains(&metric)
            || ["latency", "power", "joule", "cost", "preempt", "startup", "compilation"]
                .iter()
                .any(|word| metric.contains(word));
        let is_high = ["throughput", "goodput", "tokens_per_", "attainment", "completed"]
            .iter()
            .any(|word| metric.contains(word));
        match (is_low, is_high) {
            (true, _) => Some(Better::Lower),
            (false, true) => Some(Better::Higher),
            (false, false) => None,
        }
    }

    /// The order of two values, the better one first.
    pub fn order(self, one: f64, other: f64) -> Ordering {
        match self {
            Better::Higher => other.total_cmp(&one),
            Better::Lower => one.total_cmp(&other),
        }
    }

    /// True if one value is better than another.
    pub fn prefers(self, one: f64, other: f64) -> bool {
        match self {
            Better::Higher => one > other,
            Better::Lower => one < other,
        }
    }

    /// The best of some values; of equal ones the first.
    pub fn best(self, values: impl IntoIterator<Item = f64>) -> Option<f64> {
        let better = |one: f64, other: f64| if self.prefers(other, one) { other } else { one };
        values.into_iter().reduce(better)
    }

    /// A value as a share of the best one, at most 1.
    pub fn share(self, own: f64, best: f64) -> f64 {
        let share = match self {
            Better::Higher => own / best,
            Better::Lower => best / own,
        };
        if share.is_finite() { share.min(1.0) } else { 1.0 }
    }

    /// The worst value there is.
    pub fn worst(self) -> f64 {
        match self {
            Better::Higher => f64::NEG_INFINITY,
            Better::Lower => f64::INFINITY,
        }
    }
}

impl fmt::Display for Better {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Better::Higher => "higher",
            Better::Lower => "lower",
        })
    }
}

/// Verdict of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval lies on the better side of no change.
    Improved,
    /// It lies on the worse side.
    Regressed,
    /// It lies within the margin.
    Same,
    /// It does neither: there are too few starts.
    Undecided,
}

impl Verdict {
    /// Judges a ratio's interval. An interval within the margin is `same` even if it excludes no change: a change within the margin does
    /// not matter.
    pub fn of(interval: Interval, margin: Margin, better: Better) -> Verdict {
        if margin.holds(interval) {
            Verdict::Same
        } else if interval.contains(0.0) {
            Verdict::Undecided
        } else if (interval.low > 0.0) == (better == Better::Higher) {
            Verdict::Improved
        } else {
            Verdict::Regressed
        }
    }
}

/// The chance that an interval misses the truth.
pub const ALPHA: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn to_swap_the_sides_or_the_direction_swaps_the_verdict(
            middle in -0.1f64..0.1, half in 0.0f64..0.1, percent in 0.5f64..10.0,
        ) {
            let margin = Margin::percent(percent);
            let interval = Interval { low: middle - half, high: middle + half };
            let back = Interval { low: -interval.high, high: -interval.low };
            let swapped = match Verdict::of(interval, margin, Better::Higher) {
                Verdict::Improved => Verdict::Regressed,
                Verdict::Regressed => Verdict::Improved,
                other => other,
            };
            prop_assert_eq!(Verdict::of(back, margin, Better::Higher), swapped);
            prop_assert_eq!(Verdict::of(interval, margin, Better::Lower), swapped);
        }
    }
}
