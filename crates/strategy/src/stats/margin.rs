//! The greatest change that does not matter, and the greatest that a requirement allows.

use super::estimate::{Estimate, Interval};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A change that is too small to matter, the same in both directions on the logarithmic scale.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Margin {
    /// The largest logarithm of a ratio that does not matter.
    pub log: f64,
}

impl Margin {
    /// 3 %: twice a typical start-to-start effect.
    pub const TYPICAL_PERCENT: f64 = 3.0;

    /// A margin of so many percent, above 0.
    pub fn percent(percent: f64) -> Margin {
        Margin::relative(percent / 100.0)
    }

    /// A margin of a relative change, 0.03 for 3 %.
    pub fn relative(change: f64) -> Margin {
        Margin { log: change.ln_1p() }
    }

    /// Returns true if the whole interval is too small to matter.
    pub fn holds(self, interval: Interval) -> bool {
        -self.log <= interval.low && interval.high <= self.log
    }
}

/// The changes that do not matter, in percent, metric by metric.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Margins {
    /// The one that somebody stated, for every metric.
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

/// A ratio that must not be passed: `+5 %` from below, `-5 %` from above.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The logarithm of the ratio.
    pub log: f64,
    /// True if ratios above the bound are forbidden.
    pub is_upper: bool,
}

/// Result of a requirement. Ordered: the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requirement {
    /// The ratio's interval lies on the allowed side of the bound.
    Met,
    /// It holds the bound, or is known too little.
    Undecided,
    /// It lies on the forbidden side, also after Holm's correction.
    Broken,
}

impl Bound {
    /// `+5` forbids ratios above 1.05, `-5` those below 0.95. More than -100.
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

    /// Judges the requirement by a whole interval.
    pub(crate) fn judge(self, interval: Interval) -> Requirement {
        match (self.excess(interval.low), self.excess(interval.high)) {
            (low, high) if low < 0.0 && high < 0.0 => Requirement::Met,
            (low, high) if low > 0.0 && high > 0.0 => Requirement::Broken,
            _ => Requirement::Undecided,
        }
    }

    /// The p-value against the bound being kept: small where the estimate is clearly beyond it.
    pub(crate) fn p_value(self, ratio: Estimate) -> f64 {
        let p_value = ratio.p_value(self.log).filter(|_| self.excess(ratio.log) > 0.0);
        p_value.unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_against_the_bound_decides() {
        let upper = Bound::percent(5.0);
        let ratio = |percent: f64| Estimate::new((percent / 100.0).ln_1p(), 0.01, 4.0);
        let judge = |percent: f64, bound: Bound| bound.judge(ratio(percent).interval(0.05).expect("a known error"));
        assert_eq!(judge(10.0, upper), Requirement::Broken);
        assert_eq!(judge(6.0, upper), Requirement::Undecided);
        assert_eq!(judge(1.0, upper), Requirement::Met);
        assert_eq!(judge(-10.0, Bound::percent(-5.0)), Requirement::Broken);
    }
}
