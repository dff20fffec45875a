//! The native benchmark: draws the prompts, drives the load generator on its own thread, and computes the figures from the timelines.

pub mod api;
pub mod arrivals;
pub(super) mod as_flags;
mod during_run;
pub mod figures;
mod lengths;
mod mix;
mod prepare;
mod prompts;
pub mod settings;
pub mod warmup;
mod watched;
mod writer;

use crate::bench::judge::{
    RunFigures, cached, check_pace, commonest_error, doubts, on_failed_requests, refuse_empty, shared_on_purpose,
};
use crate::bench::native::settings::NativeSettings;
use crate::bench::result::{Context, add_objections, cut_warning, errors, figures, result};
use crate::bench::side::endpoint::Endpoint;
use crate::bench::side::probe::Probe;
use crate::bench::worker::{self, GivenUp};
use crate::bench::{Job, Measurement, broken, valid};
use crate::cause::{Cause, Failure};
use crate::dataset::Material;
use crate::load::{BodyOptions, Generator, Supply};
use crate::metrics::confidence::Errors;
use crate::metrics::{LoadProgress, Nanos, RunResult, Sample, Samples, seconds};
use crate::plan::Params;
use crate::search::{Cut, RequestLatencies, Watch};
use crate::stats::ClassTag;
use crate::telemetry::series::Window;
use crate::units::show_many;
use crate::validity::Code;
use nix::errno::Errno;
pub use prepare::stop_profiler;
pub use settings::{REFUSED, reason_to_ignore};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use watched::StallTimes;

/// Connections opened in advance for an open loop, whose concurrency is not known.
const OPEN_LOOP_CONNECTIONS: usize = 64;
/// Most connections opened in advance.
const MOST_CONNECTIONS: usize = 8192;

/// Warning about counters of the server that fell.
const COUNTERS_RESET: &str = "the server's counters were reset during the run (restart, or several servers behind the \
                              address), so they are left out";

/// Most prompts whose lengths are read; more would hardly make the mean more exact.
const MOST_LOOKED_AT: usize = 50_000;

/// Mean lengths of prompts and of outputs, in tokens, of a run with these parameters; `None` if they are unknown before the dataset is
/// read.
pub fn mean_lengths(params: &Params) -> Option<(f64, f64)> {
    let settings = NativeSettings::read(params).ok()?;
    let prompts = &settings.prompts;
    let sampling = prompts.sampling(
        settings.count().unwrap_or(MOST_LOOKED_AT).min(MOST_LOOKED_AT),
        prompts.seed.into(),
    );
    // The size of the vocabulary has no influence on the lengths.
    let lengths = settings
        .dataset
        .lengths(&sampling, 32_000)
        .filter(|lengths| !lengths.is_empty())?;
    let mean = |of: fn(&(u64, u64)) -> u64| lengths.iter().map(of).sum::<u64>() as f64 / lengths.len() as f64;
    Some((mean(|(prompt, _)| *prompt), mean(|(_, output)| *output)))
}

/// Earliest time at which the last request of a run with these parameters is sent, in seconds. `None` unless the run is ended by time, or
/// sends at a constant rate a number of requests that does not depend on a file.
pub fn last_due_s(params: &Params) -> Option<f64> {
    let settings = NativeSettings::read(params)
        .ok()
        .filter(|settings| !settings.is_self_timed())?;
    let traits = settings.dataset.traits();
    let is_made_up = matches!(traits.made_of, Material::Vocabulary | Material::TokenIds);
    let is_used_up = traits.is_timed || (!is_made_up && settings.prompts.no_oversample);
    let is_more = |given: usize| settings.count().is_some_and(|count| count < given);
    let sending = settings
        .arrival
        .sending()
        .filter(|_| !is_used_up && settings.prompts.given.is_none_or(is_more));
    if let Some(sending) = sending {
        return Some(sending.lasts.as_secs_f64());
    }
    let arrivals = settings.arrival.arrivals();
    let is_known = arrivals.ramp.is_none() && arrivals.is_open() && is_made_up;
    is_known.then(|| settings.requests().unwrap_or_default() as f64 / arrivals.rate)
}

