//! Drives the engine model under a virtual clock: a whole load takes only the time to compute it, without HTTP, threads or sleeping. The
//! results are the timelines that a load generator would have measured. They are simulated, never measured.
//!
//! The caller decides which requests are sent and when; the engine makes the tokens.

mod timelines;

use self::timelines::Timelines;
use super::engine::memory::{Misfit, kv_blocks};
use super::engine::stats::Stats;
use super::engine::{Engine, SequenceRequest};
use super::settings::ServerSettings;
use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use vsweep_metrics::{LoadProgress, Nanos, Sample};

/// The requests of a load, and the times and limits for sending them.
#[derive(Debug, Default)]
pub struct VirtualLoad {
    /// Requests in order.
    pub requests: Vec<SequenceRequest>,
    /// Due time of each request, in nanoseconds after the start, ascending.
    pub due: Vec<Nanos>,
    /// Class of each request; empty if the load does not mix several classes.
    pub classes: Vec<u8>,
    /// Maximum number of requests in flight at once.
    pub limit: Option<usize>,
    /// Time limit of sending, if there is one: no request that is due later is sent, nor, in a closed loop, one that gets its slot later.
    pub sending: Option<Nanos>,
    /// Time at which requests in flight are given up, and their error, if there is one.
    pub deadline: Option<(Nanos, String)>,
    /// True to keep the time of every token; otherwise only those of the first and the last one are kept.
    pub every_token: bool,
    /// Time from a client's sending to the engine's queue, in nanoseconds: network, HTTP, tokenisation.
    pub delay: Nanos,
}

/// Result of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct VirtualResult {
    /// Timelines of the requests, in their order.
    pub samples: Vec<Sample>,
    /// Time from the start to the end of the last request, in nanoseconds.
    pub duration: Nanos,
}

/// Follows a load in progress, and may end it by returning `Break`.
pub type Observer<'a> = dyn FnMut(LoadProgress<'_>) -> ControlFlow<()> + 'a;

/// Time between two reports of the requests in flight to an observer, in nanoseconds.
pub const REPORT_INTERVAL: Nanos = 100_000_000;

/// A ready server under a virtual clock.
#[derive(Debug)]
pub struct VirtualServer {
    engine: Engine,
    /// Time since the server was ready, in seconds.
    now: f64,
    /// Maximum number of tokens of a prompt and its answer together.
    longest: usize,
    /// True if several steps may be performed at once; the result does not change.
    leaps: bool,
}

impl VirtualServer {
    /// Returns a server with these settings, or the reason why the model does not fit. Faults are ignored.
    pub fn start(settings: &ServerSettings) -> Result<VirtualServer, Misfit> {
        let mut settings = settings.clone();
        settings.limits.num_blocks = kv_blocks(&settings.cost, &settings.limits)?;
        let vocabulary = u32::try_from(settings.cost.model.vocabulary).unwrap_or(u32::MAX);
        Ok(VirtualServer {
            longest: settings.limits.max_model_len,
            engine: settings.engine(vocabulary, 0),
            now: 0.0,
            leaps: true,
        })
    }

    /// Makes the server perform every step separately.
    pub fn step_by_step(self) -> VirtualServer {
        VirtualServer { leaps: false, ..self }
    }

    /// Statistics of the engine since the server was ready.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Resets the prefix cache.
    pub fn reset(&mut self) {
        self.engine.reset_prefix_cache();
    }

    /// Sends the load and awaits every answer.
    pub fn drive(&mut self, load: VirtualLoad) -> VirtualResult {
        RunningLoad::new(self, load, None).perform()
    }

    /// Drives the load with an observer that may end it early. Requests in flight are then aborted and count as failed.
    pub fn drive_watched(&mut self, load: VirtualLoad, observer: &mut Observer<'_>) -> VirtualResult {
        RunningLoad::new(self, load, Some(observer)).perform()
    }
}

/// A load in progress.
struct RunningLoad<'a, 'o> {
    server: &'a mut VirtualServer,
    observer: Option<&'a mut Observer<'o>>,
    /// Time of the next report of the requests in flight to the observer.
    next_report: Nanos,
    /// Indices of the requests in the engine; empty without an observer.
    underway: BTreeSet<usize>,
    is_broken_off: bool,
    load: VirtualLoad,
    /// Time of the engine at which the load began, in seconds.
    zero: f64,
    timelines: Timelines,
    /// Index of the next request to send.
    next: usize,
    /// Number of requests that have a slot. Some of them may be due later.
    in_flight: usize,
    /// Times at which the free slots became free, oldest first.
    freed: VecDeque<Nanos>,
    /// Requests that are not in the engine yet: time of arrival, index, and request.
    coming: VecDeque<(Nanos, usize, SequenceRequest)>,
}

