//! The window of time that a phases run is looked at through. It opens once every slot has had output, and ends the load.

use super::settings::PhaseSettings;
use crate::metrics::{LoadProgress, Nanos};
use std::ops::{ControlFlow, Range};
use std::time::Duration;

/// Failures in a row, beyond one for each slot, after which a server is given up.
const HOPELESS: usize = 16;

/// A window, and what is seen of the load until it ends.
#[derive(Debug)]
pub(super) struct LoadWindow {
    /// It opens when every slot has had output, and the time until then has passed this many times …
    margin: f64,
    /// … but not before this time …
    earliest: Nanos,
    /// … and at the latest then.
    latest: Nanos,
    length: Nanos,
    slots: usize,
    /// First requests of slots that have ended.
    ended: usize,
    /// Time at which every slot had had output, if that was seen.
    pub primed: Option<Nanos>,
    failed_in_a_row: usize,
}

impl LoadWindow {
    pub fn of(settings: &PhaseSettings) -> LoadWindow {
        let nanos = |time: Duration| time.as_nanos() as Nanos;
        let (earliest, latest) = settings.warmup_bounds();
        LoadWindow {
            margin: settings.window.warmup_margin,
            earliest: nanos(earliest),
            latest: nanos(latest),
            length: nanos(settings.window.duration),
            slots: settings.window.max_concurrency,
            ended: 0,
            primed: None,
            failed_in_a_row: 0,
        }
    }

    /// Notes how the load goes on; breaks it off when the window has passed, or nothing succeeds any more.
    pub fn note(&mut self, progress: &LoadProgress<'_>) -> ControlFlow<()> {
        let is_over = match progress {
            LoadProgress::Ended(sample, _) => {
                // All others are sent when a slot becomes free.
                self.ended += usize::from(sample.ready == 0);
                self.failed_in_a_row = match sample.is_ok() {
                    true => 0,
                    false => self.failed_in_a_row + 1,
                };
                self.is_hopeless()
            }
            LoadProgress::Underway(now, underway) => {
                let first = underway.iter().filter(|sample| sample.ready == 0);
                let with_output = first.filter(|sample| !sample.events.is_empty()).count();
                if self.ended + with_output >= self.slots {
                    self.primed.get_or_insert(*now);
                }
                *now >= self.span().end
            }
            LoadProgress::Away(_) => false,
        };
        match is_over {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Time span from its opening to its end.
    pub fn span(&self) -> Range<Nanos> {
        let primed = self.primed.map(|at| (at as f64 * self.margin) as Nanos);
        let start = primed.unwrap_or(self.latest).max(self.earliest).min(self.latest);
        start..start.saturating_add(self.length)
    }

    /// Returns true if the server was given up.
    pub fn is_hopeless(&self) -> bool {
        self.failed_in_a_row > self.slots + HOPELESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Sample;

    const SECOND: Nanos = 1_000_000_000;

    fn window(margin: f64, slots: usize) -> LoadWindow {
        LoadWindow {
            margin,
            earliest: 2 * SECOND,
            latest: 10 * SECOND,
            length: 5 * SECOND,
            slots,
            ended: 0,
            primed: None,
            failed_in_a_row: 0,
        }
    }

    fn start_s(primed_s: Option<u64>, margin: f64) -> u64 {
        let mut window = window(margin, 3);
        let with_output = Sample {
            events: [1].into_iter().collect(),
            ..Sample::default()
        };
        let mut look = |count: usize, now| window.note(&LoadProgress::Underway(now, &vec![&with_output; count]));
        if let Some(at) = primed_s {
            assert!(look(2, at * SECOND / 2).is_continue());
            assert!(look(3, at * SECOND).is_continue());
            assert!(look(3, at * SECOND + 99).is_continue());
        }
        window.span().start / SECOND
    }

    #[test]
    fn it_opens_when_every_slot_is_at_work() {
        assert_eq!(start_s(Some(4), 1.5), 6);
        assert_eq!(start_s(Some(1), 1.5), 2, "not before the earliest");
        assert_eq!(start_s(Some(8), 1.5), 10, "not after the latest");
        assert_eq!(start_s(None, 1.5), 10);
    }

    #[test]
    fn it_ends_the_load() {
        let mut window = window(1.0, 3);
        assert!(window.note(&LoadProgress::Underway(14 * SECOND, &[])).is_continue());
        assert!(window.note(&LoadProgress::Underway(15 * SECOND, &[])).is_break());
    }

    #[test]
    fn a_server_that_only_fails_is_given_up() {
        let mut window = window(1.0, 1);
        let failed = Sample {
            error: Some("HTTP 500".into()),
            ..Sample::default()
        };
        for _ in 0..=HOPELESS {
            assert!(window.note(&LoadProgress::Ended(&failed, 1)).is_continue());
        }
        let done = Sample::default();
        assert!(window.note(&LoadProgress::Ended(&done, 1)).is_continue());
        for _ in 0..=HOPELESS {
            assert!(window.note(&LoadProgress::Ended(&failed, 1)).is_continue());
        }
        assert!(window.note(&LoadProgress::Ended(&failed, 1)).is_break());
        assert!(window.is_hopeless());
    }
}
