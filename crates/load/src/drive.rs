//! The state of a load in progress: requests that are due, free slots, and requests that have ended. This module knows nothing of sockets.
//! Times are counted from t0, the start of the load.
//!
//! A slot is the permission to have one request in flight; the load's limit is the number of slots. A conversation keeps its slot from its
//! first turn to its last.

use super::api::backend::Reply;
use super::clock::{Clock, nanos};
use super::stock::{Requests, Stock, TokenCounts};
use super::supply::Supply;
use super::turns::Turns;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};
use vsweep_metrics::rng::Shares;
use vsweep_metrics::{LoadProgress, Nanos, Sample, Samples};

/// Requests to send, and how.
#[derive(Debug, Default)]
pub struct Load {
    /// Requests in order.
    pub requests: Requests,
    /// The source of the requests, if they are drawn while the load runs; `requests` is then empty.
    pub supply: Option<Supply>,
    /// Due time of each request, after t0. A request of a supply that has no due time is due at once. In a conversation, only the due time
    /// of the first turn counts.
    pub due: Vec<Nanos>,
    /// Time limit of sending, if there is one.
    pub sending: Option<SendWindow>,
    /// The classes of the requests, if the load mixes several.
    pub classes: Option<Shares>,
    /// The turns of the conversations, if the load consists of conversations. Each request is one turn. Only requests of first turns have
    /// bytes; a later request is written once the previous turn is answered.
    pub turns: Option<Turns>,
    /// Maximum number of requests, or conversations, at the same time; `None` for any number.
    pub limit: Option<usize>,
    /// Format of the responses.
    pub reply: Reply,
    /// Time limit for one request, from sending it to the end of its answer.
    pub request_timeout: Duration,
    /// Time limit for a wait without any byte of an answer.
    pub silence_timeout: Duration,
    /// True if generated texts are kept.
    pub keep_texts: bool,
    /// If set, requests are sent until the `watch` callback ends the load. Requests before this index are sent once, the others again and
    /// again.
    pub lap_start: Option<usize>,
}

/// Time limit of sending. Requests that become due later are not sent, except further turns of a conversation that has begun. In an open
/// loop, a request that is due in time is sent once it has a slot, even during `grace`. In a closed loop, a request that gets its slot
/// after `lasts` is not sent.
#[derive(Debug, Clone, Copy)]
pub struct SendWindow {
    /// Duration of sending, from t0.
    pub lasts: Duration,
    /// Time after `lasts` within which requests in flight may still end. Requests that take longer fail.
    pub grace: Duration,
}

impl SendWindow {
    /// Returns the time after t0 until which requests in flight may end, and the error of those that do not.
    pub fn deadline(self) -> (Nanos, String) {
        let SendWindow { lasts, grace } = self;
        let (lasts_s, grace_s) = (lasts.as_secs_f64(), grace.as_secs_f64());
        let says = format!("no complete answer within {grace_s} s after the {lasts_s} s of sending");
        (nanos(lasts.saturating_add(grace)), says)
    }
}

impl Load {
    /// Due time of the `index`-th request.
    fn due_at(&self, index: usize) -> Nanos {
        self.due.get(index).copied().unwrap_or(0)
    }

    /// Class of the `index`-th request.
    pub(super) fn class_of(&self, index: usize) -> u8 {
        self.classes.as_ref().map_or(0, |classes| classes.at(index) as u8)
    }
}

/// Outcome of a load.
#[derive(Debug)]
pub struct LoadOutcome {
    /// One timeline for each request that ended; unless the load was cut, that is every request that began.
    pub samples: Samples,
    /// Lengths of the requests of a supply, in order.
    pub asked: Vec<TokenCounts>,
    /// Timelines of the requests that were in flight when the load was cut, up to the cut.
    pub cut: Vec<Sample>,
    /// t0 on the process's clock.
    pub began: Instant,
    /// Time from t0 to the end of the last request, or until the load was cut.
    pub duration: Nanos,
    /// CPU time of the generator's thread during the load.
    pub cpu: Duration,
    /// Longest time in which the loop did not look at the network, because it was busy or was woken late. An arrival that the kernel did
    /// not stamp is late by at most this time, plus 50 ms if the process was stopped while the loop waited.
    pub longest_absence: Nanos,
    /// Sum of all such times above 10 ms.
    pub total_absence: Nanos,
    /// Intervals of the times in that sum. If the loop was woken late, the interval begins with the wait.
    pub absences: Vec<Range<Nanos>>,
    /// Share of the reads whose time of arrival was stamped by the kernel. For other reads, the time of reading is used.
    pub stamped_share: f64,
    /// Number of connections for which a request had to wait after t0.
    pub late_connections: u64,
    /// Sum of the times for which requests waited for these connections.
    pub connecting: Nanos,
    /// Number of requests of a supply that were due, but never drawn.
    pub undrawn: usize,
}