impl<'a, 'o> RunningLoad<'a, 'o> {
    fn new(server: &'a mut VirtualServer, load: VirtualLoad, observer: Option<&'a mut Observer<'o>>) -> Self {
        let count = load.requests.len().min(load.due.len());
        RunningLoad {
            zero: server.now,
            server,
            next_report: observer.as_ref().map_or(Nanos::MAX, |_| REPORT_INTERVAL),
            observer,
            underway: BTreeSet::new(),
            is_broken_off: false,
            timelines: Timelines::new(count, load.every_token),
            load,
            next: 0,
            in_flight: 0,
            freed: VecDeque::new(),
            coming: VecDeque::new(),
        }
    }

    fn perform(mut self) -> VirtualResult {
        let mut ends = Vec::new();
        loop {
            self.send();
            self.admit();
            self.report_underway();
            let given_up = self.load.deadline.as_ref().map_or(Nanos::MAX, |(at, _)| *at);
            let given_up = self.seconds(given_up);
            if self.is_broken_off || self.server.now >= given_up {
                break;
            }
            let until = self.coming.front().map_or(f64::INFINITY, |(at, ..)| self.seconds(*at));
            let deadline = until.min(self.seconds(self.next_report)).min(given_up);
            if self.server.leaps && self.leap(deadline, &mut ends) {
                continue;
            }
            match self.server.engine.begin_step(self.server.now) {
                Some(seconds) => self.end_step(seconds),
                None if self.coming.is_empty() => break,
                None => self.server.now = self.server.now.max(until),
            }
        }
        self.fail_the_rest();
        let samples = self.timelines.samples;
        VirtualResult {
            duration: samples.iter().map(|sample| sample.end).max().unwrap_or(0),
            samples,
        }
    }

    /// Gives requests their slots, in order, while slots are free. A request is sent when it is due and has a slot, which may be later.
    fn send(&mut self) {
        let limit = self.load.limit.unwrap_or(usize::MAX).max(1);
        while self.next < self.timelines.samples.len() && self.in_flight < limit {
            let due = self.load.due[self.next];
            let ready = match self.next >= limit {
                true => due.max(self.freed.pop_front().unwrap_or(due)),
                false => due,
            };
            let in_time = if self.is_open_loop() { due } else { ready };
            if self.load.sending.is_some_and(|end| in_time > end) {
                self.timelines.samples.truncate(self.next);
                break;
            }
            let request = std::mem::take(&mut self.load.requests[self.next]);
            let sample = &mut self.timelines.samples[self.next];
            (sample.due, sample.ready, sample.sent, sample.end) = (due, ready, ready, ready);
            (sample.prompt_len, sample.sequences) = (request.prompt.len() as u64, 1);
            sample.class = self.load.classes.get(self.next).copied().unwrap_or_default();
            let arrives = ready + self.load.delay;
            match request.prompt.len() + request.output_len > self.server.longest {
                true => {
                    sample.error = Some(format!("HTTP 400: longer than max_model_len {}", self.server.longest));
                    sample.end = arrives;
                    self.freed.push_back(arrives);
                    self.report_end(self.next);
                }
                false => {
                    self.in_flight += 1;
                    self.coming.push_back((arrives, self.next, request));
                }
            }
            self.next += 1;
        }
    }

    /// Returns true if requests have their own due times.
    fn is_open_loop(&self) -> bool {
        self.load.due.last().is_some_and(|last| *last > 0)
    }

    /// Fails the requests that were due in time and had no slot until the deadline. In a closed loop, such requests are not part of the
    /// load.
    fn fail_unsent(&mut self, now: Nanos, says: &str) {
        let sending = self.load.sending.unwrap_or(Nanos::MAX);
        let due_in_time = match self.is_open_loop() {
            true => self.load.due.partition_point(|due| *due <= sending),
            false => 0,
        };
        self.timelines.samples.truncate(due_in_time.max(self.next));
        for (sample, due) in self.timelines.samples.iter_mut().zip(&self.load.due).skip(self.next) {
            (sample.due, sample.ready, sample.sent, sample.end) = (*due, *due, now, now);
            sample.error = Some(format!("not sent: no slot was free; {says}"));
        }
    }

    /// Hands requests that have arrived to the engine.
    fn admit(&mut self) {
        while let Some((at, ..)) = self.coming.front()
            && self.seconds(*at) <= self.server.now
            && let Some((at, index, request)) = self.coming.pop_front()
        {
            let at = self.seconds(at);
            let key = self.server.engine.add(at, request);
            self.timelines.admit(key, index);
            if self.observer.is_some() {
                self.underway.insert(index);
            }
        }
    }

    fn end_step(&mut self, seconds: f64) {
        self.server.now += seconds;
        let now = self.nanos(self.server.now);
        let outputs = self.server.engine.end_step(self.server.now);
        self.timelines.record(outputs, &[now]);
        self.free_slots(now);
    }

