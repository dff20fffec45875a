//! Estimates over starts from runs within starts: noise between runs, noise between starts, and the mean with its error. The noise of a
//! node, from repeated measurements, gives the smallest difference that is more than chance.
//!
//! A start's mean is one value of a random-effects model. Its variance is the variance between starts, plus the variance between runs
//! divided by the number of the start's runs. The variance between starts is estimated as by DerSimonian and Laird (1986). The standard
//! error is that of Hartung and Knapp (2001) and Sidik and Jonkman (2002), with Student's t over starts. It is at least as large as noise
//! between runs alone makes it (Röver, Knapp and Friede 2015). With equal numbers of runs, this is the t interval over the starts' means.

use super::distribution::student_quantile;
use super::estimate::{Error, Estimate};
use super::ratio::Margin;
use serde::{Deserialize, Serialize};

/// The runs of one start, as natural logarithms of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    logs: Vec<f64>,
}

impl Start {
    /// Returns a start with a value for each run. `None` if it has no run, or a value without a logarithm.
    pub fn of(values: &[f64]) -> Option<Start> {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let usable = !logs.is_empty() && logs.iter().all(|log| log.is_finite());
        usable.then_some(Start { logs })
    }

    /// Number of its runs.
    pub fn runs(&self) -> usize {
        self.logs.len()
    }

    /// Returns the mean of its runs' logarithms.
    pub fn mean(&self) -> f64 {
        self.logs.iter().sum::<f64>() / self.runs() as f64
    }

    /// Returns the sum of squared distances of its runs from their mean.
    pub(crate) fn squares(&self) -> f64 {
        let mean = self.mean();
        self.logs.iter().map(|log| (log - mean).powi(2)).sum()
    }
}

/// Prior of the noise between runs, because few runs say little about it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RunPrior {
    /// The standard deviation of the noise between runs, as a ratio: 0.01 for 1 %.
    pub sd: f64,
    /// Weight of the prior, in degrees of freedom.
    pub freedom: f64,
}

impl RunPrior {
    /// An assumption: 1 %, with the weight of one degree of freedom.
    pub const TYPICAL: RunPrior = RunPrior { sd: 0.01, freedom: 1.0 };
}

/// Returns the mean over starts with its error; `None` without a start.
pub fn estimate(starts: &[Start], prior: RunPrior) -> Option<Estimate> {
    let run_variance = run_variance(starts, prior).unwrap_or(0.0);
    let between = between(starts, run_variance);
    // Without noise, all starts have equal weight. The size of the weight then cancels, so it may be 1.
    let noise = |start: &Start| between + run_variance / start.runs() as f64;
    let weight = |start: &Start| if noise(start) > 0.0 { 1.0 / noise(start) } else { 1.0 };
    let weights: f64 = starts.iter().map(weight).sum();
    if starts.is_empty() {
        return None;
    }
    let log = starts.iter().map(|start| weight(start) * start.mean()).sum::<f64>() / weights;
    let freedom = starts.len() as f64 - 1.0;
    let error = (starts.len() > 1).then(|| {
        let residual = |start: &Start| weight(start) * (start.mean() - log).powi(2);
        let scatter = starts.iter().map(residual).sum::<f64>() / freedom;
        let least = if run_variance > 0.0 { 1.0 } else { 0.0 };
        Error {
            standard: (scatter.max(least) / weights).sqrt(),
            freedom,
        }
    });
    Some(Estimate { log, error })
}

/// Returns the variance between runs of one start; `None` if no start has two runs.
fn run_variance(starts: &[Start], prior: RunPrior) -> Option<f64> {
    let (squares, freedom) = run_squares(starts);
    let prior_squares = prior.freedom * prior.sd.powi(2);
    (freedom > 0.0).then(|| (prior_squares + squares) / (prior.freedom + freedom))
}

/// Returns the sum of squared distances of runs from their start's mean, and its degrees of freedom.
pub(super) fn run_squares(starts: &[Start]) -> (f64, f64) {
    let squares = starts.iter().map(Start::squares).sum();
    (squares, starts.iter().map(|start| start.runs() as f64 - 1.0).sum())
}

