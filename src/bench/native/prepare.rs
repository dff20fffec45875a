//! The steps between drawing the prompts and t0, the time at which the first request is due, and their counterparts after the run.

use super::prompts::Prompts;
use super::warmup::{self, Amount};
use super::{NativeRun, generator_failed, open, writer};
use crate::bench::native::settings::NativeSettings;
use crate::bench::params::TimeSpan;
use crate::bench::side::counters::ServerCounters;
use crate::bench::side::endpoint::{PROFILER, SHORT, await_next_try};
use crate::bench::side::probe::{Probe, period_at};
use crate::bench::worker::{GivenUp, perform};
use crate::bench::{Job, broken, result, valid};
use crate::cause::Failure;
use crate::load::arrival::Ramp;
use crate::load::{Load, Request, Requests, allow_connections};
use crate::metrics::Samples;
use crate::units::show_duration;
use crate::validity::{Code, Doubt};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Time limit for a probe. It bounds the wait for the probe that is in flight at the end of the run.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a warning if warm-ups failed.
fn failed_warmups(samples: &Samples) -> Option<String> {
    let error = samples.iter().find_map(|sample| sample.error)?;
    let (failed, all) = (samples.failed(), samples.len());
    Some(format!(
        "{failed} of {all} warm-ups failed, so the server may be cold: {error}"
    ))
}

impl NativeRun {
    /// Performs the steps between the preparation of the first requests and t0: the ready check, connections, warm-ups, the profiler.
    /// Returns the time for opening the connections, and a doubt if the server may still be cold.
    pub(super) fn prepare(&mut self, prompts: &Prompts) -> Result<(Duration, Option<Doubt>), Failure> {
        self.note("Starting initial single prompt test run...");
        match self.settings.limits.ready() {
            Some(limit) => self.await_ready(prompts, limit)?,
            None => self.note("Skipping endpoint ready check."),
        }
        let count = self.connections(prompts.starts);
        allow_connections(count).map_err(broken)?;
        let began = Instant::now();
        self.connect(count)?;
        let connection_setup = began.elapsed();
        let cold = match prompts.warmup.as_slice() {
            [] if prompts.amount.most() == 0 => None,
            [] => Some(Doubt::new(
                Code::ColdServer,
                "nothing of the dataset is left to warm up with",
            )),
            requests => self.warm_up(requests, prompts.amount)?,
        };
        self.note("Starting main benchmark run...");
        self.start_profiler();
        traffic(&self.settings)
            .into_iter()
            .for_each(|sentence| self.note(sentence));
        Ok((connection_setup, cold))
    }

    /// Sends the warm-up requests, for as long as a warm-up may take. Returns a doubt if none of them succeeded.
    fn warm_up(&mut self, requests: &[Request], amount: Amount) -> Result<Option<Doubt>, Failure> {
        let began = Instant::now();
        // A job is measured once, so the time cannot be set already.
        let _ = self.job.counters.warmup.0.set(began);
        let samples = match amount {
            Amount::AtOnce(count) => {
                self.note(format!("Warming up with {count} requests..."));
                self.send_unmeasured(requests, vec![0; requests.len()], began)?
            }
            Amount::AtRate(..) => {
                self.note("Warming up at the load's rate...");
                let first = self.send_unmeasured(&requests[..1], vec![0], began)?;
                let due = amount.due_after(began.elapsed());
                let others = &requests[1..requests.len().min(1 + due.len())];
                match others {
                    [] => first,
                    others => self.send_unmeasured(others, due, began)?,
                }
            }
        };
        let _ = self.job.counters.warmup.1.set(began.elapsed());
        self.note("Warmup run completed.");
        let Some(why) = failed_warmups(&samples) else {
            return Ok(None);
        };
        if samples.ok().next().is_none() {
            return Ok(Some(Doubt::new(Code::ColdServer, why)));
        }
        self.job.counters.caution(why);
        Ok(None)
    }

    /// Sends requests of a warm-up that began at `began`. Requests in flight when the time of the warm-up is over are given up.
    fn send_unmeasured(&mut self, requests: &[Request], due: Vec<u64>, began: Instant) -> Result<Samples, Failure> {
        let load = self.load(requests.to_vec(), due);
        let longest = warmup::LONGEST.min(self.job.timeout);
        let outcome = self
            .generator
            .drive_watched(&load, &mut |_| match began.elapsed() < longest {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            });
        Ok(outcome.map_err(generator_failed)?.samples)
    }

