//! The time of day as this process sees it: the wall clock at its first use, plus the time since. If the wall clock is set, or the machine
//! sleeps, no span between two moments of a session becomes longer or shorter.

use jiff::{SignedDuration, Timestamp};
use std::sync::OnceLock;
use std::time::Instant;

static BEGINNING: OnceLock<(Timestamp, Instant)> = OnceLock::new();

/// Returns the present moment.
pub fn now() -> Timestamp {
    let (began, since) = BEGINNING.get_or_init(|| (Timestamp::now(), Instant::now()));
    let passed = SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX);
    began.saturating_add(passed).unwrap_or(Timestamp::MAX)
}
