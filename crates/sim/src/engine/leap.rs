//! Performs many steps at once. While blocks are free and all requests that decode are older than the others, only the differences between
//! one step and the next are computed, so thousands of requests cost no more than one. The result equals the result of single steps, to the
//! last bit of every time; a test of `virtual_time` compares the two.

use super::sequence::{Decoders, Sequence};
use super::{Engine, Key, NewToken};

/// Result of several steps performed at once.
#[derive(Debug, Clone, Copy)]
pub struct Leap<'a> {
    /// Requests that got one token from each of the steps and still run.
    pub steady: &'a [Key],
    /// Last tokens of requests that got one from each of the steps. They came at the end of the last step.
    pub ended: &'a [NewToken],
    /// Tokens that other requests got, from the last step only.
    pub fresh: &'a [NewToken],
}

impl Engine {
    /// Performs steps from `now` on. Stops after a step that yields a last token, or a token of a request that was not decoding, and before
    /// a step that would begin at `until` or later. Appends the end of each step to `ends`, in seconds. Appends nothing if nothing can run,
    /// or if the next step must be performed by [`Engine::begin_step`].
    pub fn leap(&mut self, now: f64, until: f64, ends: &mut Vec<f64>) -> Leap<'_> {
        debug_assert!(!self.stepping, "one step at a time");
        self.outputs.clear();
        let (mut at, mut steady, mut ended) = (now, 0, 0);
        if let Some(mut decoders) = self.gather(now) {
            while at < until
                && self.outputs.is_empty()
                && let Some(end) = self.plan_step(at, &mut decoders)
            {
                ends.push(end);
                ended = self.end_decoders(at, end, &mut decoders);
                steady = decoders.count();
                at = end;
                if !self.end_others(end, &mut decoders) {
                    self.disband(&decoders, end);
                    return self.result(steady, ended);
                }
            }
            self.decoders = Some((decoders, at));
        }
        self.result(steady, ended)
    }

    fn result(&self, steady: usize, ended: usize) -> Leap<'_> {
        let (ended, fresh) = self.outputs.split_at(ended);
        Leap {
            steady: &self.running[..steady],
            ended,
            fresh,
        }
    }

    /// Returns the requests that decode: those that got a token at `now`. `None` if no request runs, if one that decodes was admitted after
    /// one that does not, or with speculative decoding, because the number of right guesses is known only step by step.
    fn gather(&mut self, now: f64) -> Option<Decoders> {
        if self.running.is_empty() || self.cost.speculation.is_some() {
            return None;
        }
        if let Some((decoders, _)) = self.decoders.take() {
            return Some(decoders);
        }
        let decodes = |key: &Key| self.sequences[key].produced > 0 && self.sequences[key].last_token == now;
        let count = self.running.iter().take_while(|key| decodes(key)).count();
        if self.running[count..].iter().any(decodes) {
            return None;
        }
        let mut decoders = Decoders::new(self.limits.block_size);
        for key in &self.running[..count] {
            let sequence = self.sequences.get_mut(key).expect("a running request is known");
            decoders.join(*key, sequence);
        }
        Some(decoders)
    }

    /// Brings the counters of every request up to date, as single steps need them.
    pub(super) fn settle(&mut self) {
        if let Some((decoders, at)) = self.decoders.take() {
            self.disband(&decoders, at);
        }
    }

    /// Brings the counters of all decoders up to date; the last step ended at `at`.
    fn disband(&mut self, decoders: &Decoders, at: f64) {
        for index in 0..decoders.count() {
            self.catch_up(self.running[index], at, decoders);
        }
    }

    /// Plans a step that begins at `now` and returns the time of its end. Returns `None` and changes nothing if there may be too few blocks
    /// or tokens for all running requests.
    fn plan_step(&mut self, now: f64, decoders: &mut Decoders) -> Option<f64> {
        let count = decoders.count();
        let mut budget = self.budget().checked_sub(count)?;
        if self.running.is_empty() || self.lacking(decoders, budget) > self.pool.free() {
            return None;
        }
        self.extend(decoders.full());
        for index in count..self.running.len() {
            if budget == 0 {
                break;
            }
            let key = self.running[index];
            let tokens = self.chunk(key, budget);
            let reserved = self.reserve(key, tokens);
            debug_assert!(reserved, "enough blocks are free");
            self.plan(key, tokens, &mut budget);
        }
        self.schedule_waiting(now, &mut budget);
        let work = self.work(decoders.work(), count);
        Some(now + self.time(now, &work))
    }

    /// Takes a block for each of these decoders.
    fn extend(&mut self, keys: &[Key]) {
        if self.pool.only_counts() {
            return self.pool.take_counted(keys.len());
        }
        for key in keys {
            let sequence = self.sequences.get_mut(key).expect("a running request is known");
            let taken = self.pool.take(1, &mut sequence.blocks);
            debug_assert!(taken, "enough blocks are free");
        }
    }

    /// Brings the counters of a decoder up to date; the last step ended at `now`.
    fn catch_up(&mut self, key: Key, now: f64, decoders: &Decoders) -> &mut Sequence {
        let sequence = self.sequences.get_mut(&key).expect("a running request is known");
        decoders.catch_up(sequence, now);
        if self.pool.only_counts() {
            sequence
                .blocks
                .recount(sequence.computed.div_ceil(self.limits.block_size));
        }
        if self.limits.prefix_caching {
            sequence.extend_hashes(self.limits.block_size, self.vocabulary);
        }
        sequence
    }

    /// Number of blocks that the running requests lack for the next step, if those that do not decode share `budget` tokens.
    fn lacking(&self, decoders: &Decoders, mut budget: usize) -> usize {
        let mut lacking = decoders.full().len();
        for key in &self.running[decoders.count()..] {
            let tokens = self.chunk(*key, budget);
            lacking += self.sequences[key].lacks(tokens, self.limits.block_size);
            budget -= tokens;
        }
        lacking
    }

    /// Ends a step from `from` to `now` for the decoders. Returns the number of those that got their last token.
    fn end_decoders(&mut self, from: f64, now: f64, decoders: &mut Decoders) -> usize {
        self.stats.decoded(decoders.count() as u64, now - from);
        decoders.advance();
        if self.limits.prefix_caching {
            for index in 0..decoders.full().len() {
                let key = decoders.full()[index];
                self.catch_up(key, now, decoders);
                self.remember(key);
            }
        }
        while let Some(key) = decoders.next_ended() {
            let sequence = self.catch_up(key, now, decoders);
            decoders.leave(key, sequence);
            let (index, finished) = (sequence.produced - 1, true);
            self.outputs.push(NewToken { key, index, finished });
            self.running.retain(|other| *other != key);
            self.retire(key, now);
        }
        self.outputs.len()
    }

    /// Ends the step for the requests that do not decode yet; those that get a token decode from now on. Returns true if all requests that
    /// decode are still older than the others.
    fn end_others(&mut self, now: f64, decoders: &mut Decoders) -> bool {
        let others = self.running.split_off(decoders.count());
        let mut in_order = true;
        for key in others {
            let before = self.outputs.len();
            if !self.conclude(key, now) {
                continue;
            }
            self.running.push(key);
            if self.outputs.len() > before {
                in_order &= self.running.len() == decoders.count() + 1;
                if in_order {
                    let sequence = self.sequences.get_mut(&key).expect("a running request is known");
                    decoders.join(key, sequence);
                }
            }
        }
        in_order
    }
}
