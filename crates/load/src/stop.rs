//! Ending a generator from another thread.

use mio::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a generator from outside.
#[derive(Debug, Clone)]
pub struct Stop {
    pub(super) asked: Arc<AtomicBool>,
    pub(super) waker: Arc<Waker>,
}

impl Stop {
    /// Asks it to end at once.
    pub fn stop(&self) {
        self.asked.store(true, Ordering::Relaxed);
        // A generator that cannot be woken looks at the flag with its next sweep.
        let _ = self.waker.wake();
    }

    /// Returns true if it was asked to end.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}