    /// Performs several steps at once, none of which begins at `deadline` or later. Returns false if that is not possible.
    fn leap(&mut self, deadline: f64, ends: &mut Vec<f64>) -> bool {
        ends.clear();
        let leap = self.server.engine.leap(self.server.now, deadline, ends);
        let Some(last) = ends.last().copied() else { return false };
        self.server.now = last;
        let zero = self.zero;
        let now = nanos(last - zero);
        if self.timelines.every_token {
            let ends: Vec<Nanos> = ends.iter().map(|end| nanos(end - zero)).collect();
            self.timelines.record_steady(leap.steady, &ends);
            self.timelines.record(leap.ended, &ends);
        } else {
            self.timelines.record(leap.ended, &[now]);
        }
        self.timelines.record(leap.fresh, &[now]);
        self.free_slots(now);
        true
    }

    /// Frees the slots of the requests that ended.
    fn free_slots(&mut self, now: Nanos) {
        for index in self.timelines.take_ended() {
            self.in_flight -= 1;
            self.freed.push_back(now);
            self.underway.remove(&index);
            self.report_end(index);
        }
    }

    fn report_end(&mut self, index: usize) {
        if let Some(observer) = &mut self.observer
            && !self.is_broken_off
        {
            // A request may have its slot before it is due.
            let arrived_by = nanos(self.server.now - self.zero) + self.load.delay;
            let sent = self.coming.partition_point(|(arrives, ..)| *arrives <= arrived_by);
            let in_flight = sent + self.underway.len();
            self.is_broken_off = observer(LoadProgress::Ended(&self.timelines.samples[index], in_flight)).is_break();
        }
    }

    /// Reports the requests in flight to the observer, if it is time.
    fn report_underway(&mut self) {
        let now = self.nanos(self.server.now);
        let Some(observer) = &mut self.observer else { return };
        if now < self.next_report || self.is_broken_off {
            return;
        }
        self.next_report = now + REPORT_INTERVAL;
        let underway: Vec<&Sample> = self
            .underway
            .iter()
            .map(|index| &self.timelines.samples[*index])
            .collect();
        self.is_broken_off = observer(LoadProgress::Underway(now, &underway)).is_break();
    }

    /// Marks the requests that have not ended as failed: the load was broken off, its time is over, or the engine cannot finish them.
    fn fail_the_rest(&mut self) {
        self.timelines.keys().for_each(|key| self.server.engine.abort(key));
        let now = self.nanos(self.server.now);
        let reason = match self.load.deadline.take() {
            _ if self.is_broken_off => "broken off".to_owned(),
            Some((at, says)) if now >= at => {
                self.fail_unsent(now, &says);
                says
            }
            _ => "the engine has no room to go on".to_owned(),
        };
        let is_unfinished = |sample: &&mut Sample| sample.error.is_none() && sample.output_tokens.is_none();
        for sample in self.timelines.samples.iter_mut().filter(is_unfinished) {
            sample.error = Some(reason.clone());
            sample.end = now;
        }
    }

    /// Converts a time of the load to one of the engine, in seconds.
    fn seconds(&self, at: Nanos) -> f64 {
        self.zero + at as f64 / 1e9
    }

    /// Converts a time of the engine to one of the load.
    fn nanos(&self, at: f64) -> Nanos {
        nanos(at - self.zero)
    }
}

