//! Stops repeating a run when its interval is narrow: `runs = { min, max, metric, until = "3 %" }`. The interval covers the runs of this
//! start only, not other starts.

use super::estimate::{Estimate, Interval};
use super::looks::level_of_look;
use serde::{Deserialize, Serialize};

/// The rule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Repeats {
    /// At least this many runs, and never fewer than two.
    pub min: usize,
    /// At most this many.
    pub max: usize,
    /// Greatest reach of the interval to either side of the mean, as a ratio: 0.03 for 3 %.
    pub until: f64,
}

impl Repeats {
    /// Returns true if the runs so far are enough: the interval is narrow, or no more runs are allowed.
    pub fn is_enough(self, values: &[f64]) -> bool {
        let is_narrow = |interval: Interval| (interval.high - interval.low) / 2.0 <= self.until.ln_1p();
        values.len() >= self.max || (values.len() >= self.min && self.interval(values).is_some_and(is_narrow))
    }

    /// The interval that holds the mean of this start's runs in 95 of 100 cases, however often it was looked at. None where a value has no
    /// logarithm or there is one run.
    pub fn interval(self, values: &[f64]) -> Option<Interval> {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        if logs.len() < 2 || logs.iter().any(|log| !log.is_finite()) {
            return None;
        }
        Estimate::of_mean(&logs).interval(level_of_look(self.min.max(2), self.max, super::ratio::ALPHA))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Repeats = Repeats {
        min: 3,
        max: 6,
        until: 0.03,
    };

    #[test]
    fn stops_when_narrow_and_at_the_limit() {
        assert!(!RULE.is_enough(&[100.0, 100.1]));
        let narrow = [100.0, 100.1, 99.9];
        let interval = RULE.interval(&narrow).expect("known");
        assert!(RULE.is_enough(&narrow) && interval.contains(100f64.ln()));
        let wild = [100.0, 120.0, 90.0, 130.0, 80.0, 100.0];
        assert!(!RULE.is_enough(&wild[..5]));
        assert!(RULE.is_enough(&wild) && RULE.interval(&wild).is_some());
        assert!(RULE.is_enough(&[0.0; 6]) && RULE.interval(&[0.0; 6]).is_none());
    }

    #[test]
    fn a_run_that_is_the_only_one_allowed_has_no_interval() {
        let one = Repeats {
            min: 1,
            max: 1,
            until: 0.03,
        };
        assert!(one.is_enough(&[5.0]) && one.interval(&[5.0]).is_none());
    }
}