/// A load in progress.
pub(super) struct Drive<'a> {
    pub load: &'a Load,
    pub stock: Stock<'a>,
    pub clock: Clock,
    pub samples: Samples,
    /// Index of the next request, or of the first turn of the next conversation.
    pub next: usize,
    /// Number of requests, or conversations, that have been started.
    pub started: usize,
    pub finished: usize,
    pub in_flight: usize,
    /// Later turns that wait for their due times, the earliest first. They keep their slots.
    later: VecDeque<(Nanos, usize)>,
    /// Conversations of which a later turn waits or is in flight, by the index of that turn: the earlier messages, and the turn's request.
    conversations: HashMap<usize, (Vec<Value>, Vec<u8>)>,
    /// Times at which used slots became free, oldest first. Slots that were never used are not listed.
    pub freed: VecDeque<Nanos>,
    /// Requests that wait for a connection to open.
    pub waiting: VecDeque<(usize, Nanos)>,
    /// Due time for which the loop's timer is set.
    pub armed_for: Option<Nanos>,
    /// Latest time at which a request may become due or, in a closed loop, get a slot.
    closes_at: Nanos,
    /// True if requests have their own due times.
    is_open_loop: bool,
    /// True once no further request or conversation begins.
    is_closed: bool,
    /// Number of requests that were due within the time limit of sending, but never drawn.
    pub undrawn: usize,
    pub watch: &'a mut dyn FnMut(LoadProgress<'_>) -> ControlFlow<()>,
    /// True if `watch` has ended the load.
    pub is_cut: bool,
}

impl<'a> Drive<'a> {
    /// Creates the state of a load, and starts its clock.
    pub fn new(load: &'a Load, watch: &'a mut dyn FnMut(LoadProgress<'_>) -> ControlFlow<()>) -> Self {
        Drive {
            stock: Stock::new(
                &load.requests,
                load.requests.len().min(load.due.len()),
                load.lap_start,
                load.supply.as_ref(),
            ),
            closes_at: load.sending.map_or(Nanos::MAX, |sending| nanos(sending.lasts)),
            is_open_loop: load.due.iter().any(|due| *due > 0),
            is_closed: false,
            undrawn: 0,
            load,
            clock: Clock::start(),
            samples: Samples::default(),
            next: 0,
            started: 0,
            finished: 0,
            in_flight: 0,
            later: VecDeque::new(),
            conversations: HashMap::new(),
            freed: VecDeque::new(),
            waiting: VecDeque::new(),
            armed_for: None,
            watch,
            is_cut: false,
        }
    }

    pub fn is_finished(&self) -> bool {
        let is_done = match self.is_closed {
            true => self.in_flight == 0 && self.later.is_empty(),
            false => self.stock.total() == Some(self.finished),
        };
        self.is_cut || is_done
    }

    /// Takes the next requests from the supply. Closes the load once the time limit of sending is over and no request that was ready by
    /// then, or due in an open loop, is left.
    pub fn advance(&mut self) {
        self.stock.restock(self.next);
        // Without a time limit the clock need not be read.
        let is_limited = self.load.sending.is_some();
        self.is_closed |= is_limited && self.clock.now() > self.closes_at && !self.is_next_in_time();
    }

    /// Returns true if a slot waits for a request that is still to be drawn.
    pub fn is_starved(&self) -> bool {
        !self.is_closed && self.stock.lacks(self.next) && self.has_slot()
    }

    /// Returns true if further requests or conversations may begin.
    pub fn has_more(&self) -> bool {
        !self.is_closed && (self.stock.has(self.next) || self.stock.lacks(self.next))
    }

    /// Returns the deadline of the load; `None` if sending has no time limit.
    pub fn deadline(&self) -> Option<(Nanos, String)> {
        self.load.sending.map(SendWindow::deadline)
    }

    pub fn has_slot(&self) -> bool {
        let taken = self.in_flight + self.later.len();
        self.load.limit.is_none_or(|limit| taken < limit.max(1))
    }

    /// Returns true if a request can be sent now. Reads the clock only if there is a request with a slot.
    pub fn can_send(&self) -> bool {
        self.next_due().is_some_and(|due| due <= self.clock.now())
    }

    /// Returns the due time of the next request that has a slot, or `None` if there is none.
    pub fn next_due(&self) -> Option<Nanos> {
        let turn = self.later.front().map(|(due, _)| *due);
        self.next_start().into_iter().chain(turn).min()
    }

    /// Returns the due time of the next request or conversation, if there is a slot for it.
    fn next_start(&self) -> Option<Nanos> {
        let may_start = self.stock.has(self.next) && self.has_slot() && self.is_next_in_time();
        may_start.then(|| self.load.due_at(self.next))
    }

    /// Returns true if the next request or conversation may still begin. In an open loop, it must be due within the time limit of sending,
    /// even if it is still to be drawn. In a closed loop, it must also get a slot within this limit.
    fn is_next_in_time(&self) -> bool {
        let is_in_time = || match self.is_open_loop {
            true => self.load.due.get(self.next).is_some_and(|due| *due <= self.closes_at),
            false => self.stock.has(self.next) && self.has_slot() && self.ready_to_start() <= self.closes_at,
        };
        self.has_more() && is_in_time()
    }

    /// Returns the time since which the next request can be sent, if there is a slot. Once every slot has been used, a request takes the
    /// one that became free first.
    fn ready_to_start(&self) -> Nanos {
        let due = self.load.due_at(self.next);
        match self.load.limit {
            Some(limit) if self.started >= limit => due.max(self.freed.front().copied().unwrap_or(due)),
            _ => due,
        }
    }

    /// Returns the due time of a request: the one in the load, or `ready` for a turn after the first.
    pub fn due(&self, index: usize, ready: Nanos) -> Nanos {
        match self.conversations.contains_key(&index) {
            true => ready,
            false => self.load.due_at(index),
        }
    }

    /// Takes the next request that can be sent. Returns its index, and the time since which it could have been sent.
    pub fn take(&mut self, now: Nanos) -> Option<(usize, Nanos)> {
        self.next_due().filter(|due| *due <= now)?;
        self.in_flight += 1;
        let later = self.later.pop_front_if(|(due, _)| *due <= now);
        Some(later.map_or_else(|| self.take_start(), |(due, index)| (index, due)))
    }

    /// Takes the next request, or the first turn of the next conversation, whether or not there is a slot.
    fn take_start(&mut self) -> (usize, Nanos) {
        let (index, ready) = (self.next, self.ready_to_start());
        if self.load.limit.is_some_and(|limit| self.started >= limit) {
            self.freed.pop_front();
        }
        self.started += 1;
        self.next = self
            .load
            .turns
            .as_ref()
            .map_or(index + 1, |turns| turns.next_conversation(index));
        (index, ready)
    }

    /// The bytes of a request, in `buffer` if they come from a file.
    pub fn bytes<'b>(&'b self, index: usize, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        match self.conversations.get(&index) {
            Some((_, bytes)) => Ok(bytes),
            None => self.stock.bytes(index, buffer),
        }
    }

