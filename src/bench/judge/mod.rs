//! Judges the validity of a run by its own figures. Each check is a pure function that returns a doubt, if there is one. A new check is a
//! function in a file of this folder and an entry in `CHECKS`.
//!
//! [`telemetry`] judges the telemetry of a run. The benchmarks and the `run` room add further doubts, such as that the server
//! was cold.

mod answered;
mod load;
mod telemetry;

use crate::cause::{Cause, Failure};
use crate::metrics::Samples;
use crate::plan::Params;
use crate::request_error::RequestError;
use crate::validity::{Doubt, too_many_failed};
pub use answered::{Served, cached, output_lengths, prompt_lengths, steady_pace};
pub(super) use answered::{check_pace, shared_on_purpose};
use itertools::Itertools;
pub use load::fills;
use serde_json::Value;
pub use telemetry::telemetry;

/// Data of a run for its checks: figures and settings, under the keys of `vllm bench serve` and our own.
#[derive(Debug, Clone, Copy)]
pub struct RunFigures<'a> {
    /// The result, or the part of it that is known.
    pub figures: &'a Params,
    /// True if every request was sent. The duration of a run that was cut has no meaning.
    pub is_whole: bool,
    /// The most frequent error of failed requests; if it is `None`, it is taken from the result.
    pub commonest_error: Option<&'a RequestError>,
}

/// All checks, in the order in which doubts are reported.
const CHECKS: [fn(RunFigures<'_>) -> Option<Doubt>; 7] = [
    load::not_reached,
    load::held_back,
    load::stood_still,
    load::saturated,
    some_failed,
    load::too_short,
    load::too_small,
];

/// Returns all doubts about a run.
pub fn doubts(seen: RunFigures<'_>) -> Vec<Doubt> {
    CHECKS.iter().filter_map(|check| check(seen)).collect()
}

/// Returns only the doubts that concern the load generator, for benchmarks with other rules.
pub(super) fn of_generator(figures: &Params) -> impl Iterator<Item = Doubt> + use<> {
    let seen = RunFigures {
        is_whole: false,
        ..RunFigures::whole(figures)
    };
    let doubts = [load::stood_still(seen), load::saturated(seen)];
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

    /// Returns true if requests had their own due times.
    fn is_open_loop(self) -> bool {
        let keys = ["ramp_up_strategy", "mean_ttft_from_due_ms"];
        self.number("request_rate").is_some() || keys.iter().any(|key| self.figures.contains_key(*key))
    }

    /// Returns true if the load itself changes during the run: a ramp, a trace with its own times, or conversations, whose prompts grow.
    pub(in crate::bench) fn is_changing(self) -> bool {
        let has_no_rate = self.is_open_loop() && self.number("request_rate").is_none();
        has_no_rate || self.figures.contains_key("num_conversations")
    }

    /// Number of requests that a closed loop should keep in flight; `None` for an open one, in which the limit is only a bound.
    fn slots(self) -> Option<f64> {
        self.number("max_concurrency").filter(|_| !self.is_open_loop())
    }
}

#[cfg(test)]
fn judge(figures: Value) -> Vec<String> {
    let figures = figures.as_object().expect("an object");
    let found = doubts(RunFigures::whole(figures)).into_iter();
    found
        .map(|doubt| format!("{}: {}", doubt.code.name(), doubt.detail))
        .collect()
}

/// Number of failures in a row with which a load that repeats its requests goes on, in addition to one for each slot.
pub(in crate::bench) const HOPELESS: usize = 16;

/// Returns a failure if no request succeeded.
pub(in crate::bench) fn refuse_empty(samples: &Samples) -> Result<(), Failure> {
    if samples.ok().next().is_some() {
        return Ok(());
    }
    let detail = match samples.len() {
        1 => "the only request failed".to_owned(),
        all => format!("all {all} requests failed"),
    };
    Err(Failure::of_requests(detail, commonest_error([samples])))
}

/// Returns the most frequent error of failed requests, if any failed.
pub(in crate::bench) fn commonest_error<'a>(samples: impl IntoIterator<Item = &'a Samples>) -> Option<RequestError> {
    let samples = samples.into_iter().flat_map(Samples::iter);
    let errors = samples.filter_map(|sample| Some((sample.error?, sample.error_status)));
    let commonest = errors
        .counts()
        .into_iter()
        .max_by_key(|(error, count)| (*count, error.clone()));
    commonest.map(|((said, status), _)| RequestError::new(status, &said))
}

