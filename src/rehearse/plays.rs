//! Cache of played runs, for repeated predictions of the same plan during its sweep.

use crate::cause::Failure;
use crate::ids::PointId;
use crate::journal::RunEvidence;
use crate::sim::engine::cost::Constants;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The timings of runs that were played.
#[derive(Debug, Default)]
pub struct PlayCache {
    /// Number of runs that were predicted.
    count: AtomicU64,
    /// The constants with which the runs were played; `None` for nominal ones.
    constants: Mutex<Option<Constants>>,
    /// Timings by point and start slot. Starts are played at the same time, and each draws its own load.
    points: Mutex<HashMap<(PointId, u32), Timing>>,
    /// Durations of recorded runs by the model, in seconds: by point, start slot and number; `None` if the run cannot be played.
    recorded: Mutex<HashMap<(PointId, u32, u32), Option<f64>>>,
}

/// Duration of one run. Repetitions of a point differ only by random choices, so one of them is played for all.
#[derive(Debug, Clone)]
pub struct Timing {
    /// Duration of the load, in seconds.
    pub seconds: f64,
    /// Duration of the warm-up before the load, in seconds; 0 if it was not played.
    pub warmup_s: f64,
    /// Number of requests that are sent and measured.
    pub requests: u64,
    /// Reason why the run will probably fail.
    pub failure: Option<Failure>,
    /// The figures that later decisions use.
    pub(super) learned: Option<RunEvidence>,
}

impl PlayCache {
    /// Empties the cache if it was filled with other constants of the engine model.
    pub(super) fn set_constants(&self, constants: Option<Constants>) {
        let mut known = lock(&self.constants);
        if *known != constants {
            lock(&self.points).clear();
            lock(&self.recorded).clear();
            *known = constants;
        }
    }

    /// Number of runs that were predicted so far, for a display.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn count_run(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn point(&self, point: &PointId, slot: u32) -> Option<Timing> {
        lock(&self.points).get(&(point.clone(), slot)).cloned()
    }

    pub(super) fn keep(&self, point: &PointId, slot: u32, timing: Timing) {
        lock(&self.points).insert((point.clone(), slot), timing);
    }

    /// Returns the model's duration of a recorded run, in seconds. Plays it unless the duration is in the cache.
    pub(super) fn recorded(&self, run: (PointId, u32, u32), play: impl FnOnce() -> Option<f64>) -> Option<f64> {
        let known = lock(&self.recorded).get(&run).copied();
        known.unwrap_or_else(|| {
            let played = play();
            lock(&self.recorded).insert(run, played);
            played
        })
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
