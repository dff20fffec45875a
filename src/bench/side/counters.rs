//! What the server counted during a run: speculative decoding, diffusion, and hits of its prefix cache, as differences of
//! its `/metrics` before and after.

use crate::telemetry::prometheus;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Counters at one moment, or their growth between two.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::bench) struct ServerCounters {
    drafts: i64,
    draft_tokens: i64,
    accepted_tokens: i64,
    accepted_by_position: BTreeMap<u64, i64>,
    denoising_steps: i64,
    canvas_positions: i64,
    committed_tokens: i64,
    cache_queries: i64,
    cache_hits: i64,
}

impl ServerCounters {
    /// Reads a text of `/metrics`, adding up all label sets.
    pub fn read(text: &str) -> ServerCounters {
        let mut counters = ServerCounters::default();
        for sample in prometheus::samples(text) {
            let (Some(name), value) = (sample.name.strip_prefix("vllm:"), sample.value as i64) else {
                continue;
            };
            let Some(name) = name.strip_suffix("_total") else {
                continue;
            };
            let counter = match name {
                "prefix_cache_queries" => &mut counters.cache_queries,
                "prefix_cache_hits" => &mut counters.cache_hits,
                _ if name.starts_with("spec_decode") && name.contains("num_drafts") => &mut counters.drafts,
                _ if name.starts_with("spec_decode") && name.contains("num_draft_tokens") => &mut counters.draft_tokens,
                _ if name.starts_with("spec_decode") && name.contains("num_accepted_tokens_per_pos") => {
                    let Some(position) = sample.label("position").and_then(|position| position.parse().ok()) else {
                        continue;
                    };
                    counters.accepted_by_position.entry(position).or_default()
                }
                _ if name.starts_with("spec_decode") && name.contains("num_accepted_tokens") => {
                    &mut counters.accepted_tokens
                }
                _ if name.starts_with("diffusion") && name.contains("num_denoising_steps") => {
                    &mut counters.denoising_steps
                }
                _ if name.starts_with("diffusion") && name.contains("num_canvas_positions") => {
                    &mut counters.canvas_positions
                }
                _ if name.starts_with("diffusion") && name.contains("num_committed_tokens") => {
                    &mut counters.committed_tokens
                }
                _ => continue,
            };
            *counter += value;
        }
        counters
    }

    /// How they grew since `before`.
    pub fn since(&self, before: &ServerCounters) -> ServerCounters {
        let position = |(position, before): (&u64, &i64)| {
            let after = self.accepted_by_position.get(position).unwrap_or(before);
            (*position, after - before)
        };
        let mut accepted_by_position: BTreeMap<u64, i64> = before.accepted_by_position.iter().map(position).collect();
        for (position, after) in &self.accepted_by_position {
            accepted_by_position.entry(*position).or_insert(*after);
        }
        ServerCounters {
            drafts: self.drafts - before.drafts,
            draft_tokens: self.draft_tokens - before.draft_tokens,
            accepted_tokens: self.accepted_tokens - before.accepted_tokens,
            accepted_by_position,
            denoising_steps: self.denoising_steps - before.denoising_steps,
            canvas_positions: self.canvas_positions - before.canvas_positions,
            committed_tokens: self.committed_tokens - before.committed_tokens,
            cache_queries: self.cache_queries - before.cache_queries,
            cache_hits: self.cache_hits - before.cache_hits,
        }
    }

    /// The keys of `vllm bench serve` for what grew, in its order.
    pub fn write(&self, duration_s: f64, set: &mut impl FnMut(&str, Value)) {
        if self.draft_tokens > 0 {
            let drafts = self.drafts as f64;
            let per_draft = |accepted: i64| {
                if self.drafts == 0 {
                    0.0
                } else {
                    accepted as f64 / drafts
                }
            };
            let positions = self.accepted_by_position.values().filter(|_| self.drafts > 0);
            let positions: Vec<f64> = positions.map(|accepted| per_draft(*accepted)).collect();
            let rate = 100.0 * self.accepted_tokens as f64 / self.draft_tokens as f64;
            set("spec_decode_acceptance_rate", json!(rate));
            let length = if self.drafts == 0 {
                0.0
            } else {
                1.0 + per_draft(self.accepted_tokens)
            };
            set("spec_decode_acceptance_length", json!(length));
            set("spec_decode_num_drafts", json!(self.drafts));
            set("spec_decode_draft_tokens", json!(self.draft_tokens));
            set("spec_decode_accepted_tokens", json!(self.accepted_tokens));
            set("spec_decode_per_position_acceptance_rates", json!(positions));
        }
        if self.denoising_steps > 0 && self.committed_tokens > 0 {
            let (all_steps, committed) = (self.denoising_steps as f64, self.committed_tokens as f64);
            let canvases = committed / (self.canvas_positions as f64 / all_steps);
            let steps = all_steps - canvases;
            let ratio = |a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b };
            set("diffusion_committed_throughput", json!(ratio(committed, duration_s)));
            set("diffusion_steps_per_canvas", json!(ratio(steps, canvases)));
            set("diffusion_committed_per_step", json!(ratio(committed, steps)));
            set("diffusion_committed_tokens", json!(self.committed_tokens));
            set("diffusion_denoising_steps", json!(self.denoising_steps));
            set("diffusion_canvas_positions", json!(self.canvas_positions));
        }
    }

    /// Share of prompt tokens that the server found in its prefix cache, if it looked for any.
    pub fn hit_rate(&self) -> Option<f64> {
        (self.cache_queries > 0).then(|| self.cache_hits as f64 / self.cache_queries as f64)
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
        ServerCounters::read(AFTER).since(&ServerCounters::read(BEFORE))
    }

    #[test]
    fn acceptance_is_what_grew() {
        let mut keys = vec![];
        growth().write(1.0, &mut |key, value| keys.push(format!("{key} {value}")));
        assert_eq!(
            keys,
            [
                "spec_decode_acceptance_rate 50.0",
                "spec_decode_acceptance_length 2.5",
                "spec_decode_num_drafts 20",
                "spec_decode_draft_tokens 60",
                "spec_decode_accepted_tokens 30",
                "spec_decode_per_position_acceptance_rates [0.75]"
            ]
        );
        ServerCounters::default().write(1.0, &mut |key, _| panic!("{key} of nothing"));
    }

    #[test]
    fn hits_are_a_share_of_the_tokens_looked_for() {
        assert_eq!(growth().hit_rate(), Some(0.98));
        assert_eq!(ServerCounters::default().hit_rate(), None);
    }
}
