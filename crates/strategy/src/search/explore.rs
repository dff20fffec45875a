//! Chooses loads from one request at a time to as many as the server can hold, for a whole curve of throughput against latency.
//!
//! Both ends of the curve, the anchors, are measured without a limit of the rate. The serial anchor has one request in flight. The
//! saturated anchor has as many as allowed; if the server fails under that load, half as many are tried, and so on. Half of the levels
//! between them are spaced evenly. Each further level splits the longest piece of the measured curve, which is where the knee is.

use super::Vary;
use super::seed::Requests;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Spacing of the levels between two measured loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Equal factors.
    Log,
    /// Equal differences.
    Linear,
}

/// Settings of an exploration. As JSON, they are part of the exploration's identity.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExploreSettings {
    /// The load that is varied.
    pub vary: Vary,
    /// Number of loads, including both anchors.
    pub levels: usize,
    /// Spacing of the levels.
    pub spacing: Spacing,
    /// Number of requests in flight at the saturated anchor, unless the server fails under them.
    pub max_concurrency: u64,
    /// Number of runs at each load.
    pub runs: u32,
    /// Number of requests of a run, by its load.
    pub requests: Requests,
    /// True if the number of requests grows with the rate, false if it grows with the requests in flight.
    pub requests_per_rate: bool,
}

impl ExploreSettings {
    /// Returns settings for ten loads with equal factors between them, up to 1024 requests in flight.
    pub fn new(vary: Vary, runs: u32) -> ExploreSettings {
        ExploreSettings {
            vary,
            levels: 10,
            spacing: Spacing::Log,
            max_concurrency: 1024,
            runs,
            // One request at a time takes long, and few requests suffice to measure its latency.
            requests: Requests {
                per_value: 10.0,
                min: 32,
                max: 2000,
            },
            requests_per_rate: false,
        }
    }

    /// Returns the number of requests of a run with `in_flight` at once. `serial` is the measured rate with one request at a time, in
    /// requests per second.
    fn requests_of_flight(&self, in_flight: f64, serial: f64) -> u64 {
        if !self.requests_per_rate {
            return self.requests.at(in_flight);
        }
        // The rate under this load is still unknown, so a run has at least two requests for each one in flight, up to the maximum number of
        // requests.
        let filled = (2.0 * in_flight).min(self.requests.max as f64) as u64;
        self.requests.at(serial).max(filled)
    }

    /// Returns the number of requests of a run at `rate` requests per second. A request takes `seconds` if no other one runs.
    fn requests_of_rate(&self, rate: f64, seconds: f64) -> u64 {
        // By Little's law, the requests in flight are those that arrive while one of them runs, here for at least a second.
        let in_flight = (rate * seconds).max(rate);
        self.requests.at(if self.requests_per_rate { rate } else { in_flight })
    }
}

impl fmt::Display for ExploreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (levels, most, runs) = (self.levels, self.max_concurrency, self.runs);
        let spacing = match self.spacing {
            Spacing::Log => "equal factors",
            Spacing::Linear => "equal steps",
        };
        write!(
            f,
            "{levels} levels of {} from one request at a time to {most} in flight, half by {spacing} and half at the knee, \
             {runs} {} each",
            self.vary.word(),
            if runs == 1 { "run" } else { "runs" }
        )
    }
}

/// The load of one run; `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Maximum number of requests in flight.
    pub max_concurrency: Option<u64>,
    /// Requests sent a second.
    pub request_rate: Option<f64>,
    /// Requests to send.
    pub requests: u64,
}

impl Load {
    fn in_flight(most: u64, requests: u64) -> Load {
        Load {
            max_concurrency: Some(most),
            request_rate: None,
            requests,
        }
    }
}

/// One run of an exploration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ExplorationRun {
    /// The load of the run.
    pub load: Load,
    /// The measurements; `None` if the run failed.
    pub figures: Option<CurvePoint>,
}

/// Position of a run on the curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Requests completed a second.
    pub throughput: f64,
    /// Mean time of a request from sending to its last token, in ms.
    pub latency_ms: f64,
}

impl CurvePoint {
    /// Returns the mean over the runs that did not fail; `None` if there are none.
    fn mean(runs: &[ExplorationRun]) -> Option<CurvePoint> {
        let figures: Vec<CurvePoint> = runs.iter().filter_map(|run| run.figures).collect();
        let mean = |of: fn(&CurvePoint) -> f64| figures.iter().map(of).sum::<f64>() / figures.len() as f64;
        (!figures.is_empty()).then(|| CurvePoint {
            throughput: mean(|figures| figures.throughput),
            latency_ms: mean(|figures| figures.latency_ms),
        })
    }
}

/// An exploration of one server config, with `ask` and `add` like a search.
#[derive(Debug, Clone)]
pub struct Exploration {
    settings: ExploreSettings,
    /// The runs at each load, in the order in which the loads were asked for.
    runs: Vec<Vec<ExplorationRun>>,
}

