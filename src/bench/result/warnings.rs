//! Sentences for the `warnings` of a result: why its figures must be read with care. Judging a run is not done here.

use crate::bench::side::endpoint::NoAnswer;
use crate::plan::Params;
use crate::search::Cut;
use serde_json::Value;

/// The objections to a run, joined to the warnings that its result has.
pub(in crate::bench) fn of_objections(result: &mut Params, objections: impl Iterator<Item = String>) {
    let notes = objections.map(|objection| Value::from(format!("read these figures with care: {objection}")));
    let notes: Vec<Value> = notes.collect();
    if notes.is_empty() {
        return;
    }
    let warnings = result.entry("warnings").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(warnings) = warnings {
        warnings.extend(notes);
    }
}

/// Returns the warning for a run that a search ended.
pub(in crate::bench) fn of_cut(cut: &Cut) -> String {
    format!("these are the figures of a part of a run: {}", cut.why)
}

/// Returns the warning for a request outside the load that got no answer. `None` if the server refused it, since not every server has such
/// a route.
pub(in crate::bench) fn of_silence(path: &str, error: &NoAnswer, consequence: &str) -> Option<String> {
    (!error.is_refusal()).then(|| format!("{path} could not be read: {error}; {consequence}"))
}
