//! Detects runs without a steady state, whose values still have a trend after the warm-up, and servers that drift from run to run.
//!
//! The warm-up is cut off by MSER-5 (White 1997; White and Robinson 2010). The trend is tested by Mann and Kendall's test, with Hamed and
//! Rao's correction (1998) for values that depend on those before them. Its size is Theil and Sen's slope.

use crate::stats::{RunPrior, normal_quantile, student_quantile};
use statrs::statistics::{Data, OrderStatistics, RankTieBreaker};

/// The probability that a steady run is called unsteady, or a steady start drifting, before [`LEAST`] and [`LEAST_DRIFT`] are applied.
const ALPHA: f64 = 0.001;
/// Smallest change that counts, relative to the median. A change of this size moves the mean by half of it.
const LEAST: f64 = 0.1;
/// Minimum number of values for a test for a trend.
const FEWEST: usize = 20;

/// Returns the change from the first to the last of the values after the warm-up, relative to their median. Values are means over equal
/// spans of time, such as tokens per second. `None` if they are steady, too few, or mostly 0.
pub fn unsteady(values: &[f64]) -> Option<f64> {
    changing(&values[mser5(values)..])
}

/// Does the same as [`unsteady`] for values without a warm-up.
pub fn changing(values: &[f64]) -> Option<f64> {
    let (score, slope) = trend(values).filter(|_| values.len() >= FEWEST)?;
    let change = slope * values.len() as f64 / median(values.to_vec());
    let is_sure = score.abs() > normal_quantile(ALPHA / 2.0);
    (is_sure && change.abs() > LEAST && change.is_finite()).then_some(change)
}

/// Returns how many values to leave out at the beginning: the multiple of five, up to half of them, for which the mean of the rest, in
/// batches of five, has the least standard error.
fn mser5(values: &[f64]) -> usize {
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

/// Returns the standard score of Mann and Kendall's test for a trend, and the median slope: the change of the value per step. `None` with
/// fewer than four values, if one is not finite, or if all are equal.
fn trend(values: &[f64]) -> Option<(f64, f64)> {
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
    score.is_finite().then_some((score, slope))
}

/// Returns the factor by which the variance of the statistic grows because values depend on earlier ones: Hamed and Rao's equation 17, over
/// the lags whose rank correlation is significant at 5 %.
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
    // Values that alternate would make the factor smaller than 1. The test would then find trends where there are none.
    (1.0 + 2.0 / (n * (n - 1.0) * (n - 2.0)) * sum).max(1.0)
}

fn sign(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value.signum() }
}

/// Returns the number of occurrences of each value.
fn groups(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a == b).map(|group| group.len() as f64).collect()
}

fn median(values: Vec<f64>) -> f64 {
    Data::new(values).median()
}

// Detects servers that became slower or faster from their first run to their last, by a straight line through the runs of all loads
// measured on one start. Each load has a level of its own.

/// One run on a start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The load, as any number that identifies it.
    pub load: usize,
    /// Position among the runs of the start: an index, or a time.
    pub at: f64,
    /// The figure's natural logarithm.
    pub log: f64,
}

/// Smallest change of the logarithm that counts as a drift. A drift of this size changes a mean by at most half of it.
const LEAST_DRIFT: f64 = 0.05;
/// Fewest degrees of freedom, of the runs and the prior together, with which noise can be estimated.
const LEAST_FREEDOM: f64 = 3.0;

