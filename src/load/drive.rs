//! A load and how far it has come: what is due, which slots are free, what has ended. Knows no sockets.

use super::backend::Reply;
use super::clock::Clock;
use super::requests::Requests;
use crate::metrics::{Nanos, Sample};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

/// What to send, and how.
#[derive(Debug, Default)]
pub struct Load {
    /// Requests in order.
    pub requests: Requests,
    /// When each is due.
    pub due: Vec<Nanos>,
    /// Most requests in flight at once.
    pub limit: Option<usize>,
    /// How the answers are read.
    pub reply: Reply,
    /// Limit for one request, from sent to the end of its answer.
    pub request_timeout: Duration,
    /// Limit for the time without a byte of an answer.
    pub silence_timeout: Duration,
    /// Whether generated texts are kept.
    pub keep_texts: bool,
}

/// What came of a load.
#[derive(Debug)]
pub struct Outcome {
    /// One timeline a request, in order.
    pub samples: Vec<Sample>,
    /// From t0 to the end of the last request.
    pub duration: Nanos,
    /// CPU time of the generator's thread within it.
    pub cpu: Duration,
    /// Longest time the loop was busy between two looks at the network; arrivals within it are stamped late by at most this.
    pub longest_turn: Nanos,
    /// Connections opened after t0.
    pub late_connections: u64,
}

/// What a load tells while it is under way.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A request ended; so many are still in flight.
    Ended(&'a Sample, usize),
    /// Ten times a second: every request in flight, in no order.
    Underway(&'a [Underway]),
}

/// A request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Underway {
    /// Time since it was sent.
    pub age: Nanos,
    /// Time to its first token, if that came.
    pub ttft: Option<Nanos>,
}

/// A load in progress.
pub(super) struct Drive<'a> {
    pub load: &'a Load,
    pub clock: Clock,
    pub samples: Vec<Sample>,
    pub next: usize,
    pub finished: usize,
    pub in_flight: usize,
    /// When slots became free that no request has taken since, oldest first; the first ones are free from the start.
    pub freed: VecDeque<Nanos>,
    /// Requests that wait for a connection to open.
    pub waiting: VecDeque<(usize, Nanos)>,
    pub armed_for: Option<Nanos>,
    pub watch: &'a mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    /// Whether the watch has ended it.
    pub is_cut: bool,
}

impl<'a> Drive<'a> {
    /// Starts the clock.
    pub fn new(load: &'a Load, watch: &'a mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> Self {
        let mut samples = Vec::new();
        samples.resize_with(load.requests.len().min(load.due.len()), Sample::default);
        Drive {
            load,
            clock: Clock::start(),
            samples,
            next: 0,
            finished: 0,
            in_flight: 0,
            freed: VecDeque::new(),
            waiting: VecDeque::new(),
            armed_for: None,
            watch,
            is_cut: false,
        }
    }

    pub fn is_finished(&self) -> bool {
        self.is_cut || self.finished == self.samples.len()
    }

    pub fn has_slot(&self) -> bool {
        self.load.limit.is_none_or(|limit| self.in_flight < limit.max(1))
    }

    pub fn can_send(&self, now: Nanos) -> bool {
        self.next < self.samples.len() && self.has_slot() && self.load.due[self.next] <= now
    }

    /// The moment the next request is due, if only time is missing.
    pub fn next_due(&self) -> Option<Nanos> {
        (self.next < self.samples.len() && self.has_slot()).then(|| self.load.due[self.next])
    }

    pub fn end(&mut self, index: usize, sample: Sample, now: Nanos) {
        self.in_flight -= 1;
        self.finished += 1;
        if self.load.limit.is_some() {
            self.freed.push_back(now);
        }
        self.tell(Progress::Ended(&sample, self.in_flight));
        self.samples[index] = sample;
    }

    pub fn tell(&mut self, progress: Progress<'_>) {
        self.is_cut |= (self.watch)(progress).is_break();
    }

    /// The timelines: all of them, or those of the requests that ended before the load was cut.
    pub fn into_samples(mut self) -> Vec<Sample> {
        if self.is_cut {
            self.samples.retain(|sample| sample.end > 0);
        }
        self.samples
    }

    pub fn fail_unsent(&mut self, index: usize, ready: Nanos, error: String) {
        let now = self.clock.now();
        let sample = Sample {
            due: self.load.due[index],
            ready,
            sent: now,
            end: now,
            prompt_len: self.load.requests.entry(index).prompt_len,
            error: Some(error),
            ..Sample::default()
        };
        self.end(index, sample, now);
    }
}