/// Judges a run by the number of failed requests and their most frequent error: a failure or a doubt.
pub(in crate::bench) fn failed_requests(
    failed: f64,
    all: f64,
    commonest: Option<RequestError>,
) -> (Option<Failure>, Option<Doubt>) {
    let detail = format!("{failed} of {all} requests failed");
    match failed {
        _ if too_many_failed(failed, all) => (Some(Failure::of_requests(detail, commonest)), None),
        0.0 => (None, None),
        _ => (None, Some(Doubt::of_requests(detail, commonest))),
    }
}

/// Returns the failure of a run in which too many requests failed, or none completed.
pub(in crate::bench) fn on_failed_requests(seen: RunFigures<'_>) -> Option<Failure> {
    if seen.number("completed") == Some(0.0) && seen.number("failed").unwrap_or(0.0) == 0.0 {
        return Some(Failure::new(Cause::RequestErrors, "no request completed"));
    }
    judge_counts(seen).0
}

/// Returns a doubt if some requests failed, but too few for a failure of the run, or if some have no result.
fn some_failed(seen: RunFigures<'_>) -> Option<Doubt> {
    let vanished = || Doubt::of_vanished_requests(|name| seen.number(name));
    judge_counts(seen).1.or_else(|| vanished().filter(|_| seen.is_whole))
}

fn judge_counts(seen: RunFigures<'_>) -> (Option<Failure>, Option<Doubt>) {
    let failed = seen.number("failed").unwrap_or(0.0);
    let all = failed + seen.number("completed").unwrap_or(0.0);
    let reasons = seen.figures.get("failure_reasons").and_then(Value::as_object);
    let commonest = reasons.and_then(|reasons| reasons.iter().max_by_key(|(_, count)| count.as_u64()));
    let read = || commonest.map(|(error, _)| RequestError::read(error));
    failed_requests(failed, all, seen.commonest_error.cloned().or_else(read))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::judge::judge;
    use serde_json::json;

    fn failure(figures: Value) -> Option<String> {
        let figures = figures.as_object().expect("an object");
        on_failed_requests(RunFigures::whole(figures)).map(|failure| failure.detail)
    }

    #[test]
    fn some_failed_requests_are_a_doubt_and_many_a_failure() {
        let some = json!({"completed": 99, "failed": 1, "failure_reasons": {"HTTP 503": 1}});
        assert_eq!(
            judge(some.clone()),
            ["request_errors: 1 of 100 requests failed, most often with: HTTP 503"]
        );
        assert_eq!(failure(some), None);
        let many = json!({"completed": 90, "failed": 10});
        assert!(judge(many.clone()).is_empty());
        assert_eq!(failure(many).as_deref(), Some("10 of 100 requests failed"));
        assert_eq!(
            failure(json!({"completed": 0})).as_deref(),
            Some("no request completed")
        );
        assert_eq!(failure(json!({"throughput": 5})), None, "no counts, no judgement");
        let vanished = json!({"num_prompts": 100, "completed": 60});
        assert_eq!(
            judge(vanished.clone()),
            ["request_errors: 40 of 100 requests have no result"]
        );
        assert_eq!(failure(vanished), None);
        for sound in [
            json!({"num_prompts": 100, "completed": 60, "failed": 0}),
            json!({"num_prompts": 20, "num_conversations": 20, "completed": 10}),
            json!({"num_prompts": 0, "completed": 60}),
            json!({"num_prompts": 640, "total_input_sequences": 640, "completed": 80}),
        ] {
            assert_eq!(judge(sound), [""; 0]);
        }
    }
}
