//! Uncertain times. Two kinds of error are kept apart, because sums treat them differently: a wrong factor is wrong in all times that it
//! corrects, while chance evens out over many.

use crate::sim::engine::cost::{Constants, CostModel};
use crate::sim::engine::model::Model;
use serde::Serialize;

/// The standard normal quantile of 90 %. An interval of this many standard deviations to both sides has a probability of 80 %.
pub const Z: f64 = 1.2816;

/// A time with its 80 % interval, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TimeInterval {
    /// Lower end of the interval.
    pub low: f64,
    /// The median.
    pub likely: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Distribution of the ratio between real durations and the model's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeFactor {
    /// The likely ratio.
    pub factor: f64,
    /// Uncertainty that all ratios have in common: standard deviation of the logarithm.
    pub common: f64,
    /// Additional deviation of a single ratio: standard deviation of its logarithm.
    pub own: f64,
}

/// Standard deviation of the logarithm of the machine's present speed, relative to its speed during the measurements or while nothing else
/// runs. Records do not reduce it.
const DRIFT: f64 = 0.08;

/// Number of measured ratios that count as much as the prior of the scatter.
const PRIOR_RATIOS: f64 = 4.0;

impl TimeFactor {
    /// Returns the factor before anything was measured: 1, with these uncertainties.
    pub const fn of(common: f64, own: f64) -> TimeFactor {
        let factor = 1.0;
        TimeFactor { factor, common, own }
    }

    /// Returns the factor after some ratios were measured, by the usual update of a normal mean. The scatter is estimated from these ratios
    /// and its prior.
    pub fn after(self, ratios: &[f64]) -> TimeFactor {
        let logs: Vec<f64> = ratios.iter().filter(|r| **r > 0.0).map(|ratio| ratio.ln()).collect();
        let n = logs.len() as f64;
        if logs.is_empty() {
            return self;
        }
        let mean = logs.iter().sum::<f64>() / n;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let variance = (PRIOR_RATIOS * self.own.powi(2) + squares) / (PRIOR_RATIOS + n - 1.0);
        let (prior, data) = (self.common.powi(-2), n / variance.max(1e-12));
        TimeFactor {
            factor: ((prior * self.factor.ln() + data * mean) / (prior + data)).exp(),
            common: (prior + data).powf(-0.5),
            own: variance.sqrt(),
        }
    }

    /// Corrects a time that the model predicts, in seconds.
    pub fn time(&self, seconds: f64) -> Time {
        let likely = seconds * self.factor;
        Time {
            likely,
            common: likely * self.common,
            own: (likely * self.own).powi(2),
        }
    }
}

/// A time, or a sum of times that are corrected by one factor.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Time {
    /// The likely time, in seconds.
    pub likely: f64,
    /// Standard deviation due to the factor, in seconds. In a sum, standard deviations are added.
    common: f64,
    /// Variance due to chance, in square seconds. In a sum, variances are added.
    own: f64,
}

impl Time {
    /// Returns the standard deviation of its logarithm.
    pub fn error(&self) -> f64 {
        let variance = self.common.powi(2) + self.own;
        if self.likely > 0.0 {
            (variance / self.likely.powi(2)).ln_1p().sqrt()
        } else {
            0.0
        }
    }
}

impl std::ops::AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        self.likely += other.likely;
        self.common += other.common;
        self.own += other.own;
    }
}

/// The time of a sweep or a part of one: starts and runs, which are corrected by different factors.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Total {
    /// Time for starting and stopping servers.
    pub starts: Time,
    /// Time of all work on ready servers.
    pub runs: Time,
}

impl Total {
    /// Returns the sum as an interval. Times are positive and their errors are factors, so it extends farther up than down.
    pub fn interval(&self) -> TimeInterval {
        let likely = self.starts.likely + self.runs.likely;
        if likely <= 0.0 {
            return TimeInterval::default();
        }
        let common = self.starts.common.powi(2) + self.runs.common.powi(2);
        let drift = (DRIFT * likely).powi(2);
        let deviation = (common + self.starts.own + self.runs.own + drift).sqrt();
        let spread = (1.0 + (deviation / likely).powi(2)).ln().sqrt();
        TimeInterval {
            low: likely * (-Z * spread).exp(),
            likely,
            high: likely * (Z * spread).exp(),
        }
    }

    /// Multiplies all times by a factor.
    pub(super) fn stretched(self, factor: f64) -> Total {
        let stretched = |time: Time| Time {
            likely: time.likely * factor,
            common: time.common * factor,
            own: time.own * factor.powi(2),
        };
        Total {
            starts: stretched(self.starts),
            runs: stretched(self.runs),
        }
    }
}

impl std::ops::AddAssign for Total {
    fn add_assign(&mut self, other: Total) {
        self.starts += other.starts;
        self.runs += other.runs;
    }
}

/// Constants for the servers of one model on one kind of GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConstants {
    /// Name of the GPU.
    pub gpu: &'static str,
    /// The model.
    pub model: Model,
    /// Its constants.
    pub constants: Constants,
    /// Uncertainty of the duration of runs.
    pub run: TimeFactor,
    /// Uncertainty of server starts.
    pub start: TimeFactor,
    /// Standard deviations of the logarithms of constants that only some servers depend on.
    pub special: Special,
}

/// Standard deviations of the logarithms of special constants.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Special {
    /// For quantised weights.
    pub quantised: f64,
    /// For eager steps, which launch kernels one by one.
    pub eager: f64,
    /// For links between GPUs.
    pub link: f64,
}

impl ServerConstants {
    /// Returns true if the constants apply to a server.
    pub fn is_about(&self, cost: &CostModel) -> bool {
        self.gpu == cost.gpu.name && self.model == cost.model
    }

    /// Returns the uncertainty of the duration of runs on a server, including that of the special constants on which it depends.
    pub fn run_factor(&self, cost: &CostModel) -> TimeFactor {
        let Special { quantised, eager, link } = self.special;
        let of_it = [
            (cost.is_quantised(), quantised),
            (cost.eager, eager),
            (cost.tensor_parallel > 1, link / 2.0),
        ];
        let special = of_it.iter().filter(|(applies, _)| *applies);
        let common = special.fold(self.run.common, |sum, (_, deviation)| sum.hypot(*deviation));
        TimeFactor { common, ..self.run }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VAGUE: TimeFactor = TimeFactor::of(0.4, 0.1);

    proptest! {
        #[test]
        fn intervals_enclose_and_sums_are_relatively_narrower(seconds in 0.1f64..1e4, many in 2usize..50) {
            let sum = |count: usize| {
                let mut total = Total::default();
                (0..count).for_each(|_| total.runs += VAGUE.time(seconds));
                total.interval()
            };
            let (one, all) = (sum(1), sum(many));
            prop_assert!(one.low < one.likely && one.likely < one.high);
            prop_assert!((all.likely / one.likely / many as f64 - 1.0).abs() < 1e-9);
            prop_assert!(all.high / all.low < one.high / one.low);
            // The common error of the belief does not average out.
            prop_assert!(all.high / all.likely > (1.25 * VAGUE.common).exp() * 0.95);
        }
    }

    #[test]
    fn measured_ratios_win_over_the_prior() {
        let learned = VAGUE.after(&[1.5, 1.5, 1.55, 1.45, 1.5]);
        assert!((learned.factor - 1.5).abs() < 0.02, "{learned:?}");
        assert!(learned.common < 0.06 && learned.own < VAGUE.own, "{learned:?}");
        assert_eq!(VAGUE.after(&[]), VAGUE);
    }
}
