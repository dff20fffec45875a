//! The engine model: from the arrival of requests to their tokens, as a pure state machine whose clock is an argument. The HTTP server
//! drives it in real time; rehearsals and tests drive it as fast as it can compute.
//!
//! A step is planned at one instant ([`Engine::begin_step`]) and yields its tokens at a later one ([`Engine::end_step`]). Scheduling
//! follows vLLM's v1 scheduler. Running requests come first, then waiting ones in order of arrival (or priority), all within a token
//! budget. Prefill is chunked and mixed with decoding. When blocks run out, the request that was admitted last (or the least urgent one) is
//! preempted and recomputed. The engine does not know text, HTTP, processes or files.

pub mod cost;
pub mod gpu;
pub mod kv;
mod leap;
pub mod memory;
pub mod model;
pub mod noise;
pub mod roofline;
mod schedule;
mod sequence;
pub mod stats;

#[cfg(test)]
mod tests;

use self::cost::{CostModel, Work};
use self::kv::Pool;
pub use self::leap::Leap;
use self::noise::Noise;
use self::roofline::Roofline;
pub use self::sequence::token_id;
use self::sequence::{Decoders, Sequence};
use self::stats::Stats;
use super::neighbours::ContentionFactor;
use nohash_hasher::IntMap;
use std::collections::VecDeque;

/// Settings of the scheduler and the KV cache, by vLLM's names.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum number of requests in one step.
    pub max_num_seqs: usize,
    /// Maximum number of tokens in one step.
    pub max_num_batched_tokens: usize,
    /// Maximum number of tokens of a prompt and its answer together.
    pub max_model_len: usize,
    /// Tokens in one KV block.
    pub block_size: usize,
    /// Number of KV blocks; set once the memory is planned.
    pub num_blocks: usize,
    /// Share of the GPU's memory to use, 0 to 1.
    pub gpu_memory_utilization: f64,
    /// Number of KV blocks that the user demands, if any.
    pub num_gpu_blocks_override: Option<usize>,
    /// True if full blocks are kept and found again by content.
    pub prefix_caching: bool,
    /// True if a prompt may be split over several steps.
    pub chunked_prefill: bool,
    /// Maximum number of tokens of one prompt in one step; 0 for no limit.
    pub long_prefill_token_threshold: usize,
    /// True if a smaller `priority` goes first, instead of the earlier arrival.
    pub by_priority: bool,
}

/// One sequence to generate.
#[derive(Debug, Clone, Default)]
pub struct SequenceRequest {
    /// Token ids of the prompt; at least one.
    pub prompt: Vec<u32>,
    /// Number of tokens to generate; at least one.
    pub output_len: usize,
    /// Seed of the answer's tokens. Answers of equal seeds to equal prompts share blocks.
    pub seed: u64,
    /// Under priority scheduling, a smaller number goes first.
    pub priority: i64,
    /// True if `output_len` is the answer's own end, false if it is its limit.
    pub stops: bool,
    /// Requests share blocks only if their salts are equal. Each adapter has its own.
    pub salt: u64,
}

/// Identifies a request within one engine; later requests have larger keys.
pub type Key = u64;

/// One token that a step produced. A step with speculative decoding may yield several for a request, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewToken {
    /// The request that got the token.
    pub key: Key,
    /// Index of the token in the answer, from 0.
    pub index: usize,
    /// True if it is the last one.
    pub finished: bool,
}

/// The state machine.
#[derive(Debug)]
pub struct Engine {
    limits: Limits,
    cost: CostModel,
    roofline: Roofline,
    noise: Noise,
    contention: ContentionFactor,
    vocabulary: u32,
    pool: Pool,
    next_key: Key,
    /// Waiting and running requests.
    sequences: IntMap<Key, Sequence>,
    waiting: VecDeque<Key>,
    /// In the order of admission. Without priorities, the last one is preempted first.
    running: Vec<Key>,
    /// Requests whose counters are not up to date after a leap, and the end of the leap's last step, in seconds.
    decoders: Option<(Decoders, f64)>,
    /// True between the beginning and the end of a single step.
    stepping: bool,
    stats: Stats,
    outputs: Vec<NewToken>,
}

