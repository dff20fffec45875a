//! One request inside the engine: its progress, the blocks that it holds, and the ids of its tokens.

use super::cost::Work;
use super::kv::HeldBlocks;
use super::{Key, SequenceRequest};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use vsweep_metrics::rng::mix;

/// Returns the id of the `index`-th token of an answer. It is a pure function, so ids need not be stored.
pub fn token_id(seed: u64, index: usize, vocabulary: u32) -> u32 {
    (mix(seed ^ (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)) % u64::from(vocabulary.max(1))) as u32
}

/// 2^64 divided by the golden ratio, an odd number. Multiplying by it spreads a token's bits upwards; `mix` spreads them downwards.
const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Debug, Default)]
pub(super) struct Sequence {
    pub(super) request: SequenceRequest,
    pub(super) arrived: f64,
    /// Time at which it first left the queue.
    pub(super) scheduled: Option<f64>,
    pub(super) last_token: f64,
    pub(super) first_token: f64,
    /// Number of tokens of the answer so far.
    pub(super) produced: usize,
    /// Number of tokens whose KV entries exist.
    pub(super) computed: usize,
    /// Number of tokens in the current step, including guesses.
    pub(super) planned: usize,
    /// Number of guesses among the planned tokens.
    pub(super) guessed: usize,
    pub(super) blocks: HeldBlocks,
    /// Content hashes of the full blocks of the prompt and the answer so far.
    pub(super) hashes: Vec<u64>,
    /// Number of leading blocks whose content the pool knows.
    pub(super) remembered: usize,
    /// Number of prompt tokens that the prefix cache had.
    pub(super) cached_prompt: usize,
    /// Round of [`Decoders`] at which `produced` and `computed` were up to date; meaningless for a request that is not among them.
    pub(super) current: u64,
}

impl Sequence {
    /// Returns the state of a request that has just arrived.
    pub(super) fn new(arrived: f64, request: SequenceRequest) -> Self {
        Sequence {
            request,
            arrived,
            last_token: arrived,
            first_token: arrived,
            ..Sequence::default()
        }
    }

    /// Number of tokens that must be in the KV cache before the next token can be sampled.
    pub(super) fn known(&self) -> usize {
        self.request.prompt.len() + self.produced
    }

    /// Number of tokens of the current step for which the next token is sampled.
    pub(super) fn samples(&self) -> usize {
        match self.computed + self.planned >= self.known() {
            true => 1 + self.guessed,
            false => 0,
        }
    }

    /// Number of tokens that are known but not computed.
    pub(super) fn missing(&self) -> usize {
        self.known() - self.computed
    }

    /// Number of blocks that the request lacks to compute `tokens` more tokens.
    pub(super) fn lacks(&self, tokens: usize, block_size: usize) -> usize {
        let needed = (self.computed + tokens).div_ceil(block_size);
        needed.saturating_sub(self.blocks.count())
    }

    /// Number of useful guesses in the next step, at most `most`.
    pub(super) fn guesses(&self, most: usize) -> usize {
        match self.produced > 0 && self.missing() == 1 {
            true => most.min(self.request.output_len - self.produced - 1),
            false => 0,
        }
    }

    fn token(&self, position: usize, vocabulary: u32) -> u32 {
        match self.request.prompt.get(position) {
            Some(&id) => id,
            None => token_id(self.request.seed, position - self.request.prompt.len(), vocabulary),
        }
    }

    /// Extends the chain of block hashes to every full block of known tokens.
    pub(super) fn extend_hashes(&mut self, block_size: usize, vocabulary: u32) {
        while (self.hashes.len() + 1) * block_size <= self.known() {
            let start = self.hashes.len() * block_size;
            let mut hash = self.hashes.last().copied().unwrap_or(0x5EED ^ self.request.salt);
            for position in start..start + block_size {
                hash = (hash ^ u64::from(self.token(position, vocabulary))).wrapping_mul(GOLDEN_RATIO);
            }
            hash = mix(hash);
            self.hashes.push(hash);
        }
    }
}

// The running requests that get one token in every step: the total length of their contexts, and the step in which each one fills a block
// or gets its last token. With these, the cost of simulating a step depends on its changes, not on the number of requests. The counters of
// a request are brought up to date only when they are needed.

#[derive(Debug)]
pub(super) struct Decoders {
    /// Number of steps performed so far.
    round: u64,
    count: usize,
    /// Number of computed tokens of all requests together.
    context: u64,
    /// For each request the round after which it has its last token, its number in the order of joining, and its key.
    ends: BinaryHeap<Reverse<(u64, u64, Key)>>,
    /// Number of requests that have joined so far.
    joined: u64,
    /// Requests in the order in which they joined, by the remainder (modulo the block size) of the rounds after which their blocks are
    /// full.
    full: Vec<Vec<Key>>,
}

impl Decoders {
    pub fn new(block_size: usize) -> Self {
        Decoders {
            round: 0,
            count: 0,
            context: 0,
            ends: BinaryHeap::new(),
            joined: 0,
            full: vec![Vec::new(); block_size],
        }
    }

    /// Adds a request that was admitted after all others and has just got a token, but not its last one.
    pub fn join(&mut self, key: Key, sequence: &mut Sequence) {
        sequence.current = self.round;
        let left = sequence.request.output_len - sequence.produced;
        self.ends.push(Reverse((self.round + left as u64, self.joined, key)));
        self.joined += 1;
        let index_in_full = self.index_in_full(sequence.computed);
        self.full[index_in_full].push(key);
        self.context += sequence.computed as u64;
        self.count += 1;
    }

    /// Number of requests.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the work of these requests in the next step.
    pub fn work(&self) -> Work {
        // Integers below 2^53, so the sum is exact in any order.
        let tokens = (self.context + self.count as u64) as f64;
        Work {
            tokens: self.count,
            sequences: self.count,
            samples: self.count,
            pairs: tokens,
            kv_tokens: tokens,
        }
    }

    /// Requests whose blocks are all full, oldest first.
    pub fn full(&self) -> &[Key] {
        &self.full[self.index_in_full(0)]
    }

    /// Counts a step in which every request got a token.
    pub fn advance(&mut self) {
        self.round += 1;
        self.context += self.count as u64;
    }

    /// Returns the next request that has its last token, oldest first. It must then [`leave`](Self::leave).
    pub fn next_ended(&mut self) -> Option<Key> {
        let Reverse((round, _, key)) = *self.ends.peek()?;
        (round == self.round).then(|| {
            self.ends.pop();
            key
        })
    }

    /// Removes a request whose counters are up to date.
    pub fn leave(&mut self, key: Key, sequence: &Sequence) {
        let index_in_full = self.index_in_full(sequence.computed);
        self.full[index_in_full].retain(|other| *other != key);
        self.context -= sequence.computed as u64;
        self.count -= 1;
    }

    /// Brings the counters of a request up to date. The last step ended at `now` (seconds).
    pub fn catch_up(&self, sequence: &mut Sequence, now: f64) {
        let steps = (self.round - sequence.current) as usize;
        if steps > 0 {
            sequence.computed += steps;
            sequence.produced += steps;
            sequence.last_token = now;
            sequence.current = self.round;
        }
    }

    /// Returns the index in `full` of a request with this number of computed tokens.
    fn index_in_full(&self, computed: usize) -> usize {
        let size = self.full.len();
        ((self.round % size as u64) as usize + size - computed % size) % size
    }
}
