//! One measured run, by one of our benchmarks or by an external command. All except vLLM's offline benchmarks need a ready server.
//!
//! A run returns data, which the `run` room stores. Files that an external command writes go to a scratch folder.

pub mod exact_prompts;
mod external;
pub mod iterations;
pub mod judge;
pub mod native;
pub mod params;
pub mod phases;
pub mod result;
/// Requests to a server outside the measured load: for its counters, its limits, its tokenizer, its profiler, and small probes of its
/// latency. `endpoint` sends all of them except the probes.
mod side {
    pub(in crate::bench) mod counters;
    pub(in crate::bench) mod endpoint;
    pub(in crate::bench) mod probe;
    pub(in crate::bench) mod tokenizer;
}
mod worker;

pub use external::{
    AIPERF_RESULT, LOG, LoadSpec, RESULT, command_line, figures_contradiction, judge, judge_hits, load_contradiction,
    measured, params_of, read_params, read_result, read_results, remedy_for_figure, speaks_vllm_bench, warms_up,
};
pub(crate) use external::{Program, of_engine};
pub use native::as_flags::to_flags;
pub use side::endpoint::kv_cache_tokens;

use crate::cause::{Cause, Failure};
use crate::metrics::confidence::Errors;
use crate::metrics::{RunResult, Sample};
use crate::plan::{BenchRunner, FigurePlace, Params, Warmup};
use crate::search::{Cut, RequestLatencies, Watch};
use crate::server::cpus::Cpus;
use crate::telemetry::series::Window;
use crate::units::show_many;
use crate::validity::{Doubt, Validity};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Time limit of a run that has no other.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Input of a benchmark.
#[derive(Debug, Clone)]
pub struct Job {
    /// Base URL of the server, without a trailing slash.
    pub base_url: String,
    /// The model's name as the server knows it (first entry of `/v1/models`).
    pub served_model: String,
    /// The model's root as the server reports it (a folder or hub name), for tokenizers and `model_id`.
    pub model_root: String,
    /// Every bench parameter with its value, names as in `vllm bench serve`.
    pub params: Params,
    /// The API key for the server, if it is known; else that in `OPENAI_API_KEY` is used.
    pub api_key: Option<String>,
    /// The kind of benchmark.
    pub runner: BenchRunner,
    /// Command line of an external benchmark; `None` for one of ours.
    pub argv: Option<Vec<String>>,
    /// Environment added for an external benchmark.
    pub env: BTreeMap<String, String>,
    /// Positions of an external benchmark's figures in its result; empty for known programs.
    pub places: BTreeMap<String, FigurePlace>,
    /// CPUs that an external benchmark may run on; `None` for those of vsweep itself.
    pub cpus: Option<Cpus>,
    /// A separate folder for the files of an external benchmark. Its output is kept there as `bench.log`.
    pub scratch: PathBuf,
    /// Unmeasured requests before the measurement.
    pub warmup: Warmup,
    /// Time limit for the whole run, without the warm-up.
    pub timeout: Duration,
    /// Live counters for a display.
    pub counters: Arc<Counters>,
}

impl Job {
    /// Returns the job of a native benchmark of a server and its model, without a warm-up.
    pub fn new(
        base_url: impl Into<String>,
        served_model: impl Into<String>,
        model_root: impl Into<String>,
        params: Params,
    ) -> Job {
        Job {
            base_url: base_url.into(),
            served_model: served_model.into(),
            model_root: model_root.into(),
            params,
            api_key: None,
            runner: BenchRunner::Native,
            argv: None,
            env: BTreeMap::new(),
            places: BTreeMap::new(),
            cpus: None,
            scratch: std::env::temp_dir(),
            warmup: Warmup::Requests(0),
            timeout: LONGEST,
            counters: Arc::default(),
        }
    }
}

