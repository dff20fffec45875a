//! Finds the position and size of a metric's change along an axis, given noisy measurements at some entries.
//!
//! The model: one level up to the change and another after it, a random walk of the node from start to start, and normal noise of unknown
//! size. Its weights are those of Bayesian linear regression with a normal-inverse-gamma prior (Gelman et al., Bayesian Data Analysis,
//! 3rd edition, sections 14.7 and 14.8), one regression for each place of the change, all of them equally likely beforehand.

use crate::stats::{Cholesky, Estimate, dot, student_two_sided};

/// One start of one entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StartObservation {
    pub entry: usize,
    /// The mean logarithm of its runs.
    pub log: f64,
    /// Its place among all starts, those that failed included.
    pub start: usize,
}

/// Noise of one start, runs included, before any is seen, and how many starts this belief is worth.
const NOISE: f64 = 0.02;
const BELIEF: f64 = 4.0;
/// The standard deviations of the change, and of the node's drift from one start to the next, in units of the noise. The change's is so wide
/// that it says next to nothing against the data.
const CHANGE: f64 = 10.0;
const STEP: f64 = 0.2;

/// Position and size of the change.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Posterior {
    /// For each entry but the last, the probability that the change comes right after it.
    pub after: Vec<f64>,
    /// The change of the logarithm.
    pub change: Estimate,
    /// Twice the probability that the change goes the other way: small where there surely is one.
    pub doubt: f64,
}

impl Posterior {
    /// Posterior over `entries` entries, at least two, given at least one observation, in the order of their starts.
    pub fn of(entries: usize, observations: &[StartObservation]) -> Posterior {
        let data = Whitened::of(observations);
        let is_observed = |entry: usize| observations.iter().any(|observation| observation.entry == entry);
        let mut fits: Vec<Fit> = Vec::with_capacity(entries - 1);
        for after in 0..entries - 1 {
            // Positions between the same observations cannot be distinguished.
            let like_before = fits.last().copied().filter(|_| !is_observed(after));
            fits.push(like_before.unwrap_or_else(|| data.fit(|entry| entry > after)));
        }
        let best = fits.iter().map(|fit| fit.log_weight).fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = fits.iter().map(|fit| (fit.log_weight - best).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let after: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        let mean = |value: &dyn Fn(&Fit) -> f64| fits.iter().zip(&after).map(|(fit, p)| p * value(fit)).sum::<f64>();
        let log = mean(&|fit| fit.change);
        let standard = mean(&|fit| fit.variance + (fit.change - log).powi(2)).sqrt();
        let below_zero = mean(&|fit| {
            let half = student_two_sided(fit.change / fit.variance.sqrt(), data.freedom) / 2.0;
            if fit.change > 0.0 { half } else { 1.0 - half }
        });
        Posterior {
            after,
            change: Estimate::new(log, standard, data.freedom),
            doubt: 2.0 * below_zero.min(1.0 - below_zero),
        }
    }
}

/// The regression for one place of the change.
#[derive(Debug, Clone, Copy)]
struct Fit {
    log_weight: f64,
    change: f64,
    variance: f64,
}

/// The observations, transformed so that their noise is independent, with the unknown level taken out.
struct Whitened {
    entries: Vec<usize>,
    /// Factor of the noise's covariance, in units of its variance.
    factor: Cholesky,
    /// A constant, of length one.
    level: Vec<f64>,
    logs: Vec<f64>,
    freedom: f64,
}

impl Whitened {
    fn of(observations: &[StartObservation]) -> Whitened {
        let covariance = |i: usize, j: usize| {
            let shared = observations[i].start.min(observations[j].start) as f64;
            STEP * STEP * shared + f64::from(u8::from(i == j))
        };
        let mut data = Whitened {
            entries: observations.iter().map(|observation| observation.entry).collect(),
            factor: Cholesky::of(observations.len(), covariance).expect("each has noise of its own"),
            level: Vec::new(),
            logs: Vec::new(),
            freedom: BELIEF + observations.len() as f64 - 1.0,
        };
        let level = data.factor.solve(|_| 1.0);
        let length = dot(&level, &level).sqrt();
        data.level = level.into_iter().map(|value| value / length).collect();
        // The first value is taken off beforehand: a large level would cost digits.
        data.logs = data.without_level(data.factor.solve(|i| observations[i].log - observations[0].log));
        data
    }

    fn without_level(&self, values: Vec<f64>) -> Vec<f64> {
        let share = dot(&self.level, &values);
        values
            .iter()
            .zip(&self.level)
            .map(|(value, level)| value - share * level)
            .collect()
    }

    fn fit(&self, is_behind: impl Fn(usize) -> bool) -> Fit {
        let side = self.without_level(self.factor.solve(|i| f64::from(u8::from(is_behind(self.entries[i])))));
        let precision = dot(&side, &side) + CHANGE.powi(-2);
        let product = dot(&side, &self.logs);
        let change = product / precision;
        let squares = BELIEF * NOISE * NOISE + (dot(&self.logs, &self.logs) - change * product).max(0.0);
        Fit {
            log_weight: -0.5 * precision.ln() - 0.5 * self.freedom * squares.ln(),
            change,
            variance: squares / self.freedom / precision,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn observations(all: &[(usize, f64, usize)]) -> Vec<StartObservation> {
        all.iter()
            .map(|(entry, log, start)| StartObservation {
                entry: *entry,
                log: *log,
                start: *start,
            })
            .collect()
    }

    #[test]
    fn as_a_multivariate_t_weighs_them() {
        // scipy 1.17.1: multivariate_t.logpdf of the differences of neighbours, which know no level, with BELIEF degrees of freedom and the shape
        // NOISE^2 D (covariance + CHANGE^2 s s') D'; the change's mean and variance by numpy's linear algebra.
        let data = [
            (0, 7.010, 0),
            (5, 6.951, 1),
            (5, 6.963, 2),
            (0, 7.002, 3),
            (2, 6.998, 4),
            (3, 6.961, 6),
        ];
        let found = Posterior::of(6, &observations(&data));
        let expected = [
            0.08454644114918443,
            0.08454644114918443,
            0.6877970925267876,
            0.07155501258742185,
            0.07155501258742185,
        ];
        for (found, expected) in found.after.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        assert!(
            (found.change.log - -0.042429892760766794).abs() < 1e-6,
            "{}",
            found.change.log
        );
        let standard = found.change.error.expect("known").standard;
        assert!((standard - 0.013508680685588715).abs() < 1e-6, "{standard}");
        assert!((found.doubt - 0.016088642723513846).abs() < 1e-6, "{}", found.doubt);
    }

    proptest! {
        #[test]
        fn probabilities_sum_to_one_and_a_new_scale_changes_nothing(
            data in prop::collection::vec((0usize..10, -0.1f64..0.1), 1..15), shift in -20.0f64..20.0,
        ) {
            let all: Vec<_> = data.iter().enumerate().map(|(start, (entry, log))| (*entry, *log, start)).collect();
            let moved: Vec<_> = all.iter().map(|(entry, log, start)| (*entry, log + shift, *start)).collect();
            let (found, moved) = (Posterior::of(10, &observations(&all)), Posterior::of(10, &observations(&moved)));
            prop_assert!((found.after.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            for (a, b) in found.after.iter().zip(&moved.after) {
                prop_assert!((a - b).abs() < 1e-6);
            }
            prop_assert!((0.0..=1.0).contains(&found.doubt));
        }
    }
}
