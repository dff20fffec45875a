//! Failed requests: too many make a run a failure, some make it doubtful.

use super::RunFigures;
use crate::cause::{Cause, Failure};
use crate::metrics::Samples;
use crate::request_error::RequestError;
use crate::validity::Doubt;
use itertools::Itertools;
use serde_json::Value;

/// Above this share of failed requests the figures mean nothing.
const MOST_FAILED: f64 = 0.05;

/// A run without a single success has no figures.
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
        _ if failed > MOST_FAILED * all => (Some(Failure::of_requests(detail, commonest)), None),
        0.0 => (None, None),
        _ => (None, Some(Doubt::of_requests(detail, commonest))),
    }
}

/// Returns the failure of a run in which too many requests failed, or none completed.
pub(in crate::bench) fn on_failed_requests(seen: RunFigures<'_>) -> Option<Failure> {
    if seen.number("completed") == Some(0.0) && seen.number("failed").unwrap_or(0.0) == 0.0 {
        return Some(Failure::new(Cause::RequestErrors, "no request completed"));
    }
    counted(seen).0
}

/// Some requests failed, too few to give the run up.
pub(super) fn some(seen: RunFigures<'_>) -> Option<Doubt> {
    counted(seen).1
}

fn counted(seen: RunFigures<'_>) -> (Option<Failure>, Option<Doubt>) {
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
    }
}
