//! The greatest change that does not matter.

use super::Interval;
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
