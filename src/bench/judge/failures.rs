//! Failed requests: too many make a run a failure, some make it doubtful.

use super::RunFigures;
use crate::bench::result::failure_reasons;
use crate::cause::{Cause, Failure, MOST_OFTEN};
use crate::metrics::Samples;
use crate::validity::{Code, Doubt};
use serde_json::Value;

/// Above this share of failed requests the figures mean nothing.
const MOST_FAILED: f64 = 0.05;

/// A run without a single success has no figures.
pub(in crate::bench) fn refuse_empty(samples: &Samples) -> Result<(), Failure> {
    if samples.ok().next().is_some() {
        return Ok(());
    }
    let error = commonest_error(samples).unwrap_or_default();
    let detail = format!("all {} requests failed, {MOST_OFTEN}{error}", samples.len());
    Err(Failure::new(Cause::RequestErrors, detail))
}

/// What failed requests said most often, if any failed.
pub(in crate::bench) fn commonest_error(samples: &Samples) -> Option<String> {
    let reasons = failure_reasons(samples).into_iter();
    reasons.max_by_key(|(_, count)| *count).map(|(reason, _)| reason)
}

/// Why a run means nothing, or may not be believed, by how many of its requests failed and what they said most often.
pub(in crate::bench) fn failed_requests(
    failed: f64,
    all: f64,
    commonest: Option<&str>,
) -> (Option<Failure>, Option<Doubt>) {
    let detail = match commonest {
        Some(error) => format!("{failed} of {all} requests failed, {MOST_OFTEN}{error}"),
        None => format!("{failed} of {all} requests failed"),
    };
    match failed {
        _ if failed > MOST_FAILED * all => (Some(Failure::new(Cause::RequestErrors, detail)), None),
        0.0 => (None, None),
        _ => (None, Some(Doubt::new(Code::RequestErrors, detail))),
    }
}

/// Why a run means nothing, if too many of its requests failed. One that counts none as completed means nothing either.
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
    failed_requests(failed, all, commonest.map(|(error, _)| error.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::judge::judge;
    use serde_json::json;

    fn failure(figures: Value) -> Option<String> {
        let figures = figures.as_object().expect("an object");
        let is_whole = true;
        on_failed_requests(RunFigures { figures, is_whole }).map(|failure| failure.detail)
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
