//! Decides which groups may measure or start servers at the same time. A start that is kept apart waits until no group measures, and later
//! runs wait for that start. Also records the activity during each run. Starts nothing itself.

use crate::journal::NeighbourShares;
pub use crate::selection::packed::Activity;
use std::cell::RefCell;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The groups of a sweep, and their current activities.
pub struct ActivityLock {
    state: RefCell<LockState>,
    changed: Notify,
    /// Returns the time of a monotonic clock.
    now: Box<dyn Fn() -> Duration>,
}

#[derive(Debug, Default)]
struct LockState {
    /// Current activities with the ids of their groups' permits.
    active: Vec<(u64, Activity)>,
    /// Groups that wait, in the order in which they came.
    waiting: Vec<(u64, Activity)>,
    last_id: u64,
    clocks: Clocks,
}

/// Total times in which two or more runs were measured at once, and in which something was starting.
#[derive(Debug, Clone, Copy, Default)]
struct Clocks {
    measured_at_once: Duration,
    starting: Duration,
    read_at: Duration,
}

/// A place in the queue and then, until it is dropped, the permission for an activity.
pub struct Permit<'f> {
    activity_lock: &'f ActivityLock,
    id: u64,
    /// The clocks when the permit was given.
    since: Clocks,
}

impl Default for ActivityLock {
    fn default() -> ActivityLock {
        let began = Instant::now();
        ActivityLock::with_clock(move || began.elapsed())
    }
}

impl ActivityLock {
    /// Returns a lock that uses this clock.
    pub fn with_clock(now: impl Fn() -> Duration + 'static) -> ActivityLock {
        ActivityLock {
            state: RefCell::default(),
            changed: Notify::new(),
            now: Box::new(now),
        }
    }

    /// Waits until an activity is permitted.
    pub async fn enter(&self, activity: Activity) -> Permit<'_> {
        let mut permit = self.queue(activity);
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.state.borrow_mut();
                if state.permits(permit.id, activity) {
                    state.advance_clocks((self.now)());
                    state.waiting.retain(|(id, _)| *id != permit.id);
                    state.active.push((permit.id, activity));
                    permit.since = state.clocks;
                    self.changed.notify_waiters();
                    return permit;
                }
            }
            changed.await;
        }
    }

    fn queue(&self, activity: Activity) -> Permit<'_> {
        let mut state = self.state.borrow_mut();
        state.last_id += 1;
        let id = state.last_id;
        state.waiting.push((id, activity));
        Permit {
            activity_lock: self,
            id,
            since: Clocks::default(),
        }
    }
}

impl LockState {
    /// Returns true if an activity may go with all current ones, and with those that have waited longer.
    fn permits(&self, id: u64, activity: Activity) -> bool {
        let earlier = self.waiting.iter().take_while(|(other, _)| *other != id);
        let mut others = self.active.iter().chain(earlier);
        others.all(|(_, other)| activity.goes_with(*other))
    }

    fn advance_clocks(&mut self, now: Duration) {
        let passed = now.saturating_sub(std::mem::replace(&mut self.clocks.read_at, now));
        let starting = self
            .active
            .iter()
            .filter(|(_, activity)| *activity != Activity::Run)
            .count();
        if starting > 0 {
            self.clocks.starting += passed;
        }
        if self.active.len() - starting > 1 {
            self.clocks.measured_at_once += passed;
        }
    }
}

impl Permit<'_> {
    /// Returns the activity of other groups since this permit was given, as shares of that time.
    pub fn neighbours(&self) -> NeighbourShares {
        let mut state = self.activity_lock.state.borrow_mut();
        state.advance_clocks((self.activity_lock.now)());
        let (now, then) = (state.clocks, self.since);
        let lasted = (now.read_at - then.read_at).as_secs_f64();
        // Three digits are enough for a line of the journal.
        let share = |time: Duration| match lasted > 0.0 {
            true => (time.as_secs_f64() / lasted * 1000.0).round() / 1000.0,
            false => 0.0,
        };
        NeighbourShares {
            servers: share(now.measured_at_once - then.measured_at_once),
            starts: share(now.starting - then.starting),
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = self.activity_lock.state.borrow_mut();
        state.advance_clocks((self.activity_lock.now)());
        state.active.retain(|(id, _)| *id != self.id);
        state.waiting.retain(|(id, _)| *id != self.id);
        drop(state);
        self.activity_lock.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
