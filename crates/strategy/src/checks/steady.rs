//! Detects runs without a steady state: the values after the warm-up still have a trend.
//!
//! The warm-up is cut off by MSER-5 (White 1997; White and Robinson 2010), the trend is tested by Mann and Kendall with Hamed and Rao's correction
//! for values that depend on those before them (1998), and its size is Theil and Sen's slope.

use crate::stats::normal_quantile;
use serde::{Deserialize, Serialize};
use statrs::statistics::{Data, OrderStatistics, RankTieBreaker};

/// A trend of a series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// The standard score of Mann and Kendall's statistic.
    pub score: f64,
    /// The median slope, in values a step.
    pub slope: f64,
}

/// The chance that a steady run is called unsteady, were it not for [`LEAST`].
const ALPHA: f64 = 0.001;
/// A trend below this does not change what a run says: it moves the mean by half of it. As a part of the median.
pub const LEAST: f64 = 0.1;
/// Fewer values say nothing of a trend.
const FEWEST: usize = 20;

/// Relative change, from the first to the last, of means over equal spans of time (such as tokens a second) after their warm-up. It is
/// relative to their median. `None` if they are steady, or too few.
pub fn unsteady(values: &[f64]) -> Option<f64> {
    changing(&values[mser5(values)..])
}

/// Like [`unsteady`], for values without a warm-up.
pub fn changing(values: &[f64]) -> Option<f64> {
    let found = trend(values).filter(|_| values.len() >= FEWEST)?;
    let change = found.slope * values.len() as f64 / median(values.to_vec());
    let is_sure = found.score.abs() > normal_quantile(ALPHA / 2.0);
    (is_sure && change.abs() > LEAST).then_some(change)
}

/// Returns how many values to leave out at the beginning: the multiple of five, up to half of them, for which the mean of the rest, in
/// batches of five, has the least standard error.
pub fn mser5(values: &[f64]) -> usize {
    let batches: Vec<f64> = values
        .chunks_exact(5)
        .map(|batch| batch.iter().sum::<f64>() / 5.0)
        .collect();
    let error = |cut: usize| {
        let rest = &batches[cut..];
        let n = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / n;
        rest.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n * n)
    };
    let cuts = 0..=batches.len() / 2;
    5 * cuts
        .filter(|cut| *cut < batches.len())
        .min_by(|a, b| error(*a).total_cmp(&error(*b)))
        .unwrap_or(0)
}

/// Mann and Kendall's test for a trend; None with fewer than four values, or without any difference between them.
pub fn trend(values: &[f64]) -> Option<Trend> {
    let n = values.len();
    if n < 4 || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let pairs = || (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)));
    let rises: f64 = pairs().map(|(i, j)| sign(values[j] - values[i])).sum();
    let slope = median(pairs().map(|(i, j)| (values[j] - values[i]) / (j - i) as f64).collect());
    let count = n as f64;
    let ties: f64 = groups(values)
        .into_iter()
        .map(|t| t * (t - 1.0) * (2.0 * t + 5.0))
        .sum();
    let variance = (count * (count - 1.0) * (2.0 * count + 5.0) - ties) / 18.0;
    let detrended: Vec<f64> = values
        .iter()
        .enumerate()
        .map(|(i, value)| value - slope * (i + 1) as f64)
        .collect();
    let ranks = Data::new(detrended).ranks(RankTieBreaker::Average);
    let variance = variance * dependence(&ranks);
    let score = (rises - sign(rises)) / variance.sqrt();
    score.is_finite().then_some(Trend { score, slope })
}

/// Factor by which the variance of the statistic grows because values depend on earlier ones: Hamed and Rao's equation 17, over the lags
/// whose rank correlation is significant at 5 %.
fn dependence(ranks: &[f64]) -> f64 {
    let n = ranks.len() as f64;
    let mean = ranks.iter().sum::<f64>() / n;
    let product = |lag: usize| {
        ranks
            .iter()
            .zip(&ranks[lag..])
            .map(|(a, b)| (a - mean) * (b - mean))
            .sum::<f64>()
    };
    let limit = normal_quantile(0.025) / n.sqrt();
    let of_lag = |lag: usize| {
        let correlation = product(lag) / product(0);
        let left = n - lag as f64;
        if correlation.abs() > limit {
            left * (left - 1.0) * (left - 2.0) * correlation
        } else {
            0.0
        }
    };
    let sum: f64 = (1..ranks.len()).map(of_lag).sum();
    // Values that swing to and fro would make it smaller; a test that trusts that much finds trends where none are.
    (1.0 + 2.0 / (n * (n - 1.0) * (n - 2.0)) * sum).max(1.0)
}

fn sign(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value.signum() }
}

/// Number of occurrences of each value.
fn groups(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a == b).map(|group| group.len() as f64).collect()
}

fn median(values: Vec<f64>) -> f64 {
    Data::new(values).median()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An autoregressive series with coefficient 0.7 around 10.
    const DEPENDENT: [f64; 40] = [
        9.2, 8.11, 8.43, 9.32, 10.66, 10.57, 9.85, 9.11, 10.13, 11.72, 11.48, 9.8, 8.9, 10.83, 10.79, 8.82, 9.09, 8.2,
        8.11, 8.19, 8.02, 9.17, 9.35, 8.96, 9.68, 10.61, 8.78, 8.89, 8.24, 8.6, 7.73, 8.43, 8.86, 8.9, 8.18, 8.33,
        7.74, 7.06, 8.17, 7.61,
    ];

    #[test]
    fn as_pymannkendall_tests() {
        // pymannkendall 1.4.3: hamed_rao_modification_test, and original_test for the one with ties.
        let found = trend(&DEPENDENT).expect("values");
        assert!((found.score - -3.114668027962985).abs() < 1e-9, "{}", found.score);
        assert!((found.slope - -0.05258333333333347).abs() < 1e-12, "{}", found.slope);
        let tied = trend(&[1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 4.0, 5.0, 4.0, 6.0]).expect("values");
        assert!((tied.score - 3.387043997220312).abs() < 1e-9, "{}", tied.score);
        assert_eq!(trend(&[1.0; 10]), None);
        assert_eq!(trend(&[1.0, 2.0, 3.0]), None);
    }

    /// Values around 100 that look random, by a linear congruence.
    fn noise(count: u64, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1u32 << 31) - 0.5
        };
        (0..count).map(|_| 100.0 + 10.0 * next()).collect()
    }

    #[test]
    fn a_warm_up_is_cut_off_and_what_follows_is_steady() {
        let warming: Vec<f64> = noise(100, 3)
            .iter()
            .enumerate()
            .map(|(i, value)| value * (1.0 - (-(i as f64) / 5.0).exp()))
            .collect();
        assert!((10..=30).contains(&mser5(&warming)), "{}", mser5(&warming));
        assert_eq!(unsteady(&warming), None);
        assert_eq!(mser5(&[1.0; 3]), 0);
        assert_eq!(unsteady(&[]), None);
    }

    #[test]
    fn a_run_that_slows_down_throughout_has_no_steady_state() {
        let slowing: Vec<f64> = noise(100, 4)
            .iter()
            .enumerate()
            .map(|(i, value)| value * (1.0 - 0.004 * i as f64))
            .collect();
        let found = unsteady(&slowing).expect("a trend");
        assert!((-0.55..-0.2).contains(&found), "{found}");
    }

    #[test]
    fn steady_runs_are_called_steady() {
        let wrong = (0..500).filter(|seed| unsteady(&noise(60, *seed)).is_some()).count();
        assert_eq!(wrong, 0);
    }
}
