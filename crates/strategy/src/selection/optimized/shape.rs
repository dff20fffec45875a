//! The covariance of the values of two candidates: effects of each axis, of pairs of axes, and of all axes together.

use super::space::Space;

/// The sizes of effects: logarithms of standard deviations, weights and lengths, so that equal steps are equal factors.
#[derive(Debug, Clone)]
pub(super) struct Shape(Vec<f64>);

/// Position of the signal: the size of the effects of single axes.
const SIGNAL: usize = 0;
/// Position of the size of the effects of pairs of axes, relative to the signal.
const PAIRS: usize = 1;
/// Position of the size of the effects of all axes together, relative to the signal.
const LOCAL: usize = 2;
/// Position of the size of the effect that belongs to a candidate alone.
const OWN: usize = 3;
/// Position of the standard deviation between starts of a candidate.
const START: usize = 4;
/// Number of these sizes. The weight of each axis follows, then the length of each axis.
const COMMON: usize = 5;

// Priors of sizes: mean and standard deviation of the logarithm.
const PAIRS_PRIOR: (f64, f64) = (-0.8, 1.0);
const LOCAL_PRIOR: (f64, f64) = (-2.0, 1.0);
const OWN_PRIOR: (f64, f64) = (-4.6, 1.0);
const WEIGHT_PRIOR: (f64, f64) = (0.0, 1.0);
const LENGTH_PRIOR: (f64, f64) = (0.0, 0.6);
/// Prior standard deviation of the logarithm of the signal.
const SIGNAL_SPREAD: f64 = 0.7;
/// Scale of the half-normal prior of the standard deviation between starts.
const START_SD: f64 = 0.02;
/// Amount by which the logarithms of lengths are larger for a value that changes steadily.
const STEADY: f64 = 1.25;
/// Variance of the common level, around the mean of what was measured.
pub(super) const LEVEL_VARIANCE: f64 = 0.25;

impl Shape {
    /// Returns the shape before anything was measured, with effects of size `signal`.
    pub(super) fn prior(space: &Space, signal: f64) -> Shape {
        let common = [
            signal.ln(),
            PAIRS_PRIOR.0,
            LOCAL_PRIOR.0,
            OWN_PRIOR.0,
            START_SD.ln() - 0.5,
        ];
        let weights = (0..space.len()).map(|_| WEIGHT_PRIOR.0);
        let lengths = (0..space.len()).map(|_| LENGTH_PRIOR.0);
        Shape(common.into_iter().chain(weights).chain(lengths).collect())
    }

    /// Returns the prior shape of a value that changes steadily along ordered axes, such as the need of memory.
    pub(super) fn steady(space: &Space, signal: f64) -> Shape {
        let mut shape = Shape::prior(space, signal);
        shape.0[PAIRS] -= 1.0;
        shape.0[LOCAL] -= 1.0;
        let lengths = COMMON + space.len();
        shape.0[lengths..].iter_mut().for_each(|length| *length += STEADY);
        shape
    }

    /// Returns the positions of the sizes that can be estimated from data.
    pub(super) fn free(space: &Space) -> Vec<usize> {
        let weights = (0..space.len()).filter(|_| space.len() > 1).map(|axis| COMMON + axis);
        let ordered = (0..space.len()).filter(|axis| space.is_ordered(*axis));
        let lengths = ordered.map(|axis| COMMON + space.len() + axis);
        (0..COMMON).chain(weights).chain(lengths).collect()
    }

    /// Returns the shape with one size changed by a step of its logarithm.
    pub(super) fn moved(&self, at: usize, step: f64) -> Shape {
        let mut moved = self.clone();
        moved.0[at] += step;
        moved
    }

    /// Returns the logarithm of the prior density, up to a constant.
    pub(super) fn ln_prior(&self, signal: f64) -> f64 {
        let normal = |value: f64, (mean, sd): (f64, f64)| -0.5 * ((value - mean) / sd).powi(2);
        let start = self.0[START].exp() / START_SD;
        let axes = (self.0.len() - COMMON) / 2;
        let common = normal(self.0[SIGNAL], (signal.ln(), SIGNAL_SPREAD))
            + normal(self.0[PAIRS], PAIRS_PRIOR)
            + normal(self.0[LOCAL], LOCAL_PRIOR)
            + normal(self.0[OWN], OWN_PRIOR)
            + self.0[START]
            - 0.5 * start * start;
        let weights = self.0[COMMON..COMMON + axes].iter().map(|w| normal(*w, WEIGHT_PRIOR));
        let lengths = self.0[COMMON + axes..].iter().map(|l| normal(*l, LENGTH_PRIOR));
        common + weights.sum::<f64>() + lengths.sum::<f64>()
    }

    /// Variance between starts of a candidate.
    pub(super) fn start_variance(&self) -> f64 {
        (2.0 * self.0[START]).exp()
    }

    /// Variance of the effect that belongs to a candidate alone.
    pub(super) fn own_variance(&self) -> f64 {
        (2.0 * self.0[OWN]).exp()
    }

    pub(super) fn length(&self, axis: usize) -> f64 {
        self.0[COMMON + (self.0.len() - COMMON) / 2 + axis].exp()
    }

    /// Converts the sizes to variances, as covariances need them.
    pub(super) fn variances(&self) -> Variances {
        let axes = (self.0.len() - COMMON) / 2;
        let weights: Vec<f64> = self.0[COMMON..COMMON + axes].iter().map(|w| (2.0 * w).exp()).collect();
        let sum = weights.iter().sum::<f64>();
        let weights: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        let all_pairs = (1.0 - weights.iter().map(|weight| weight * weight).sum::<f64>()) / 2.0;
        let signal = (2.0 * self.0[SIGNAL]).exp();
        let pairs = if all_pairs > 1e-9 {
            signal * (2.0 * self.0[PAIRS]).exp() / all_pairs
        } else {
            0.0
        };
        Variances {
            weights,
            signal,
            pairs,
            local: signal * (2.0 * self.0[LOCAL]).exp(),
        }
    }
}

/// The sizes of a shape as variances.
#[derive(Debug, Clone)]
pub(super) struct Variances {
    weights: Vec<f64>,
    signal: f64,
    pairs: f64,
    local: f64,
}

impl Variances {
    /// Returns the covariance of two candidates with these correlations of their levels on each axis.
    pub(super) fn covariance(&self, correlations: impl Iterator<Item = f64>) -> f64 {
        let (mut sum, mut squares, mut product) = (0.0, 0.0, 1.0);
        for (weight, correlation) in self.weights.iter().zip(correlations) {
            let part = weight * correlation;
            sum += part;
            squares += part * part;
            product *= correlation;
        }
        self.signal * sum + self.pairs * 0.5 * (sum * sum - squares) + self.local * product
    }
}
