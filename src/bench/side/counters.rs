//! Counters of a server during a run, as the growth of its `/metrics`: engine steps, prefix cache hits, speculative decoding, diffusion.

use crate::bench::members;
use crate::plan::Params;
use crate::telemetry::prometheus;
use serde_json::json;
use std::collections::BTreeMap;

/// Counters at one moment, or their growth between two. Each key is a name without `vllm:` and a position in a draft, which is 0 for
/// counters without one. Counters of several engines and servers are added up.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::bench) struct ServerCounters(BTreeMap<(String, u64), f64>);

impl ServerCounters {
    /// Reads a text of `/metrics`.
    pub fn read(text: &str) -> ServerCounters {
        let mut counters = ServerCounters::default();
        for sample in prometheus::samples(text) {
            if let Some(name) = sample.name.strip_prefix("vllm:") {
                let position = sample.label("position").and_then(|position| position.parse().ok());
                counters.add(name, position.unwrap_or(0), sample.value);
            }
        }
        counters
    }

    fn add(&mut self, name: &str, position: u64, value: f64) {
        *self.0.entry((name.to_owned(), position)).or_default() += value;
    }

    /// Sum with the counters of another server.
    pub fn plus(mut self, other: &ServerCounters) -> ServerCounters {
        other
            .0
            .iter()
            .for_each(|((name, position), value)| self.add(name, *position, *value));
        self
    }

    /// Growth since `before`; `None` if a counter fell or vanished.
    pub fn since(mut self, before: &ServerCounters) -> Option<ServerCounters> {
        let is_counter = |name: &str| ["_total", "_count", "_bucket"].iter().any(|end| name.ends_with(end));
        let has_fallen = |(key, value): (&(String, u64), &f64)| self.0.get(key).is_none_or(|now| now < value);
        if before.0.iter().any(|entry| is_counter(&entry.0.0) && has_fallen(entry)) {
            return None;
        }
        for (key, value) in &mut self.0 {
            *value -= before.0.get(key).unwrap_or(&0.0);
        }
        Some(self)
    }

