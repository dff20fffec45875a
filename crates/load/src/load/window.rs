//! A load without end: its requests again and again in every slot, looked at through a window of time that opens once
//! every slot is at work. Decides when the window opens and closes; what was seen in it is counted elsewhere.

use super::clock::nanos;
use std::time::Duration;
use vsweep_metrics::metrics::{Nanos, Sample};

/// Failures in a row, beyond one for each slot, after which a server is given up.
const HOPELESS: usize = 16;

/// When the window opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowRule {
    /// It opens when every slot has had output, and the time until then has passed this many times …
    pub margin: f64,
    /// … but not before this time …
    pub earliest: Duration,
    /// … and at the latest then.
    pub latest: Duration,
    /// Time from its opening to its end, which is the load's.
    pub length: Duration,
    /// Requests before this one are sent once; after the last one it goes on with this one.
    pub lap_start: usize,
}

/// What came of a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WindowSeen {
    /// When it opened.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// When every slot had had output, if that was seen.
    pub primed: Option<Nanos>,
    /// The requests in flight at the end, as far as they had come.
    pub cut: Vec<Sample>,
}

impl WindowRule {
    /// Which of `count` requests is sent as the `index`-th.
    pub(super) fn request_at(&self, index: usize, count: usize) -> usize {
        let lap_start = self.lap_start.min(count.saturating_sub(1));
        match index.checked_sub(count) {
            None => index,
            Some(beyond) => lap_start + beyond % (count - lap_start).max(1),
        }
    }
}

/// Watches a load for the moments its window opens and ends.
#[derive(Debug)]
pub(super) struct WindowWatch {
    window: WindowRule,
    slots: usize,
    /// Requests of the first round that have ended.
    ended: usize,
    primed: Option<Nanos>,
    failed_in_a_row: usize,
}

impl WindowWatch {
    pub fn new(window: WindowRule, slots: usize) -> Self {
        WindowWatch {
            window,
            slots,
            ended: 0,
            primed: None,
            failed_in_a_row: 0,
        }
    }

    /// Notes the end of the `index`-th request.
    pub fn ended(&mut self, index: usize, sample: &Sample) {
        self.ended += usize::from(index < self.slots);
        self.failed_in_a_row = match sample.is_ok() {
            true => 0,
            false => self.failed_in_a_row + 1,
        };
    }

    /// Notes how many requests of the first round are in flight with output.
    pub fn look(&mut self, with_output: usize, now: Nanos) {
        if self.primed.is_none() && self.ended + with_output >= self.slots {
            self.primed = Some(now);
        }
    }

    /// Whether looking can still change anything.
    pub fn is_looking(&self) -> bool {
        self.primed.is_none()
    }

    pub fn slots(&self) -> usize {
        self.slots
    }

    fn start(&self) -> Nanos {
        let latest = nanos(self.window.latest);
        let primed = self
            .primed
            .map_or(latest, |at| (at as f64 * self.window.margin) as Nanos);
        primed.max(nanos(self.window.earliest)).min(latest)
    }

    fn end(&self) -> Nanos {
        self.start().saturating_add(nanos(self.window.length))
    }

    /// Whether the load must end: the window has passed, or nothing succeeds any more.
    pub fn is_over(&self, now: Nanos) -> bool {
        self.is_hopeless() || now >= self.end()
    }

    fn is_hopeless(&self) -> bool {
        self.failed_in_a_row > self.slots + HOPELESS
    }

    /// What was seen, with the requests that were cut; nothing if the server was given up.
    pub fn seen(&self, cut: Vec<Sample>) -> Option<WindowSeen> {
        (!self.is_hopeless()).then(|| WindowSeen {
            start: self.start(),
            end: self.end(),
            primed: self.primed,
            cut,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(margin: f64) -> WindowRule {
        WindowRule {
            margin,
            earliest: Duration::from_secs(2),
            latest: Duration::from_secs(10),
            length: Duration::from_secs(5),
            lap_start: 2,
        }
    }

    fn start_s(primed_s: Option<u64>, margin: f64) -> u64 {
        let mut watch = WindowWatch::new(window(margin), 3);
        if let Some(at) = primed_s {
            watch.look(2, at * 500_000_000);
            watch.look(3, at * 1_000_000_000);
            watch.look(3, 99);
        }
        watch.start() / 1_000_000_000
    }

    #[test]
    fn it_opens_when_every_slot_is_at_work() {
        assert_eq!(start_s(Some(4), 1.5), 6);
        assert_eq!(start_s(Some(1), 1.5), 2, "not before the earliest");
        assert_eq!(start_s(Some(8), 1.5), 10, "not after the latest");
        assert_eq!(start_s(None, 1.5), 10);
    }

    #[test]
    fn requests_go_round_behind_the_first_ones() {
        let order: Vec<usize> = (0..9).map(|index| window(1.0).request_at(index, 5)).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 2, 3, 4, 2]);
    }

    #[test]
    fn a_server_that_only_fails_is_given_up() {
        let mut watch = WindowWatch::new(window(1.0), 1);
        let failed = Sample {
            error: Some("HTTP 500".into()),
            ..Sample::default()
        };
        for index in 0..=HOPELESS {
            watch.ended(index, &failed);
            assert!(!watch.is_over(0));
        }
        watch.ended(0, &Sample::default());
        (0..=HOPELESS + 1).for_each(|index| watch.ended(index, &failed));
        assert!(watch.is_over(0) && watch.seen(vec![]).is_none());
    }
}
