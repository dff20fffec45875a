//! The running requests that get one token in every step: how long their contexts are together, and in which step each one
//! fills a block or gets its last token. With these a step costs what changes in it, not what runs in it: the counters of
//! a request are brought up to date when somebody asks. Knows neither blocks nor time.

use super::Key;
use super::cost::Work;
use super::sequence::Sequence;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
