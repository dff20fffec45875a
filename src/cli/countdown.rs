//! The time left of a sweep in progress. It is predicted on a thread of its own after a result was recorded, so that no forecast
//! delays the sweep or a signal.

use super::forecast::{limits, seconds_left};
use crate::agenda::Schedule;
use crate::journal::{Entry, Event, State};
use crate::rehearse::Options;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};
use std::time::Instant;

/// Most tokens that a forecast computes while the sweep goes on.
const MOST_TOKENS: u64 = 2_000_000;

/// Pause after a forecast, as a multiple of the time that it took.
const PAUSES: u32 = 100;

/// Predicts the time left again and again while a sweep goes on.
pub struct Countdown {
    /// Channel to the thread; `None` if the system refused one.
    records: Option<Sender<State>>,
    shared: Arc<Mutex<Shared>>,
    is_cancelled: Arc<AtomicBool>,
}

#[derive(Default)]
struct Shared {
    /// The last forecast in seconds, and when it was made.
    last: Option<(Instant, f64)>,
    /// Time at which the next one may begin; `None` while one is under way.
    next: Option<Instant>,
}

impl Countdown {
    /// A countdown of what a schedule lacks, on a thread of `scope`; `options` has what was played of it before.
    pub fn start<'s, 'e>(scope: &'s Scope<'s, 'e>, schedule: Schedule<'e>, options: &Options) -> Countdown {
        let limits = limits(MOST_TOKENS);
        let is_cancelled = Arc::clone(&limits.is_cancelled);
        let options = Options {
            at_work: true,
            limits,
            ..options.clone()
        };
        let shared = Arc::new(Mutex::new(Shared {
            last: None,
            next: Some(Instant::now()),
        }));
        let (sender, records) = channel();
        let work = {
            let shared = Arc::clone(&shared);
            move || predict(schedule, &records, &options, &shared)
        };
        let thread = Builder::new().name("vsweep-forecast".into()).spawn_scoped(scope, work);
        Countdown {
            records: thread.is_ok().then_some(sender),
            shared,
            is_cancelled,
        }
    }

    /// The time left after an event, in seconds, by the last forecast. The event may begin another one.
    pub fn seconds_left(&mut self, entry: &Entry, state: &State) -> Option<f64> {
        let is_news = matches!(
            entry.event,
            Event::ServerReady(_)
                | Event::RunFinished(_)
                | Event::SearchFinished { .. }
                | Event::GroupGivenUp(_)
                | Event::ResultsRetired { .. }
        );
        let mut shared = lock(&self.shared);
        if is_news
            && shared.next.is_some_and(|next| Instant::now() >= next)
            && let Some(records) = &self.records
        {
            shared.next = None;
            if records.send(state.clone()).is_err() {
                self.records = None;
            }
        }
        let (at, left) = shared.last?;
        Some((left - at.elapsed().as_secs_f64()).max(0.0))
    }
}

impl Drop for Countdown {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

fn predict(schedule: Schedule<'_>, records: &Receiver<State>, options: &Options, shared: &Mutex<Shared>) {
    while let Ok(state) = records.recv() {
        let began = Instant::now();
        let left = seconds_left(schedule, &state, options);
        drop(state);
        let ended = Instant::now();
        *lock(shared) = Shared {
            last: left.map(|left| (ended, left)),
            next: Some(ended + (ended - began) * PAUSES),
        };
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
