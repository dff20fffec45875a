//! A spread of loads between doing one request at a time and doing as many as the server can, for a whole curve of
//! throughput against latency.
//!
//! The anchors are measured, not assumed: the serial one has one request in flight and no rate limit, the saturated
//! one has no rate limit and as many in flight as allowed. Half of the levels between are spaced evenly; each further one
//! splits the longest piece of the measured curve, which is where the knee is.

use super::Vary;
use super::seed::Requests;
use serde::{Deserialize, Serialize};

/// How the first levels between the anchors are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Equal factors.
    Log,
    /// Equal differences.
    Linear,
}

/// What to explore.
#[derive(Debug, Clone, PartialEq)]
pub struct ExploreSettings {
    /// The load that is varied.
    pub vary: Vary,
    /// Number of loads, both anchors among them.
    pub levels: usize,
    /// How they are spaced.
    pub spacing: Spacing,
    /// Most requests in flight, at the saturated anchor.
    pub max_concurrency: u64,
    /// Requests of a run.
    pub requests: Requests,
}

/// The load of one run; None means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Most requests in flight.
    pub max_concurrency: Option<u64>,
    /// Requests sent a second.
    pub request_rate: Option<f64>,
    /// Requests to send.
    pub requests: u64,
}

/// What one run measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// The load it ran under.
    pub load: Load,
    /// Requests completed a second.
    pub throughput: f64,
    /// Mean time of a request from sending to its last token, in ms.
    pub latency_ms: f64,
}

/// An exploration of one server config: ask and tell, like a search.
#[derive(Debug, Clone)]
pub struct Exploration {
    settings: ExploreSettings,
    told: Vec<Level>,
}

impl Exploration {
    /// An exploration that has measured nothing.
    pub fn new(settings: ExploreSettings) -> Exploration {
        Exploration {
            settings,
            told: Vec::new(),
        }
    }

    /// The next load; None once every level is measured or no other load lies between the anchors.
    pub fn ask(&self) -> Option<Load> {
        let ExploreSettings {
            vary,
            levels,
            max_concurrency,
            requests,
            ..
        } = &self.settings;
        match self.told.len() {
            told if told >= (*levels).max(2) => None,
            0 => Some(Load {
                max_concurrency: Some(1),
                request_rate: None,
                requests: requests.min.max(1),
            }),
            1 => {
                let requests = requests.at(*max_concurrency as f64);
                Some(Load {
                    max_concurrency: Some(*max_concurrency),
                    request_rate: None,
                    requests,
                })
            }
            _ => self.between().map(|value| match vary {
                Vary::MaxConcurrency => Load {
                    max_concurrency: Some(value as u64),
                    request_rate: None,
                    requests: requests.at(value),
                },
                Vary::RequestRate => {
                    // A rate needs as many requests as a concurrency of the same throughput (Little's law).
                    let in_flight = value * self.told[0].latency_ms / 1000.0;
                    Load {
                        max_concurrency: None,
                        request_rate: Some(value),
                        requests: requests.at(in_flight.max(value)),
                    }
                }
            }),
        }
    }

    /// Takes in what a run measured.
    pub fn tell(&mut self, level: &Level) {
        self.told.push(*level);
    }

    /// Position of a measured level on the axis that is varied. An anchor of a rate is the rate it reached.
    fn position(&self, level: &Level) -> f64 {
        match self.settings.vary {
            Vary::MaxConcurrency => level.load.max_concurrency.map_or(f64::INFINITY, |n| n as f64),
            Vary::RequestRate => level.load.request_rate.unwrap_or(level.throughput),
        }
    }

    /// The next value strictly between the anchors that was not measured yet.
    fn between(&self) -> Option<f64> {
        let anchors = [self.position(&self.told[0]), self.position(&self.told[1])];
        let (low, high) = (anchors[0].min(anchors[1]), anchors[0].max(anchors[1]));
        // A saturated run below the serial one, or one that measured nothing, leaves nothing between.
        if !(low > 0.0 && high.is_finite() && low < high) {
            return None;
        }
        let fresh =
            |value: &f64| *value > low && *value < high && self.told.iter().all(|level| self.position(level) != *value);
        let inner = self.settings.levels.saturating_sub(2);
        let even = inner.div_ceil(2);
        let first = (1..=even)
            .map(|i| self.part(low, high, i as f64 / (even + 1) as f64))
            .find(fresh);
        first
            .filter(|_| self.told.len() < 2 + even)
            .or_else(|| self.knee(fresh))
    }

