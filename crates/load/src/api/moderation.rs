//! Decides how long to wait before the network is read again. Under heavy traffic one wake-up serves many connections, like the interrupt
//! moderation of network cards. Waking a sleeping core for every token costs the client, and the server that wakes it, more than reading
//! does.
//!
//! The kernel stamps the times of arrival, so waiting does not change them. Without its stamps nothing waits.

use std::time::Duration;
use vsweep_metrics::Nanos;

/// Smallest rate of stamped reads, per second, at which waiting saves time.
const BUSY_RATE: u64 = 20_000;
/// Shortest span over which the rate of reads is measured, in nanoseconds.
const SPAN: Nanos = 1_000_000;
/// Time from one look at the network to the next, in nanoseconds. It is far below the time between tokens of any engine, so that separate
/// tokens of a stream are not read together. It is also the longest wait of a slot for its next request.
const PERIOD: Nanos = 250_000;

/// Watches the rate of arrivals.
#[derive(Debug, Default)]
pub(crate) struct Moderation {
    span_began: Nanos,
    /// Number of stamped reads before the span.
    before: u64,
    is_busy: bool,
}

impl Moderation {
    /// Takes note of the number of stamped reads so far.
    pub fn note(&mut self, stamped: u64, now: Nanos) {
        let span = now - self.span_began;
        if span >= SPAN {
            self.is_busy = (stamped - self.before) * 1_000_000_000 >= BUSY_RATE * span;
            (self.span_began, self.before) = (now, stamped);
        }
    }

    /// Returns the time to sleep at `now` before the network is read again, after a turn that began at `turn_began`. `None` if traffic is
    /// low, the turn took as long already, or something is due before the end of the sleep.
    pub fn pause(&self, turn_began: Nanos, now: Nanos, due: Option<Nanos>) -> Option<Duration> {
        let until = turn_began + PERIOD;
        let is_free = until > now && due.is_none_or(|due| due >= until);
        (self.is_busy && is_free).then(|| Duration::from_nanos(until - now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_high_rate_is_worth_waiting_for() {
        let mut moderation = Moderation::default();
        let pause = Some(Duration::from_nanos(PERIOD - 10));
        assert_eq!(moderation.pause(0, 10, None), None);
        moderation.note(30, SPAN);
        assert_eq!(moderation.pause(SPAN, SPAN + 10, None), pause);
        moderation.note(31, SPAN + 10);
        assert_eq!(
            moderation.pause(SPAN, SPAN + 10, None),
            pause,
            "too short a span to judge by"
        );
        moderation.note(40, 2 * SPAN);
        assert_eq!(moderation.pause(2 * SPAN, 2 * SPAN + 10, None), None);
    }

    #[test]
    fn nothing_due_waits() {
        let mut moderation = Moderation::default();
        moderation.note(30, SPAN);
        let end = SPAN + PERIOD;
        assert_eq!(moderation.pause(SPAN, SPAN, Some(end - 1)), None);
        assert_eq!(
            moderation.pause(SPAN, SPAN, Some(end)),
            Some(Duration::from_nanos(PERIOD))
        );
        assert_eq!(moderation.pause(SPAN, end, None), None, "the turn took as long");
    }
}