impl Engine {
    /// Returns an idle engine. Ids of generated tokens are less than `vocabulary`.
    pub fn new(limits: Limits, cost: CostModel, noise: Noise, vocabulary: u32) -> Self {
        let pool = Pool::new(limits.num_blocks, limits.prefix_caching);
        let guesses = cost.speculation.as_ref().map_or(0, |guess| guess.tokens);
        let stats = Stats::new(limits.max_model_len, guesses);
        Engine {
            limits,
            roofline: Roofline::of(&cost),
            cost,
            noise,
            contention: ContentionFactor::default(),
            vocabulary,
            pool,
            next_key: 0,
            sequences: IntMap::default(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            decoders: None,
            stepping: false,
            stats,
            outputs: Vec::new(),
        }
    }

    /// Puts a request into the queue at time `now` (seconds). It must fit the limits: at most `max_model_len` tokens.
    pub fn add(&mut self, now: f64, request: SequenceRequest) -> Key {
        let key = self.next_key;
        self.next_key += 1;
        let mut sequence = Sequence::new(now, request);
        if self.limits.prefix_caching {
            sequence.extend_hashes(self.limits.block_size, self.vocabulary);
        }
        self.sequences.insert(key, sequence);
        self.enqueue(key);
        key
    }

    /// Puts a new or preempted request into the queue, which is sorted by rank.
    fn enqueue(&mut self, key: Key) {
        let rank = self.rank(key);
        let position = self.waiting.partition_point(|other| self.rank(*other) < rank);
        self.waiting.insert(position, key);
    }

    /// Rank of a request by its urgency; a lower rank is more urgent.
    fn rank(&self, key: Key) -> (i64, Key) {
        let sequence = self.sequences.get(&key).filter(|_| self.limits.by_priority);
        (sequence.map_or(0, |sequence| sequence.request.priority), key)
    }

    /// Removes a waiting or running request; its blocks are free at once.
    pub fn abort(&mut self, key: Key) {
        self.settle();
        if let Some(mut sequence) = self.sequences.remove(&key) {
            self.waiting.retain(|other| *other != key);
            self.running.retain(|other| *other != key);
            self.pool.release(&mut sequence.blocks);
            self.stats.aborted += 1;
        }
    }

    /// Returns true if any request waits or runs.
    pub fn is_busy(&self) -> bool {
        !self.sequences.is_empty()
    }

    /// Number of requests being computed.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Number of requests in the queue.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns counters and histograms since the start, and the present gauges.
    pub fn stats(&self) -> Stats {
        Stats {
            running: self.running(),
            waiting: self.waiting(),
            kv_usage: self.pool.used() as f64 / self.limits.num_blocks.max(1) as f64,
            ..self.stats.clone()
        }
    }

    /// Forgets cached blocks. As in vLLM, does nothing and returns false while a request holds blocks.
    pub fn reset_prefix_cache(&mut self) -> bool {
        let idle = self.pool.used() == 0;
        if idle {
            self.pool.forget();
        }
        idle
    }

    /// Plans a step that begins at `now`: schedules tokens, takes blocks, and returns the duration of the step in seconds; `None` if
    /// nothing can run. Requests may be added or aborted before [`Engine::end_step`].
    pub fn begin_step(&mut self, now: f64) -> Option<f64> {
        debug_assert!(!self.stepping, "one step at a time");
        self.settle();
        let work = self.schedule(now);
        if work.tokens == 0 {
            return None;
        }
        self.stepping = true;
        Some(self.time(now, &work))
    }

    /// Returns the engine, slowed down by this contention.
    pub fn with_contention(self, contention: ContentionFactor) -> Engine {
        Engine { contention, ..self }
    }

    /// Returns the duration of a step that begins at `now`, and counts the step.
    fn time(&mut self, now: f64, work: &Work) -> f64 {
        self.stats.iteration_tokens.observe(work.tokens as f64);
        self.stats.flops += self.roofline.flops(work);
        self.stats.read_bytes += self.roofline.step_bytes(work);
        self.noise.stretch(now, self.roofline.seconds(work)) * self.contention.factor()
    }

    /// Makes the full blocks of a request findable by their content.
    fn remember(&mut self, key: Key) {
        let sequence = self.sequences.get_mut(&key).expect("a running request is known");
        let full = sequence.computed / self.limits.block_size;
        for index in sequence.remembered..full {
            self.pool.remember(sequence.blocks.id(index), sequence.hashes[index]);
        }
        sequence.remembered = full;
    }

    /// Ends the step at `now` and returns its tokens, in the order of the batch.
    pub fn end_step(&mut self, now: f64) -> &[NewToken] {
        self.stepping = false;
        self.outputs.clear();
        let mut running = std::mem::take(&mut self.running);
        running.retain(|key| self.conclude(*key, now));
        self.running = running;
        &self.outputs
    }

    /// Ends a step at `now` for one running request. Returns true if the request still runs.
    fn conclude(&mut self, key: Key, now: f64) -> bool {
        let sequence = self.sequences.get_mut(&key).expect("a running request is known");
        let guessed = std::mem::take(&mut sequence.guessed);
        sequence.computed += std::mem::take(&mut sequence.planned) - guessed;
        if sequence.computed < sequence.known() {
            return true;
        }
        let index = sequence.produced;
        let accepted = match &self.cost.speculation {
            Some(guess) if guessed > 0 => guess.accepted(sequence.request.seed, index, guessed, now),
            _ => 0,
        };
        self.stats.guessed(guessed, accepted);
        self.stats
            .tokens(index, 1 + accepted, now, sequence.arrived, sequence.last_token);
        if index == 0 {
            self.stats.prompt_tokens += sequence.request.prompt.len() as u64;
            self.stats.prompt_cached += sequence.cached_prompt as u64;
            sequence.first_token = now;
        }
        sequence.last_token = now;
        sequence.produced += 1 + accepted;
        // The KV entries of correct guesses exist already.
        sequence.computed += accepted;
        if self.limits.prefix_caching {
            sequence.extend_hashes(self.limits.block_size, self.vocabulary);
            self.remember(key);
        }
        let sequence = &self.sequences[&key];
        let finished = sequence.produced >= sequence.request.output_len;
        for index in index..=index + accepted {
            let finished = finished && index + 1 == sequence.produced;
            self.outputs.push(NewToken { key, index, finished });
        }
        if finished {
            self.retire(key, now);
        }
        !finished
    }

    /// Removes a request that got its last token at `now`.
    fn retire(&mut self, key: Key, now: f64) {
        let mut done = self.sequences.remove(&key).expect("a running request is known");
        self.pool.release(&mut done.blocks);
        self.stats.finished(&done, now);
    }
}
