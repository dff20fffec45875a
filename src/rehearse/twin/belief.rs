//! Estimates constants from measured figures that depend on them linearly, by Bayesian least squares. The model has an error for each
//! server, which its runs share, and one for each figure. The sizes of both errors are estimated from the same figures: a grid of sizes is
//! weighted by the evidence (type-II maximum likelihood, Bishop 2006, section 3.5, but with all weights kept).

use super::constants::{CONSTANTS, COUNT, Vector};
use crate::stats::{Cholesky, dot};

/// Number of figures of a run.
pub const FIGURES: usize = 3;

/// Error of the model in the duration, TPOT and TTFT, as a multiple of its error in durations. The error of the TTFT is larger, because the
/// TTFT depends on the prompts that happen to share a step.
const SCALES: [f64; FIGURES] = [1.0, 1.0, 2.0];

/// Correlation between the model's errors for a server in figures of different kinds.
const BETWEEN_FIGURES: f64 = 0.5;

/// Sizes of the error of a server that are considered, as standard deviations of the logarithm of its figures.
const SHARED: [f64; 8] = [0.006, 0.012, 0.024, 0.048, 0.096, 0.192, 0.384, 0.768];
/// Sizes of the error of a single figure that are considered.
const OWN: [f64; 7] = [0.003, 0.006, 0.012, 0.024, 0.048, 0.096, 0.192];

/// Median of the log-normal prior of the error of a server. The model missed unseen configs of an H100 by 1 to 8 %.
const LIKELY_SHARED: f64 = 0.02;
/// Median of the log-normal prior of the error of a single figure.
const LIKELY_OWN: f64 = 0.008;
/// Standard deviation of the logarithm in both priors.
const SIZE_PRIOR: f64 = 0.4;

/// A measured figure, linearised around some constants.
#[derive(Debug, Clone)]
pub struct Row {
    /// Index of the server on which it was measured.
    pub server: usize,
    /// Index of the figure's kind, as in `SCALES`.
    pub figure: usize,
    /// Logarithm of the measured figure, minus the part of the modelled one that does not depend on the constants.
    pub value: f64,
    /// Derivatives of the logarithm of the modelled figure.
    pub slopes: Vector,
    /// Variance of the logarithm due to sampling.
    pub sampling: f64,
}

/// The belief about the constants.
#[derive(Debug, Clone, PartialEq)]
pub struct Belief {
    /// Likely logarithms of their factors.
    pub mean: Vector,
    /// Covariance of these logarithms.
    pub covariance: [Vector; COUNT],
    /// Variance of the model's error for a server, on the scale of logarithms.
    pub shared: f64,
    /// Variance of the model's additional error for a single figure.
    pub own: f64,
    /// Factor of both variances for each kind of figure.
    pub excess: [f64; FIGURES],
}

impl Belief {
    /// Returns the belief before anything was measured.
    pub fn prior() -> Belief {
        let mut covariance = [[0.0; COUNT]; COUNT];
        for (at, constant) in CONSTANTS.iter().enumerate() {
            covariance[at][at] = constant.prior.powi(2);
        }
        Belief {
            mean: [0.0; COUNT],
            covariance,
            shared: LIKELY_SHARED.powi(2),
            own: LIKELY_OWN.powi(2),
            excess: [1.0; FIGURES],
        }
    }