/// Performs one run, to its end or until the watch has seen enough. Dropping the future ends its requests at once. A profiler that was
/// started runs until [`stop_profiler`] is called.
pub async fn measure(job: &Job, watch: Option<Watch>) -> Result<Measurement, Failure> {
    let settings = valid(NativeSettings::read(&job.params))?;
    let endpoint = open(job, &settings).await?;
    let generator = endpoint.generator()?;
    let stops = vec![generator.stop_handle(), endpoint.stop_handle()];
    let run = NativeRun {
        job: job.clone(),
        settings: Arc::new(settings),
        endpoint: Arc::new(endpoint),
        generator,
        watch,
    };
    // The time limit does not include the warm-up, which has its own limit.
    let limit = || job.timeout + job.counters.warmed_for().min(warmup::LONGEST);
    let measured = worker::perform(stops, limit, GivenUp::Left, move || run.perform()).await;
    measured.map_err(|mut failure| {
        if failure.cause == Cause::BenchTimeout {
            let ended = job.counters.in_words();
            failure.detail = format!("{ended} had ended after {} s", job.timeout.as_secs());
        }
        failure
    })
}

/// Returns the measurement that these timelines would give, with the figures for which timelines suffice; `None` if every request failed.
/// The timelines are those of a forecast, not of a server.
pub fn measurement_of(settings: &NativeSettings, samples: &Samples, duration: Nanos) -> Option<Measurement> {
    refuse_empty(samples).ok()?;
    let figures = figures(settings, samples, duration);
    let seen = RunFigures::whole(&figures);
    Some(Measurement {
        errors: known_errors(errors(settings, samples, duration), &figures),
        failure: on_failed_requests(seen),
        // A forecast is not checked for doubts.
        result: figures.into(),
        requests: requests(samples, None, &settings.class_tags()),
        ..Measurement::default()
    })
}

/// Keeps only the errors of figures that the result has.
fn known_errors(mut errors: Errors, figures: &Params) -> Errors {
    errors.retain(|name, _| figures.contains_key(name));
    errors
}

/// Prepares requests to the server of a job.
async fn open(job: &Job, settings: &NativeSettings) -> Result<Endpoint, Failure> {
    let api = &settings.api;
    let body = BodyOptions {
        backend: api.backend(),
        model: api.served_model_name.as_ref().unwrap_or(&job.served_model).clone(),
        ignore_eos: settings.ignores_eos(),
        logprobs: api.logprobs,
        extra: api.extra_body.clone(),
    };
    Endpoint::open(job, &job.base_url, &settings.server, &api.endpoint(), body).await
}

/// One run, on the generator's thread.
struct NativeRun {
    job: Job,
    settings: Arc<NativeSettings>,
    endpoint: Arc<Endpoint>,
    /// Generator for the measured requests.
    generator: Generator,
    watch: Option<Watch>,
}

