//! What a server counted during one batch: how many steps it took, what came from its prefix cache, and how long it
//! thinks the phases took. Differences of its `/metrics` before and after.

use crate::telemetry::prometheus;

/// Counters at one moment, or their growth between two; of several servers, the sum.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ServerCounts {
    /// Engine steps.
    pub steps: f64,
    /// Prompt tokens that were in the prefix cache.
    pub cached: f64,
    /// Seconds from scheduled to first token, and of how many requests.
    pub prefill: (f64, f64),
    /// Seconds from first to last token, and of how many requests.
    pub decode: (f64, f64),
}

impl ServerCounts {
    /// Reads a text of `/metrics`; nothing if it has no engine steps.
    pub fn read(text: &str) -> Option<ServerCounts> {
        let mut counts = ServerCounts::default();
        let mut has_steps = false;
        for sample in prometheus::samples(text) {
            let counter = match sample.name {
                "vllm:iteration_tokens_total_count" => {
                    has_steps = true;
                    &mut counts.steps
                }
                "vllm:prefix_cache_hits_total" => &mut counts.cached,
                "vllm:request_prefill_time_seconds_sum" => &mut counts.prefill.0,
                "vllm:request_prefill_time_seconds_count" => &mut counts.prefill.1,
                "vllm:request_decode_time_seconds_sum" => &mut counts.decode.0,
                "vllm:request_decode_time_seconds_count" => &mut counts.decode.1,
                _ => continue,
            };
            *counter += sample.value;
        }
        has_steps.then_some(counts)
    }

    pub fn plus(self, other: ServerCounts) -> ServerCounts {
        self.with(other, |a, b| a + b)
    }

    /// How they grew since `before`.
    pub fn since(self, before: ServerCounts) -> ServerCounts {
        self.with(before, |a, b| a - b)
    }

    fn with(self, other: ServerCounts, of: impl Fn(f64, f64) -> f64) -> ServerCounts {
        ServerCounts {
            steps: of(self.steps, other.steps),
            cached: of(self.cached, other.cached),
            prefill: (of(self.prefill.0, other.prefill.0), of(self.prefill.1, other.prefill.1)),
            decode: (of(self.decode.0, other.decode.0), of(self.decode.1, other.decode.1)),
        }
    }
}

/// Mean of a sum of seconds in milliseconds, if there was any.
pub(super) fn mean_ms((sum, count): (f64, f64)) -> Option<f64> {
    (count > 0.0).then(|| sum / count * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_summed_over_engines() {
        let text = |steps: u32| {
            format!(
                "vllm:iteration_tokens_total_count{{engine=\"0\"}} {steps}\nvllm:iteration_tokens_total_count{{engine=\"1\"}} 2\n\
                 vllm:request_decode_time_seconds_sum 3.5\nvllm:request_decode_time_seconds_count {steps}\n"
            )
        };
        let (before, after) = (ServerCounts::read(&text(4)), ServerCounts::read(&text(9)));
        let grown = after.expect("steps").since(before.expect("steps"));
        assert_eq!((grown.steps, grown.decode), (5.0, (0.0, 5.0)));
        assert_eq!(mean_ms((0.5, 2.0)), Some(250.0));
        assert_eq!((mean_ms((0.0, 0.0)), ServerCounts::read("up 1")), (None, None));
    }
}
