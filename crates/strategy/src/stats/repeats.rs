//! When to stop repeating a run: `runs = { min, max, metric, until = "3 %" }`. The interval is one over the runs of this start; what
//! another start would show, it does not say.

use super::estimate::{Estimate, Interval};
use super::looks::Looks;
use serde::{Deserialize, Serialize};

/// The rule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Repeats {
    /// At least this many runs, and never fewer than two.
    pub min: usize,
    /// At most this many.
    pub max: usize,
    /// How far the interval may reach to either side of the mean, as a ratio: 0.03 for 3 %.
    pub until: f64,
}

/// What the runs so far ask for. An interval holds the mean of this start's runs in 95 of 100 cases, however often it was looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Repeat {
    /// Another run.
    Again,
    /// Narrow enough.
    Enough(Interval),
    /// As many runs as allowed, and not narrow enough. None where a value has no logarithm or there is one run.
    Spent(Option<Interval>),
}

impl Repeats {
    /// Looks at the values of the runs so far.
    pub fn look(self, values: &[f64]) -> Repeat {
        let interval = self.interval(values);
        match interval {
            Some(interval) if values.len() >= self.min && self.is_narrow(interval) => Repeat::Enough(interval),
            _ if values.len() >= self.max => Repeat::Spent(interval),
            _ => Repeat::Again,
        }
    }

    fn is_narrow(self, interval: Interval) -> bool {
        (interval.high - interval.low) / 2.0 <= self.until.ln_1p()
    }

    fn interval(self, values: &[f64]) -> Option<Interval> {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        if logs.len() < 2 || logs.iter().any(|log| !log.is_finite()) {
            return None;
        }
        let looks = Looks {
            first: self.min.max(2),
            last: self.max,
        };
        Estimate::of_mean(&logs).interval(looks.nominal(super::ratio::ALPHA))
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
        assert_eq!(RULE.look(&[100.0, 100.1]), Repeat::Again);
        assert!(matches!(RULE.look(&[100.0, 100.1, 99.9]), Repeat::Enough(interval) if interval.contains(100f64.ln())));
        let wild = [100.0, 120.0, 90.0, 130.0, 80.0, 100.0];
        assert_eq!(RULE.look(&wild[..5]), Repeat::Again);
        assert!(matches!(RULE.look(&wild), Repeat::Spent(Some(_))));
        assert_eq!(RULE.look(&[0.0; 6]), Repeat::Spent(None));
    }

    #[test]
    fn a_run_that_is_the_only_one_allowed_has_no_interval() {
        assert_eq!(
            Repeats {
                min: 1,
                max: 1,
                until: 0.03
            }
            .look(&[5.0]),
            Repeat::Spent(None)
        );
    }
}
