//! One measured run against a ready server: by the native generator, or by an external command.
//!
//! Returns data; writing it down is the `run` room's work (an external command's own files go to a scratch folder).

mod exact_prompts;
mod external;
pub mod iterations;
mod judge;
pub mod native;
pub mod params;
pub mod phases;
pub mod result;
mod side;
mod worker;

pub use external::{RESULT, command_line, params_of};
pub use native::as_flags::told;
pub use side::limits::kv_cache_tokens;

use native::settings;

use crate::cause::{Cause, Failure, MOST_OFTEN};
use crate::metrics::RunResult;
use crate::plan::{BenchRunner, Params};
use crate::search::{Cut, Request, Watch};
use crate::telemetry::series::Window;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// What a benchmark needs to know.
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
    /// Who performs it when there is no command line.
    pub runner: Runner,
    /// Command line of an external benchmark; `None` for one of ours.
    pub argv: Option<Vec<String>>,
    /// Environment added for an external benchmark.
    pub env: BTreeMap<String, String>,
    /// A folder of its own for whatever an external benchmark writes; its output is kept there as `bench.log`.
    pub scratch: PathBuf,
    /// Requests sent and awaited before the measurement, not counted.
    pub warmup_prompts: u32,
    /// Limit for the whole run.
    pub timeout: Duration,
    /// Live counters for a display.
    pub counters: Arc<Counters>,
}

/// The benchmarks of our own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Runner {
    /// The load generator, as `vllm bench serve`.
    #[default]
    Native,
    /// One batch after the other, each held until it is whole.
    Iterations,
    /// Prefill or decode throughput over a window of time.
    Phases,
}

impl Runner {
    /// The one that a plan names; the default where it has a command.
    pub fn of(runner: &BenchRunner) -> Runner {
        match runner {
            BenchRunner::Iterations => Runner::Iterations,
            BenchRunner::Phases => Runner::Phases,
            BenchRunner::Native | BenchRunner::Command(_) => Runner::Native,
        }
    }
}

/// Live counters of a run in progress, only for display; and when it was measured, for those who watched the server.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests to be sent, once known.
    pub planned: AtomicU64,
    /// Requests that ended, either way.
    pub finished: AtomicU64,
    /// Requests that failed.
    pub failed: AtomicU64,
    /// What is being done, as sentences.
    pub notes: Mutex<Vec<String>>,
    /// What the user should know before trusting the run, as sentences.
    pub cautions: Mutex<Vec<String>>,
    /// The server's profiler was told to start, and not yet to stop.
    pub is_profiling: AtomicBool,
    /// From t0 to the end of the last answer, once that is over; an external benchmark does not say.
    pub measured: OnceLock<Window>,
}

impl Counters {
    fn note(&self, sentence: impl Into<String>) {
        self.notes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(sentence.into());
    }

    fn caution(&self, sentence: impl Into<String>) {
        self.cautions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(sentence.into());
    }

    /// The sentences since this was last asked.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The cautions since this was last asked.
    pub fn take_cautions(&self) -> Vec<String> {
        std::mem::take(&mut self.cautions.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One run's figures.
#[derive(Debug, Clone)]
pub struct Measurement {
    /// Keys and order as in `vllm bench serve`'s result JSON.
    pub result: RunResult,
    /// Whether the figures can be believed.
    pub verdict: Verdict,
    /// Latencies of every request; none from an external benchmark.
    pub requests: Vec<Request>,
    /// Why the run ended before its last request, if it did. It then has no result: figures of a part of a run are not
    /// those of a run.
    pub cut: Option<Cut>,
}

/// How far a run's figures can be believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to object to.
    Sound,
    /// To be read with care, for this reason.
    Suspect(Failure),
    /// They mean nothing, for this reason.
    Void(Failure),
}

/// Above this share of failed requests the figures mean nothing.
const MOST_FAILED: f64 = 0.05;

impl Verdict {
    /// Judges by how many requests failed; `commonest` is what they said most often, if that is known.
    fn on_failed_requests(failed: usize, all: usize, commonest: Option<&str>) -> Verdict {
        let seen = match commonest {
            Some(error) => format!("{failed} of {all} requests failed, {MOST_OFTEN}{error}"),
            None => format!("{failed} of {all} requests failed"),
        };
        let failure = Failure::new(Cause::RequestErrors, seen);
        match failed {
            _ if failed as f64 > MOST_FAILED * all as f64 => Verdict::Void(failure),
            0 => Verdict::Sound,
            _ => Verdict::Suspect(failure),
        }
    }

    /// The reason for care, if there is one.
    pub fn objection(&self) -> Option<&Failure> {
        match self {
            Verdict::Sound => None,
            Verdict::Suspect(failure) | Verdict::Void(failure) => Some(failure),
        }
    }
}

/// Performs one run. Dropping the future ends the run's requests and processes at once.
pub async fn measure(job: &Job) -> Result<Measurement, Failure> {
    probe(job, None).await
}

/// The same, ended as soon as the watch has seen enough. Only the load generator can be watched; all others run to their
/// end.
pub async fn probe(job: &Job, watch: Option<Watch>) -> Result<Measurement, Failure> {
    match &job.argv {
        Some(argv) => external::measure(job, argv).await,
        None => match job.runner {
            Runner::Native => {
                let measured = native::measure(job, watch).await;
                native::stop_profiler(job).await;
                measured
            }
            Runner::Iterations => iterations::measure(job).await,
            Runner::Phases => phases::measure(job).await,
        },
    }
}

/// Everything that is wrong with the parameters of one of our benchmarks, as sentences.
pub fn check(runner: Runner, params: &Params) -> Vec<String> {
    match runner {
        Runner::Native => native::check(params),
        Runner::Iterations => iterations::check(params),
        Runner::Phases => phases::check(params),
    }
}
