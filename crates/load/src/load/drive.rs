//! A load and how far it has come: what is due, which slots are free, what has ended. Knows no sockets.
//!
//! A conversation keeps its slot from its first turn to its last.

use super::backend::Reply;
use super::clock::Clock;
use super::requests::Requests;
use super::turns::Turns;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use vsweep_metrics::metrics::{LoadProgress, Nanos, Sample, Samples};

/// Requests to send, and how.
#[derive(Debug, Default)]
pub struct Load {
    /// Requests in order.
    pub requests: Requests,
    /// Due time of each; of a conversation, only that of its first turn counts.
    pub due: Vec<Nanos>,
    /// Requests that are turns of conversations, if any. Those after the first turn have no bytes yet.
    pub turns: Option<Turns>,
    /// Most requests, or conversations, at once.
    pub limit: Option<usize>,
    /// Format of the responses.
    pub reply: Reply,
    /// Limit for one request, from sent to the end of its answer.
    pub request_timeout: Duration,
    /// Limit for the time without a byte of an answer.
    pub silence_timeout: Duration,
    /// True if generated texts are kept.
    pub keep_texts: bool,
    /// Send the requests without end, until the watch ends the load: those before this one once, the others again and again.
    pub lap_start: Option<usize>,
}

impl Load {
    /// Returns the request that is sent as the `index`-th.
    pub(super) fn request_at(&self, index: usize) -> usize {
        let count = self.requests.len();
        match (self.lap_start, index.checked_sub(count)) {
            (Some(lap_start), Some(beyond)) => {
                let lap_start = lap_start.min(count.saturating_sub(1));
                lap_start + beyond % (count - lap_start).max(1)
            }
            _ => index,
        }
    }

    /// Due time of the `index`-th request.
    fn due_at(&self, index: usize) -> Nanos {
        self.due.get(index).copied().unwrap_or(0)
    }
}

/// Outcome of a load.
#[derive(Debug)]
pub struct LoadOutcome {
    /// One timeline for each request that ended: all of them unless the load was cut. Those of a load without end are in the order of their
    /// ends.
    pub samples: Samples,
    /// Requests in flight when the load was cut, as far as they had come.
    pub cut: Vec<Sample>,
    /// The run's zero on the process's clock.
    pub began: Instant,
    /// Time from t0 to the end of the last request.
    pub duration: Nanos,
    /// CPU time of the generator's thread within it.
    pub cpu: Duration,
    /// Longest time the loop was busy between two looks at the network, or was woken later than it asked for; arrivals within it
    /// that the kernel did not stamp are late by at most this, and 100 ms if the process was stopped while it waited.
    pub longest_turn: Nanos,
    /// Sum of all such times above 10 ms.
    pub away: Nanos,
    /// Share of the reads whose time of arrival is the kernel's; that of the others is the time of reading.
    pub stamped_share: f64,
    /// Connections for which a request waited after t0.
    pub late_connections: u64,
}

/// A conversation before one of its turns.
#[derive(Debug, Default)]
struct OpenConversation {
    said: Vec<Value>,
    bytes: Vec<u8>,
}

/// A load in progress.
pub(super) struct Drive<'a> {
    pub load: &'a Load,
    pub clock: Clock,
    pub samples: Samples,
    /// The next request, or the first turn of the next conversation.
    pub next: usize,
    /// Number of these that have been sent.
    pub started: usize,
    pub finished: usize,
    pub in_flight: usize,
    /// Turns that wait for their time, in its order; their slots are kept.
    later: VecDeque<(Nanos, usize)>,
    /// Earlier messages of each turn under way, and its request.
    conversations: HashMap<usize, OpenConversation>,
    /// Times at which slots became free that no request has taken since, oldest first; the first ones are free from the start.
    pub freed: VecDeque<Nanos>,
    /// Requests that wait for a connection to open.
    pub waiting: VecDeque<(usize, Nanos)>,
    pub armed_for: Option<Nanos>,
    /// Sendings in all.
    pub total: usize,
    pub watch: &'a mut dyn FnMut(LoadProgress<'_>) -> ControlFlow<()>,
    /// True if the watch has ended it.
    pub is_cut: bool,
}

