//! The distributions that intervals and tests need, from `statrs`, but without its panics and errors. Tests compare their values with those
//! of scipy (`tests/data/distributions.csv`).

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Returns the value that a standard normal variable exceeds with probability `tail`, 0 to 1.
pub fn normal_quantile(tail: f64) -> f64 {
    -Normal::standard().inverse_cdf(tail)
}

/// Returns the value that Student's t exceeds in absolute value with probability `alpha`: the half-width, in standard errors, of an
/// interval with confidence `1 - alpha`. Infinite below one degree of freedom, where `statrs` 0.19.1 is wrong by half in the far tail.
pub fn student_quantile(alpha: f64, freedom: f64) -> f64 {
    student(freedom).map_or(f64::INFINITY, |student| -student.inverse_cdf(alpha / 2.0))
}

/// Returns the probability that Student's t is at least as far from zero as `t`; 1 below one degree of freedom.
pub fn student_two_sided(t: f64, freedom: f64) -> f64 {
    student(freedom).map_or(1.0, |student| 2.0 * student.cdf(-t.abs()))
}

fn student(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom).ok().filter(|_| freedom >= 1.0)
}

/// Returns the p-values of a family of tests after Holm's correction (1979), in the order given. If a test raises an alarm when its
/// corrected value is at most `alpha`, the probability of any false alarm in the family is at most `alpha`.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut greatest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        let remaining = (p_values.len() - rank) as f64;
        greatest = greatest.max(remaining * p_values[index]).min(1.0);
        adjusted[index] = greatest;
    }
    adjusted
}

// The correction for looking at growing data repeatedly, and stopping at the first significant look.
//
// Each look tests at the same nominal level (Pocock 1977), applied to the p-value of Student's t (Jennison and Turnbull 2000, section 4.4).
// The probability that any of the looks is a false alarm comes from a formula that was fitted to simulations. It grows with the logarithm
// of the ratio of the last number of values to the first, as in the law of the iterated logarithm. With the total confidence, the intervals
// at the nominal level contain the truth at all looks at once, whichever look is the last (repeated confidence intervals, Jennison and
// Turnbull 1989).

/// Growth of the probability of a false alarm with the logarithm of the number of values, in [`inflation`]. Both constants were fitted to
/// simulations of t, over plain values and over pairs with a block effect: 300 000 series for each of 70 pairs of a first and a last look.
/// Then they were raised by a twentieth. The true probability is 0.67 to 1.05 times that of the formula, and 0.9 to 1 times for pairs from
/// the fourth on.
const GROWTH: f64 = 0.53;
/// Additional growth for each factor of e by which the level is smaller.
const GROWTH_BY_RARITY: f64 = 0.59;

/// Returns the level of each look with which the probability of any false alarm is `total`, a small probability above 0. There is a look
/// at each number of values from `first`, at least 1, to `last`.
pub(crate) fn level_of_look(first: usize, last: usize, total: f64) -> f64 {
    // The inflation depends only on the logarithm of the level, so this converges within a few steps.
    (0..50).fold(total, |level, _| total / inflation(first, last, level))
}

/// Returns the probability of any false alarm, divided by the level of each look.
fn inflation(first: usize, last: usize, level: f64) -> f64 {
    let span = (last.max(first) as f64 / first as f64).ln();
    1.0 + (GROWTH - GROWTH_BY_RARITY * level.ln()) * span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_scipy_has_them() {
        let vectors = include_str!("../../tests/data/distributions.csv");
        let mut seen = 0;
        for line in vectors.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |i: usize| fields[i].parse::<f64>().unwrap_or(f64::NAN);
            let found = match fields[0] {
                "normal_quantile" => normal_quantile(number(1)),
                "student_quantile" => student_quantile(number(1), number(2)),
                "student_two_sided" => student_two_sided(number(1), number(2)),
                other => panic!("{other}"),
            };
            let expected = number(4);
            let scale = expected.abs().max(f64::MIN_POSITIVE);
            assert!((found - expected).abs() / scale < 1e-7, "{line}: {found}");
            seen += 1;
        }
        assert_eq!(seen, 140);
    }

    #[test]
    fn without_freedom_nothing_is_known() {
        assert_eq!(student_quantile(0.05, 0.9), f64::INFINITY);
        assert_eq!(student_two_sided(100.0, 0.0), 1.0);
    }
}

#[cfg(test)]
mod holm_tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_statsmodels_adjusts() {
        // statsmodels 0.15.0: multipletests([0.01, 0.04, 0.03, 0.005, 0.6], method="holm")[1]
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005, 0.6]);
        for (found, expected) in adjusted.iter().zip([0.04, 0.09, 0.09, 0.025, 0.6]) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(holm(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn an_adjusted_value_is_no_smaller_and_keeps_the_order(p_values in prop::collection::vec(0.0f64..=1.0, 1..10)) {
            let adjusted = holm(&p_values);
            for (i, p) in p_values.iter().enumerate() {
                prop_assert!(adjusted[i] >= *p && adjusted[i] <= 1.0);
                for (j, q) in p_values.iter().enumerate() {
                    prop_assert!(p > q || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}

#[cfg(test)]
mod looks_tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_single_look_costs_nothing() {
        assert_eq!(level_of_look(7, 7, 0.05), 0.05);
        assert_eq!(inflation(7, 7, 0.05), 1.0);
    }

    proptest! {
        #[test]
        fn total_and_nominal_are_inverse_and_looks_cost(total in 1e-5f64..0.1, first in 2usize..20, more in 1usize..100) {
            let last = first + more;
            let nominal = level_of_look(first, last, total);
            prop_assert!((nominal * inflation(first, last, nominal) / total - 1.0).abs() < 1e-6);
            prop_assert!(nominal < total);
            prop_assert!(level_of_look(first, last + 1, total) < nominal);
        }
    }
}
