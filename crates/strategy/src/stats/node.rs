//! A node's own noise, from repeated measurements of the same thing: how large a difference means nothing, and whether the node
//! became slower or noisier than it was.

use super::distribution::{fisher_upper_tail, student_quantile};
use super::margin::Margin;
use super::ratio::Better;
use super::starts::{RunPrior, Start, between_squares, estimate, run_squares};

/// Noise between starts and between runs, pooled over configs, as variances of logarithms with their degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Between starts.
    pub start_variance: f64,
    /// How many starts beyond the first of each config it rests on.
    pub start_freedom: f64,
    /// Between runs of one start.
    pub run_variance: f64,
    /// How many runs beyond the first of each start it rests on.
    pub run_freedom: f64,
}

/// The chance that a difference between equal things exceeds the margin.
const ALPHA: f64 = 0.05;
/// The chance that a node that did not change is called slower, or noisier.
const ALPHA_STRANGE: f64 = 0.005;
/// A node that is slower by less is not worth a word, as a logarithm.
const LEAST_SLOWER: f64 = 0.02;
/// Earlier experiments needed before a node can be called slower.
const FEWEST: usize = 3;

impl Noise {
    /// That of groups of starts, each group of one config; None if no group has two starts.
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

    /// The difference that two measurements of the same thing exceed in one of twenty cases: ISO 5725-6's repeatability limit, each
    /// measurement being the mean over `starts` of `runs` each, and with Student's t because the noise is itself an estimate.
    pub fn margin(&self, starts: usize, runs: usize) -> Margin {
        let one_start = self.start_variance + self.run_variance / runs as f64;
        Margin {
            log: student_quantile(ALPHA, self.start_freedom) * (2.0 * one_start / starts as f64).sqrt(),
        }
    }
}

/// How a node differs from its history, beyond what chance does in one of two hundred.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Strange {
    /// The metric is worse by this ratio.
    Slower(f64),
    /// Starts scatter this many times as much.
    NoisierStarts(f64),
    /// Runs of one start scatter this many times as much.
    NoisierRuns(f64),
}

/// Holds an experiment against earlier ones, each with the starts of the same configs in the same order. The mean over configs is judged
/// by the prediction interval of one more experiment (Hahn and Meeker 1991, section 4.7), scatter by Fisher's ratio of variances.
pub fn strange(earlier: &[Vec<Vec<Start>>], now: &[Vec<Start>], better: Better) -> Vec<Strange> {
    let noisier = |of: fn(&[Start]) -> (f64, f64), say: fn(f64) -> Strange| {
        let now = sum(now.iter().map(|starts| of(starts)));
        let before = sum(earlier.iter().flatten().map(|starts| of(starts)));
        let ratio = (now.0 / now.1) / (before.0 / before.1);
        (ratio.is_finite() && fisher_upper_tail(ratio, now.1, before.1) < ALPHA_STRANGE).then(|| say(ratio.sqrt()))
    };
    let means = |starts: &[Start]| (between_squares(starts, 0.0).0, (starts.len() as f64 - 1.0).max(0.0));
    let found = [
        slower(earlier, now, better),
        noisier(means, Strange::NoisierStarts),
        noisier(run_squares, Strange::NoisierRuns),
    ];
    found.into_iter().flatten().collect()
}

fn slower(earlier: &[Vec<Vec<Start>>], now: &[Vec<Start>], better: Better) -> Option<Strange> {
    let level = |configs: &[Vec<Start>]| {
        let logs = configs
            .iter()
            .map(|starts| estimate(starts, RunPrior { sd: 0.0, freedom: 0.0 }));
        let sum = logs.map(|estimate| Some(estimate?.log)).sum::<Option<f64>>()?;
        (!configs.is_empty()).then(|| sum / configs.len() as f64)
    };
    let before: Vec<f64> = earlier.iter().filter_map(|configs| level(configs)).collect();
    let n = before.len() as f64;
    let mean = before.iter().sum::<f64>() / n;
    let variance = before.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let worse = match better {
        Better::Lower => level(now)? - mean,
        Better::Higher => mean - level(now)?,
    };
    if before.len() < FEWEST {
        return None;
    }
    let limit = student_quantile(2.0 * ALPHA_STRANGE, n - 1.0) * (variance * (1.0 + 1.0 / n)).sqrt();
    (worse > limit.max(LEAST_SLOWER)).then(|| Strange::Slower(worse.exp()))
}
fn sum(pairs: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    pairs.fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_slower_or_noisier_node_is_told_and_a_like_one_is_not() {
        let usual: Vec<Vec<Start>> = (0..6)
            .map(|i| {
                let day = 100.0 + 0.3 * f64::from(i % 3);
                starts(&[&[day, day + 0.5], &[day + 1.0, day + 0.6], &[day - 0.8, day]])
            })
            .collect();
        let earlier: Vec<Vec<Vec<Start>>> = usual.iter().map(|starts| vec![starts.clone()]).collect();
        let judge = |starts: &[Start], better| strange(&earlier, &[starts.to_vec()], better);
        assert_eq!(judge(&usual[1], Better::Higher), []);
        let slower = starts(&[&[90.0, 90.5], &[91.0, 90.6], &[89.2, 90.0]]);
        assert!(matches!(judge(&slower, Better::Higher)[..], [Strange::Slower(ratio)] if (1.1..1.13).contains(&ratio)));
        assert_eq!(judge(&slower, Better::Lower), []);
        let noisier = starts(&[&[95.0, 95.5], &[105.0, 105.6], &[100.2, 101.0]]);
        assert!(matches!(
            judge(&noisier, Better::Higher)[..],
            [Strange::NoisierStarts(_)]
        ));
        assert_eq!(strange(&[], &[slower], Better::Higher), []);
    }
}
