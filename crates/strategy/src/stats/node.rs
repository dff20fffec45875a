//! A node's own noise, from repeated measurements of the same thing: how large a difference means nothing.

use super::distribution::student_quantile;
use super::margin::Margin;
use super::starts::{Start, between_squares, run_squares};

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

/// The chance that a difference between equal things exceeds the margin.
const ALPHA: f64 = 0.05;
impl Noise {
    /// Noise of groups of starts, each group of one config; `None` if no group has two starts.
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
}
