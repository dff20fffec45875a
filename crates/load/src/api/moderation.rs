//! Decides how long reading may wait. Under heavy traffic one wake-up serves many connections, like the interrupt moderation of network
//! cards. Waking a sleeping core for every token costs the client, and the server that wakes it, more than reading does.
//!
//! Times of arrival are the kernel's, so waiting changes none of them; where they are not, nothing waits.

use std::time::Duration;
use vsweep_metrics::Nanos;

/// Reads a second from which on it is worth while.
const MANY: u64 = 20_000;
/// The rate is that of spans of at least this length.
const SPAN: Nanos = 1_000_000;
/// Time from one look at the network to the next. It is far below the time between tokens of any engine, so that separate tokens of a
/// stream are not read together. It is also the longest wait of a slot for its next request.
const PERIOD: Nanos = 250_000;

/// Watches the rate of arrivals.
#[derive(Debug, Default)]
pub(crate) struct Moderation {
    span_began: Nanos,
    /// Stamped reads before the span.
    before: u64,
    is_worth_while: bool,
}

impl Moderation {
    /// Notes how many stamped reads there have been so far.
    pub fn note(&mut self, stamped: u64, now: Nanos) {
        let span = now - self.span_began;
        if span >= SPAN {
            self.is_worth_while = (stamped - self.before) * 1_000_000_000 >= MANY * span;
            (self.span_began, self.before) = (now, stamped);
        }
    }

    /// Returns how long to sleep at `now` before the network is looked at again, after a turn that began at `turn_began`. Never sleeps past
    /// `due`.
    pub fn pause(&self, turn_began: Nanos, now: Nanos, due: Option<Nanos>) -> Option<Duration> {
        let until = turn_began + PERIOD;
        let is_free = until > now && due.is_none_or(|due| due >= until);
        (self.is_worth_while && is_free).then(|| Duration::from_nanos(until - now))
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
