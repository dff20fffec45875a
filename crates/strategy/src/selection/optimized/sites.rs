//! Turns observations that only say on which side of a bound a value lies into normal observations with the same effect (expectation
//! propagation, Minka 2001).

use crate::stats::{Cholesky, dot};
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// An observation of one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Datum {
    /// The value, and the variance of its error.
    Value(f64, f64),
    /// An upper bound, and the variance of its error.
    Below(f64, f64),
    /// A lower bound, and the variance of its error.
    Above(f64, f64),
}

/// A normal observation: the value and its variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Site {
    pub value: f64,
    pub variance: f64,
}

/// Number of rounds over all bounds.
const ROUNDS: usize = 5;
/// Damping: the part of each update that is applied.
const STEP: f64 = 0.8;
/// Precision of a site without information.
const LEAST_PRECISION: f64 = 1e-6;

/// Returns the site of each observation. The prior of the observed values has mean zero and these covariances.
pub(super) fn sites(observed: &[Datum], covariance: impl Fn(usize, usize) -> f64) -> Vec<Site> {
    let bounds: Vec<usize> = (0..observed.len())
        .filter(|i| !matches!(observed[*i], Datum::Value(..)))
        .collect();
    // Natural parameters of each site: its precision, and its precision times its value.
    let mut natural = vec![(LEAST_PRECISION, 0.0); observed.len()];
    let sites = |natural: &[(f64, f64)]| -> Vec<Site> {
        let site = |(observed, (precision, weighted)): (&Datum, &(f64, f64))| match *observed {
            Datum::Value(value, variance) => Site { value, variance },
            _ => Site {
                value: weighted / precision,
                variance: 1.0 / precision,
            },
        };
        observed.iter().zip(natural).map(site).collect()
    };
    for _ in 0..if bounds.is_empty() { 0 } else { ROUNDS } {
        let now = sites(&natural);
        let with_noise = |i: usize, j: usize| covariance(i, j) + if i == j { now[i].variance } else { 0.0 };
        let Some(factor) = Cholesky::of(observed.len(), with_noise) else {
            break;
        };
        let residual = factor.solve(|i| now[i].value);
        for &i in &bounds {
            let column = factor.solve(|j| covariance(i, j));
            let variance = (covariance(i, i) - dot(&column, &column)).max(1e-12);
            let mean = dot(&column, &residual);
            let (precision, weighted) = natural[i];
            // The cavity: the belief without this observation.
            let cavity_precision = (1.0 / variance - precision).max(1e-9);
            let cavity = ((mean / variance - weighted) / cavity_precision, 1.0 / cavity_precision);
            let (mean, variance) = moments(observed[i], cavity);
            let found = (
                (1.0 / variance - cavity_precision).max(LEAST_PRECISION),
                mean / variance - cavity.0 * cavity_precision,
            );
            natural[i].0 += STEP * (found.0 - precision);
            natural[i].1 += STEP * (found.1 - weighted);
        }
    }
    sites(&natural)
}

/// Returns the mean and variance of a normal variable after the observation that it lies on one side of a bound.
fn moments(observed: Datum, (mean, variance): (f64, f64)) -> (f64, f64) {
    let (bound, error, sign) = match observed {
        Datum::Below(bound, error) => (bound, error, 1.0),
        Datum::Above(bound, error) => (bound, error, -1.0),
        Datum::Value(..) => return (mean, variance),
    };
    let total = variance + error;
    let z = sign * (bound - mean) / total.sqrt();
    let ratio = inverse_mills_ratio(z);
    let mean = mean - sign * variance * ratio / total.sqrt();
    (
        mean,
        (variance - variance * variance * ratio * (ratio + z) / total).max(1e-12),
    )
}

/// Returns the standard normal density at `z`, divided by the probability below `z`.
fn inverse_mills_ratio(z: f64) -> f64 {
    // Far below the mean, density and probability underflow. Their ratio approaches this value.
    if z < -20.0 {
        return -z - 1.0 / z;
    }
    let normal = Normal::standard();
    normal.pdf(z) / normal.cdf(z)
}