impl NativeRun {
    fn perform(mut self) -> Result<Measurement, Failure> {
        let mut prompts = self.prompts().map_err(broken)?;
        let mut load = std::mem::take(&mut prompts.load);
        let planned = match load.supply {
            // 0 means that the number is unknown.
            Some(_) => self.settings.requests().unwrap_or(0),
            None => load.requests.len(),
        };
        self.job.counters.planned.store(planned as u64, Relaxed);
        let (connection_setup, cold) = self.prepare(&prompts)?;
        let (before, unread) = self.read_counters();
        let probe = self.start_probe(prompts.probe.take())?;
        self.connect(self.connections(prompts.starts))?;

        let began = jiff::Zoned::now();
        let from = *self.job.counters.sending.get_or_init(Instant::now);
        let (outcome, cut) = self.drive(&load)?;
        let to = from + Duration::from_nanos(outcome.duration);
        // A job is measured once, so the window cannot be set already.
        let _ = self.job.counters.measured.set(Window { from, to });

        let probes = probe.map(Probe::finish).unwrap_or_default();
        // A server that did not answer before the run is not asked again, because that would only cause another wait.
        let (after, unread) = match unread {
            None => self.read_counters(),
            unread => (None, unread),
        };
        let grown = before.zip(after).map(|(before, after)| after.since(&before));
        let reset = matches!(grown, Some(None)).then(|| COUNTERS_RESET.to_owned());
        let server = grown.flatten().unwrap_or_default();
        if let Some(error) = load.supply.as_ref().and_then(Supply::error) {
            return Err(broken(error));
        }
        if outcome.undrawn > 0 {
            return Err(broken(format!(
                "{} had no prompt, because drawing prompts is slower than the rate; add num_prompts, or lower request_rate",
                show_many(outcome.undrawn as u64, "due request")
            )));
        }
        if let Err(failure) = refuse_empty(&outcome.samples) {
            return match cut {
                // A search needs no answer to know that requests are late.
                Some(cut) => Ok(Measurement::of_nothing(cut)),
                None => {
                    let status = failure.request_error.as_ref().and_then(|error| error.status);
                    Err(self.with_url(failure, status))
                }
            };
        }
        let mut warnings = std::mem::take(&mut prompts.warnings);
        warnings.extend(unread.or(reset));
        warnings.extend(lengths::mixed(&self.settings));
        warnings.extend(lengths::uncounted(&self.settings, &outcome.samples));
        let classes = self.settings.mix.iter().flat_map(|mix| &mix.classes);
        let datasets = classes.map(|class| &class.dataset).chain([&self.settings.dataset]);
        let shares: Vec<f64> = datasets.map(|dataset| dataset.traits().shared_share).collect();
        let shared = shared_on_purpose(&outcome.samples, &shares);
        let hits = server.hit_rate().and_then(|share| cached(share, shared));
        // It is unknown how much the texts of a file have in common, or the prompts of a chat template. Hits are then only a warning.
        let is_known = self.settings.shares_by_design_only();
        let (doubted, warned) = if is_known { (hits, None) } else { (None, hits) };
        warnings.extend(warned.map(|hits| hits.detail));
        let inputs = lengths::of_prompts(&self.settings, prompts.origin.counted_by, &load, &outcome);
        let lengths = match &cut {
            Some(cut) => {
                warnings.push(cut_warning(cut));
                None
            }
            None => lengths::of_answers(&self.settings, &load, &outcome),
        };
        // The result needs the turns of the load, but not its requests, of which there may be a million.
        let turns = load.turns.take();
        drop(load);
        let errors = errors(&self.settings, &outcome.samples, outcome.duration);
        let context = Context {
            errors: &errors,
            settings: &self.settings,
            model_id: self.settings.server.model.as_deref().unwrap_or(&self.job.model_root),
            origin: prompts.origin,
            connection_setup,
            ramp_len: self.settings.arrival.ramp_len(prompts.starts),
            turns: turns.as_ref(),
            began,
            probes,
            server,
            warnings,
        };
        let mut values = result(context, &outcome);
        // This walks over all requests, so runs without failures skip it.
        let has_failures = values.contains_key("failure_reasons");
        let commonest_error = has_failures.then(|| commonest_error([&outcome.samples])).flatten();
        let seen = RunFigures {
            figures: &values,
            is_whole: cut.is_none(),
            commonest_error: commonest_error.as_ref(),
        };
        // Under a load that changes itself, the pace changes anyway and is not checked.
        let is_paced = seen.is_whole && !seen.is_changing();
        let paced = is_paced.then(|| check_pace(&outcome.samples)).flatten();
        let mut measurement = Measurement {
            errors: known_errors(errors, &values),
            failure: on_failed_requests(seen),
            doubts: cold
                .into_iter()
                .chain(doubted)
                .chain(inputs.filter(|_| cut.is_none()))
                .chain(lengths)
                .chain(paced)
                .chain(doubts(seen))
                .collect(),
            requests: Vec::new(),
            result: RunResult::default(),
            cut,
        };
        let is_stalled = measurement
            .doubts
            .iter()
            .any(|doubt| doubt.code == Code::GeneratorStalled);
        let stalls = is_stalled.then(|| StallTimes::of(&outcome.absences));
        measurement.requests = requests(&outcome.samples, stalls.as_ref(), &self.settings.class_tags());
        add_objections(&mut values, measurement.objections());
        measurement.result = RunResult::new(values, outcome.samples);
        Ok(measurement)
    }

