//! One request inside the engine: how far it is, which blocks it holds, and the content of its tokens.

use super::SequenceRequest;
use super::kv::HeldBlocks;
use super::noise;

/// The content of the `index`-th token of an answer: a pure function, so that it need not be carried about.
pub fn token_id(seed: u64, index: usize, vocabulary: u32) -> u32 {
    (noise::mix(seed ^ (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)) % u64::from(vocabulary.max(1))) as u32
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
            hash = noise::mix(hash);
            self.hashes.push(hash);
        }
    }
}