    /// Records a request that ended at `at`. Calls need not be in the order of these times.
    pub fn end(&mut self, index: usize, sample: Sample, at: Nanos) {
        self.in_flight -= 1;
        self.note(index, &sample);
        self.stock.forget(index);
        let turns = self.load.turns.as_ref();
        let has_next_turn = turns.is_some_and(|turns| self.prepare_next_turn(turns, index, &sample, at));
        if !has_next_turn && self.load.limit.is_some() {
            let position = self.freed.partition_point(|other| *other <= at);
            self.freed.insert(position, at);
        }
    }

    fn note(&mut self, index: usize, sample: &Sample) {
        self.finished += 1;
        self.notify(LoadProgress::Ended(sample, self.in_flight));
        self.samples.push(index, sample);
    }

    /// Prepares the turn after one that ended. Returns false if no turn follows, or if the turn failed. After a failure, the remaining
    /// turns of the conversation fail without being sent.
    fn prepare_next_turn(&mut self, turns: &Turns, index: usize, sample: &Sample, now: Nanos) -> bool {
        let (mut messages, _) = self.conversations.remove(&index).unwrap_or_default();
        let after = turns.next_conversation(index);
        if index + 1 == after {
            return false;
        }
        if sample.is_ok() {
            turns.remember(index, sample.text.as_deref().unwrap_or_default(), &mut messages);
            if let Ok(request) = turns.request(index + 1, &messages) {
                self.conversations.insert(index + 1, (messages, request.bytes));
                let due = now.saturating_add(turns.pause);
                let position = self.later.partition_point(|(other, _)| *other <= due);
                self.later.insert(position, (due, index + 1));
                return true;
            }
        }
        for unsent in index + 1..after {
            let error = "not sent: an earlier turn of its conversation failed".to_owned();
            let sample = unsent_sample(now, now, now, turns.each[unsent].prompt_len, error);
            self.note(unsent, &sample);
        }
        false
    }