/// Returns the variance between starts that noise between runs does not explain.
fn between(starts: &[Start], run_variance: f64) -> f64 {
    let (squares, scale) = between_squares(starts, run_variance);
    if scale > 0.0 { (squares / scale).max(0.0) } else { 0.0 }
}

/// Returns the numerator and the denominator of DerSimonian and Laird's estimate of the variance between starts. The numerator is the
/// scatter of the starts' means that noise between runs does not explain. The weights are the numbers of runs, because the scale of the
/// weights cancels. Without noise between runs, all starts have equal weight.
pub(super) fn between_squares(starts: &[Start], run_variance: f64) -> (f64, f64) {
    let weigh = |start: &Start| if run_variance > 0.0 { start.runs() as f64 } else { 1.0 };
    let weights: f64 = starts.iter().map(weigh).sum();
    let mean = starts.iter().map(|start| weigh(start) * start.mean()).sum::<f64>() / weights;
    let spread: f64 = starts
        .iter()
        .map(|start| weigh(start) * (start.mean() - mean).powi(2))
        .sum();
    if starts.len() < 2 {
        return (0.0, 0.0);
    }
    let scale = weights - starts.iter().map(|start| weigh(start).powi(2)).sum::<f64>() / weights;
    (spread - (starts.len() as f64 - 1.0) * run_variance, scale)
}

/// Noise between starts and between runs, pooled over configs, as variances of logarithms with their degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Between starts.
    pub start_variance: f64,
    /// Degrees of freedom between starts: starts beyond the first of each config.
    pub start_freedom: f64,
    /// Between runs of one start.
    pub run_variance: f64,
    /// Degrees of freedom between runs: runs beyond the first of each start.
    pub run_freedom: f64,
}

/// The probability that a difference between equal servers exceeds the margin.
const ALPHA: f64 = 0.05;

impl Noise {
    /// Estimates the noise of groups of starts, each of one config; `None` if no group has two starts.
    pub fn of(groups: &[Vec<Start>]) -> Option<Noise> {
        let (run_squares, run_freedom) = sum(groups.iter().map(|group| run_squares(group)));
        let run_variance = if run_freedom > 0.0 {
            run_squares / run_freedom
        } else {
            0.0
        };
        let freedom = groups.iter().map(|group| group.len() as f64 - 1.0);
        let start_freedom: f64 = freedom.filter(|free| *free > 0.0).sum();
        let (squares, scale) = sum(groups.iter().map(|group| between_squares(group, run_variance)));
        (start_freedom > 0.0).then(|| Noise {
            start_variance: (squares / scale).max(0.0),
            start_freedom,
            run_variance,
            run_freedom,
        })
    }

    /// Returns the difference that two measurements of one server exceed in one of twenty cases: the repeatability limit of ISO 5725-6.
    /// Each measurement is the mean over `starts` starts with `runs` runs each. Student's t is used, because the noise is itself an
    /// estimate.
    pub fn margin(&self, starts: usize, runs: usize) -> Margin {
        let one_start = self.start_variance + self.run_variance / runs as f64;
        Margin {
            log: student_quantile(ALPHA, self.start_freedom) * (2.0 * one_start / starts as f64).sqrt(),
        }
    }
}