impl<'a> Drive<'a> {
    /// Starts the clock.
    pub fn new(load: &'a Load, watch: &'a mut dyn FnMut(LoadProgress<'_>) -> ControlFlow<()>) -> Self {
        Drive {
            total: match load.lap_start {
                Some(_) => usize::MAX,
                None => load.requests.len().min(load.due.len()),
            },
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
        self.is_cut || self.finished == self.total
    }

    pub fn has_slot(&self) -> bool {
        let taken = self.in_flight + self.later.len();
        self.load.limit.is_none_or(|limit| taken < limit.max(1))
    }

    /// Returns true if a request could be sent now. Reads the clock only if nothing else forbids it.
    pub fn can_send(&self) -> bool {
        self.next_due().is_some_and(|due| due <= self.clock.now())
    }

    /// The moment the next request is due, if only time is missing.
    pub fn next_due(&self) -> Option<Nanos> {
        let start = (self.next < self.total && self.has_slot()).then(|| self.load.due_at(self.next));
        let turn = self.later.front().map(|(due, _)| *due);
        start.into_iter().chain(turn).min()
    }

    /// Due time of a request by the load, or, for a turn after the first, by the conversation.
    pub fn due(&self, index: usize, ready: Nanos) -> Nanos {
        match self.conversations.contains_key(&index) {
            true => ready,
            false => self.load.due_at(index),
        }
    }

    /// Takes the next request that can be sent, and since when it could have been.
    pub fn take(&mut self, now: Nanos) -> Option<(usize, Nanos)> {
        self.next_due().filter(|due| *due <= now)?;
        self.in_flight += 1;
        if let Some((due, index)) = self.later.pop_front_if(|(due, _)| *due <= now) {
            return Some((index, due));
        }
        let (index, due) = (self.next, self.load.due_at(self.next));
        // The request after the last free slot takes the one that became free first, and so on.
        let ready = match self.load.limit {
            Some(limit) if self.started >= limit => due.max(self.freed.pop_front().unwrap_or(due)),
            _ => due,
        };
        self.started += 1;
        self.next = self
            .load
            .turns
            .as_ref()
            .map_or(index + 1, |turns| turns.next_conversation(index));
        Some((index, ready))
    }

    /// The bytes of a request, in `buffer` if they come from a file.
    pub fn bytes<'b>(&'b self, index: usize, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        match self.conversations.get(&index) {
            Some(conversation) => Ok(&conversation.bytes),
            None => self.load.requests.bytes(self.load.request_at(index), buffer),
        }
    }

    /// Takes the timeline of a request that ended at `at`; requests that end together may come in any order.
    pub fn end(&mut self, index: usize, sample: Sample, at: Nanos) {
        self.in_flight -= 1;
        self.note(index, &sample);
        let turns = self.load.turns.as_ref();
        let goes_on = turns.is_some_and(|turns| self.go_on(turns, index, &sample, at));
        if !goes_on && self.load.limit.is_some() {
            let place = self.freed.partition_point(|other| *other <= at);
            self.freed.insert(place, at);
        }
    }

    fn note(&mut self, index: usize, sample: &Sample) {
        self.finished += 1;
        self.notify(LoadProgress::Ended(sample, self.in_flight));
        self.samples.push(index, sample);
    }

    /// Prepares the turn after one that ended; false if there is none. After a failure nothing can follow.
    fn go_on(&mut self, turns: &Turns, index: usize, sample: &Sample, now: Nanos) -> bool {
        let mut conversation = self.conversations.remove(&index).unwrap_or_default();
        let after = turns.next_conversation(index);
        if index + 1 == after {
            return false;
        }
        if sample.is_ok() {
            turns.remember(
                index,
                sample.text.as_deref().unwrap_or_default(),
                &mut conversation.said,
            );
            if let Ok(request) = turns.request(index + 1, &conversation.said) {
                conversation.bytes = request.bytes;
                self.conversations.insert(index + 1, conversation);
                let due = now.saturating_add(turns.pause);
                let place = self.later.partition_point(|(other, _)| *other <= due);
                self.later.insert(place, (due, index + 1));
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

    pub fn notify(&mut self, progress: LoadProgress<'_>) {
        self.is_cut |= (self.watch)(progress).is_break();
    }

    pub fn fail_unsent(&mut self, index: usize, ready: Nanos, error: String) {
        let now = self.clock.now();
        let prompt_len = self.load.requests.entry(self.load.request_at(index)).prompt_len;
        let sample = unsent_sample(self.due(index, ready), ready, now, prompt_len, error);
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
    use crate::load::Request;

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
    fn waiting_for_a_slot_is_no_lag_of_the_generator() {
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

    #[test]
    fn a_load_without_end_goes_round_behind_the_first_requests() {
        let load = Load {
            requests: vec![Request::default(); 5].into(),
            lap_start: Some(2),
            ..Load::default()
        };
        let order: Vec<usize> = (0..9).map(|index| load.request_at(index)).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 2, 3, 4, 2]);
    }
}