    /// Fails everything that still waits: turns that wait for their due times, with the rest of their conversations, and due requests that
    /// wait for a slot. If none of these is drawn, they are only counted, because drawing is too slow, and not the server.
    pub fn fail_waiting(&mut self, error: &str) {
        while let Some((due, index)) = self.later.pop_front() {
            self.in_flight += 1;
            self.fail_unsent(index, due.min(self.clock.now()), error.to_owned());
        }
        if self.is_open_loop && self.is_next_in_time() && self.stock.lacks(self.next) {
            let due = self.load.due[self.next..].iter();
            self.undrawn = due.filter(|due| **due <= self.closes_at).count();
            self.is_closed = true;
        }
        while self.is_open_loop && self.is_next_in_time() {
            self.in_flight += 1;
            let (index, ready) = self.take_start();
            self.fail_unsent(index, ready, format!("not sent: no slot was free; {error}"));
        }
    }

    pub fn notify(&mut self, progress: LoadProgress<'_>) {
        self.is_cut |= (self.watch)(progress).is_break();
    }

    pub fn fail_unsent(&mut self, index: usize, ready: Nanos, error: String) {
        let now = self.clock.now();
        let prompt_len = self.stock.properties(index).prompt_len;
        let sample = Sample {
            class: self.load.class_of(index),
            ..unsent_sample(self.due(index, ready), ready, now, prompt_len, error)
        };
        self.end(index, sample, now);
    }
}

