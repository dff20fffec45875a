//! The server's profiler around a run: started before t0, and stopped once the figures are safe, because a server may
//! write its traces for minutes. A server without one is no reason to stop.

use super::{FoundServer, NativeRun, request_options};
use crate::bench::Job;
use crate::bench::native::settings::Settings;
use crate::bench::side::control::{ControlClient, PROFILER};
use crate::bench::worker::perform;
use crate::cause::{Cause, Failure};
use std::sync::atomic::Ordering::Relaxed;

impl NativeRun {
    /// Starts the profiler, if one is wanted.
    pub(super) fn start_profiler(&mut self) {
        if !self.settings.side.profile {
            return;
        }
        // From here on it may run, even if nobody is left to hear so.
        self.job.counters.is_profiling.store(true, Relaxed);
        self.note("Starting profiler...");
        match self.control().profile("/start_profile") {
            Ok(()) => self.note("Profiler started"),
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
    let failed = |detail: String| Failure::new(Cause::BenchFailed, detail);
    let settings = Settings::read(&job.params).map_err(|problems| failed(problems.join("; ")))?;
    let server = FoundServer::find(job, &settings).await?;
    let options = request_options(job, &settings, &server.target);
    let mut generator = server.generator()?;
    perform(vec![generator.stop_handle()], PROFILER, move || {
        let mut control = ControlClient {
            generator: &mut generator,
            options: &options,
            base: &server.target.path,
        };
        control
            .profile("/stop_profile")
            .map_err(|error| failed(error.to_string()))
    })
    .await
}