impl Exploration {
    /// Returns an exploration that has measured nothing.
    pub fn new(settings: ExploreSettings) -> Exploration {
        Exploration {
            settings,
            runs: Vec::new(),
        }
    }

    /// Returns the next load; `None` once every level is measured, no new load lies between the anchors, or an anchor cannot be measured.
    pub fn ask(&self) -> Option<Load> {
        let (settings, requests) = (&self.settings, self.settings.requests);
        if let Some(open) = self.runs.last().filter(|runs| !self.is_done(runs)) {
            return Some(open[0].load);
        }
        if self.runs.is_empty() {
            return Some(Load::in_flight(1, requests.at(1.0)));
        }
        let serial = self.serial()?;
        let Some(saturated) = self.saturated() else {
            let most = self.runs[1..].last().and_then(|runs| runs[0].load.max_concurrency);
            let next = most.map_or(settings.max_concurrency, |most| most / 2);
            let requests = settings.requests_of_flight(next as f64, serial.throughput);
            return (next > 1).then(|| Load::in_flight(next, requests));
        };
        let measured = self.runs.len() - (saturated - 1);
        if measured >= settings.levels.max(2) {
            return None;
        }
        self.between().map(|value| match settings.vary {
            Vary::MaxConcurrency => Load::in_flight(value as u64, requests.at(value)),
            Vary::RequestRate => Load {
                max_concurrency: None,
                request_rate: Some(value),
                requests: settings.requests_of_rate(value, serial.latency_ms / 1000.0),
            },
        })
    }

    /// Adds the result of a run.
    pub fn add(&mut self, level: &ExplorationRun) {
        let is_done = self.runs.last().is_none_or(|runs| self.is_done(runs));
        match self.runs.last_mut().filter(|_| !is_done) {
            Some(runs) => runs.push(*level),
            None => self.runs.push(vec![*level]),
        }
    }

    /// Returns true if both anchors were measured.
    pub fn has_anchors(&self) -> bool {
        self.serial().is_some() && self.saturated().is_some()
    }

    /// Returns true if a load needs no further run. A load that the server cannot sustain is not tried again.
    fn is_done(&self, runs: &[ExplorationRun]) -> bool {
        runs.len() >= self.settings.runs.max(1) as usize || runs.last().is_some_and(|run| run.figures.is_none())
    }

    fn serial(&self) -> Option<CurvePoint> {
        self.runs.first().and_then(|runs| CurvePoint::mean(runs))
    }

    /// Returns the index of the saturated anchor: the highest load in flight that did not fail.
    fn saturated(&self) -> Option<usize> {
        (1..self.runs.len()).find(|level| CurvePoint::mean(&self.runs[*level]).is_some())
    }

    /// Returns the position of a level on the axis that is varied. If a rate is varied, an anchor lies at the rate that it reached.
    fn position(&self, runs: &[ExplorationRun]) -> f64 {
        let load = runs[0].load;
        let reached = || CurvePoint::mean(runs).map_or(f64::NAN, |figures| figures.throughput);
        match self.settings.vary {
            Vary::MaxConcurrency => load.max_concurrency.map_or(f64::INFINITY, |n| n as f64),
            Vary::RequestRate => load.request_rate.unwrap_or_else(reached),
        }
    }

    /// Returns the next value between the anchors that was not measured yet.
    fn between(&self) -> Option<f64> {
        let saturated = self.saturated()?;
        let anchors = [self.position(&self.runs[0]), self.position(&self.runs[saturated])];
        let (low, high) = (anchors[0].min(anchors[1]), anchors[0].max(anchors[1]));
        // If both anchors reached the same rate, no level lies between them.
        if !(low > 0.0 && high.is_finite() && low < high) {
            return None;
        }
        let fresh =
            |value: &f64| *value > low && *value < high && self.runs.iter().all(|runs| self.position(runs) != *value);
        let inner = self.settings.levels.saturating_sub(2);
        let even = inner.div_ceil(2);
        let first = (1..=even)
            .map(|i| self.part(low, high, i as f64 / (even + 1) as f64))
            .find(fresh);
        first
            .filter(|_| self.runs.len() < saturated + 1 + even)
            .or_else(|| self.knee(fresh))
    }

    /// Returns the middle of the longest piece of the curve of log latency against log throughput that was not measured yet.
    fn knee(&self, fresh: impl Fn(&f64) -> bool) -> Option<f64> {
        let measured = self.runs.iter();
        let measured = measured.filter_map(|runs| Some((self.position(runs), CurvePoint::mean(runs)?)));
        let mut curve: Vec<(f64, CurvePoint)> = measured.collect();
        curve.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut pieces: Vec<(f64, f64)> = curve
            .windows(2)
            .map(|pair| {
                let step = |of: fn(&CurvePoint) -> f64| (of(&pair[1].1) / of(&pair[0].1)).ln().abs();
                let length = step(|figures| figures.throughput).hypot(step(|figures| figures.latency_ms));
                let middle = self.part(pair[0].0, pair[1].0, 0.5);
                (if length.is_finite() { length } else { 0.0 }, middle)
            })
            .collect();
        pieces.sort_by(|a, b| b.0.total_cmp(&a.0));
        pieces.into_iter().map(|(_, middle)| middle).find(fresh)
    }