fn unsent_sample(due: Nanos, ready: Nanos, now: Nanos, prompt_len: u64, error: String) -> Sample {
    Sample {
        due,
        ready,
        sent: now,
        end: now,
        prompt_len,
        error: Some(error),
        ..Sample::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;

    /// Returns when each request of a closed loop of two could have been sent, if its first two end at 5 and 9.
    fn ready_times(due: Vec<Nanos>) -> Vec<Nanos> {
        let load = Load {
            requests: vec![Request::default(); due.len()].into(),
            due,
            limit: Some(2),
            ..Load::default()
        };
        let mut watch = |_: LoadProgress<'_>| ControlFlow::Continue(());
        let mut drive = Drive::new(&load, &mut watch);
        let mut ready = vec![];
        for ended in [None, Some((1, 5)), Some((0, 9))] {
            if let Some((index, now)) = ended {
                drive.end(index, Sample::default(), now);
            }
            ready.extend(std::iter::from_fn(|| drive.take(100)).map(|(_, ready)| ready));
        }
        ready
    }

    #[test]
    fn waiting_for_a_slot_is_not_counted_as_lag() {
        assert_eq!(ready_times(vec![0; 4]), [0, 0, 5, 9]);
        assert_eq!(ready_times(vec![0, 1, 2, 30]), [0, 1, 5, 30]);
    }

    #[test]
    fn slots_are_taken_in_the_order_in_which_they_became_free() {
        let load = Load {
            requests: vec![Request::default(); 4].into(),
            due: vec![0; 4],
            limit: Some(2),
            ..Load::default()
        };
        let mut watch = |_: LoadProgress<'_>| ControlFlow::Continue(());
        let mut drive = Drive::new(&load, &mut watch);
        while drive.take(0).is_some() {}
        // Events of one turn are read in any order.
        drive.end(1, Sample::default(), 9);
        drive.end(0, Sample::default(), 5);
        let ready: Vec<Nanos> = std::iter::from_fn(|| drive.take(100)).map(|(_, ready)| ready).collect();
        assert_eq!(ready, [5, 9]);
    }

    /// A load that is sent for 7 ns.
    fn short_load(due: Vec<Nanos>, limit: usize) -> Load {
        Load {
            requests: vec![Request::default(); due.len()].into(),
            due,
            limit: Some(limit),
            sending: Some(SendWindow {
                lasts: Duration::from_nanos(7),
                grace: Duration::ZERO,
            }),
            ..Load::default()
        }
    }

    /// A short load whose requests are still to be drawn.
    fn load_without_requests(limit: usize) -> (crate::Feed, Load) {
        let (feed, supply) = super::super::supply(1);
        let load = Load {
            requests: Vec::<Request>::new().into(),
            supply: Some(supply),
            ..short_load(vec![0, 2, 4, 6, 9], limit)
        };
        (feed, load)
    }

    #[test]
    fn what_becomes_ready_after_the_end_is_not_sent() {
        let load = short_load(vec![0; 5], 2);
        let mut watch = |_: LoadProgress<'_>| ControlFlow::Continue(());
        let mut drive = Drive::new(&load, &mut watch);
        let mut sent = vec![];
        for ended in [None, Some((1, 7)), Some((0, 8)), Some((2, 9))] {
            if let Some((index, now)) = ended {
                drive.end(index, Sample::default(), now);
            }
            sent.extend(std::iter::from_fn(|| drive.take(100)).map(|(index, _)| index));
        }
        assert_eq!(sent, [0, 1, 2], "the slot that became free at 7 takes one more");
        drive.advance();
        assert!(drive.is_finished() && drive.next_due().is_none() && !drive.has_more());
    }

    #[test]
    fn what_is_due_before_the_end_is_sent_once_a_slot_is_free_or_fails() {
        let load = short_load(vec![0, 2, 4, 6, 8], 1);
        let mut watch = |_: LoadProgress<'_>| ControlFlow::Continue(());
        let mut drive = Drive::new(&load, &mut watch);
        assert_eq!(drive.take(100), Some((0, 0)));
        drive.advance();
        drive.end(0, Sample::default(), 50);
        assert_eq!(drive.take(100), Some((1, 50)), "it was due at 2");
        drive.end(1, Sample::default(), 60);
        drive.fail_waiting("time is over");
        drive.advance();
        assert!(drive.is_finished() && drive.next_due().is_none() && !drive.has_more());
        let failed = drive.samples.iter().filter_map(|sample| sample.error);
        assert_eq!(
            failed.collect::<Vec<_>>(),
            ["not sent: no slot was free; time is over"; 2]
        );
    }

    #[test]
    fn what_is_due_but_still_to_be_drawn_is_awaited_or_counted() {
        let (feed, load) = load_without_requests(4);
        let mut watch = |_: LoadProgress<'_>| ControlFlow::Continue(());
        let mut drive = Drive::new(&load, &mut watch);
        for sent in [(0, 0), (1, 2)] {
            drive.advance();
            assert!(drive.is_starved() && !drive.is_finished() && drive.take(100).is_none());
            feed.push(Request::default());
            drive.advance();
            assert_eq!(drive.take(100), Some(sent));
            drive.end(sent.0, Sample::default(), 50);
        }
        drive.fail_waiting("time is over");
        drive.advance();
        assert!(drive.is_finished());
        assert_eq!((drive.samples.len(), drive.undrawn), (2, 2), "none failed");
    }

    #[test]
    fn what_is_still_to_be_drawn_fails_if_drawn_requests_wait_for_a_slot() {
        let (feed, load) = load_without_requests(1);
        let mut watch = |_: LoadProgress<'_>| ControlFlow::Continue(());
        let mut drive = Drive::new(&load, &mut watch);
        for _ in 0..2 {
            feed.push(Request::default());
        }
        drive.advance();
        assert_eq!(drive.take(100), Some((0, 0)));
        drive.end(0, Sample::default(), 50);
        drive.fail_waiting("time is over");
        drive.advance();
        assert!(drive.is_finished());
        let failed = drive.samples.iter().filter(|sample| sample.error.is_some());
        assert_eq!((failed.count(), drive.undrawn), (3, 0));
    }

    #[test]
    fn requests_of_a_supply_come_in_order_and_are_forgotten() {
        let (feed, supply) = super::super::supply(1);
        for prompt_len in [4, 5, 6] {
            feed.push(Request {
                bytes: vec![prompt_len as u8],
                prompt_len,
                output_len: 9,
                ..Request::default()
            });
        }
        let load = Load {
            supply: Some(supply),
            limit: Some(2),
            ..Load::default()
        };
        let mut watch = |_: LoadProgress<'_>| ControlFlow::Continue(());
        let mut drive = Drive::new(&load, &mut watch);
        drive.advance();
        let mut sent = vec![];
        let mut send = |drive: &mut Drive<'_>| {
            while let Some((index, _)) = drive.take(100) {
                sent.push((index, drive.bytes(index, &mut vec![]).expect("at hand").to_vec()));
            }
        };
        send(&mut drive);
        drive.end(0, Sample::default(), 5);
        send(&mut drive);
        assert!(drive.bytes(1, &mut vec![]).is_ok() && !drive.is_finished());
        drive.end(1, Sample::default(), 6);
        drive.end(2, Sample::default(), 7);
        drive.advance();
        assert!(drive.is_starved() && !drive.is_finished(), "more may come");
        drop(feed);
        drive.advance();
        assert!(drive.is_finished());
        assert_eq!(sent, [(0, vec![4]), (1, vec![5]), (2, vec![6])]);
        assert_eq!(drive.stock.asked, [(4, 9), (5, 9), (6, 9)]);
    }
}
