//! Conversations of a native benchmark: their parameters, and what the result says of them. Keys and parameters are those
//! of the Rust client of vLLM.

use crate::bench::native::settings::Settings;
use crate::bench::params::reader::Reader;
use crate::bench::result::write_stats;
use crate::dataset::{Conversations, Dataset, Shares, Talk};
use crate::load::{Backend, Outcome, Turns};
use crate::metrics::{Sample, Samples, Summary, seconds};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Parameters that mean something only beside `multi_turn`.
const PARAMETERS: [&str; 8] = [
    "multi_turn_num_turns",
    "multi_turn_min_turns",
    "multi_turn_max_turns",
    "multi_turn_concurrency",
    "multi_turn_delay_ms",
    "multi_turn_prefix_global_ratio",
    "multi_turn_prefix_conversation_ratio",
    "per_turn_input_len",
];

impl Reader<'_> {
    /// The dataset as conversations, if they are asked for.
    pub(in crate::bench) fn conversations(&mut self, dataset: Dataset, backend: Backend) -> Dataset {
        if !self.is_set("multi_turn") {
            for name in PARAMETERS {
                if self.values.contains_key(name) {
                    self.problems.push(format!(
                        "{name} has no meaning without multi_turn; set that, or remove it"
                    ));
                }
            }
            return dataset;
        }
        if backend != Backend::Chat {
            self.problems
                .push("multi_turn repeats what was said in a chat; set backend to openai-chat".to_owned());
        }
        let usual = self.count("multi_turn_num_turns", 1).unwrap_or(3);
        let shares = self.shares();
        let later_input_len = self.count("per_turn_input_len", 0).filter(|length| *length > 0);
        let (of, least, most) = match dataset {
            Dataset::Random(first) => {
                let later_input_len = later_input_len.unwrap_or(first.input_len);
                (
                    Talk::Random {
                        first,
                        later_input_len,
                        shares,
                    },
                    usual,
                    usual,
                )
            }
            Dataset::ShareGpt(recorded) if shares.is_none() => (Talk::Recorded(recorded), 2, u64::MAX),
            other => {
                let problem = "multi_turn takes dataset_name random, or sharegpt without shared prefixes; change it";
                self.problems.push(problem.to_owned());
                return other;
            }
        };
        // 0 stands for unset, as in the Rust client.
        let least = self
            .count("multi_turn_min_turns", 0)
            .filter(|turns| *turns > 0)
            .unwrap_or(least);
        let most = self
            .count("multi_turn_max_turns", 0)
            .filter(|turns| *turns > 0)
            .unwrap_or(most.max(least));
        if least > most {
            self.wrong(
                "multi_turn_min_turns",
                &format!("at most multi_turn_max_turns or multi_turn_num_turns ({most})"),
            );
        }
        Dataset::Conversations(Conversations {
            of,
            turns: least..=most,
        })
    }

    fn shares(&mut self) -> Option<Shares> {
        let is_share = |share: f64| (0.0..1.0).contains(&share);
        let wants = "a share of at least 0 and below 1";
        let all = self
            .number("multi_turn_prefix_global_ratio", wants, is_share)
            .unwrap_or(0.0);
        let conversation = self
            .number("multi_turn_prefix_conversation_ratio", wants, is_share)
            .unwrap_or(0.0);
        if all + conversation >= 1.0 {
            self.problems.push(
                "multi_turn_prefix_global_ratio and multi_turn_prefix_conversation_ratio leave nothing for a turn's own \
                 text; lower one"
                    .to_owned(),
            );
        }
        (all + conversation > 0.0).then_some(Shares { all, conversation })
    }

    /// Most requests, or conversations, at once.
    pub(in crate::bench) fn concurrency(&mut self) -> Option<usize> {
        let requests = self.count("max_concurrency", 1);
        let conversations = self.count("multi_turn_concurrency", 1);
        if let (Some(requests), Some(conversations)) = (requests, conversations)
            && requests != conversations
        {
            self.problems.push(
                "multi_turn_concurrency and max_concurrency both limit the conversations at once; keep one".to_owned(),
            );
        }
        conversations.or(requests).map(|limit| limit as usize)
    }

    pub(in crate::bench) fn turn_pause(&mut self) -> Duration {
        let fits = |ms: f64| (0.0..1e10).contains(&ms);
        let ms = self.number("multi_turn_delay_ms", "a number of milliseconds of at least 0", fits);
        Duration::from_secs_f64(ms.unwrap_or(0.0) / 1000.0)
    }
}

/// Writes what became of the conversations, and the figures of each turn.
pub(in crate::bench) fn write(
    settings: &Settings,
    turns: &Turns,
    outcome: &Outcome,
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
    set("multi_turn_concurrency", json!(settings.max_concurrency));
    set("inter_turn_delay_ms", json!(settings.turn_pause.as_secs_f64() * 1000.0));
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
    for metric in &settings.metrics {
        write_stats(metric.name(), &metric.stats(samples, &settings.percentiles), &mut set);
    }
    figures.into()
}