fn sum(pairs: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    pairs.fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn start(logs: &[f64]) -> Start {
        Start { logs: logs.to_vec() }
    }

    #[test]
    fn one_start_has_no_interval_over_starts() {
        let one = estimate(&[start(&[1.0, 1.1, 0.9])], RunPrior::TYPICAL).expect("a start");
        assert_eq!(one.error, None);
        assert_eq!(one.interval(0.05), None);
        assert_eq!(estimate(&[], RunPrior::TYPICAL), None);
        assert_eq!(Start::of(&[1.0, 0.0]), None);
        assert_eq!(Start::of(&[]), None);
    }

    #[test]
    fn as_statsmodels_combines_unequal_starts() {
        // statsmodels 0.15.0: combine_effects(means, pooled variance of runs / numbers of runs, method_re="dl"), its `tau2`,
        // `mean_effect_re` and the root of `var_hksj_re`.
        let runs: [&[f64]; 4] = [
            &[100.0, 101.0, 99.0],
            &[104.0],
            &[97.0, 98.0],
            &[103.0, 102.0, 105.0, 104.0],
        ];
        let starts: Vec<Start> = runs.iter().map(|values| Start::of(values).expect("positive")).collect();
        let found = estimate(&starts, NOTHING).expect("starts");
        let run_variance = run_variance(&starts, NOTHING).expect("runs");
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        close(found.log, 4.616906197192572);
        close(found.error.expect("four starts").standard, 0.0151522795189602);
        close(between(&starts, run_variance), 0.0007994721875395094);
        close(run_variance.sqrt(), 0.010950163801723553);
    }

    const NOTHING: RunPrior = RunPrior { sd: 0.0, freedom: 0.0 };

    proptest! {
        #[test]
        fn equal_runs_give_the_t_interval_over_means(
            means in prop::collection::vec(-1.0f64..1.0, 2..8), spread in 0.0f64..1e-3, runs in 1usize..5,
        ) {
            let starts: Vec<Start> = means
                .iter()
                .map(|mean| start(&(0..runs).map(|i| mean + spread * (i as f64 - (runs as f64 - 1.0) / 2.0)).collect::<Vec<_>>()))
                .collect();
            let n = means.len() as f64;
            let mean = means.iter().sum::<f64>() / n;
            let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let found = estimate(&starts, NOTHING).expect("starts");
            let error = found.error.expect("two starts");
            prop_assert!((found.log - mean).abs() < 1e-9);
            prop_assert_eq!(error.freedom, n - 1.0);
            // Noise of runs alone explains less than the spread of the means, unless the means agree by chance.
            let run_sd = run_variance(&starts, NOTHING).unwrap_or(0.0).sqrt();
            let least = run_sd / (n * runs as f64).sqrt();
            prop_assert!((error.standard - (variance / n).sqrt().max(least)).abs() < 1e-9, "{} {}", error.standard, least);
        }

        #[test]
        fn scale_moves_the_estimate_and_nothing_else(
            runs in prop::collection::vec(prop::collection::vec(0.5f64..2.0, 1..5), 2..6), factor in 0.01f64..100.0,
        ) {
            let side = |factor: f64| -> Vec<Start> {
                runs.iter().map(|values| Start::of(&values.iter().map(|v| v * factor).collect::<Vec<_>>()).expect("positive")).collect()
            };
            let (one, other) = (estimate(&side(1.0), RunPrior::TYPICAL), estimate(&side(factor), RunPrior::TYPICAL));
            let (one, other) = (one.expect("starts"), other.expect("starts"));
            prop_assert!((other.log - one.log - factor.ln()).abs() < 1e-9);
            let (a, b) = (one.error.expect("two"), other.error.expect("two"));
            prop_assert!((a.standard - b.standard).abs() < 1e-9);
        }
    }
}

#[cfg(test)]
mod node_tests {
    use super::*;

    fn starts(runs: &[&[f64]]) -> Vec<Start> {
        runs.iter().map(|values| Start::of(values).expect("positive")).collect()
    }

    #[test]
    fn noise_pools_configs_of_different_speed() {
        let slow = starts(&[&[100.0, 101.0], &[102.0, 103.0]]);
        let fast = starts(&[&[1000.0, 1010.0], &[1020.0, 1030.0]]);
        let (one, both) = (Noise::of(std::slice::from_ref(&slow)), Noise::of(&[slow, fast]));
        let (one, both) = (one.expect("two starts"), both.expect("two starts"));
        assert!((one.run_variance - both.run_variance).abs() < 1e-12);
        assert!((one.start_variance - both.start_variance).abs() < 1e-12);
        assert_eq!((both.start_freedom, both.run_freedom), (2.0, 4.0));
        assert!(both.margin(3, 3) < both.margin(1, 3));
        assert!(both.margin(3, 3) < one.margin(3, 3));
        assert_eq!(Noise::of(&[starts(&[&[1.0, 2.0]])]), None);
    }
}
