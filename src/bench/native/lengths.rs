//! Checks that prompts and answers were as long as requested, and were counted.

use super::settings::NativeSettings;
use crate::bench::judge;
use crate::dataset::ESTIMATE;
use crate::load::{Load, LoadOutcome};
use crate::metrics::Samples;
use crate::units::{show_count, show_many};
use crate::validity::Doubt;
use serde_json::Value;

/// Body keys that override the output length of the dataset.
const LIMITS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
/// Body keys that can end an answer early, in addition to those that start with `guided_`.
const ENDS: [&str; 4] = ["stop", "stop_token_ids", "response_format", "structured_outputs"];

/// Returns a doubt about the lengths of the prompts, as the server counted them. Conversations are not checked, because the lengths of
/// later turns are not known in advance. Media are not checked, because only the server counts them.
pub(super) fn of_prompts(
    settings: &NativeSettings,
    counted_by: &str,
    load: &Load,
    outcome: &LoadOutcome,
) -> Option<Doubt> {
    if !settings.writes_text() || load.turns.is_some() {
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
    let extra = &settings.api.extra_body;
    // A server counts the tokens of all choices of an answer.
    let choices = settings.api.choices();
    let counted = answers.map(|(sample, asked)| {
        let asked = asked.saturating_mul(choices);
        // An event is at least one token as a rule, so events can show a lack of tokens, but no excess.
        let counted = sample.output_tokens.unwrap_or_else(|| sample.output_len().min(asked));
        (counted, asked)
    });
    let counted: Vec<(u64, u64)> = counted.filter(|(_, asked)| *asked > 0).collect();
    // Turns ask for their length with min_tokens.
    let goes_on = settings.ignores_eos() || (load.turns.is_some() && !extra.contains_key("min_tokens"));
    let may_end = |(key, value): (&String, &Value)| {
        !value.is_null() && (ENDS.contains(&key.as_str()) || key.starts_with("guided_"))
    };
    judge::output_lengths(&counted, goes_on && !extra.iter().any(may_end))
}

/// Returns a warning if answers have several choices.
pub(super) fn mixed(settings: &NativeSettings) -> Option<String> {
    let choices = settings.api.choices();
    (choices > 1).then(|| {
        format!("the events of the {choices} choices of an answer (n) are mixed, so tpot and itl are left out; set n to 1 for them")
    })
}

/// Returns a warning if answers came without the server's counts of tokens.
pub(super) fn uncounted(settings: &NativeSettings, samples: &Samples) -> Option<String> {
    let missing = samples.ok().filter(|sample| sample.output_tokens.is_none()).count();
    let instead = match settings.api.backend().generates() {
        true => "each event counts as one token, and prompts have the lengths of the dataset",
        false => "prompts have the lengths of the dataset",
    };
    (missing > 0).then(|| {
        let all = show_many(samples.ok().count() as u64, "answer");
        let missing = show_count(missing as u64);
        format!("{missing} of {all} came without token counts (usage), so {instead}")
    })
}
