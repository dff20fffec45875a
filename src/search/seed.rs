//! Where a search starts, how many requests a probe has, and whether a server is worth a search at all.

use serde::{Deserialize, Serialize};

/// A first guess of the answer and how far off it may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Seed {
    /// The guess.
    pub value: f64,
    /// The factor by which the answer is typically off, in either direction: 1.5 means two thirds to one and a half.
    pub factor: f64,
}

impl Seed {
    /// Without any knowledge: 8, and it may be far off.
    pub const UNKNOWN: Seed = Seed {
        value: 8.0,
        factor: 6.0,
    };

    /// From the answer of a server config that differs in little, typically in one parameter.
    pub fn neighbour(answer: f64) -> Seed {
        Seed {
            value: answer,
            factor: 1.6,
        }
    }

    /// From the simulator's forecast.
    pub fn forecast(answer: f64) -> Seed {
        Seed {
            value: answer,
            factor: 2.0,
        }
    }

    /// From the KV cache: as many requests as fit if each holds its input and, on average, half of its output.
    /// All counts are tokens. It bounds a concurrency, so it is no guess of a rate.
    pub fn kv_capacity(capacity: f64, input: f64, output: f64) -> Seed {
        Seed {
            value: (capacity / (input + output / 2.0).max(1.0)).max(1.0),
            factor: 3.0,
        }
    }
}

/// Requests of a probe, scaled with its load so that every load runs for about as long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// Requests for each unit of load.
    pub per_value: f64,
    /// Never fewer.
    pub min: u64,
    /// Never more.
    pub max: u64,
}

impl Requests {
    /// The number of requests at `value`.
    pub fn at(&self, value: f64) -> u64 {
        ((self.per_value * value).ceil() as u64)
            .min(self.max)
            .max(self.min)
            .max(1)
    }
}

/// The best answer so far among server configs that compete.
#[derive(Debug, Clone, PartialEq)]
pub struct Incumbent {
    /// Id or name of its server config.
    pub server: String,
    /// What the configs compete in, e.g. tokens/s per GPU at the answer; more is better.
    pub score: f64,
}

/// Why a server config need not be searched: the most it could reach is no better than what another has reached.
/// None if it may still win. `bound` must be a true bound, such as the throughput at the config's KV capacity.
pub fn skip_reason(bound: f64, unit: &str, incumbent: &Incumbent) -> Option<String> {
    (bound <= incumbent.score).then(|| {
        let (server, score) = (&incumbent.server, incumbent.score);
        format!("cannot beat {server}: reaches at most {bound:.4} {unit}, and {server} has reached {score:.4}")
    })
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
    fn a_cache_of_a_million_tokens_holds_so_many_requests() {
        assert_eq!(Seed::kv_capacity(1_000_000.0, 900.0, 200.0).value, 1000.0);
        assert_eq!(Seed::kv_capacity(10.0, 900.0, 200.0).value, 1.0);
    }

    #[test]
    fn only_a_server_that_cannot_win_is_skipped() {
        let incumbent = Incumbent {
            server: "tp=2".into(),
            score: 950.0,
        };
        assert_eq!(skip_reason(951.0, "tokens/s/GPU", &incumbent), None);
        let reason = skip_reason(700.0, "tokens/s/GPU", &incumbent).expect("valid in this test");
        assert_eq!(
            reason,
            "cannot beat tp=2: reaches at most 700.0000 tokens/s/GPU, and tp=2 has reached 950.0000"
        );
    }
}
