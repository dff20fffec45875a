//! Statistics of the engine, with vLLM's buckets, so that `/metrics` only formats them. Times are in seconds.

use super::sequence::Sequence;

/// A histogram from which Prometheus' cumulative buckets, count and sum are made.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// Upper bounds, without infinity.
    pub bounds: Vec<f64>,
    /// Number of observations in each bucket, not cumulative. The last bucket is above every bound.
    pub counts: Vec<u64>,
    /// Sum of the observations.
    pub sum: f64,
}

impl Histogram {
    /// Returns an empty histogram.
    pub fn new(bounds: &[f64]) -> Self {
        Histogram {
            bounds: bounds.to_vec(),
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    /// Counts one value.
    pub fn observe(&mut self, value: f64) {
        self.observe_many(value, 1);
    }

    /// Counts one value several times.
    pub fn observe_many(&mut self, value: f64, times: u64) {
        // With two clocks, a step without duration may end before its request arrives. Such a negative time counts as 0.
        let value = value.max(0.0);
        let bucket = self.bounds.iter().take_while(|bound| **bound < value).count();
        self.counts[bucket] += times;
        self.sum += value * times as f64;
    }

    /// Number of observations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

// vLLM's bounds of buckets: seconds, and for `ITERATION` tokens.
const LATENCY: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];
const TTFT: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
const ITL: [f64; 19] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];
const ITERATION: [f64; 13] = [
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0,
];

/// Gauges, counters and histograms of one engine.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Number of requests being computed.
    pub running: usize,
    /// Number of requests in the queue.
    pub waiting: usize,
    /// Used share of the KV cache, 0 to 1.
    pub kv_usage: f64,
    /// Prompt tokens of requests whose prefill is complete.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub generation_tokens: u64,
    /// Preemptions of requests.
    pub preemptions: u64,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: u64,
    /// Prompt tokens found in the prefix cache.
    pub prefix_hits: u64,
    /// Requests that ended by themselves, at a stop text or the end of the answer.
    pub stopped: u64,
    /// Requests that ended at their limit.
    pub finished_by_length: u64,
    /// Requests that were aborted.
    pub aborted: u64,
    /// Prompt tokens of `prompt_tokens` that the prefix cache had.
    pub prompt_cached: u64,
    /// Number of drafts; the guesses for one request in one step are one draft.
    pub drafts: u64,
    /// Tokens guessed.
    pub draft_tokens: u64,
    /// Guesses that were right, by position.
    pub accepted: Vec<u64>,
    /// Floating point operations of the model.
    pub flops: f64,
    /// Bytes of weights, keys and values read on the GPUs of one rank, all stages together.
    pub read_bytes: f64,
    /// Tokens of each step.
    pub iteration_tokens: Histogram,
    /// Time from arrival to the first token.
    pub time_to_first_token: Histogram,
    /// Time from one token to the next.
    pub inter_token_latency: Histogram,
    /// Mean time per token after the first, of each request.
    pub time_per_output_token: Histogram,
    /// Time from arrival to the last token.
    pub e2e: Histogram,
    /// Time from arrival to the first scheduling.
    pub queue: Histogram,
    /// Time from the first scheduling to the first token.
    pub prefill: Histogram,
    /// Time from the first token to the last.
    pub decode: Histogram,
    /// Prompt tokens of a request.
    pub request_prompt_tokens: Histogram,
    /// Generated tokens of a request.
    pub request_generation_tokens: Histogram,
}

impl Stats {
    /// Returns empty statistics. Buckets of lengths go up to the longest request, as in vLLM. `guesses` is the number of speculative tokens
    /// per step.
    pub fn new(max_model_len: usize, guesses: usize) -> Self {
        let lengths = one_two_five(max_model_len);
        Stats {
            accepted: vec![0; guesses],
            iteration_tokens: Histogram::new(&ITERATION),
            time_to_first_token: Histogram::new(&TTFT),
            inter_token_latency: Histogram::new(&ITL),
            time_per_output_token: Histogram::new(&ITL),
            e2e: Histogram::new(&LATENCY),
            queue: Histogram::new(&LATENCY),
            prefill: Histogram::new(&LATENCY),
            decode: Histogram::new(&LATENCY),
            request_prompt_tokens: Histogram::new(&lengths),
            request_generation_tokens: Histogram::new(&lengths),
            ..Stats::default()
        }
    }

    /// Counts `count` tokens of a request, from `index` on, that came at `now`. The previous token came at `previous`. As in vLLM, a step
    /// is one latency, however many tokens it yields.
    pub(super) fn tokens(&mut self, index: usize, count: usize, now: f64, arrived: f64, previous: f64) {
        self.generation_tokens += count as u64;
        match index {
            0 => self.time_to_first_token.observe(now - arrived),
            _ => self.inter_token_latency.observe(now - previous),
        }
    }

    /// Counts a step that gave this many requests their next token, `gap` seconds after the previous one.
    pub(super) fn decoded(&mut self, requests: u64, gap: f64) {
        self.generation_tokens += requests;
        self.inter_token_latency.observe_many(gap, requests);
    }

    pub(super) fn guessed(&mut self, guesses: usize, accepted: usize) {
        if guesses > 0 {
            self.drafts += 1;
            self.draft_tokens += guesses as u64;
            self.accepted[..accepted].iter_mut().for_each(|count| *count += 1);
        }
    }

    /// Counts a request that got its last token at `now`.
    pub(super) fn finished(&mut self, done: &Sequence, now: f64) {
        match done.request.stops {
            true => self.stopped += 1,
            false => self.finished_by_length += 1,
        }
        let scheduled = done.scheduled.unwrap_or(done.arrived);
        self.e2e.observe(now - done.arrived);
        self.queue.observe(scheduled - done.arrived);
        self.prefill.observe(done.first_token - scheduled);
        self.decode.observe(now - done.first_token);
        if done.produced > 1 {
            self.time_per_output_token
                .observe((now - done.first_token) / (done.produced - 1) as f64);
        }
        self.request_prompt_tokens.observe(done.request.prompt.len() as f64);
        self.request_generation_tokens.observe(done.produced as f64);
    }
}

/// Returns 1, 2, 5, 10, 20, 50 … up to `most`.
pub fn one_two_five(most: usize) -> Vec<f64> {
    let decades = (0..12).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)));
    decades.take_while(|bound| *bound <= most as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        [0.5, 1.0, 1.5, 3.0]
            .into_iter()
            .for_each(|value| histogram.observe(value));
        assert_eq!(
            (histogram.counts.as_slice(), histogram.count(), histogram.sum),
            (&[2, 1, 1][..], 4, 6.0)
        );
    }

    #[test]
    fn length_buckets_are_vllms() {
        assert_eq!(one_two_five(2048).last(), Some(&2000.0));
    }
}
