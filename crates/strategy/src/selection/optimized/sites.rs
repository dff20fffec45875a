//! Observations that only say on which side of a bound a value lies, as normal ones that have the same effect (expectation propagation,
//! Minka 2001).

use crate::stats::{Cholesky, dot};
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// An observation of one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Observed {
    /// The value itself, with such a variance.
    Value(f64, f64),
    /// The value with an error of such a variance lies below.
    Below(f64, f64),
    /// The value with an error of such a variance lies above.
    Above(f64, f64),
}

/// A normal observation: the value and its variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Site {
    pub value: f64,
    pub variance: f64,
}

/// Rounds, and the part of each step that is taken.
const ROUNDS: usize = 5;
const STEP: f64 = 0.8;
/// Precision of a site that says nothing.
const LEAST_PRECISION: f64 = 1e-6;

/// The sites of observations of values with prior mean zero and such covariances.
pub(super) fn sites(observed: &[Observed], covariance: impl Fn(usize, usize) -> f64) -> Vec<Site> {
    let open: Vec<usize> = (0..observed.len())
        .filter(|i| !matches!(observed[*i], Observed::Value(..)))
        .collect();
    // Precision, and precision times value.
    let mut natural = vec![(LEAST_PRECISION, 0.0); observed.len()];
    let sites = |natural: &[(f64, f64)]| -> Vec<Site> {
        let site = |(observed, (precision, weighted)): (&Observed, &(f64, f64))| match *observed {
            Observed::Value(value, variance) => Site { value, variance },
            _ => Site {
                value: weighted / precision,
                variance: 1.0 / precision,
            },
        };
        observed.iter().zip(natural).map(site).collect()
    };
    for _ in 0..if open.is_empty() { 0 } else { ROUNDS } {
        let now = sites(&natural);
        let with_noise = |i: usize, j: usize| covariance(i, j) + if i == j { now[i].variance } else { 0.0 };
        let Some(factor) = Cholesky::of(observed.len(), with_noise) else {
            break;
        };
        let residual = factor.solve(|i| now[i].value);
        for &i in &open {
            let column = factor.solve(|j| covariance(i, j));
            let variance = (covariance(i, i) - dot(&column, &column)).max(1e-12);
            let mean = dot(&column, &residual);
            let (precision, weighted) = natural[i];
            let without = (1.0 / variance - precision).max(1e-9);
            let cavity = ((mean / variance - weighted) / without, 1.0 / without);
            let (mean, variance) = moments(observed[i], cavity);
            let found = (
                (1.0 / variance - without).max(LEAST_PRECISION),
                mean / variance - cavity.0 * without,
            );
            natural[i].0 += STEP * (found.0 - precision);
            natural[i].1 += STEP * (found.1 - weighted);
        }
    }
    sites(&natural)
}

/// Mean and variance of a normal variable, given on which side of a bound it lies.
fn moments(observed: Observed, (mean, variance): (f64, f64)) -> (f64, f64) {
    let (bound, error, sign) = match observed {
        Observed::Below(bound, error) => (bound, error, 1.0),
        Observed::Above(bound, error) => (bound, error, -1.0),
        Observed::Value(..) => return (mean, variance),
    };
    let all = variance + error;
    let z = sign * (bound - mean) / all.sqrt();
    let ratio = hazard(z);
    let mean = mean - sign * variance * ratio / all.sqrt();
    (
        mean,
        (variance - variance * variance * ratio * (ratio + z) / all).max(1e-12),
    )
}

/// Density over probability of a standard normal variable, at and below `z`.
fn hazard(z: f64) -> f64 {
    // Further out both underflow.
    if z < -20.0 {
        return -z - 1.0 / z;
    }
    let normal = Normal::standard();
    normal.pdf(z) / normal.cdf(z)
}
