//! Profiles the server during a run. The profiler is started before t0, and stopped once the figures are safe, because a server may write
//! its traces for minutes. A server without a profiler is ignored.

use super::{NativeRun, open};
use crate::bench::native::settings::NativeSettings;
use crate::bench::side::endpoint::PROFILER;
use crate::bench::worker::{GivenUp, perform};
use crate::bench::{Job, broken, sound};
use crate::cause::Failure;
use std::sync::atomic::Ordering::Relaxed;

impl NativeRun {
    /// Starts the profiler, if one is wanted.
    pub(super) fn start_profiler(&self) {
        if !self.settings.side.profile {
            return;
        }
        // From here on it may run, even if the call does not return.
        self.job.counters.is_profiling.store(true, Relaxed);
        self.note("Starting profiler...");
        match self.endpoint.post("/start_profile", PROFILER) {
            Ok(_) => self.note("Profiler started"),
            Err(error) => {
                if error.status.is_some() {
                    self.job.counters.is_profiling.store(false, Relaxed);
                }
                self.note(format!("Profiler: cannot start: {error}"));
            }
        }
    }
}

/// Stops the profiler that this job's run started, and waits until its traces are written, within ten minutes.
pub async fn stop_profiler(job: &Job) {
    if !job.counters.is_profiling.swap(false, Relaxed) {
        return;
    }
    job.counters.note("Stopping profiler...");
    job.counters.note(match stop(job).await {
        Ok(()) => "Profiler stopped".to_owned(),
        Err(failure) => format!("Profiler: cannot stop: {}", failure.detail),
    });
}

async fn stop(job: &Job) -> Result<(), Failure> {
    let settings = sound(NativeSettings::read(&job.params))?;
    let endpoint = open(job, &settings).await?;
    let stops = vec![endpoint.stop_handle()];
    let stopping = perform(
        stops,
        || PROFILER,
        GivenUp::Awaited,
        move || {
            let stopped = endpoint.post("/stop_profile", PROFILER);
            stopped.map_err(|error| broken(error.to_string()))
        },
    );
    stopping.await.map(drop)
}