    pub(super) fn note(&self, sentence: impl Into<String>) {
        self.job.counters.note(sentence);
    }

    pub(super) fn connect(&mut self, count: usize) -> Result<(), Failure> {
        self.endpoint.connect(&mut self.generator, count)
    }

    /// Repeats the first request until it succeeds, within `limit`.
    fn await_ready(&mut self, prompts: &Prompts, limit: Duration) -> Result<(), Failure> {
        self.note(format!(
            "Waiting for endpoint to become up in {} seconds",
            limit.as_secs_f64()
        ));
        let began = Instant::now();
        loop {
            let load = self.load(vec![prompts.first.clone()], vec![0]);
            let outcome = self.generator.drive(&load).map_err(generator_failed)?;
            let error = outcome
                .samples
                .iter()
                .find_map(|sample| Some((sample.error?, sample.error_status)));
            let Some((error, status)) = error else { break };
            let waited = await_next_try(began, limit, &error);
            waited.map_err(|detail| self.with_url(broken(detail), status))?;
        }
        self.note("Initial test run completed.");
        Ok(())
    }

    pub(super) fn start_probe(&self, probe: Option<Request>) -> Result<Option<Probe>, Failure> {
        let Some((probe, rate)) = probe.zip(self.settings.side.probe_rate()) else {
            return Ok(None);
        };
        let mut load = self.load(vec![probe], vec![0]);
        load.request_timeout = load.request_timeout.min(PROBE_TIMEOUT);
        let started = Probe::start(self.endpoint.generator()?, load, period_at(rate));
        started
            .map(Some)
            .map_err(|error| broken(format!("cannot start the probes: {error}")))
    }

    /// Returns the server's counters, if it publishes any, and a warning if it did not answer.
    pub(super) fn read_counters(&self) -> (Option<ServerCounters>, Option<String>) {
        // Waiting for a silent server must leave most of the run's time to the load.
        match self.endpoint.counters(SHORT.min(self.job.timeout / 4)) {
            Ok(counters) => (Some(counters), None),
            Err(error) => (
                None,
                result::silence_warning("/metrics", &error, "the server's own counters are left out"),
            ),
        }
    }

    pub(super) fn load(&self, requests: impl Into<Requests>, due: Vec<u64>) -> Load {
        writer::load(&self.settings, &self.endpoint, requests, due)
    }

    /// Starts the server's profiler, if that is wanted. If that fails, the run goes on, with a note. [`stop_profiler`] stops the profiler
    /// outside the measured time, because the server writes its traces at the stop, which may take minutes.
    pub(super) fn start_profiler(&self) {
        if !self.settings.side.profile {
            return;
        }
        // From here on the profiler may run, even if the call does not return.
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

/// Returns sentences about the load that is to be sent.
pub(super) fn traffic(settings: &NativeSettings) -> Vec<String> {
    if settings.is_self_timed() {
        return vec!["Self timing is set, using the timestamps from the trace file.".to_owned()];
    }
    let arrivals = settings.arrival.arrivals();
    let shape = if arrivals.burstiness == 1.0 {
        "Poisson process"
    } else {
        "Gamma distribution"
    };
    let mut sentences = match arrivals.ramp {
        Some(Ramp { shape, start, end }) => vec![
            format!("Traffic ramp-up strategy: {}.", shape.name()),
            format!("Will increase RPS from {start} to {end} RPS over the duration of the benchmark."),
        ],
        None => vec![format!("Traffic request rate: {:?}", arrivals.rate)],
    };
    sentences.push(format!("Burstiness factor: {:?} ({shape})", arrivals.burstiness));
    let limit = settings
        .concurrency()
        .map_or("None".to_owned(), |limit| limit.to_string());
    sentences.push(format!("Maximum request concurrency: {limit}"));
    if let Some(TimeSpan(duration)) = settings.arrival.duration {
        sentences.push(format!("Requests are sent for: {}", show_duration(duration)));
    }
    if let Some(rate) = settings.side.probe_rate() {
        sentences.push(format!("Probe request rate: {rate:?} req/s"));
    }
    sentences
}

/// Stops the profiler that this job's run started. Waits until its traces are written, for at most ten minutes.
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
    let settings = valid(NativeSettings::read(&job.params))?;
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
