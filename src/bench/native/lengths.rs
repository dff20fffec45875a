//! Checks that prompts and answers were as long as requested.

use super::settings::NativeSettings;
use crate::bench::judge;
use crate::dataset::ESTIMATE;
use crate::load::{Backend, Load, LoadOutcome};
use crate::validity::Doubt;
use serde_json::Value;

/// Body keys that override the output length of the dataset.
const LIMITS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

/// Returns a doubt about the lengths of the prompts, as the server counted them. Conversations are not checked, because the lengths of
/// later turns are not known in advance. Media are not checked, because only the server counts them.
pub(super) fn of_prompts(
    settings: &NativeSettings,
    counted_by: &str,
    load: &Load,
    outcome: &LoadOutcome,
) -> Option<Doubt> {
    let reads_text = matches!(
        settings.api.backend(),
        Backend::Completions | Backend::Chat | Backend::Responses
    );
    if !reads_text || load.turns.is_some() {
        return None;
    }
    let supplied = outcome.asked.iter().map(|(prompt, _)| u64::from(*prompt));
    let sent = load.requests.prompt_lens().chain(supplied);
    let prompts = outcome.samples.in_order().zip(sent);
    let prompts = prompts.filter(|(sample, _)| sample.is_ok());
    let prompts: Vec<(u64, u64)> = prompts.map(|(sample, sent)| (sample.prompt_len, sent)).collect();
    judge::prompt_lengths(&prompts, counted_by == ESTIMATE)
}

/// Returns a doubt about the lengths of the answers; `None` if they had no fixed length.
pub(super) fn of_answers(settings: &NativeSettings, load: &Load, outcome: &LoadOutcome) -> Option<Doubt> {
    if !settings.api.backend().generates() || LIMITS.iter().any(|key| settings.api.extra_body.contains_key(*key)) {
        return None;
    }
    let asked: Vec<u64> = match &load.turns {
        Some(turns) => turns.each.iter().map(|turn| turn.output_len).collect(),
        None => {
            let supplied = outcome.asked.iter().map(|(_, output)| u64::from(*output));
            load.requests.output_lens().chain(supplied).collect()
        }
    };
    let answers = outcome
        .samples
        .in_order()
        .zip(asked)
        .filter(|(sample, _)| sample.is_ok());
    // A server counts the tokens of all choices of an answer.
    let choices = settings.api.extra_body.get("n").and_then(Value::as_u64).unwrap_or(1);
    let counted = answers.filter_map(|(sample, asked)| Some((sample.output_tokens?, asked.saturating_mul(choices))));
    let counted: Vec<(u64, u64)> = counted.filter(|(_, asked)| *asked > 0).collect();
    judge::output_lengths(&counted, settings.ignores_eos())
}