/// Live counters of a run in progress, for display only, and the times of its measurement, for the telemetry of the server.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests to be sent, once known; 0 if only time ends the run.
    pub planned: AtomicU64,
    /// Requests that ended, with success or not.
    pub finished: AtomicU64,
    /// Requests that failed.
    pub failed: AtomicU64,
    /// Output tokens of requests that succeeded.
    pub tokens: AtomicU64,
    /// Sum of the times to first token of requests that succeeded, in nanoseconds.
    pub ttft_ns: AtomicU64,
    /// Time at which the first measured request was due.
    pub sending: OnceLock<Instant>,
    /// Current activities, as sentences.
    pub notes: Mutex<Vec<String>>,
    /// Warnings about the run for the user, as sentences.
    pub cautions: Mutex<Vec<String>>,
    /// True while the server's profiler runs.
    pub is_profiling: AtomicBool,
    /// Beginning of the warm-up, and its duration once it is over.
    warmup: (OnceLock<Instant>, OnceLock<Duration>),
    /// Time of the measurement, once it is over: from t0 to the end of the last answer, or the window of the phases benchmark. Unset for
    /// all other benchmarks.
    pub measured: OnceLock<Window>,
}

impl Counters {
    /// Counts a request that ended.
    fn count(&self, sample: &Sample) {
        self.finished.fetch_add(1, Relaxed);
        if !sample.is_ok() {
            self.failed.fetch_add(1, Relaxed);
            return;
        }
        self.tokens.fetch_add(sample.output_len(), Relaxed);
        self.ttft_ns.fetch_add(sample.ttft(), Relaxed);
    }

    /// Requests that have ended, in words: `12 of 40 requests`.
    pub fn in_words(&self) -> String {
        let [finished, planned] = [&self.finished, &self.planned].map(|count| count.load(Relaxed));
        match planned {
            0 => show_many(finished, "request"),
            _ => format!("{finished} of {planned} requests"),
        }
    }

    fn note(&self, sentence: impl Into<String>) {
        sentences(&self.notes).push(sentence.into());
    }

    fn caution(&self, sentence: impl Into<String>) {
        sentences(&self.cautions).push(sentence.into());
    }

    /// Returns true while the warm-up is under way.
    pub fn is_warming_up(&self) -> bool {
        self.warmup.0.get().is_some() && self.warmup.1.get().is_none()
    }

    /// Duration of the warm-up so far.
    pub(crate) fn warmed_for(&self) -> Duration {
        let (began, took) = &self.warmup;
        let so_far = || began.get().map(Instant::elapsed);
        took.get().copied().or_else(so_far).unwrap_or_default()
    }

    /// Takes the notes since the last call.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut sentences(&self.notes))
    }

    /// Takes the cautions since the last call.
    pub fn take_cautions(&self) -> Vec<String> {
        std::mem::take(&mut sentences(&self.cautions))
    }
}

fn sentences(of: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One run's figures.
#[derive(Debug, Clone, Default)]
pub struct Measurement {
    /// The figures, under the keys of `vllm bench serve` and in its order, then our own.
    pub result: RunResult,
    /// Relative sampling errors of its figures, as far as they are known.
    pub errors: Errors,
    /// Reason why the run failed although it has figures, if it did.
    pub failure: Option<Failure>,
    /// Doubts about the figures.
    pub doubts: Vec<Doubt>,
    /// Latencies of every request, from the native benchmark or an external one that saved them; otherwise empty.
    pub requests: Vec<RequestLatencies>,
    /// Reason why a search ended the run before its last request, if it did. The result and the requests are then those of a part of a run.
    pub cut: Option<Cut>,
}

impl Measurement {
    /// The measurement of a run that was cut before any request had ended.
    pub fn of_nothing(cut: Cut) -> Measurement {
        Measurement {
            cut: Some(cut),
            ..Measurement::default()
        }
    }

    /// Validity of the figures.
    pub fn validity(&self) -> Validity {
        Validity::of(self.doubts.iter().map(|doubt| doubt.code))
    }

    /// Failure and doubts as sentences, the failure first.
    pub fn objections(&self) -> impl Iterator<Item = String> + '_ {
        let failure = self.failure.iter().map(ToString::to_string);
        failure.chain(self.doubts.iter().map(ToString::to_string))
    }
}

