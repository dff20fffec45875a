//! Predicts how many more starts or pairs would decide, if the current estimate were the truth.

use super::bound::Bound;
use super::distribution::{normal_quantile, student_quantile};
use super::margin::Margin;
use super::ratio::ALPHA;

/// Construction of intervals from a number of units.
pub(crate) struct IntervalRule {
    /// The chance that an interval misses.
    pub alpha: f64,
    /// Chance that an interval misses if it must lie within the margin.
    pub alpha_same: f64,
    /// Degrees of freedom of so many units.
    pub freedom: fn(usize) -> f64,
}

/// More units than this are as good as never.
const MOST: usize = 1000;
/// Probability that the predicted number is too small, if the estimate is the truth.
const RISK: f64 = 0.2;

/// The units beyond those at hand, `have`, after which it would be known in four of five cases of a ratio with estimate `log` whether it
/// differs from one or only by less than the margin, or on which side of the bound it lies if there is one. One unit scatters by `sd`.
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

/// The starts a side, beyond those of the smaller side, after which a comparison by 95 % intervals would be decided in four of five cases if the
/// estimate were the truth. `standard` is the deviation of the logarithm of the ratio now, by a model that knows the noise.
pub fn more_starts(margin: Margin, log: f64, standard: f64, have: usize) -> Option<usize> {
    let rule = IntervalRule {
        alpha: ALPHA,
        alpha_same: ALPHA,
        freedom: |_| f64::from(u16::MAX),
    };
    more_units((margin, None), log, standard * (have as f64).sqrt(), have, &rule)
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
