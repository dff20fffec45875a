//! Due times of requests, by rate, burstiness and ramp-up. They are drawn from numpy's legacy generator in the order of `vllm bench serve`,
//! so that a seed gives the same arrival times.

use vsweep_metrics::Nanos;
use vsweep_metrics::rng::NumpyLegacy;

/// The arrival process of an open loop; an infinite rate makes everything due at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrivals {
    /// Mean requests per second; `f64::INFINITY` for all at once. Ignored if there is a ramp.
    pub rate: f64,
    /// Shape of the gamma-distributed gaps: 1 is Poisson, below is burstier, infinity means equal gaps.
    pub burstiness: f64,
    /// A rate that changes from the first to the last request.
    pub ramp: Option<Ramp>,
}

/// A rate that grows from request to request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    /// Linear or exponential.
    pub shape: RampShape,
    /// Requests a second at the first request.
    pub start: f64,
    /// Requests a second at the last request.
    pub end: f64,
}

crate::one_of! {
    /// Growth of a ramp.
    pub enum RampShape {
        /// By equal steps.
        Linear = "linear",
        /// By equal factors.
        Exponential = "exponential",
    }
}

impl Arrivals {
    /// Returns true if requests have their own due times, false if all are due at once.
    pub fn is_open(&self) -> bool {
        self.ramp.is_some() || self.rate.is_finite()
    }

    /// Number of requests that are due within `seconds`; `None` if all are due at once. Without a ramp the number is exact. With a ramp it
    /// is an average, and the ramp ends with the last of these requests.
    pub fn count_within(&self, seconds: f64) -> Option<f64> {
        let gap_s = match self.ramp {
            None => 1.0 / self.rate,
            Some(Ramp { shape, start, end }) => match ((end / start).ln(), shape) {
                (growth, _) if growth.abs() < 1e-9 => 1.0 / start,
                (growth, RampShape::Linear) => growth / (end - start),
                (growth, RampShape::Exponential) => (1.0 / start - 1.0 / end) / growth,
            },
        };
        // Keeps the last request if rounding errors put it slightly after the end.
        self.is_open().then(|| (seconds / gap_s + 1e-6).floor())
    }

    /// Rate at request `i` of `n`, in requests per second.
    pub fn rate_at(&self, i: usize, n: usize) -> f64 {
        let Some(ramp) = self.ramp else { return self.rate };
        let progress = i as f64 / (n.saturating_sub(1).max(1)) as f64;
        match ramp.shape {
            RampShape::Linear => ramp.start + (ramp.end - ramp.start) * progress,
            RampShape::Exponential => ramp.start * (ramp.end / ramp.start).powf(progress),
        }
    }

    /// Due times of `n` requests, in seconds after t0. Without a ramp the last one is due at exactly `n / rate`.
    pub fn due_seconds(&self, n: usize, seed: u32) -> Vec<f64> {
        let mut random = NumpyLegacy::new(seed);
        let mut elapsed = 0.0;
        let mut due: Vec<f64> = (0..n)
            .map(|i| {
                let rate = self.rate_at(i, n);
                elapsed += if rate.is_infinite() {
                    0.0
                } else if self.burstiness.is_infinite() {
                    1.0 / rate
                } else {
                    random.gamma(self.burstiness, 1.0 / (rate * self.burstiness))
                };
                elapsed
            })
            .collect();
        let last = due.last().copied().unwrap_or(0.0);
        if self.ramp.is_none() && last != 0.0 {
            let stretch = (n as f64 / self.rate) / last;
            due.iter_mut().for_each(|due| *due *= stretch);
        }
        due
    }

    /// Relative standard deviation, between draws, of the time at which the last of `n` requests is due. It is 0 without a ramp.
    pub fn span_deviation(&self, n: usize) -> f64 {
        if self.ramp.is_none() || n == 0 {
            return 0.0;
        }
        let gaps = (0..n).map(|i| 1.0 / self.rate_at(i, n));
        let (sum, squares) = gaps.fold((0.0, 0.0), |sums, gap| (sums.0 + gap, sums.1 + gap * gap));
        (squares / self.burstiness).sqrt() / sum
    }

    /// Due times of `n` requests, in nanoseconds after t0.
    pub fn due_times(&self, n: usize, seed: u32) -> Vec<Nanos> {
        self.due_seconds(n, seed)
            .into_iter()
            .map(|due| (due * 1e9) as Nanos)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All requests at once.
    const AT_ONCE: Arrivals = Arrivals {
        rate: f64::INFINITY,
        burstiness: 1.0,
        ramp: None,
    };

    #[test]
    fn the_length_of_a_ramp_varies_as_its_gaps_do() {
        let (shape, n) = (RampShape::Linear, 40);
        let mut ramp = Arrivals {
            ramp: Some(Ramp {
                shape,
                start: 1.0,
                end: 9.0,
            }),
            ..AT_ONCE
        };
        let spans: Vec<f64> = (0..2000)
            .filter_map(|seed| ramp.due_seconds(n, seed).last().copied())
            .collect();
        let mean = spans.iter().sum::<f64>() / 2000.0;
        let variance = spans.iter().map(|span| (span - mean).powi(2)).sum::<f64>() / 2000.0;
        let ratio = ramp.span_deviation(n) / (variance.sqrt() / mean);
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
        ramp.burstiness = f64::INFINITY;
        assert_eq!(ramp.span_deviation(n), 0.0, "equal gaps");
        assert_eq!(AT_ONCE.span_deviation(n), 0.0);
    }

    #[test]
    fn as_many_come_within_a_time_as_are_due_in_it() {
        let steady = Arrivals { rate: 0.7, ..AT_ONCE };
        assert_eq!(
            [60.0, 1.0, 10.0].map(|seconds| steady.count_within(seconds)),
            [Some(42.0), Some(0.0), Some(7.0)]
        );
        assert_eq!(AT_ONCE.count_within(60.0), None);
        for (shape, start, end) in [
            (RampShape::Linear, 1.0, 9.0),
            (RampShape::Exponential, 0.5, 40.0),
            (RampShape::Linear, 3.0, 3.0),
        ] {
            let ramp = Some(Ramp { shape, start, end });
            let ramp = Arrivals {
                burstiness: f64::INFINITY,
                ramp,
                ..AT_ONCE
            };
            let count = ramp.count_within(300.0).expect("a rate");
            let due = ramp.due_seconds(count as usize, 0);
            let last = due.last().copied().expect("requests");
            assert!((295.0..305.0).contains(&last), "{ramp:?}: {count} take {last} s");
        }
    }
}