/// Performs one run. Dropping the future ends the run's requests and processes at once.
pub async fn measure(job: &Job) -> Result<Measurement, Failure> {
    measure_watched(job, None, &mut None).await
}

/// Like [`measure`], but ends the run as soon as the watch has seen enough. Only the native benchmark can be watched; others run to their
/// end. An external program is kept in `program` until it has ended, so that the caller can await its end if this future is dropped.
pub(crate) async fn measure_watched(
    job: &Job,
    watch: Option<Watch>,
    program: &mut Option<Program>,
) -> Result<Measurement, Failure> {
    if job.argv.is_some() || job.runner != BenchRunner::Native {
        // Only the native benchmark sets the time of its first request. For the others, the time of their start is used.
        job.counters.sending.get_or_init(Instant::now);
    }
    match (&job.argv, &job.runner) {
        (Some(argv), _) => external::measure(job, argv, program).await,
        (None, BenchRunner::Native) => {
            let measured = native::measure(job, watch).await;
            native::stop_profiler(job).await;
            measured
        }
        (None, BenchRunner::Iterations) => iterations::measure(job).await,
        (None, BenchRunner::Phases) => phases::measure(job).await,
        (None, BenchRunner::Offline(_) | BenchRunner::Command(_)) => {
            unreachable!("the benchmark of another program has a command line")
        }
    }
}

/// Returns the problems with the parameters of one of our benchmarks, as sentences; none if the benchmark can start.
pub fn check(runner: &BenchRunner, params: &Params) -> Vec<String> {
    let problems = match runner {
        BenchRunner::Native => native::settings::NativeSettings::read(params).err(),
        BenchRunner::Iterations => iterations::IterationSettings::read(params).err(),
        BenchRunner::Phases => phases::PhaseSettings::read(params).err(),
        // The parameters of another program are unknown here.
        BenchRunner::Offline(_) | BenchRunner::Command(_) => None,
    };
    problems.unwrap_or_default()
}

/// Returns the message about a parameter that one of our benchmarks does not have; `None` if the benchmark has it, or is another program.
pub fn unknown(runner: &BenchRunner, name: &str) -> Option<String> {
    let table = match runner {
        BenchRunner::Native => &native::settings::TABLE,
        BenchRunner::Iterations => &iterations::TABLE,
        BenchRunner::Phases => &phases::TABLE,
        BenchRunner::Offline(_) | BenchRunner::Command(_) => return None,
    };
    table.find(name).is_none().then(|| table.unknown(name))
}

/// A failure of the benchmark itself.
fn broken(detail: impl Into<String>) -> Failure {
    Failure::new(Cause::BenchFailed, detail)
}

/// The members of a JSON object.
fn members(object: Value) -> Params {
    match object {
        Value::Object(members) => members,
        _ => Params::new(),
    }
}

/// Returns the current date and time in the format of results.
fn date() -> String {
    jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string()
}

/// Returns the settings that were read, or a failure with their problems.
fn valid<T>(read: Result<T, Vec<String>>) -> Result<T, Failure> {
    read.map_err(|problems| broken(problems.join("; ")))
}

/// The reference of every benchmark's parameters as Markdown.
pub fn reference() -> String {
    params::markdown(&[
        (
            "`vsweep bench`, and plans with `runner = \"native\"`",
            &native::settings::TABLE,
        ),
        (
            "`vsweep bench iterations`, and plans with `runner = \"iterations\"`",
            &iterations::TABLE,
        ),
        (
            "`vsweep bench phases`, and plans with `runner = \"phases\"`",
            &phases::TABLE,
        ),
    ])
}
