//! Judges the validity of a run by its own figures. Each check is a pure function that returns a doubt, if there is one. A new check is a
//! function in a file of this folder and an entry in `CHECKS`.
//!
//! [`telemetry`] judges the telemetry of a run. The `run` room adds the rest: caches that were not reset, a server that was cold.

mod answered;
mod failures;
mod generator;
mod load;
mod pace;
mod telemetry;

pub use answered::{cached, inputs, lengths};
pub(super) use failures::{commonest_error, failed_requests, on_failed_requests, refuse_empty};
pub(super) use pace::pace;
pub use pace::{Served, paced};
pub use telemetry::telemetry;

use crate::plan::Params;
use crate::request_error::RequestError;
use crate::validity::Doubt;
use serde_json::Value;

/// Data of a run for its checks: figures and settings by the keys of `vllm bench serve`, and our own.
#[derive(Debug, Clone, Copy)]
pub struct RunFigures<'a> {
    /// The result, or as much of it as there is.
    pub figures: &'a Params,
    /// True if every request was sent. The duration of a run that was cut says nothing.
    pub is_whole: bool,
    /// The most frequent error of failed requests; `None` if only the result is known.
    pub commonest_error: Option<&'a RequestError>,
}

/// All checks, in the order in which doubts are reported.
const CHECKS: [fn(RunFigures<'_>) -> Option<Doubt>; 6] = [
    load::not_reached,
    generator::stood_still,
    generator::saturated,
    failures::some,
    load::too_short,
    load::too_small,
];

/// Every reason to doubt a run.
pub fn doubts(seen: RunFigures<'_>) -> Vec<Doubt> {
    CHECKS.iter().filter_map(|check| check(seen)).collect()
}

/// Returns the doubts that concern the load generator, for a run that is judged by other rules besides.
pub(super) fn of_generator(figures: &Params) -> impl Iterator<Item = Doubt> + use<> {
    let seen = RunFigures {
        is_whole: false,
        ..RunFigures::whole(figures)
    };
    let doubts = [generator::stood_still(seen), generator::saturated(seen)];
    doubts.into_iter().flatten()
}

impl<'a> RunFigures<'a> {
    /// Figures of a run whose requests were all sent.
    pub fn whole(figures: &'a Params) -> RunFigures<'a> {
        RunFigures {
            figures,
            is_whole: true,
            commonest_error: None,
        }
    }

    fn number(self, key: &str) -> Option<f64> {
        self.figures.get(key).and_then(Value::as_f64)
    }

    /// Time from the first request to the end of the last, or to the end of the window, in seconds.
    fn duration_s(self) -> Option<f64> {
        let of_window = || Some(self.number("warmup_s")? + self.number("window_s")?);
        let seconds = self.number("duration").or_else(of_window);
        seconds.filter(|seconds| *seconds > 0.0)
    }

    /// Returns true if requests had due times of their own.
    fn is_open_loop(self) -> bool {
        self.number("request_rate").is_some() || self.figures.contains_key("mean_ttft_from_due_ms")
    }

    /// Requests that a closed loop is to keep in flight; none for an open one, where the limit is only a bound.
    fn slots(self) -> Option<f64> {
        self.number("max_concurrency").filter(|_| !self.is_open_loop())
    }
}

#[cfg(test)]
fn judge(figures: Value) -> Vec<String> {
    let figures = figures.as_object().expect("an object");
    let found = doubts(RunFigures::whole(figures)).into_iter();
    found.map(|doubt| format!("{}: {}", doubt.code, doubt.detail)).collect()
}
