//! Decides when a run is repeated often enough, and predicts how many more starts or pairs would decide a comparison, if the current
//! estimate were the truth.

use super::distribution::{level_of_look, normal_quantile, student_quantile};
use super::estimate::{Estimate, Interval};
use super::ratio::{ALPHA, Bound, Margin};
use serde::{Deserialize, Serialize};

/// Construction of intervals from a number of units, which are starts or pairs of starts.
pub(crate) struct IntervalRule {
    /// The probability that an interval misses the truth.
    pub alpha: f64,
    /// Like `alpha`, for an interval that must lie within the margin.
    pub alpha_same: f64,
    /// Degrees of freedom by the number of units.
    pub freedom: fn(usize) -> f64,
}

/// Maximum number of units that a prediction considers, including those at hand.
const MOST: usize = 1000;
/// Probability that the predicted number is too small, if the estimate is the truth.
const RISK: f64 = 0.2;

/// Returns the number of units beyond those at hand, `have`, that would decide in four of five cases, if the logarithm of the ratio were
/// `log`. Without a bound, the decision is that the ratio differs from 1, or that it lies within the margin; with a bound, on which side of
/// the bound it lies. One unit has the standard deviation `sd`. `None` if [`MOST`] units would not suffice.
pub(crate) fn more_units(
    (margin, bound): (Margin, Option<Bound>),
    log: f64,
    sd: f64,
    have: usize,
    rule: &IntervalRule,
) -> Option<usize> {
    let one_sided = normal_quantile(RISK);
    let two_sided = normal_quantile(RISK / 2.0);
    let decides = |units: &usize| {
        let standard = sd / (*units as f64).sqrt();
        let half = |alpha: f64| student_quantile(alpha, (rule.freedom)(*units));
        let reach = (half(rule.alpha) + one_sided) * standard;
        match bound {
            None => {
                let within = log.abs() + (half(rule.alpha_same) + two_sided) * standard;
                log.abs() >= reach || within <= margin.log
            }
            Some(bound) => (log - bound.log).abs() >= reach,
        }
    };
    (have + 1..=MOST).find(decides).map(|units| units - have)
}

/// Returns the number of starts of each side, beyond the `have` starts of the smaller side, that would decide a comparison by 95 %
/// intervals in four of five cases, if the estimate were the truth. `standard` is the present standard deviation of the logarithm of the
/// ratio, by a model that knows the noise. `None` if 1000 starts would not suffice.
pub fn more_starts(margin: Margin, log: f64, standard: f64, have: usize) -> Option<usize> {
    let rule = IntervalRule {
        alpha: ALPHA,
        alpha_same: ALPHA,
        freedom: |_| f64::from(u16::MAX),
    };
    more_units((margin, None), log, standard * (have as f64).sqrt(), have, &rule)
}

/// The rule by which a run is repeated until its interval is narrow: `runs = { min, max, metric, until = "3 %" }`. The interval is about
/// the runs of this start only, not about other starts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Repeats {
    /// Fewest runs; at least two are needed for an interval.
    pub min: usize,
    /// Most runs.
    pub max: usize,
    /// Greatest half-width of the interval, as a ratio to the mean: 0.03 for 3 %.
    pub until: f64,
}

impl Repeats {
    /// Returns true if the runs so far are enough: the interval is narrow, or no more runs are allowed.
    pub fn is_enough(self, values: &[f64]) -> bool {
        values.len() >= self.max || (values.len() >= self.min && self.is_narrow(values))
    }

    /// Returns true if the interval of some runs is as narrow as requested.
    pub fn is_narrow(self, values: &[f64]) -> bool {
        let is_narrow = |interval: Interval| (interval.high - interval.low) / 2.0 <= self.until.ln_1p();
        self.interval(values).is_some_and(is_narrow)
    }

    /// Returns the 95 % interval of the mean logarithm of this start's runs, which is valid at any number of looks. `None` if a value has
    /// no logarithm, or there are fewer than two runs.
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_clearer_case_needs_no_more(log in 0.0f64..0.1, sd in 0.001f64..0.05, have in 2usize..10) {
            let rule = IntervalRule { alpha: 0.05, alpha_same: 0.05, freedom: |n: usize| 2.0 * n as f64 - 2.0 };
            let question = (Margin::percent(3.0), Some(Bound::percent(-5.0)));
            let more = |log: f64, sd: f64| more_units(question, log, sd, have, &rule).unwrap_or(MOST);
            prop_assert!(more(log, sd) <= more(log, 1.5 * sd));
            prop_assert!(more(log + 0.05, sd) <= more(log, sd));
            prop_assert!(more(log, sd) >= 1);
        }
    }
}

#[cfg(test)]
mod repeats_tests {
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
