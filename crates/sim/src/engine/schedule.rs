//! Schedules the tokens that a step computes, by the rules of vLLM's v1 scheduler.

use super::cost::Work;
use super::{Engine, Key};

impl Engine {
    /// Plans one step from `now` on and returns what it computes.
    pub(super) fn schedule(&mut self, now: f64) -> Work {
        let mut budget = self.budget();
        let preempted = self.schedule_running(&mut budget);
        if !preempted {
            self.schedule_waiting(now, &mut budget);
        }
        self.work(Work::default(), 0)
    }

    /// Returns the work of a step: the `known` work of the first `skipped` running requests, and the planned work of the others.
    pub(super) fn work(&self, mut known: Work, skipped: usize) -> Work {
        for key in &self.running[skipped..] {
            let sequence = &self.sequences[key];
            if sequence.planned > 0 {
                known.add(sequence.planned, sequence.computed, sequence.samples());
            }
        }
        known
    }

    /// Maximum number of tokens of a step. Every stage of a pipeline works on a separate batch.
    pub(super) fn budget(&self) -> usize {
        self.limits.max_num_batched_tokens * self.cost.pipeline_parallel
    }

    /// Gives every running request its next tokens, oldest first. Preempts requests if blocks run out, and then returns true.
    fn schedule_running(&mut self, budget: &mut usize) -> bool {
        let mut preempted = false;
        let mut index = 0;
        while index < self.running.len() && *budget > 0 {
            let key = self.running[index];
            let tokens = self.chunk(key, *budget);
            if self.reserve(key, tokens) {
                self.plan(key, tokens, budget);
                index += 1;
            } else {
                preempted = true;
                let victim = self.victim();
                self.preempt(victim, budget);
                // If the victim was before this request, the request moved up by one.
                index -= usize::from(victim < index);
            }
        }
        preempted
    }

    /// Returns the place of the running request to preempt first: the one admitted last, or with priorities the least urgent.
    fn victim(&self) -> usize {
        let mut running = 0..self.running.len();
        let victim = match self.limits.by_priority {
            true => running.max_by_key(|place| self.rank(self.running[*place])),
            false => running.next_back(),
        };
        victim.expect("blocks are only short while a request runs")
    }

    /// Admits waiting requests while the step has room for requests and tokens, and blocks are free.
    pub(super) fn schedule_waiting(&mut self, now: f64, budget: &mut usize) {
        while *budget > 0 && self.running.len() < self.limits.max_num_seqs {
            let Some(&key) = self.waiting.front() else { break };
            self.adopt_cached_blocks(key);
            let sequence = &self.sequences[&key];
            let missing = sequence.missing();
            let tokens = self.chunk(key, *budget);
            let splits_forbidden = !self.limits.chunked_prefill && tokens < missing;
            if splits_forbidden || !self.reserve(key, tokens) {
                self.return_blocks(key);
                break;
            }
            self.waiting.pop_front();
            self.running.push(key);
            let sequence = self.sequences.get_mut(&key).expect("a waiting request is known");
            if sequence.scheduled.is_none() {
                sequence.scheduled = Some(now);
                sequence.cached_prompt = sequence.computed;
                self.stats.prefix_queries += sequence.request.prompt.len() as u64;
                self.stats.prefix_hits += sequence.computed as u64;
            }
            self.plan(key, tokens, budget);
        }
    }

    /// Number of tokens of a request that fit into this step, including speculative ones.
    pub(super) fn chunk(&self, key: Key, budget: usize) -> usize {
        let sequence = &self.sequences[&key];
        let most = self.cost.speculation.as_ref().map_or(0, |guess| guess.tokens);
        let missing = sequence.missing() + sequence.guesses(most);
        let limit = match self.limits.long_prefill_token_threshold {
            0 => budget,
            _ if !self.limits.chunked_prefill => budget,
            threshold => budget.min(threshold),
        };
        missing.min(limit)
    }

    fn adopt_cached_blocks(&mut self, key: Key) {
        let sequence = self.sequences.get_mut(&key).expect("a waiting request is known");
        if !self.limits.prefix_caching || sequence.blocks.count() > 0 {
            return;
        }
        // The last token is always computed, because the next token is sampled from its output.
        let usable = (sequence.known() - 1) / self.limits.block_size;
        for hash in sequence.hashes.iter().take(usable) {
            match self.pool.find(*hash) {
                Some(block) => sequence.blocks.push(block),
                None => break,
            }
        }
        sequence.computed = sequence.blocks.count() * self.limits.block_size;
        sequence.remembered = sequence.blocks.count();
    }

    fn return_blocks(&mut self, key: Key) {
        let sequence = self.sequences.get_mut(&key).expect("a scheduled request is known");
        self.pool.release(&mut sequence.blocks);
        sequence.computed = 0;
        sequence.remembered = 0;
    }

    /// Takes the blocks for `tokens` more tokens. Takes none and returns false if there are not enough.
    pub(super) fn reserve(&mut self, key: Key, tokens: usize) -> bool {
        let sequence = self.sequences.get_mut(&key).expect("a scheduled request is known");
        let lacking = sequence.lacks(tokens, self.limits.block_size);
        self.pool.take(lacking, &mut sequence.blocks)
    }

    pub(super) fn plan(&mut self, key: Key, tokens: usize, budget: &mut usize) {
        let sequence = self.sequences.get_mut(&key).expect("a scheduled request is known");
        sequence.planned = tokens;
        sequence.guessed = tokens.saturating_sub(sequence.missing());
        *budget -= tokens;
    }

    fn preempt(&mut self, place: usize, budget: &mut usize) {
        let key = self.running.remove(place);
        self.return_blocks(key);
        let sequence = self.sequences.get_mut(&key).expect("a running request is known");
        *budget += std::mem::take(&mut sequence.planned);
        sequence.guessed = 0;
        self.stats.preemptions += 1;
        self.enqueue(key);
    }
}
