//! The better direction of a metric, the verdict on a ratio by its interval and a margin, and the result of a requirement on a ratio.

use super::class::split_class;
use super::estimate::{Estimate, Interval};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The better direction of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Lower is better, as for latencies.
    Lower,
    /// Higher is better, as for throughputs.
    Higher,
}

/// Words in the names of metrics of which less is better.
const LOW: [&str; 10] = [
    "latency",
    "power",
    "joule",
    "cost",
    "preempt",
    "startup",
    "compilation",
    "waiting",
    "temperature",
    "throttled",
];

impl Better {
    /// The better direction of a metric, by its name. Lower is better for times, failures, queues, power, heat, memory and costs; higher is
    /// better for throughputs, goodput and attainments. `None` if the name does not say.
    pub fn by_name(metric: &str) -> Option<Better> {
        let (_, metric) = split_class(metric);
        let is_low = metric.ends_with("_ms")
            || metric.ends_with("_time")
            || metric.ends_with("_failed")
            || metric.contains("memory_gib")
            || ["duration", "failed", "gpu_count"].contains(&metric)
            || LOW.iter().any(|word| metric.contains(word));
        let is_high = ["throughput", "goodput", "tokens_per_", "attainment", "completed"]
            .iter()
            .any(|word| metric.contains(word));
        match (is_low, is_high) {
            (true, _) => Some(Better::Lower),
            (false, true) => Some(Better::Higher),
            (false, false) => None,
        }
    }

    /// True if one value is better than another.
    pub fn prefers(self, one: f64, other: f64) -> bool {
        match self {
            Better::Higher => one > other,
            Better::Lower => one < other,
        }
    }

    /// The best of some values; the first of equal ones.
    pub fn best(self, values: impl IntoIterator<Item = f64>) -> Option<f64> {
        let better = |one: f64, other: f64| if self.prefers(other, one) { other } else { one };
        values.into_iter().reduce(better)
    }

    /// A value as a share of the best one, at most 1; the inverse of their ratio if lower is better. 1 if the share is not finite.
    pub fn share(self, own: f64, best: f64) -> f64 {
        let share = match self {
            Better::Higher => own / best,
            Better::Lower => best / own,
        };
        if share.is_finite() { share.min(1.0) } else { 1.0 }
    }

    /// The value that every finite one is better than.
    pub fn worst(self) -> f64 {
        match self {
            Better::Higher => f64::NEG_INFINITY,
            Better::Lower => f64::INFINITY,
        }
    }
}

impl fmt::Display for Better {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The verdict of a comparison of two values, by the interval of their ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval lies on the better side of a ratio of 1.
    Improved,
    /// The interval lies on the worse side of a ratio of 1.
    Regressed,
    /// The interval lies within the margin.
    Same,
    /// The interval contains a ratio of 1 and exceeds the margin: more starts are needed.
    Undecided,
}

impl Verdict {
    /// Judges the interval of a ratio's logarithm. An interval within the margin is `Same` even if it does not contain 0, because a change
    /// within the margin does not matter.
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

/// The probability that an interval does not contain the true value.
pub const ALPHA: f64 = 0.05;

/// The largest change that does not matter, equal in both directions on the logarithmic scale.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Margin {
    /// The largest logarithm of a ratio that does not matter.
    pub log: f64,
}

impl Margin {
    /// Default margin in percent: twice a typical effect of a start.
    pub const TYPICAL_PERCENT: f64 = 3.0;

    /// A margin in percent, which must be above 0.
    pub fn percent(percent: f64) -> Margin {
        Margin::relative(percent / 100.0)
    }

    /// A margin from a relative change: 0.03 for 3 %.
    pub fn relative(change: f64) -> Margin {
        Margin { log: change.ln_1p() }
    }

    /// Returns true if an interval of logarithms lies within the margin.
    pub fn holds(self, interval: Interval) -> bool {
        -self.log <= interval.low && interval.high <= self.log
    }
}

/// The margin of each metric, in percent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Margins {
    /// The margin that the user gave, which applies to every metric.
    pub stated: Option<f64>,
    /// Margins from the machine's own noise, by metric.
    pub own: BTreeMap<String, f64>,
}

impl Margins {
    /// Margin of a metric, in percent.
    pub fn percent_of(&self, metric: &str) -> f64 {
        let own = || self.own.get(metric).copied();
        self.stated.or_else(own).unwrap_or(Margin::TYPICAL_PERCENT)
    }
}

/// A bound of a ratio: `+5 %` is the highest change that is allowed, `-5 %` the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The logarithm of the ratio at the bound.
    pub log: f64,
    /// True if ratios above the bound are forbidden.
    pub is_upper: bool,
}

/// Result of a requirement, in ascending order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequirementVerdict {
    /// The ratio's interval lies on the allowed side of the bound.
    Met,
    /// The interval contains the bound, or lies beyond it without being significant after Holm's correction.
    Undecided,
    /// The interval lies on the forbidden side, and the excess is significant after Holm's correction.
    Broken,
}

impl Bound {
    /// `+5` forbids ratios above 1.05, `-5` those below 0.95. `percent` must be above -100.
    pub fn percent(percent: f64) -> Bound {
        Bound {
            log: (percent / 100.0).ln_1p(),
            is_upper: percent >= 0.0,
        }
    }

    /// Distance of a logarithm beyond the bound; negative on the allowed side.
    fn excess(self, log: f64) -> f64 {
        if self.is_upper { log - self.log } else { self.log - log }
    }

    /// Judges the requirement by an interval of logarithms, without Holm's correction.
    pub(crate) fn judge(self, interval: Interval) -> RequirementVerdict {
        match (self.excess(interval.low), self.excess(interval.high)) {
            (low, high) if low < 0.0 && high < 0.0 => RequirementVerdict::Met,
            (low, high) if low > 0.0 && high > 0.0 => RequirementVerdict::Broken,
            _ => RequirementVerdict::Undecided,
        }
    }

    /// The p-value of the hypothesis that the bound is kept. It is 1 for an estimate on the allowed side.
    pub(crate) fn p_value(self, ratio: Estimate) -> f64 {
        let p_value = ratio.p_value(self.log).filter(|_| self.excess(ratio.log) > 0.0);
        p_value.unwrap_or(1.0)
    }
}

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

#[cfg(test)]
mod margin_tests {
    use super::*;

    #[test]
    fn names_say_the_better_direction_or_nothing() {
        for metric in [
            "waiting_mean",
            "conversations_failed",
            "gpu_memory_gib_max",
            "gpu_throttled_share",
        ] {
            assert_eq!(Better::by_name(metric), Some(Better::Lower), "{metric}");
        }
        for metric in ["gpu_memory_clock_mhz_mean", "accept_length"] {
            assert_eq!(Better::by_name(metric), None, "{metric}");
        }
    }

    #[test]
    fn the_interval_against_the_bound_decides() {
        let upper = Bound::percent(5.0);
        let ratio = |percent: f64| Estimate::new((percent / 100.0).ln_1p(), 0.01, 4.0);
        let judge = |percent: f64, bound: Bound| bound.judge(ratio(percent).interval(0.05).expect("a known error"));
        assert_eq!(judge(10.0, upper), RequirementVerdict::Broken);
        assert_eq!(judge(6.0, upper), RequirementVerdict::Undecided);
        assert_eq!(judge(1.0, upper), RequirementVerdict::Met);
        assert_eq!(judge(-10.0, Bound::percent(-5.0)), RequirementVerdict::Broken);
    }
}
