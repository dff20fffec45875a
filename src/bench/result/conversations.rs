//! The results of conversations. The keys are those of the Rust client of vLLM.

use crate::bench::members;
use crate::bench::native::settings::NativeSettings;
use crate::bench::result::write_metrics;
use crate::load::{LoadOutcome, Turns};
use crate::metrics::{Sample, Samples, Summary, seconds};
use crate::plan::Params;
use serde_json::{Value, json};

/// Writes what became of the conversations, and the figures of each turn.
pub(in crate::bench) fn write(settings: &NativeSettings, turns: &Turns, outcome: &LoadOutcome, result: &mut Params) {
    let samples: Vec<Sample> = outcome.samples.in_order().collect();
    let conversations = conversations(turns, &samples);
    let (count, planned) = (conversations.len(), samples.len());
    let whole: Vec<&&[Sample]> = conversations
        .iter()
        .filter(|turns| turns.iter().all(Sample::is_ok))
        .collect();
    let answered = samples.iter().filter(|sample| sample.is_ok()).count();
    let longest = conversations.iter().map(|turns| turns.len()).max().unwrap_or(0);
    let duration = |turns: &&&[Sample]| -> f64 {
        let (first, last) = (turns.first(), turns.last());
        first
            .zip(last)
            .map_or(0.0, |(first, last)| seconds(last.end.saturating_sub(first.sent)))
    };
    let mean = |sum: f64, count: usize| (count > 0).then(|| sum / count as f64);
    let each = (0..longest).map(|turn| {
        let samples: Samples = conversations
            .iter()
            .filter_map(|turns| turns.get(turn).cloned())
            .collect();
        of_turn(turn, &samples, seconds(outcome.duration), settings)
    });
    result.extend(members(json!({
        "mode": "multi_turn",
        "num_conversations": count,
        "turns_per_conversation": mean(planned as f64, count),
        "multi_turn_concurrency": settings.concurrency(),
        "inter_turn_delay_ms": settings.turns.delay_ms,
        "conversations_completed": whole.len(),
        "conversations_failed": count - whole.len(),
        "avg_turns_completed": mean(answered as f64, count),
        "avg_conversation_duration_ms": mean(whole.iter().map(duration).sum::<f64>() * 1000.0, whole.len()),
        "per_turn_metrics": each.collect::<Value>(),
    })));
}

/// The samples of each conversation.
fn conversations<'a>(turns: &Turns, samples: &'a [Sample]) -> Vec<&'a [Sample]> {
    let mut conversations = vec![];
    let mut start = 0;
    for (i, turn) in turns.each.iter().enumerate().take(samples.len()) {
        if turn.is_last {
            conversations.push(&samples[start..=i]);
            start = i + 1;
        }
    }
    conversations
}

/// The figures of one place in all conversations that have it; rates are over the whole run.
fn of_turn(turn: usize, samples: &Samples, duration_s: f64, settings: &NativeSettings) -> Value {
    let summary = Summary::of(samples, duration_s, None);
    let mut figures = members(json!({
        "turn_index": turn,
        "num_samples": samples.len(),
        "completed": summary.completed,
        "failed": summary.failed,
        "total_input_tokens": summary.total_input,
        "total_output_tokens": summary.total_output,
        "request_throughput": summary.request_throughput,
        "input_throughput": summary.total_token_throughput - summary.output_throughput,
        "output_throughput": summary.output_throughput,
        "total_token_throughput": summary.total_token_throughput,
    }));
    write_metrics(settings, samples, &mut figures);
    figures.into()
}
