//! The load of a server at one moment, from its `/metrics`, by vLLM's names.

use super::prometheus::{self, Sample};

/// One look at a server. A figure that the text lacks is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Scrape {
    /// Requests in the batch, over all engines.
    pub running: Option<f64>,
    /// Requests that wait for a place in it, over all engines.
    pub waiting: Option<f64>,
    /// Share of the KV cache in use, from 0 to 1: of the fullest engine.
    pub kv_cache_usage: Option<f64>,
    /// Preemptions since the server started.
    pub preemptions: Option<f64>,
    /// Prompt tokens looked up in the prefix cache since the server started.
    pub prefix_cache_queries: Option<f64>,
    /// Queried tokens that were found in the prefix cache.
    pub prefix_cache_hits: Option<f64>,
    /// Prompt tokens processed since the server started.
    pub prompt_tokens: Option<f64>,
    /// Tokens generated since the server started.
    pub generation_tokens: Option<f64>,
    /// Tokens guessed ahead since the server started.
    pub draft_tokens: Option<f64>,
    /// Draft tokens that were accepted.
    pub accepted_tokens: Option<f64>,
}

/// Tokens that an engine's cache holds: as it says, else from its blocks.
pub fn cache_tokens(cache: &Sample<'_>) -> Option<u64> {
    let number = |name: &str| cache.label(name)?.parse::<u64>().ok();
    number("kv_cache_size_tokens").or_else(|| number("num_gpu_blocks")?.checked_mul(number("block_size")?))
}

impl Scrape {
    /// Reads a text of `/metrics`; `None` if nothing in it is known.
    pub fn read(text: &str) -> Option<Scrape> {
        let mut scrape = Scrape::default();
        for sample in prometheus::samples(text) {
            let Some(name) = sample.name.strip_prefix("vllm:") else {
                continue;
            };
            let add = |figure: &mut Option<f64>| *figure = Some(figure.unwrap_or(0.0) + sample.value);
            match name {
                "num_requests_running" => add(&mut scrape.running),
                "num_requests_waiting" => add(&mut scrape.waiting),
                // The second is the name of vLLM's first engine, "V0".
                "kv_cache_usage_perc" | "gpu_cache_usage_perc" => {
                    let fullest = scrape.kv_cache_usage.unwrap_or(0.0).max(sample.value);
                    scrape.kv_cache_usage = Some(fullest);
                }
                "num_preemptions_total" => add(&mut scrape.preemptions),
                "prefix_cache_queries_total" => add(&mut scrape.prefix_cache_queries),
                "prefix_cache_hits_total" => add(&mut scrape.prefix_cache_hits),
                "prompt_tokens_total" => add(&mut scrape.prompt_tokens),
                "generation_tokens_total" => add(&mut scrape.generation_tokens),
                "spec_decode_num_draft_tokens_total" => add(&mut scrape.draft_tokens),
                "spec_decode_num_accepted_tokens_total" => add(&mut scrape.accepted_tokens),
                _ => {}
            }
        }
        (scrape != Scrape::default()).then_some(scrape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_added_up_and_the_fullest_cache_counts() {
        let text = "vllm:num_requests_running{engine=\"0\"} 3.0\nvllm:num_requests_running{engine=\"1\"} 4.0\n\
            vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.5\n\
            vllm:num_preemptions_total 2\nvllm:num_preemptions_created 1.7e9\n";
        let scrape = Scrape::read(text).expect("known figures");
        assert_eq!((scrape.running, scrape.kv_cache_usage), (Some(7.0), Some(0.5)));
        assert_eq!((scrape.preemptions, scrape.waiting), (Some(2.0), None));
    }

    #[test]
    fn a_text_without_known_figures_says_nothing() {
        assert_eq!(Scrape::read("process_cpu_seconds_total 3\n<html>"), None);
    }
}