    /// Returns the load at a part of the way from `low` to `high`.
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

    fn settings(vary: Vary, levels: usize, max_concurrency: u64, runs: u32) -> ExploreSettings {
        ExploreSettings {
            levels,
            max_concurrency,
            ..ExploreSettings::new(vary, runs)
        }
    }

    /// Returns the explored loads of a server that takes `base_ms` for a request alone, and answers at most `capacity` requests a second.
    fn explore(vary: Vary, levels: usize, base_ms: f64, capacity: f64) -> Vec<f64> {
        let mut exploration = Exploration::new(settings(vary, levels, 256, 1));
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
            let figures = Some(CurvePoint { throughput, latency_ms });
            exploration.add(&ExplorationRun { load, figures });
        }
        exploration.runs.iter().map(|runs| exploration.position(runs)).collect()
    }

    #[test]
    fn rates_below_one_lie_between_the_measured_anchors() {
        let rates = explore(Vary::RequestRate, 8, 4760.0, 0.425);
        assert_eq!(rates.len(), 8);
        assert!((rates[0] - 0.21).abs() < 0.001 && rates[1] == 0.425, "{rates:?}");
        assert!(rates[2..].iter().all(|rate| *rate > 0.21 && *rate < 0.425), "{rates:?}");
    }

    #[test]
    fn requests_that_follow_the_rate_do_not_follow_the_saturated_end() {
        let requests = |times: f64, most: u64| {
            let settings = ExploreSettings {
                requests: Requests {
                    per_value: times,
                    min: 40,
                    max: most,
                },
                requests_per_rate: true,
                ..settings(Vary::RequestRate, 3, 1024, 1)
            };
            let mut exploration = Exploration::new(settings);
            let mut sent = Vec::new();
            for throughput in [0.5, 8.0, 2.0] {
                let load = exploration.ask().expect("three levels");
                sent.push(load.requests);
                let figures = Some(CurvePoint {
                    throughput,
                    latency_ms: 2000.0,
                });
                exploration.add(&ExplorationRun { load, figures });
            }
            sent
        };
        assert_eq!(requests(60.0, 10_000), [60, 2048, 120]);
        assert_eq!(requests(60.0, 100), [60, 100, 100]);
    }

    #[test]
    fn levels_gather_at_the_knee_and_none_is_run_twice() {
        let mut levels = explore(Vary::MaxConcurrency, 10, 100.0, 200.0);
        levels.sort_by(f64::total_cmp);
        assert!(levels.windows(2).all(|pair| pair[0] < pair[1]), "{levels:?}");
        assert_eq!((levels[0], levels[9]), (1.0, 256.0));
    }

    /// Returns the loads asked for while every run measures `figures`.
    fn asked(settings: ExploreSettings, figures: impl Fn(u64) -> Option<CurvePoint>) -> Vec<u64> {
        let mut exploration = Exploration::new(settings);
        let mut asked = Vec::new();
        while let Some(load) = exploration.ask() {
            let in_flight = load.max_concurrency.expect("limited in this test");
            asked.push(in_flight);
            let figures = figures(in_flight);
            exploration.add(&ExplorationRun { load, figures });
        }
        asked
    }

    const FLAT: Option<CurvePoint> = Some(CurvePoint {
        throughput: 1.0,
        latency_ms: 1.0,
    });

    #[test]
    fn too_narrow_a_range_ends_early() {
        let narrow = ExploreSettings {
            spacing: Spacing::Linear,
            ..settings(Vary::MaxConcurrency, 10, 3, 1)
        };
        assert_eq!(asked(narrow, |_| FLAT), [1, 3, 2]);
    }

    #[test]
    fn every_load_is_repeated_before_the_next_but_not_one_that_fails() {
        let repeated = settings(Vary::MaxConcurrency, 4, 16, 2);
        assert_eq!(asked(repeated.clone(), |_| FLAT), [1, 1, 16, 16, 4, 4, 2, 2]);
        let weak = |in_flight| FLAT.filter(|_| in_flight != 4);
        assert_eq!(asked(repeated.clone(), weak), [1, 1, 16, 16, 4]);
        assert_eq!(asked(repeated, |_| None), [1]);
    }

    #[test]
    fn a_server_that_cannot_bear_the_saturated_end_is_explored_up_to_a_lower_one() {
        let settings = settings(Vary::MaxConcurrency, 4, 64, 1);
        let up_to = |most: u64| asked(settings.clone(), move |in_flight| FLAT.filter(|_| in_flight <= most));
        assert_eq!(up_to(20), [1, 64, 32, 16, 4, 2]);
        assert_eq!(up_to(1), [1, 64, 32, 16, 8, 4, 2]);
    }
}
