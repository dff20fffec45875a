//! Priors of noise that use the noise measured by other experiments on the machine.

use super::document::MetricNoise;
use super::experiment::NoisePrior;
use super::model::{Basis, NoiseEstimate};

/// The median of a half-normal distribution of scale 1.
const MEDIAN_OF_HALF_NORMAL: f64 = 0.674_49;
/// The largest factor by which other experiments move a prior.
const FARTHEST: f64 = 4.0;
/// The factor by which the spread of run noise shrinks if other experiments measured it.
const SPREAD_LEFT: f64 = 0.6;

impl NoisePrior {
    /// Returns the prior centred on the noise that other experiments measured. It stays wide enough for an experiment with different noise.
    pub fn informed_by(self, noise: &MetricNoise) -> NoisePrior {
        let measured = |known: &NoiseEstimate, usual: f64| {
            let is_measured = known.basis == Basis::Measured && known.deviation.is_finite();
            is_measured.then(|| known.deviation.clamp(usual / FARTHEST, usual * FARTHEST))
        };
        let run = measured(&noise.run, self.run);
        let start = measured(&noise.start, self.start * MEDIAN_OF_HALF_NORMAL);
        NoisePrior {
            run: run.unwrap_or(self.run),
            run_spread: self.run_spread * run.map_or(1.0, |_| SPREAD_LEFT),
            start: start.map_or(self.start, |start| start / MEDIAN_OF_HALF_NORMAL),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_noise_centres_the_prior_and_an_assumed_one_does_not() {
        let noise = |run: NoiseEstimate, start: NoiseEstimate| MetricNoise {
            metric: "output_throughput".to_owned(),
            run,
            start,
            node: None,
        };
        let prior = NoisePrior::THROUGHPUT;
        let own = prior.informed_by(&noise(NoiseEstimate::by(0.03, 20), NoiseEstimate::by(0.5, 2)));
        assert_eq!((own.run, own.start), (0.03, prior.start));
        assert!(own.run_spread < prior.run_spread);
        let own = prior.informed_by(&noise(NoiseEstimate::by(1.0, 0), NoiseEstimate::by(0.005, 8)));
        assert_eq!((own.run, own.run_spread), (prior.run, prior.run_spread));
        assert!((own.start * MEDIAN_OF_HALF_NORMAL - 0.005).abs() < 1e-9);
        let far = prior.informed_by(&noise(NoiseEstimate::by(9.0, 20), NoiseEstimate::by(0.0, 20)));
        assert!(
            far.run <= FARTHEST * prior.run && far.start >= prior.start / FARTHEST,
            "{far:?}"
        );
    }
}