/// Returns the change of a figure over the longest span of one load's runs, as a ratio, if noise does not explain it. With a prior of 0
/// degrees of freedom, the noise is estimated from the runs alone.
pub fn drift(steps: &[Step], prior: RunPrior) -> Option<f64> {
    let mut sorted = steps.to_vec();
    sorted.sort_by_key(|step| step.load);
    let by_load = sorted.chunk_by(|a, b| a.load == b.load);
    let loads: Vec<&[Step]> = by_load.filter(|group| group.len() > 1).collect();
    // Distances from the means of each load.
    let mean = |group: &[Step], of: fn(&Step) -> f64| group.iter().map(of).sum::<f64>() / group.len() as f64;
    let distances: Vec<(f64, f64)> = loads
        .iter()
        .flat_map(|group| {
            let (at, log) = (mean(group, |step| step.at), mean(group, |step| step.log));
            group.iter().map(move |step| (step.at - at, step.log - log))
        })
        .collect();
    // The line is not extended beyond the longest span of one load's runs.
    let extent = |group: &&[Step]| {
        let times = || group.iter().map(|step| step.at);
        Some(times().reduce(f64::max)? - times().reduce(f64::min)?)
    };
    let span = loads.iter().filter_map(extent).reduce(f64::max)?;
    let squares: f64 = distances.iter().map(|(at, _)| at * at).sum();
    let slope = distances.iter().map(|(at, log)| at * log).sum::<f64>() / squares;
    let residual: f64 = distances.iter().map(|(at, log)| (log - slope * at).powi(2)).sum();
    let freedom = distances.len() as f64 - loads.len() as f64 - 1.0 + prior.freedom;
    if freedom < LEAST_FREEDOM || squares <= 0.0 {
        return None;
    }
    let variance = (residual + prior.freedom * prior.sd.powi(2)) / freedom;
    let change = slope * span;
    let limit = student_quantile(ALPHA, freedom) * (variance / squares).sqrt() * span;
    (change.abs() > limit.max(LEAST_DRIFT)).then(|| change.exp())
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
        // pymannkendall 1.4.3: hamed_rao_modification_test, and original_test for the series with ties.
        let (score, slope) = trend(&DEPENDENT).expect("values");
        assert!((score - -3.114668027962985).abs() < 1e-9, "{score}");
        assert!((slope - -0.05258333333333347).abs() < 1e-12, "{slope}");
        let (tied, _) = trend(&[1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 4.0, 5.0, 4.0, 6.0]).expect("values");
        assert!((tied - 3.387043997220312).abs() < 1e-9, "{tied}");
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
    fn a_change_from_a_median_of_zero_has_no_size() {
        let noise = |i: i32| 0.2 * f64::from((i * 7).rem_euclid(5));
        let rising: Vec<f64> = (-20..=20).map(|i| f64::from(i) + noise(i)).collect();
        let (score, _) = trend(&rising).expect("values");
        assert_eq!(median(rising.clone()), 0.0);
        assert!(score > 3.3, "{score}");
        assert_eq!(changing(&rising), None);
    }

    #[test]
    fn steady_runs_are_called_steady() {
        let wrong = (0..500).filter(|seed| unsteady(&noise(60, *seed)).is_some()).count();
        assert_eq!(wrong, 0);
    }
}

#[cfg(test)]
mod drift_tests {
    use super::*;

    const CLOSED: RunPrior = RunPrior {
        sd: 0.015,
        freedom: 8.0,
    };
    const NONE: RunPrior = RunPrior { sd: 0.0, freedom: 0.0 };

    /// Steps of rounds over all loads. The figure falls by `fall` from the first step to the last, with noise of 1 %.
    fn rounds(loads: usize, runs: usize, fall: f64) -> Vec<Step> {
        let last = (loads * runs - 1) as f64;
        (0..loads * runs)
            .map(|at| Step {
                load: at % loads,
                at: at as f64,
                log: (at % loads) as f64 - fall * at as f64 / last + 0.01 * (at as f64 * 12.9898).sin(),
            })
            .collect()
    }

    #[test]
    fn a_fall_over_rounds_is_found_and_noise_is_not() {
        assert_eq!(drift(&rounds(6, 3, 0.0), CLOSED), None);
        let found = drift(&rounds(6, 3, 0.08), CLOSED).expect("a drift");
        assert!((0.90..0.95).contains(&found), "{found}");
        assert!(drift(&rounds(6, 3, 0.08), NONE).is_some());
        assert_eq!(drift(&rounds(6, 3, 0.03), CLOSED), None, "too small to matter");
    }

    #[test]
    fn two_runs_show_only_what_no_usual_noise_explains() {
        let pair = |change: f64| {
            let step = |at: f64| Step {
                load: 0,
                at,
                log: change * at,
            };
            [step(0.0), step(1.0)]
        };
        assert_eq!(drift(&pair(-0.06), CLOSED), None);
        assert!(drift(&pair(-0.15), CLOSED).is_some());
        assert_eq!(drift(&pair(-0.15), NONE), None);
        assert_eq!(drift(&[], CLOSED), None);
        // Loads with one run each show no drift, however much they differ.
        assert_eq!(drift(&rounds(8, 1, 0.5), CLOSED), None);
    }
}
