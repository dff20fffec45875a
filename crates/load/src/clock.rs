//! The run's clock: monotonic, zero at t0; and the CPU time of the calling thread.

use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};
use vsweep_metrics::Nanos;

#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    zero: Instant,
}

impl Clock {
    pub fn start() -> Self {
        Clock { zero: Instant::now() }
    }

    pub fn zero(&self) -> Instant {
        self.zero
    }

    pub fn now(&self) -> Nanos {
        self.zero.elapsed().as_nanos() as Nanos
    }
}

/// A time in nanoseconds; one that is too long for them is the longest.
pub(super) fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

/// CPU time this thread has used so far; zero where the system does not say.
pub(super) fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
