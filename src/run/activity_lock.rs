//! Decides which groups may measure or start servers at the same time. A start that is kept apart waits until no group measures, and later
//! requests wait for it. Also records the activity during each run. Starts nothing itself.

use crate::journal::NeighbourShares;
pub use crate::selection::packed::Activity;
use std::cell::RefCell;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The groups of a sweep, and their current activities.
pub struct ActivityLock {
    state: RefCell<LockState>,
    changed: Notify,
    /// The time since some moment.
    now: Box<dyn Fn() -> Duration>,
}

#[derive(Debug, Default)]
struct LockState {
    /// Current activities with the ids of their groups' permits.
    active: Vec<(u64, Activity)>,
    /// Groups that wait, in the order in which they came.
    waiting: Vec<(u64, Activity)>,
    came: u64,
    clocks: Clocks,
}

/// The time since the beginning in which two or more were measured at once, and in which something was starting.
#[derive(Debug, Clone, Copy, Default)]
struct Clocks {
    measured_at_once: Duration,
    starting: Duration,
    read_at: Duration,
}

/// A place in the queue, and from its turn on the permission for an activity, until it is dropped.
pub struct Permit<'f> {
    activity_lock: &'f ActivityLock,
    id: u64,
    /// The clocks at its turn.
    since: Clocks,
}

impl Default for ActivityLock {
    fn default() -> ActivityLock {
        let began = Instant::now();
        ActivityLock::by(move || began.elapsed())
    }
}

impl ActivityLock {
    /// Uses this clock.
    pub fn by(now: impl Fn() -> Duration + 'static) -> ActivityLock {
        ActivityLock {
            state: RefCell::default(),
            changed: Notify::new(),
            now: Box::new(now),
        }
    }

    /// Waits until this may be done.
    pub async fn enter(&self, activity: Activity) -> Permit<'_> {
        let mut permit = self.queue(activity);
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.state.borrow_mut();
                if state.admits(permit.id, activity) {
                    state.read_clocks((self.now)());
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
        state.came += 1;
        let id = state.came;
        state.waiting.push((id, activity));
        Permit {
            activity_lock: self,
            id,
            since: Clocks::default(),
        }
    }
}

impl LockState {
    /// Admits a group unless one that came earlier, or is at it, may not go with it.
    fn admits(&self, id: u64, activity: Activity) -> bool {
        let earlier = self.waiting.iter().take_while(|(other, _)| *other != id);
        let mut others = self.active.iter().chain(earlier);
        others.all(|(_, other)| activity.goes_with(*other))
    }

    fn read_clocks(&mut self, now: Duration) {
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
    /// The company that it had so far: shares of its time.
    pub fn neighbours(&self) -> NeighbourShares {
        let mut state = self.activity_lock.state.borrow_mut();
        state.read_clocks((self.activity_lock.now)());
        let (now, then) = (state.clocks, self.since);
        let lasted = (now.read_at - then.read_at).as_secs_f64();
        // Three digits are enough for a line.
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
        state.read_clocks((self.activity_lock.now)());
        state.active.retain(|(id, _)| *id != self.id);
        state.waiting.retain(|(id, _)| *id != self.id);
        drop(state);
        self.activity_lock.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
