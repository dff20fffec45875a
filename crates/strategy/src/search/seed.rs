//! The starting point of a search, and the number of requests of a probe.

use serde::{Deserialize, Serialize};

/// A first guess of the answer, with its typical error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Seed {
    /// The guess.
    pub value: f64,
    /// The factor by which the answer is typically off, in either direction: 1.5 means two thirds to one and a half.
    pub factor: f64,
    /// Its source.
    pub basis: SeedBasis,
}

/// Source of a first guess. Earlier variants are trusted more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeedBasis {
    /// The answer of another server config.
    Neighbour,
    /// A simulated run of this search.
    Forecast,
    /// The number of requests that fit the server's KV cache.
    KvCapacity,
    /// No knowledge.
    Nothing,
}

impl SeedBasis {
    /// Returns its word in `sla.csv` and in the journal.
    pub fn word(self) -> &'static str {
        match self {
            SeedBasis::Neighbour => "neighbour",
            SeedBasis::Forecast => "forecast",
            SeedBasis::KvCapacity => "kv_capacity",
            SeedBasis::Nothing => "nothing",
        }
    }
}

impl Seed {
    /// The seed without any knowledge: 8, with a large error.
    pub const UNKNOWN: Seed = Seed::of(8.0, 6.0, SeedBasis::Nothing);

    const fn of(value: f64, factor: f64, basis: SeedBasis) -> Seed {
        Seed { value, factor, basis }
    }

    /// Returns a seed from the answer of a similar server config, which typically differs in one parameter.
    pub fn neighbour(answer: f64) -> Seed {
        Seed::of(answer, 1.6, SeedBasis::Neighbour)
    }

    /// Returns a seed from the simulator's forecast.
    pub fn forecast(answer: f64) -> Seed {
        Seed::of(answer, 2.0, SeedBasis::Forecast)
    }

    /// Returns a seed from the KV cache: the number of requests that fit if each holds its input and, on average, half of its output. All
    /// counts are in tokens. The seed is a guess of a concurrency, not of a rate.
    pub fn kv_capacity(capacity: f64, input: f64, output: f64) -> Seed {
        let requests = capacity / (input + output / 2.0).max(1.0);
        Seed::of(requests.max(1.0), 3.0, SeedBasis::KvCapacity)
    }
}

/// Number of requests of a probe. It is proportional to the load, so that all loads run for about the same time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// Number of requests for each unit of load.
    pub per_value: f64,
    /// Minimum number of requests.
    pub min: u64,
    /// Maximum number of requests, unless `min` is larger.
    pub max: u64,
}

impl Requests {
    /// Returns the lowest rate, in requests per second, at which all requests of a run are sent within `seconds`.
    pub fn lowest_rate(&self, seconds: f64) -> f64 {
        let (least, most) = (self.min.max(1), self.max.max(self.min).max(1));
        // With `per_value` requests for each unit of the rate, sending takes `per_value` seconds, unless a bound applies.
        let count = if self.per_value <= seconds { least } else { most };
        count as f64 / seconds
    }

    /// Returns the number of requests at the load `value`.
    pub fn at(&self, value: f64) -> u64 {
        ((self.per_value * value).ceil() as u64)
            .min(self.max)
            .max(self.min)
            .max(1)
    }
}

/// The best answer of the other server configs for one target. If the current config cannot hold more, its search may end early. The caller
/// chooses the rival.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rival {
    /// The target's name.
    pub target: String,
    /// The name of the server config, for display.
    pub server: String,
    /// The highest load at which it was measured to meet the target.
    pub load: f64,
    /// Load that the simulator predicts for the current server, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<f64>,
}

/// Factor by which a forecast is assumed to be too low at most: two typical errors of a forecast. It is not a strict bound.
const FORECAST_REACH: f64 = 4.0;

impl Rival {
    /// Returns an upper bound of the current server's load that does not exceed the rival's, with the reason. `None` if the server may
    /// still win. `highest` is the highest load that may be tried, `measured` the highest that the server may hold according to the
    /// measurements so far.
    pub(super) fn beats(&self, highest: f64, measured: Option<f64>) -> Option<(f64, String)> {
        let Rival { server, load, .. } = self;
        let reason = |why: String| format!("not searched further: {server} holds {load}, and {why}");
        let reach = self.forecast.map(|forecast| (forecast * FORECAST_REACH, forecast));
        // More than the highest load that may be tried is the sum of several replicas. This server may then hold more too.
        if highest == *load {
            return Some((highest, reason("no higher load is tried".to_owned())));
        }
        if let Some(limit) = measured.filter(|limit| limit <= load) {
            return Some((limit, reason(format!("this one holds at most {limit}"))));
        }
        let (reach, forecast) = reach.filter(|(reach, _)| reach <= load)?;
        let why = format!("the simulator predicts {forecast} here, and even {FORECAST_REACH} times that is not more");
        Some((reach, reason(why)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_follow_the_load_within_their_limits() {
        let requests = Requests {
            per_value: 10.0,
            min: 200,
            max: 2000,
        };
        assert_eq!([1.0, 30.5, 900.0].map(|value| requests.at(value)), [200, 305, 2000]);
    }

    #[test]
    fn a_rate_below_the_lowest_would_send_for_too_long() {
        let of = |per_value, min, max| Requests { per_value, min, max };
        for (requests, seconds) in [
            (of(10.0, 200, 2000), 960.0),
            (of(0.0, 40, 40), 50.0),
            (of(90.0, 30, 600), 48.0),
        ] {
            let lowest = requests.lowest_rate(seconds);
            let takes = |rate: f64| requests.at(rate) as f64 / rate;
            assert!(
                takes(lowest * 0.99) > seconds && takes(lowest * 1.01) <= seconds,
                "{requests:?}"
            );
        }
        assert!(of(90.0, 1, u64::MAX).lowest_rate(48.0) > 1e12, "at no rate");
    }

    #[test]
    fn a_cache_of_a_million_tokens_holds_so_many_requests() {
        assert_eq!(Seed::kv_capacity(1_000_000.0, 900.0, 200.0).value, 1000.0);
        assert_eq!(Seed::kv_capacity(10.0, 900.0, 200.0).value, 1.0);
    }
}

#[cfg(test)]
mod rival_tests {
    use super::*;

    fn rival(forecast: Option<f64>) -> Rival {
        Rival {
            target: "chat".into(),
            server: "tp=2".into(),
            load: 100.0,
            forecast,
        }
    }

    #[test]
    fn only_a_server_that_cannot_win_is_beaten() {
        assert_eq!(rival(None).beats(8192.0, None), None);
        assert_eq!(rival(Some(26.0)).beats(8192.0, Some(101.0)), None);
        let reason = |found: Option<(f64, String)>| found.expect("beaten");
        let (bound, why) = reason(rival(None).beats(8192.0, Some(93.0)));
        assert_eq!(bound, 93.0);
        assert_eq!(
            why,
            "not searched further: tp=2 holds 100, and this one holds at most 93"
        );
        assert_eq!(reason(rival(None).beats(100.0, None)).0, 100.0);
        assert_eq!(rival(None).beats(64.0, None), None, "two servers that hold 50 each");
        assert_eq!(reason(rival(Some(25.0)).beats(8192.0, None)).0, 100.0);
    }
}
