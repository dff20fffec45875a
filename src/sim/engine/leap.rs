//! Many identical steps in one go: as long as every running request only gets its next token and nobody can join or
//! leave, a step differs from the one before only in the length of the contexts, so the times of all of them follow from
//! sums. The outcome is that of the steps one by one, to the last bit of every time; `laws` compares the two.

use super::cost::Work;
use super::{Engine, Key};

/// Fewer steps than this are not worth the bookkeeping.
const WORTH_IT: usize = 3;

impl Engine {
    /// Performs the steps from `now` on in which nothing changes and that begin before `until`, as far as that is certain
    /// without performing them, and appends the time at which each one ends to `ends`. Every running request gets one token
    /// from each of them, and none its last. Returns how many; 0 means that the next step must be performed by itself.
    /// Times in seconds.
    pub fn leap(&mut self, now: f64, until: f64, ends: &mut Vec<f64>) -> usize {
        debug_assert!(!self.stepping, "one step at a time");
        let (most, mut work) = match self.monotonous() {
            Some(found) if now < until => found,
            _ => return 0,
        };
        let first = ends.len();
        let mut at = now;
        while ends.len() - first < most && at < until {
            at += self.time(at, &work);
            ends.push(at);
            // Integers below 2^53, so adding them is exact in any order.
            work.pairs += work.tokens as f64;
            work.kv_tokens += work.tokens as f64;
        }
        let steps = ends.len() - first;
        self.stats_of_leap(now, &ends[first..]);
        for place in 0..self.running.len() {
            self.advance(self.running[place], steps, at);
        }
        steps
    }

    /// The requests that are being computed, oldest first: those to which the tokens of a leap belong.
    pub fn running_keys(&self) -> &[Key] {
        &self.running
    }

    /// For how many steps every running request gets one token and nothing else happens, and the work of the first one.
    fn monotonous(&self) -> Option<(usize, Work)> {
        let count = self.running.len();
        // How many guesses will be right is known only step by step.
        if self.cost.speculation.is_some() {
            return None;
        }
        if count == 0 || count > self.budget() || self.may_admit() {
            return None;
        }
        let mut most = usize::MAX;
        let mut work = Work::default();
        for key in &self.running {
            let sequence = &self.sequences[key];
            let left = sequence.request.output_len - sequence.produced;
            if sequence.missing() != 1 || left <= WORTH_IT {
                return None;
            }
            most = most.min(left - 1);
            work.add(1, sequence.computed, 1);
        }
        let free = self.limits.num_blocks - self.pool.used();
        let most = largest(most, |steps| self.blocks_for(steps) <= free);
        (most >= WORTH_IT).then_some((most, work))
    }

    /// Whether the next step might admit a waiting request.
    fn may_admit(&self) -> bool {
        let budget = self.budget().saturating_sub(self.running.len());
        let Some(&front) = self.waiting.front() else {
            return false;
        };
        if budget == 0 || self.running.len() >= self.limits.max_num_seqs {
            return false;
        }
        // Asking the cache for a request's blocks changes their order, so such steps are performed one by one.
        if self.limits.prefix_caching {
            return true;
        }
        let sequence = &self.sequences[&front];
        let tokens = self.chunk(front, budget);
        let fits = sequence.lacks(tokens, self.limits.block_size) <= self.limits.num_blocks - self.pool.used();
        fits && (self.limits.chunked_prefill || tokens == sequence.missing())
    }

    /// Blocks that the running requests take in so many steps of one token each.
    fn blocks_for(&self, steps: usize) -> usize {
        let sequences = self.running.iter().map(|key| &self.sequences[key]);
        sequences
            .map(|sequence| sequence.lacks(steps, self.limits.block_size))
            .sum()
    }

    fn stats_of_leap(&mut self, now: f64, ends: &[f64]) {
        let count = self.running.len() as u64;
        let mut previous = now;
        for end in ends {
            self.stats.inter_token_latency.observe_many(end - previous, count);
            previous = *end;
        }
        self.stats.generation_tokens += count * ends.len() as u64;
    }

    fn advance(&mut self, key: Key, steps: usize, now: f64) {
        let taken = self.reserve(key, steps);
        debug_assert!(taken, "the leap was no longer than the blocks last");
        let sequence = self.sequences.get_mut(&key).expect("a running request is known");
        sequence.computed += steps;
        sequence.produced += steps;
        sequence.last_token = now;
        if self.limits.prefix_caching {
            sequence.extend_hashes(self.limits.block_size, self.vocabulary);
            self.remember(key);
        }
    }
}

/// The largest number up to `most` for which `fits` holds, if it holds for all smaller ones too.
fn largest(most: usize, fits: impl Fn(usize) -> bool) -> usize {
    if fits(most) {
        return most;
    }
    let (mut low, mut high) = (0, most);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        *if fits(middle) { &mut low } else { &mut high } = middle;
    }
    low
}
