//! Chooses the load to measure next on one running server and interprets the measurements: finds the highest load that meets each target,
//! or spreads loads over the whole curve.
//!
//! Every strategy is a deterministic state machine. `ask` returns the next question, or the answer once it is known; `add` takes a
//! measurement; and the state is a fold over the measurements. Replaying recorded probes therefore leads to the same next question. This
//! room runs nothing and reads no clock. `docs/search.md` explains the method.

mod ask;
mod boundary;
mod criterion;
mod explore;
mod over_starts;
mod posterior;
mod probe;
mod read;
mod reading;
mod saved;
mod seed;
mod stalls;
mod target;
mod verdict;
mod watch;

pub use ask::{RISK_ABOVE, RISK_BELOW, Search, Settings};
pub use criterion::{Criterion, Latency, Operator, Quantity, RequestLimit, THROUGHPUTS, attained, share_of};
pub use explore::{CurvePoint, Exploration, ExplorationRun, ExploreSettings, Load, Spacing};
pub use over_starts::over_starts;
pub use posterior::{LimitPosterior, is_ceiling};
pub use probe::{BRIEF_S, KEEPS_UP, Probe, Question};
pub use reading::{Reading, RequestLatencies, Stalls};
pub use saved::SavedRequests;
pub use seed::{Requests, Rival, Seed, SeedBasis};
pub use target::{Answer, Found, Target};
pub use verdict::{Verdict, wilson};
pub use watch::{Cut, Watch};

/// The load parameter that a search or an exploration varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vary {
    /// Maximum number of requests in flight at once: whole numbers from 1.
    MaxConcurrency,
    /// Requests sent per second: any positive number, also below 1.
    RequestRate,
}

impl Vary {
    /// The parameter's name in a plan and in result files.
    pub fn name(self) -> &'static str {
        match self {
            Vary::MaxConcurrency => "max_concurrency",
            Vary::RequestRate => "request_rate",
        }
    }

    /// The name in sentences.
    pub fn word(self) -> &'static str {
        match self {
            Vary::MaxConcurrency => "concurrency",
            Vary::RequestRate => "rate",
        }
    }

    /// Returns the highest load that can be asked for and does not exceed `value`: a whole number for a concurrency, and three significant
    /// digits for a rate, so that repeats have exactly equal values. A concurrency is at least 1.
    pub fn floor(self, value: f64) -> f64 {
        match self {
            // The tolerance keeps a whole number that went through a logarithm from losing its last unit.
            Vary::MaxConcurrency => (value * (1.0 + 1e-9)).floor().max(1.0),
            Vary::RequestRate => {
                let digits = 2 - value.log10().floor() as i32;
                let floor = ((value * (1.0 + 1e-9)) * 10f64.powi(digits)).floor();
                // Written as text and read back, so that equal rates are equal bits.
                format!("{:.*}", digits.max(0) as usize, floor / 10f64.powi(digits))
                    .parse()
                    .unwrap_or(value)
            }
        }
    }

    /// Converts a load to the JSON value of the parameter.
    pub fn to_param(self, value: f64) -> serde_json::Value {
        match self {
            Vary::MaxConcurrency => serde_json::Value::from(value as u64),
            Vary::RequestRate => serde_json::Value::from(value),
        }
    }
}
