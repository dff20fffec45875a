//! What the result says of conversations. The keys are those of the Rust client of vLLM.

use crate::bench::native::settings::Settings;
use crate::bench::result::write_stats;
use crate::load::{LoadOutcome, Turns};
use crate::metrics::{Sample, Samples, Summary, seconds};
use serde_json::{Map, Value, json};

/// Writes what became of the conversations, and the figures of each turn.
pub(in crate::bench) fn write(
    settings: &Settings,
    turns: &Turns,
    outcome: &LoadOutcome,
    set: &mut impl FnMut(&str, Value),
) {
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
    let mean = |sum: f64, count: usize| {
        if count > 0 {
            json!(sum / count as f64)
        } else {
            Value::Null
        }
    };
    set("mode", json!("multi_turn"));
    set("num_conversations", json!(count));
    set("turns_per_conversation", mean(planned as f64, count));
    set("multi_turn_concurrency", json!(settings.concurrency()));
    set("inter_turn_delay_ms", json!(settings.turns.delay_ms));
    set("conversations_completed", json!(whole.len()));
    set("conversations_failed", json!(count - whole.len()));
    set("avg_turns_completed", mean(answered as f64, count));
    let sum: f64 = whole.iter().map(duration).sum();
    set("avg_conversation_duration_ms", mean(sum * 1000.0, whole.len()));
    let each = (0..longest).map(|turn| {
        let samples: Samples = conversations
            .iter()
            .filter_map(|turns| turns.get(turn).cloned())
            .collect();
        of_turn(turn, &samples, seconds(outcome.duration), settings)
    });
    set("per_turn_metrics", each.collect());
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
fn of_turn(turn: usize, samples: &Samples, duration_s: f64, settings: &Settings) -> Value {
    let summary = Summary::of(samples, duration_s, None);
    let mut figures = Map::new();
    let mut set = |key: &str, value: Value| drop(figures.insert(key.to_owned(), value));
    set("turn_index", json!(turn));
    set("num_samples", json!(samples.len()));
    set("completed", json!(summary.completed));
    set("failed", json!(summary.failed));
    set("total_input_tokens", json!(summary.total_input));
    set("total_output_tokens", json!(summary.total_output));
    set("request_throughput", json!(summary.request_throughput));
    set(
        "input_throughput",
        json!(summary.total_token_throughput - summary.output_throughput),
    );
    set("output_throughput", json!(summary.output_throughput));
    set("total_token_throughput", json!(summary.total_token_throughput));
    for metric in settings.metrics() {
        write_stats(metric.name(), &metric.stats(samples, settings.percentiles()), &mut set);
    }
    figures.into()
}
