//! Seeded randomness of the engine model. A seed gives the same random numbers in every version; generators of other libraries do not
//! promise that.

use vsweep_metrics::rng::{mix, uniform};

/// Returns a hash of a text. Different `start` values give different hashes.
pub fn mix_text(start: u64, text: &str) -> u64 {
    text.bytes().fold(start, |hash, byte| mix(hash ^ u64::from(byte)))
}

/// Deviations of a server's times from the model. [`Spread::default`] has none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// Standard deviation of the logarithm of each step's time.
    pub step: f64,
    /// Standard deviation of the logarithm of a factor that is constant for one server.
    pub server: f64,
    /// Amplitude of slow oscillations of all times: 0.05 is 5 %.
    pub drift: f64,
    /// Growth of times per minute, as a share: a server that becomes slower and slower.
    pub slowing: f64,
    /// Mean time between two stalls and their length, in seconds.
    pub stalls: Option<(f64, f64)>,
}

/// Period of the drift, in seconds.
const DRIFT_PERIOD: f64 = 1800.0;

/// The noise of one server, which turns modelled durations of steps into simulated ones.
#[derive(Debug, Clone)]
pub struct Noise {
    seed: u64,
    spread: Spread,
    /// Constant factor of the server's times.
    server: f64,
    /// Phase of the drift, as a share of its period.
    phase: f64,
    /// Number of steps drawn so far.
    drawn: u64,
    /// Normal numbers are drawn in pairs. This is the second of a pair, for the next step.
    spare: Option<f64>,
}

impl Noise {
    /// Returns the noise of one server. `seed` decides the noise of its steps, and together with `server` its constant factor and drift.
    pub fn new(seed: u64, server: u64, spread: Spread) -> Self {
        let server_seed = mix(seed ^ mix(server));
        Noise {
            seed,
            spread,
            server: (spread.server * normals(server_seed, 0).0).exp(),
            phase: uniform(server_seed, 2),
            drawn: 0,
            spare: None,
        }
    }

    /// Returns the duration of a step that begins at `now` (seconds) and takes `seconds` by the model.
    pub fn stretch(&mut self, now: f64, seconds: f64) -> f64 {
        let spread = self.spread;
        if spread == Spread::default() {
            return seconds;
        }
        let mut seconds = seconds * self.server;
        if spread.step > 0.0 {
            seconds *= (spread.step * self.normal()).exp();
        }
        seconds *= 1.0 + spread.slowing * now / 60.0;
        if spread.drift > 0.0 {
            seconds *= 1.0 + spread.drift * (std::f64::consts::TAU * (now / DRIFT_PERIOD + self.phase)).sin();
        }
        let stalled = |(every, length): (f64, f64)| {
            let is_stalled = uniform(!self.seed, self.drawn) < 1.0 - (-seconds / every).exp();
            if is_stalled { length } else { 0.0 }
        };
        let stall = spread.stalls.map_or(0.0, stalled);
        self.drawn += 1;
        seconds + stall
    }

    /// Returns a standard normal number for this step.
    fn normal(&mut self) -> f64 {
        self.spare.take().unwrap_or_else(|| {
            let (one, other) = normals(self.seed, self.drawn);
            self.spare = Some(other);
            one
        })
    }
}

/// Returns two standard normal numbers, made from two uniform ones (Box and Muller 1958).
fn normals(seed: u64, index: u64) -> (f64, f64) {
    let (u, v) = (uniform(seed, index), uniform(seed, index + 1));
    let (sine, cosine) = (std::f64::consts::TAU * v).sin_cos();
    let radius = (-2.0 * (1.0 - u).ln()).sqrt();
    (radius * cosine, radius * sine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_keeps_its_factor_and_differs_from_the_next() {
        let spread = Spread {
            server: 0.05,
            ..Spread::default()
        };
        let time = |server| Noise::new(1, server, spread).stretch(0.0, 1.0);
        assert_eq!(time(1), time(1));
        assert_ne!(time(1), time(2));
        let mut noise = Noise::new(1, 1, spread);
        assert_eq!(noise.stretch(0.0, 1.0), noise.stretch(100.0, 1.0));
    }

    #[test]
    fn drift_swings_around_one_and_stalls_come_as_often_as_stated() {
        let mut drift = Noise::new(
            5,
            0,
            Spread {
                drift: 0.1,
                ..Spread::default()
            },
        );
        let times: Vec<f64> = (0..1800).map(|second| drift.stretch(f64::from(second), 1.0)).collect();
        assert!((times.iter().sum::<f64>() / 1800.0 - 1.0).abs() < 1e-3);
        assert!(times.iter().any(|time| *time > 1.09) && times.iter().all(|time| *time < 1.11));
        let stalls = Some((10.0, 0.5));
        let mut noise = Noise::new(
            5,
            0,
            Spread {
                stalls,
                ..Spread::default()
            },
        );
        let lost: f64 = (0..100_000).map(|_| noise.stretch(0.0, 0.01) - 0.01).sum();
        assert!(
            (40.0..60.0).contains(&lost),
            "100 stalls of half a second in 1000 s: {lost}"
        );
    }
}
