//! The run's clock, which is monotonic and zero at t0, and the CPU time of the calling thread.

use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};
use vsweep_metrics::Nanos;

#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub zero: Instant,
}

impl Clock {
    pub fn start() -> Self {
        Clock { zero: Instant::now() }
    }

    pub fn now(&self) -> Nanos {
        self.zero.elapsed().as_nanos() as Nanos
    }
}

/// Converts a duration to nanoseconds, at most `Nanos::MAX`.
pub(super) fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

/// CPU time that this thread has used so far; zero if the system does not report it.
pub(super) fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
