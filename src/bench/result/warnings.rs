//! Sentences for the `warnings` of a result: why its figures must be read with care. Judging a run is not done here.

use crate::bench::native::settings::Settings;
use crate::bench::side::control::NoAnswer;
use crate::load::Load;
use crate::metrics::Samples;
use crate::plan::Params;
use crate::search::Cut;
use serde_json::Value;

/// Body keys that overrule the length a dataset asks for.
const LIMITS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

/// The objections to a run, joined to the warnings that its result has.
pub(in crate::bench) fn of_objections(result: &mut Params, objections: impl Iterator<Item = String>) {
    let told = objections.map(|objection| Value::from(format!("read these figures with care: {objection}")));
    let told: Vec<Value> = told.collect();
    if told.is_empty() {
        return;
    }
    let warnings = result.entry("warnings").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(warnings) = warnings {
        warnings.extend(told);
    }
}

/// What to say if the server counted more output tokens than were asked for, which makes its counts doubtful.
pub(in crate::bench) fn of_lengths(settings: &Settings, load: &Load, samples: &Samples) -> Option<String> {
    if !settings.api.backend().generates() || LIMITS.iter().any(|key| settings.api.extra_body.contains_key(*key)) {
        return None;
    }
    let asked: Vec<u64> = match &load.turns {
        Some(turns) => turns.each.iter().map(|turn| turn.output_len).collect(),
        None => load.requests.output_lens().collect(),
    };
    let answers = samples.in_order().zip(asked).filter(|(sample, _)| sample.is_ok());
    let counted = answers.filter_map(|(sample, asked)| Some((sample.output_tokens?, asked)));
    let exceeding: Vec<(u64, u64)> = counted
        .filter(|(counted, asked)| *asked > 0 && counted > asked)
        .collect();
    let (counted, asked) = *exceeding.iter().max_by_key(|(counted, asked)| counted - asked)?;
    Some(format!(
        "the server counted more output tokens than were asked for in {} of {} requests ({counted} instead of {asked} in \
         one); look whether its usage can be believed, since throughput and TPOT are made of it",
        exceeding.len(),
        samples.len()
    ))
}

/// What to say of a run that a search ended.
pub(in crate::bench) fn of_cut(cut: &Cut) -> String {
    format!("these are the figures of a part of a run: {}", cut.why)
}

/// What to say of a request beside the run that got no answer; nothing of one that the server refused, since not every
/// server has such a route.
pub(in crate::bench) fn of_silence(path: &str, error: &NoAnswer, consequence: &str) -> Option<String> {
    (!error.is_refusal()).then(|| format!("{path} could not be read: {error}; {consequence}"))
}