    /// A counter; `None` if the server does not have it.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(&(name.to_owned(), 0)).copied()
    }

    fn count(&self, name: &str) -> i64 {
        self.get(name).unwrap_or(0.0) as i64
    }

    /// Steps of all engines; `None` if the server does not count them.
    pub fn steps(&self) -> Option<f64> {
        self.get("iteration_tokens_total_count")
    }

    /// Prompt tokens that were in the prefix cache.
    pub fn cached(&self) -> f64 {
        self.get("prefix_cache_hits_total").unwrap_or(0.0)
    }

    /// Mean of a histogram of times, in milliseconds; `None` if it is empty.
    pub fn mean_ms(&self, histogram: &str) -> Option<f64> {
        let count = self.get(&format!("{histogram}_count")).filter(|count| *count > 0.0)?;
        Some(self.get(&format!("{histogram}_sum"))? / count * 1000.0)
    }

    /// Share of prompt tokens that the server found in its prefix cache; `None` if the server looked for none.
    pub fn hit_rate(&self) -> Option<f64> {
        let queries = self
            .get("prefix_cache_queries_total")
            .filter(|queries| *queries > 0.0)?;
        Some(self.cached() / queries)
    }

    /// Writes the figures that `vllm bench serve` derives from counters that grew, under its keys and in its order.
    pub fn write(&self, duration_s: f64, result: &mut Params) {
        let ratio = |a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b };
        let (drafts, draft_tokens) = (
            self.count("spec_decode_num_drafts_total"),
            self.count("spec_decode_num_draft_tokens_total"),
        );
        if draft_tokens > 0 {
            let accepted = self.count("spec_decode_num_accepted_tokens_total");
            let per_draft = |accepted: f64| ratio(accepted, drafts as f64);
            let by_position = self
                .0
                .iter()
                .filter(|((name, _), _)| drafts > 0 && name == "spec_decode_num_accepted_tokens_per_pos_total");
            let positions: Vec<f64> = by_position.map(|(_, accepted)| per_draft(*accepted)).collect();
            let length = if drafts == 0 {
                0.0
            } else {
                1.0 + per_draft(accepted as f64)
            };
            result.extend(members(json!({
                "spec_decode_acceptance_rate": 100.0 * accepted as f64 / draft_tokens as f64,
                "spec_decode_acceptance_length": length,
                "spec_decode_num_drafts": drafts,
                "spec_decode_draft_tokens": draft_tokens,
                "spec_decode_accepted_tokens": accepted,
                "spec_decode_per_position_acceptance_rates": positions,
            })));
        }
        let of_diffusion = |what: &str| -> i64 {
            let named = self
                .0
                .iter()
                .filter(|((name, _), _)| name.starts_with("diffusion") && name.ends_with(what));
            named.map(|(_, value)| *value as i64).sum()
        };
        let [steps, positions, committed] = [
            "num_denoising_steps_total",
            "num_canvas_positions_total",
            "num_committed_tokens_total",
        ]
        .map(of_diffusion);
        if steps > 0 && committed > 0 {
            let tokens = committed as f64;
            let canvases = tokens / (positions as f64 / steps as f64);
            let own_steps = steps as f64 - canvases;
            result.extend(members(json!({
                "diffusion_committed_throughput": ratio(tokens, duration_s),
                "diffusion_steps_per_canvas": ratio(own_steps, canvases),
                "diffusion_committed_per_step": ratio(tokens, own_steps),
                "diffusion_committed_tokens": committed,
                "diffusion_denoising_steps": steps,
                "diffusion_canvas_positions": positions,
            })));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "vllm:spec_decode_num_drafts_total{engine=\"0\"} 10\n\
        vllm:spec_decode_num_draft_tokens_total{engine=\"0\"} 30\n\
        vllm:spec_decode_num_accepted_tokens_total{engine=\"0\"} 20\n\
        vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",position=\"0\"} 9\n\
        vllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total 98\n\
        vllm:spec_decode_num_drafts_created{engine=\"0\"} 1e9\n";
    const AFTER: &str = "vllm:spec_decode_num_drafts_total{engine=\"0\"} 20.0\n\
        vllm:spec_decode_num_drafts_total{engine=\"1\"} 10.0\n\
        vllm:spec_decode_num_draft_tokens_total{engine=\"0\"} 90\n\
        vllm:spec_decode_num_accepted_tokens_total{engine=\"0\"} 50\n\
        vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",position=\"0\"} 24\n\
        vllm:prefix_cache_queries_total 1100\nvllm:prefix_cache_hits_total 1078\n";

    fn growth() -> ServerCounters {
        ServerCounters::read(AFTER)
            .since(&ServerCounters::read(BEFORE))
            .expect("growth")
    }

    #[test]
    fn acceptance_is_what_grew() {
        let written = |counters: ServerCounters| {
            let mut figures = Params::new();
            counters.write(1.0, &mut figures);
            figures
                .iter()
                .map(|(key, value)| format!("{key} {value}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            written(growth()),
            [
                "spec_decode_acceptance_rate 50.0",
                "spec_decode_acceptance_length 2.5",
                "spec_decode_num_drafts 20",
                "spec_decode_draft_tokens 60",
                "spec_decode_accepted_tokens 30",
                "spec_decode_per_position_acceptance_rates [0.75]"
            ]
        );
        assert_eq!(written(ServerCounters::default()), [""; 0]);
    }

    #[test]
    fn hits_are_a_share_of_the_tokens_looked_for() {
        assert_eq!(growth().hit_rate(), Some(0.98));
        assert_eq!(ServerCounters::default().hit_rate(), None);
    }

    #[test]
    fn counters_that_fell_or_vanished_are_none() {
        let since = |before: &str, after: &str| ServerCounters::read(after).since(&ServerCounters::read(before));
        assert_eq!(since(AFTER, BEFORE), None);
        assert_eq!(since("vllm:x_total 1", "vllm:y_total 1"), None);
        assert!(since("vllm:x_total 0\nvllm:running 3", "vllm:x_total 0\nvllm:running 1").is_some());
    }

    #[test]
    fn growth_is_summed_over_engines() {
        let text = |steps: u32| {
            format!(
                "vllm:iteration_tokens_total_count{{engine=\"0\"}} {steps}\nvllm:iteration_tokens_total_count{{engine=\"1\"}} 2\n\
                 vllm:request_decode_time_seconds_sum 3.5\nvllm:request_decode_time_seconds_count {steps}\n"
            )
        };
        let grown = ServerCounters::read(&text(9))
            .since(&ServerCounters::read(&text(4)))
            .expect("growth");
        assert_eq!(grown.steps(), Some(5.0));
        assert_eq!(grown.get("request_decode_time_seconds_sum"), Some(0.0));
        assert_eq!(grown.get("request_decode_time_seconds_count"), Some(5.0));
        let timed = ServerCounters::read("vllm:x_sum 0.5\nvllm:x_count 2\nvllm:y_sum 0\nvllm:y_count 0");
        assert_eq!((timed.mean_ms("x"), timed.mean_ms("y")), (Some(250.0), None));
        assert_eq!(ServerCounters::read("up 1").steps(), None);
    }
}
