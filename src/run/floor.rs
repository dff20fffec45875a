//! Decides which groups may measure or start servers at the same time. A start that is kept apart waits until no group measures, and later
//! requests wait for it. Also records the activity during each run. Starts nothing itself.

use crate::journal::NeighbourShares;
pub use crate::selection::apart::Doing;
use std::cell::RefCell;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The groups of a sweep, and what they do at the moment.
pub struct Floor {
    hall: RefCell<Hall>,
    changed: Notify,
    /// The time since some moment.
    now: Box<dyn Fn() -> Duration>,
}

#[derive(Debug, Default)]
struct Hall {
    /// Things that are done, by whom.
    active: Vec<(u64, Doing)>,
    /// Groups that wait, in the order in which they came.
    waiting: Vec<(u64, Doing)>,
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

/// A place among those who wait, and from its turn on the leave to do something, until it is dropped.
pub struct Leave<'f> {
    floor: &'f Floor,
    id: u64,
    /// The clocks at its turn.
    since: Clocks,
}

impl Default for Floor {
    fn default() -> Floor {
        let began = Instant::now();
        Floor::by(move || began.elapsed())
    }
}

impl Floor {
    /// Uses this clock.
    pub fn by(now: impl Fn() -> Duration + 'static) -> Floor {
        Floor {
            hall: RefCell::default(),
            changed: Notify::new(),
            now: Box::new(now),
        }
    }

    /// Waits until this may be done.
    pub async fn enter(&self, doing: Doing) -> Leave<'_> {
        let mut leave = self.queue(doing);
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut hall = self.hall.borrow_mut();
                if hall.admits(leave.id, doing) {
                    hall.read_clocks((self.now)());
                    hall.waiting.retain(|(id, _)| *id != leave.id);
                    hall.active.push((leave.id, doing));
                    leave.since = hall.clocks;
                    self.changed.notify_waiters();
                    return leave;
                }
            }
            changed.await;
        }
    }

    fn queue(&self, doing: Doing) -> Leave<'_> {
        let mut hall = self.hall.borrow_mut();
        hall.came += 1;
        let id = hall.came;
        hall.waiting.push((id, doing));
        Leave {
            floor: self,
            id,
            since: Clocks::default(),
        }
    }
}

impl Hall {
    /// Admits a group unless one that came earlier, or is at it, may not go with it.
    fn admits(&self, id: u64, doing: Doing) -> bool {
        let earlier = self.waiting.iter().take_while(|(other, _)| *other != id);
        let mut others = self.active.iter().chain(earlier);
        others.all(|(_, other)| doing.goes_with(*other))
    }

    fn read_clocks(&mut self, now: Duration) {
        let passed = now.saturating_sub(std::mem::replace(&mut self.clocks.read_at, now));
        let starting = self.active.iter().filter(|(_, doing)| *doing != Doing::Run).count();
        if starting > 0 {
            self.clocks.starting += passed;
        }
        if self.active.len() - starting > 1 {
            self.clocks.measured_at_once += passed;
        }
    }
}

impl Leave<'_> {
    /// The company that it had so far: shares of its time.
    pub fn neighbours(&self) -> NeighbourShares {
        let mut hall = self.floor.hall.borrow_mut();
        hall.read_clocks((self.floor.now)());
        let (now, then) = (hall.clocks, self.since);
        let lasted = (now.read_at - then.read_at).as_secs_f64();
        // Three digits are what a line needs.
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

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut hall = self.floor.hall.borrow_mut();
        hall.read_clocks((self.floor.now)());
        hall.active.retain(|(id, _)| *id != self.id);
        hall.waiting.retain(|(id, _)| *id != self.id);
        drop(hall);
        self.floor.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