    /// Adds the address to the failure, if the status suggests a wrong address.
    fn with_url(&self, mut failure: Failure, status: Option<u16>) -> Failure {
        if matches!(status, Some(300..=399 | 404 | 405)) {
            let Endpoint { target, options, .. } = &*self.endpoint;
            let scheme = if target.is_https { "https" } else { "http" };
            let asked = format!(" (asked {scheme}://{}{})", options.host, options.path);
            failure.detail.push_str(&asked);
        }
        failure
    }

    /// Number of connections to open before the run.
    fn connections(&self, total: usize) -> usize {
        let wanted = match self.settings.concurrency() {
            Some(limit) => limit,
            None if self.settings.is_open_loop() => OPEN_LOOP_CONNECTIONS,
            None => total,
        };
        wanted.min(total).min(MOST_CONNECTIONS)
    }
}

pub(super) fn generator_failed(error: std::io::Error) -> Failure {
    let remedy = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EMFILE | Errno::ENFILE) => "raise the limit of open files (ulimit -n)",
        Some(Errno::EADDRNOTAVAIL) => "the machine has no free port; set net.ipv4.ip_local_port_range to more ports",
        _ => "check whether the machine is out of memory or disk",
    };
    broken(format!("the generator could not go on: {error}; {remedy}"))
}

/// Returns the latencies of every request, each with the generator's stalls around it if there were any.
fn requests(samples: &Samples, stalls: Option<&StallTimes<'_>>, classes: &[ClassTag]) -> Vec<RequestLatencies> {
    let latencies = |sample: Sample| RequestLatencies {
        stalls: stalls.map(|stalls| stalls.around(&sample)),
        ..latencies(&sample, classes)
    };
    samples.in_order().map(latencies).collect()
}

/// Passes the progress of a load to a search's watch. Returns the cut if the watch has seen enough. `classes` are the classes of the load.
pub fn show_to_watch(watch: &mut Watch, progress: &LoadProgress<'_>, classes: &[ClassTag]) -> Option<Cut> {
    match progress {
        LoadProgress::Ended(sample, in_flight) => {
            watch.note_end(latencies(sample, classes), span(sample), *in_flight as u64)
        }
        LoadProgress::Underway(now, underway) => {
            watch.note_underway(underway.iter().map(|sample| at_least(sample, *now, classes)))
        }
        LoadProgress::Stalled(total) => {
            watch.note_away(Duration::from_nanos(*total));
            None
        }
    }
}

/// The latencies of a request for a search.
fn latencies(sample: &Sample, classes: &[ClassTag]) -> RequestLatencies {
    let class = class_of(sample, classes);
    if !sample.is_ok() {
        return RequestLatencies {
            class,
            ..RequestLatencies::FAILED
        };
    }
    RequestLatencies {
        ttft_ms: ms(sample.ttft()),
        tpot_ms: sample.tpot().unwrap_or(0.0) * 1000.0,
        e2el_ms: ms(sample.latency()),
        class,
        stalls: None,
    }
}

fn class_of(sample: &Sample, classes: &[ClassTag]) -> ClassTag {
    classes.get(usize::from(sample.class)).copied().unwrap_or_default()
}

/// Time span of a request, relative to the start of the run.
fn span(sample: &Sample) -> Range<Duration> {
    // The end of a failed request may be missing.
    let [sent, end] = [sample.sent, sample.end.max(sample.sent)].map(Duration::from_nanos);
    sent..end
}

/// Returns lower bounds of the latencies of a request in flight.
fn at_least(sample: &Sample, now: Nanos, classes: &[ClassTag]) -> RequestLatencies {
    let age = now.saturating_sub(sample.sent);
    RequestLatencies {
        ttft_ms: ms(if sample.events.is_empty() { age } else { sample.ttft() }),
        tpot_ms: 0.0,
        e2el_ms: ms(age),
        class: class_of(sample, classes),
        stalls: None,
    }
}

fn ms(nanos: Nanos) -> f64 {
    seconds(nanos) * 1000.0
}