fn nanos(seconds: f64) -> Nanos {
    (seconds * 1e9).round() as Nanos
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;
    use proptest::prelude::*;

    fn server(line: &str) -> VirtualServer {
        let flags = Flags::parse(&shell_words::split(line).expect("quoted well")).expect("valid");
        let settings = ServerSettings::resolve(&flags, &|_| None).expect("usable");
        VirtualServer::start(&settings).expect("fits")
    }

    fn request(number: u64, prompt: usize, output_len: usize) -> SequenceRequest {
        let word = |place| crate::engine::token_id(!number, place, 1000);
        SequenceRequest {
            prompt: (0..prompt).map(word).collect(),
            output_len,
            seed: number,
            ..SequenceRequest::default()
        }
    }

    fn closed(users: usize, lengths: &[(usize, usize)]) -> VirtualLoad {
        VirtualLoad {
            requests: (0..).zip(lengths).map(|(n, (i, o))| request(n, *i, *o)).collect(),
            due: vec![0; lengths.len()],
            classes: Vec::new(),
            limit: Some(users),
            sending: None,
            deadline: None,
            every_token: true,
            delay: 300_000,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        /// Leaps change no token, no time and no cached block, under any load, limits and cache.
        #[test]
        fn leaps_are_exact(
            seqs in 1usize..12,
            (block_size, tokens) in (prop::sample::select(vec![1usize, 8, 16]), 480usize..2000),
            caching: bool,
            chunked: bool,
            (threshold, policy) in (prop::sample::select(vec![0, 0, 40]), prop::sample::select(vec!["fcfs", "priority"])),
            users in prop::option::of(1usize..16),
            noise in prop::sample::select(vec![0.0, 0.03]),
            (gap_ms, alike) in (0u64..40, 1u64..40),
            lengths in prop::collection::vec((1usize..150, 1usize..120), 1..40),
        ) {
            let line = format!(
                "demo-8b --max-model-len 300 --num-gpu-blocks-override {} --max-num-seqs {seqs} --sim-noise {noise} \
                 --max-num-batched-tokens 300 --block-size {block_size} --long-prefill-token-threshold {threshold} \
                 --scheduling-policy {policy} {} {}",
                tokens / block_size,
                if caching { "--enable-prefix-caching" } else { "--no-enable-prefix-caching" },
                if chunked { "--enable-chunked-prefill" } else { "--no-enable-chunked-prefill" },
            );
            // Equal numbers give equal content. So some cached blocks are found again, and some are evicted before.
            let load = || VirtualLoad {
                requests: (0..)
                    .zip(&lengths)
                    .map(|(n, (i, o))| SequenceRequest { priority: n as i64 % 3, ..request(n % alike, *i, *o) })
                    .collect(),
                limit: users,
                due: (0..lengths.len() as u64).map(|i| i * gap_ms * 1_000_000).collect(),
                ..closed(1, &lengths)
            };
            let (mut leaping, mut stepping) = (server(&line), server(&line).step_by_step());
            // In the second pass the cache is full.
            for _ in 0..2 {
                let (leapt, stepped) = (leaping.drive(load()), stepping.drive(load()));
                prop_assert_eq!(&leapt, &stepped);
                let tokens: Vec<u64> = leapt.samples.iter().map(Sample::output_len).collect();
                let asked: Vec<u64> = lengths.iter().map(|(_, output)| *output as u64).collect();
                prop_assert_eq!(tokens, asked);
            }
            let counted = |server: &VirtualServer| {
                let stats = server.engine.stats();
                let latencies = (stats.inter_token_latency.counts.clone(), stats.time_per_output_token.counts.clone());
                (stats.prefix_hits, stats.preemptions, stats.generation_tokens, latencies)
            };
            prop_assert_eq!(counted(&leaping), counted(&stepping));
        }
    }

    #[test]
    fn a_closed_loop_never_has_more_in_flight_than_users() {
        let lengths: Vec<(usize, usize)> = (0..40).map(|i| (50 + i, 20 + i % 7)).collect();
        let simulated = server("demo-8b").drive(closed(4, &lengths));
        let edges = simulated.samples.iter().flat_map(|s| [(s.sent, 1), (s.end, -1)]);
        let mut edges: Vec<(Nanos, i32)> = edges.collect();
        edges.sort();
        let most = edges.iter().scan(0, |open, (_, change)| {
            *open += change;
            Some(*open)
        });
        assert_eq!(most.max(), Some(4));
        assert_eq!(
            simulated.duration,
            simulated.samples.iter().map(|s| s.end).max().unwrap_or(0)
        );
    }

    #[test]
    fn a_load_that_is_broken_off_while_idle_has_sent_only_what_was_due() {
        let load = VirtualLoad {
            limit: None,
            due: vec![0, 0, 60_000_000_000],
            ..closed(1, &[(50, 20), (50, 20), (50, 20)])
        };
        let mut in_flight = Vec::new();
        let simulated = server("demo-8b").drive_watched(load, &mut |progress| {
            if let LoadProgress::Ended(_, others) = progress {
                in_flight.push(others);
            }
            match in_flight.len() {
                2 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        assert_eq!(in_flight, [1, 0]);
        let is_ok: Vec<bool> = simulated.samples.iter().map(Sample::is_ok).collect();
        assert_eq!(is_ok, [true, true, false]);
    }

    #[test]
    fn what_is_too_long_is_refused_and_the_rest_goes_on() {
        let simulated = server("demo-8b --max-model-len 100").drive(closed(1, &[(90, 20), (50, 20)]));
        assert!(simulated.samples[0].error.is_some());
        assert_eq!(simulated.samples[1].output_len(), 20);
    }

    #[test]
    fn without_every_token_only_the_inner_times_are_missing() {
        let lengths = [(100, 30), (200, 50)];
        let full = server("demo-8b").drive(closed(2, &lengths));
        let mut load = closed(2, &lengths);
        load.every_token = false;
        let short = server("demo-8b").drive(load);
        for (full, short) in full.samples.iter().zip(&short.samples) {
            assert_eq!(
                (full.ttft(), full.latency(), full.tpot()),
                (short.ttft(), short.latency(), short.tpot())
            );
        }
    }
}