    /// Returns the belief after some figures were measured.
    pub fn after(rows: &[Row]) -> Belief {
        if rows.is_empty() {
            return Belief::prior();
        }
        let sizes = SHARED.iter().flat_map(|shared| OWN.iter().map(|own| (*shared, *own)));
        let weighed: Vec<(f64, Belief)> = sizes.filter_map(|(shared, own)| weigh(rows, shared, own)).collect();
        let most = weighed.iter().map(|(evidence, _)| *evidence).fold(f64::MIN, f64::max);
        let weights: Vec<f64> = weighed.iter().map(|(evidence, _)| (evidence - most).exp()).collect();
        let whole: f64 = weights.iter().sum();
        let mut sum = Belief {
            covariance: [[0.0; COUNT]; COUNT],
            shared: 0.0,
            own: 0.0,
            ..Belief::prior()
        };
        let shares = weights.iter().map(|weight| weight / whole);
        for (share, (_, belief)) in shares.zip(&weighed) {
            sum.shared += share * belief.shared;
            sum.own += share * belief.own;
            for at in 0..COUNT {
                sum.mean[at] += share * belief.mean[at];
                for other in 0..COUNT {
                    let product = belief.covariance[at][other] + belief.mean[at] * belief.mean[other];
                    sum.covariance[at][other] += share * product;
                }
            }
        }
        for at in 0..COUNT {
            for other in 0..COUNT {
                sum.covariance[at][other] -= sum.mean[at] * sum.mean[other];
            }
        }
        sum
    }

    /// Returns the standard deviation of the logarithm of one constant.
    pub fn deviation(&self, constant: usize) -> f64 {
        self.covariance[constant][constant].max(0.0).sqrt()
    }

    /// Returns the variance of a figure of an unseen server that is due to the uncertainty of the constants.
    pub fn variance(&self, slopes: &Vector) -> f64 {
        let rows = self.covariance.iter().zip(slopes);
        rows.map(|(row, slope)| slope * dot(row, slopes)).sum::<f64>().max(0.0)
    }

    /// Returns the variance of a figure of an unseen server that is due to the errors of the model.
    pub fn model_variance(&self, figure: usize) -> f64 {
        self.excess[figure] * SCALES[figure].powi(2) * (self.shared + self.own)
    }
}

/// Returns the logarithm of the evidence for these sizes of errors times their prior density, up to a constant, and the belief under these
/// sizes; `None` if the figures are not finite.
fn weigh(rows: &[Row], shared: f64, own: f64) -> Option<(f64, Belief)> {
    let prior = CONSTANTS.map(|constant| constant.prior.powi(2));
    let covariance = |at: usize, other: usize| {
        let (a, b) = (&rows[at], &rows[other]);
        let slopes = a.slopes.iter().zip(&b.slopes).zip(&prior);
        let constants: f64 = slopes.map(|((a, b), prior)| a * b * prior).sum();
        let alike = if a.figure == b.figure { 1.0 } else { BETWEEN_FIGURES };
        let in_common = match a.server == b.server {
            true => alike * SCALES[a.figure] * SCALES[b.figure] * shared.powi(2),
            false => 0.0,
        };
        let alone = match at == other {
            true => (SCALES[a.figure] * own).powi(2) + a.sampling,
            false => 0.0,
        };
        constants + in_common + alone
    };
    let factor = Cholesky::of(rows.len(), covariance)?;
    let values = factor.solve(|at| rows[at].value);
    let from_likely = |size: f64, likely: f64| ((size / likely).ln() / SIZE_PRIOR).powi(2);
    let surprise = dot(&values, &values)
        + 2.0 * factor.ln_diagonal()
        + from_likely(shared, LIKELY_SHARED)
        + from_likely(own, LIKELY_OWN);
    let gains: Vec<Vec<f64>> = (0..COUNT)
        .map(|constant| factor.solve(|at| rows[at].slopes[constant] * prior[constant]))
        .collect();
    let mut belief = Belief {
        shared: shared.powi(2),
        own: own.powi(2),
        ..Belief::prior()
    };
    for (at, (gain, prior)) in gains.iter().zip(prior).enumerate() {
        belief.mean[at] = dot(gain, &values);
        for (other, of_other) in gains.iter().enumerate() {
            let before = if at == other { prior } else { 0.0 };
            belief.covariance[at][other] = before - dot(gain, of_other);
        }
    }
    surprise.is_finite().then_some((-0.5 * surprise, belief))
}
