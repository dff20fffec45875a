//! Whether a native benchmark's figures can be believed: failed requests first, then the generator's own limits.

use super::Verdict;
use super::result::{cpu_share, failure_reasons, lag};
use super::settings::Settings;
use crate::cause::{Cause, Failure, MOST_OFTEN};
use crate::load::Outcome;
use crate::metrics::{Metric, Samples};

/// A run without a single success has no figures.
pub(super) fn refuse_empty(samples: &Samples) -> Result<(), Failure> {
    if samples.ok().next().is_some() {
        return Ok(());
    }
    let detail = format!(
        "all {} requests failed, {MOST_OFTEN}{}",
        samples.len(),
        commonest_error(samples)
    );
    Err(Failure::new(Cause::RequestErrors, detail))
}

/// What failed requests said most often; empty if none failed.
pub(super) fn commonest_error(samples: &Samples) -> String {
    let reasons = failure_reasons(samples);
    reasons
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map_or(String::new(), |(reason, _)| reason)
}

/// Judges the figures by failed requests first, then by whether the generator was the limit.
pub(super) fn judge(settings: &Settings, outcome: &Outcome) -> Verdict {
    let samples = &outcome.samples;
    match Verdict::on_failed_requests(samples.failed(), samples.len(), Some(&commonest_error(samples))) {
        Verdict::Sound => {}
        objection => return objection,
    }
    if let Some(objection) = core_saturated(outcome) {
        return objection;
    }
    if settings.is_open_loop() {
        let lag_ms = lag(samples, &[99.0]).percentiles[0].1;
        let ttft_ms = Metric::Ttft.stats(samples, &[]).median;
        if lag_ms > (0.05 * ttft_ms).max(10.0) {
            return saturated(format!(
                "requests left up to {lag_ms:.1} ms late (p99), against a median TTFT of {ttft_ms:.1} ms"
            ));
        }
    }
    Verdict::Sound
}

/// The objection to a generator that had hardly any of its core left.
pub(super) fn core_saturated(outcome: &Outcome) -> Option<Verdict> {
    let share = cpu_share(outcome);
    (share > 0.9).then(|| saturated(format!("the generator used {:.0} % of its core", share * 100.0)))
}

fn saturated(seen: String) -> Verdict {
    Verdict::Suspect(Failure::new(Cause::GeneratorSaturated, seen))
}
