//! One request inside the engine: how far it is, which blocks it holds, and the content of its tokens.

use super::cost::Work;
use super::kv::HeldBlocks;
use super::{Key, SequenceRequest};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use vsweep_metrics::rng::mix;

/// The content of the `index`-th token of an answer: a pure function, so that it need not be carried about.
pub fn token_id(seed: u64, index: usize, vocabulary: u32) -> u32 {
    (mix(seed ^ (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)) % u64::from(vocabulary.max(1))) as u32
}

/// An odd number without a pattern (the golden ratio's digits): carries a token's bits up, `mix` carries them down again.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Debug, Default)]
pub(super) struct Sequence {
    pub(super) request: SequenceRequest,
    pub(super) arrived: f64,
    /// Time at which it first left the queue.
    pub(super) scheduled: Option<f64>,
    pub(super) last_token: f64,
    pub(super) first_token: f64,
    pub(super) produced: usize,
    /// Tokens whose KV entries exist.
    pub(super) computed: usize,
    /// Tokens of the step being performed, guesses included.
    pub(super) planned: usize,
    /// Guesses among them.
    pub(super) guessed: usize,
    pub(super) blocks: HeldBlocks,
    /// Content hashes of the full blocks of prompt and answer, as far as known.
    pub(super) hashes: Vec<u64>,
    /// Leading blocks whose content the pool knows.
    pub(super) remembered: usize,
    pub(super) cached_prompt: usize,
    /// The round of the decoders at which `produced` and `computed` were true; of no meaning elsewhere.
    pub(super) current: u64,
}

impl Sequence {
    /// A request that has just arrived.
    pub(super) fn new(arrived: f64, request: SequenceRequest) -> Self {
        Sequence {
            request,
            arrived,
            last_token: arrived,
            first_token: arrived,
            ..Sequence::default()
        }
    }

    /// Tokens that must be in the KV cache before the next token can be sampled.
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

    /// Tokens that are known and not computed.
    pub(super) fn missing(&self) -> usize {
        self.known() - self.computed
    }

    /// Blocks that it lacks to compute so many tokens more.
    pub(super) fn lacks(&self, tokens: usize, block_size: usize) -> usize {
        let needed = (self.computed + tokens).div_ceil(block_size);
        needed.saturating_sub(self.blocks.count())
    }

    /// Number of speculative tokens that would be useful now, out of `most`.
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
                hash = (hash ^ u64::from(self.token(position, vocabulary))).wrapping_mul(SPREAD);
            }
            hash = mix(hash);
            self.hashes.push(hash);
        }
    }
}

// The running requests that get one token in every step: how long their contexts are together, and in which step each one
// fills a block or gets its last token. With these a step costs what changes in it, not what runs in it: the counters of
// a request are brought up to date when somebody asks. Knows neither blocks nor time.

#[derive(Debug)]
pub(super) struct Decoders {
    /// Steps performed since there are decoders.
    round: u64,
    count: usize,
    /// Computed tokens of all together.
    context: u64,
    /// After which round each has its last token; those of one round in the order in which they joined.
    ends: BinaryHeap<Reverse<(u64, u64, Key)>>,
    joined: u64,
    /// By the remainder of the rounds after which their blocks are full, in the order in which they joined.
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

    /// Takes in a request that came to run after all others and has just got a token that is not its last one.
    pub fn join(&mut self, key: Key, sequence: &mut Sequence) {
        sequence.current = self.round;
        let left = sequence.request.output_len - sequence.produced;
        self.ends.push(Reverse((self.round + left as u64, self.joined, key)));
        self.joined += 1;
        let place = self.place(sequence.computed);
        self.full[place].push(key);
        self.context += sequence.computed as u64;
        self.count += 1;
    }

    /// Number of requests.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Their part of the next step.
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
        &self.full[self.place(0)]
    }

    /// Every one of them got a token.
    pub fn advance(&mut self) {
        self.round += 1;
        self.context += self.count as u64;
    }

    /// One after the other, oldest first, those that have their last token. Each must [`leave`](Self::leave).
    pub fn next_ended(&mut self) -> Option<Key> {
        let Reverse((round, _, key)) = *self.ends.peek()?;
        (round == self.round).then(|| {
            self.ends.pop();
            key
        })
    }

    /// Takes out a request whose counters are up to date.
    pub fn leave(&mut self, key: Key, sequence: &Sequence) {
        let place = self.place(sequence.computed);
        self.full[place].retain(|other| *other != key);
        self.context -= sequence.computed as u64;
        self.count -= 1;
    }

    /// Brings the counters of one of them up to date; the last step ended at `now` (seconds).
    pub fn catch_up(&self, sequence: &mut Sequence, now: f64) {
        let steps = (self.round - sequence.current) as usize;
        if steps > 0 {
            sequence.computed += steps;
            sequence.produced += steps;
            sequence.last_token = now;
            sequence.current = self.round;
        }
    }

    /// Index in `full` of a request with this number of computed tokens.
    fn place(&self, computed: usize) -> usize {
        let size = self.full.len();
        ((self.round % size as u64) as usize + size - computed % size) % size
    }
}