    /// The middle of the longest piece of the curve of log latency against log throughput.
    fn knee(&self, fresh: impl Fn(&f64) -> bool) -> Option<f64> {
        let mut curve: Vec<&Level> = self.told.iter().collect();
        curve.sort_by(|a, b| self.position(a).total_cmp(&self.position(b)));
        let mut pieces: Vec<(f64, f64)> = curve
            .windows(2)
            .map(|pair| {
                let step = |a: f64, b: f64| (b / a).ln().abs();
                let length =
                    step(pair[0].throughput, pair[1].throughput).hypot(step(pair[0].latency_ms, pair[1].latency_ms));
                let middle = self.part(self.position(pair[0]), self.position(pair[1]), 0.5);
                (if length.is_finite() { length } else { 0.0 }, middle)
            })
            .collect();
        pieces.sort_by(|a, b| b.0.total_cmp(&a.0));
        pieces.into_iter().map(|(_, middle)| middle).find(fresh)
    }

    fn part(&self, low: f64, high: f64, part: f64) -> f64 {
        let value = match self.settings.spacing {
            Spacing::Log => low * (high / low).powf(part),
            Spacing::Linear => low + (high - low) * part,
        };
        self.settings.vary.floor(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A closed loop of `base` ms per request that can do at most `capacity` requests a second.
    fn explore(vary: Vary, levels: usize, base_ms: f64, capacity: f64) -> Vec<f64> {
        let requests = Requests {
            per_value: 10.0,
            min: 50,
            max: 1000,
        };
        let settings = ExploreSettings {
            vary,
            levels,
            spacing: Spacing::Log,
            max_concurrency: 256,
            requests,
        };
        let mut exploration = Exploration::new(settings);
        while let Some(load) = exploration.ask() {
            let in_flight = load.max_concurrency.unwrap_or(u64::MAX) as f64;
            let throughput = (in_flight * 1000.0 / base_ms)
                .min(capacity)
                .min(load.request_rate.unwrap_or(f64::MAX));
            let busy = throughput / capacity;
            let latency_ms = base_ms.max(if in_flight < 1e9 {
                in_flight / throughput * 1000.0
            } else {
                base_ms / (1.001 - busy)
            });
            exploration.tell(&Level {
                load,
                throughput,
                latency_ms,
            });
        }
        exploration
            .told
            .iter()
            .map(|level| exploration.position(level))
            .collect()
    }

    #[test]
    fn rates_below_one_lie_between_the_measured_anchors() {
        let rates = explore(Vary::RequestRate, 8, 4760.0, 0.425);
        assert_eq!(rates.len(), 8);
        assert!((rates[0] - 0.21).abs() < 0.001 && rates[1] == 0.425, "{rates:?}");
        assert!(rates[2..].iter().all(|rate| *rate > 0.21 && *rate < 0.425), "{rates:?}");
    }

    #[test]
    fn levels_gather_at_the_knee_and_none_is_run_twice() {
        let mut levels = explore(Vary::MaxConcurrency, 10, 100.0, 200.0);
        levels.sort_by(f64::total_cmp);
        assert!(levels.windows(2).all(|pair| pair[0] < pair[1]), "{levels:?}");
        assert_eq!((levels[0], levels[9]), (1.0, 256.0));
    }

    #[test]
    fn too_narrow_a_range_ends_early() {
        let requests = Requests {
            per_value: 10.0,
            min: 50,
            max: 1000,
        };
        let settings = ExploreSettings {
            vary: Vary::MaxConcurrency,
            levels: 10,
            spacing: Spacing::Linear,
            max_concurrency: 3,
            requests,
        };
        let mut exploration = Exploration::new(settings);
        let mut asked = Vec::new();
        while let Some(load) = exploration.ask() {
            asked.push(load.max_concurrency.expect("valid in this test"));
            exploration.tell(&Level {
                load,
                throughput: 1.0,
                latency_ms: 1.0,
            });
        }
        assert_eq!(asked, [1, 3, 2]);
    }
}
