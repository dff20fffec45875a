//! The gain that a start of a candidate promises.

use super::surface::Belief;
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// The expected value of so much more than `best` as a normal variable is.
pub(super) fn improvement(mean: f64, sd: f64, best: f64) -> f64 {
    if sd <= 0.0 {
        return (mean - best).max(0.0);
    }
    let z = (mean - best) / sd;
    let normal = Normal::standard();
    (sd * (z * normal.cdf(z) + normal.pdf(z))).max(0.0)
}

/// The gain in the value of the best one from a start of a candidate with such a belief, if the best other one has `other`. Before its first
/// start a candidate cannot be chosen.
pub(super) fn gain(belief: Belief, noise: f64, other: f64, is_known: bool) -> f64 {
    let sd = belief.variance / (belief.variance + noise).sqrt();
    let without = if is_known { (belief.mean - other).max(0.0) } else { 0.0 };
    (improvement(belief.mean, sd, other) - without).max(0.0)
}
