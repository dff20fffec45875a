//! The predictions that appear without a rehearsal: the likely duration of the whole plan or its remaining work, and servers that do not
//! fit on this machine. `plan`, `run` and `status` share one forecast. Servers that do not fit, and the forecast at the
//! beginning of a sweep, are shown only if the GPU is known; other predictions may assume one.

use super::output;
use super::sweep::plan::rehearse::{AssumedMachine, calibrated, failing, failures_in_words, sentence};
use crate::agenda::Schedule;
use crate::cause::{Cause, Failure};
use crate::journal::{Directory, Entry, Event, State};
use crate::matrix::{Matrix, ServerConfig};
use crate::plan::Plan;
use crate::rehearse::{Limits, ModelledServer, Options, Rehearsal, Unknown, needs_gpu, rehearse};
use crate::run::Sweep;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

/// Most tokens that a forecast computes without a rehearsal. They take about a second.
pub const MOST_TOKENS: u64 = 100_000_000;

/// Maximum sum of the runs, searches and servers of a plan that is played without a rehearsal.
const MOST_RUNS: u64 = 20_000;

/// Time limit of a forecast without a rehearsal.
const LONGEST: Duration = Duration::from_secs(10);

/// Most servers that are checked for misfits.
const MOST_SERVERS: usize = 1000;

/// Returns the options of forecasts without a rehearsal.
pub fn options(plan: &Plan, matrix: &Matrix) -> Options {
    AssumedMachine::default().options(plan, matrix, limits(MOST_TOKENS))
}

/// Returns the options of forecasts for an experiment directory.
pub fn options_at(plan: &Plan, matrix: &Matrix, directory: &Directory) -> Options {
    calibrated(directory, options(plan, matrix))
}

/// Returns the limits of a forecast without a rehearsal.
pub fn limits(tokens: u64) -> Limits {
    Limits {
        tokens: Some(tokens),
        time: Some(LONGEST),
        ..Limits::default()
    }
}

/// Predicts the duration of the part of a schedule that is not in `done`, calibrated by `record`. The error is the reason why the duration
/// cannot be predicted.
pub fn estimate(schedule: Schedule<'_>, done: &State, record: &State, options: &Options) -> Result<Rehearsal, String> {
    let counts = schedule.matrix.counts();
    let large = "the plan is too large for a quick prediction; `vsweep plan --rehearse` makes one";
    if !is_playable(counts.runs, counts.searches, counts.servers) {
        return Err(large.to_owned());
    }
    rehearse(schedule, done, record, options).map_err(|why| match why {
        Unknown::TooMuch => large.to_owned(),
        Unknown::Because(why) => why,
    })
}

/// Returns true if a plan of this size is played without a rehearsal.
pub fn is_playable(runs: u64, searches: u64, servers: u64) -> bool {
    runs.saturating_add(searches).saturating_add(servers) <= MOST_RUNS
}

/// Returns the likely duration of the remaining work, in seconds. `None` if it cannot be predicted, or nothing was measured yet.
pub fn seconds_left(schedule: Schedule<'_>, state: &State, options: &Options) -> Option<f64> {
    state.runs().next()?;
    if schedule.plan.optimize.is_some() {
        // The number of starts that follow is unknown.
        return None;
    }
    let rehearsal = estimate(schedule, state, state, options).ok()?;
    Some(rehearsal.total.interval().likely)
}

/// Returns true if the GPU that a plan needs is known.
pub fn is_known(matrix: &Matrix, options: &Options) -> bool {
    !needs_gpu(matrix) || options.card.is_some_and(|card| !card.is_assumed)
}

/// Returns the servers of a plan that cannot start on this machine, with the failures; none if the GPU is unknown. Wrong flags are left
/// out; they are reported elsewhere.
pub fn misfits(plan: &Plan, matrix: &Matrix) -> Vec<(String, Failure)> {
    let options = options(plan, matrix);
    if !is_known(matrix, &options) {
        return Vec::new();
    }
    let servers = matrix.servers().take(MOST_SERVERS);
    let failure = |server: ServerConfig| {
        let failure = ModelledServer::of(&server, &options).ok()?.failure?;
        (failure.cause != Cause::BadFlag).then(|| (plan.secrets.redact(&server.name), failure))
    };
    servers.filter_map(failure).collect()
}

/// Expected duration of the first server's start, in seconds; `None` if it is predicted to fail, or the GPU is unknown.
pub fn first_start(matrix: &Matrix, options: &Options) -> Option<f64> {
    let first = ModelledServer::of(&matrix.servers().next()?, options).ok()?;
    (is_known(matrix, options) && first.failure.is_none()).then_some(first.start_s)
}

/// Prints the likely duration of the remaining work, from its estimate, and the servers that will likely fail. Such servers do not end the
/// sweep.
pub fn print_forecast(sweep: &Sweep<'_>, state: &State, estimate: &Result<Rehearsal, String>) {
    let (plan, wanted) = (sweep.plan, sweep.wanted);
    let failing = match estimate {
        Ok(rehearsal) => {
            if !rehearsal.servers.is_empty() {
                output::print_note(sentence(plan, state, rehearsal));
            }
            failing(rehearsal)
        }
        // Without a rehearsal, only the starts of the servers are predicted.
        Err(_) => misfits(plan, wanted),
    };
    failures(plan, failing).into_iter().for_each(output::print_note);
}

/// Describes servers that will likely fail, in a sentence for each failure.
pub fn failures(plan: &Plan, mut failing: Vec<(String, Failure)>) -> Vec<String> {
    // The order of an optimisation decides which of them is started and rules out the others.
    failing.retain(|(_, failure)| plan.optimize.is_none() || failure.ruled_out.is_none());
    failures_in_words(&failing)
}

// The time left of a sweep in progress. When a result was recorded, the time left is predicted on a separate thread, so that forecasts
// delay neither the sweep nor signals.

/// Most tokens that a forecast computes while the sweep runs.
const MOST_TOKENS_MEANWHILE: u64 = 2_000_000;

/// Pause after a forecast, as a multiple of the time that it took.
const PAUSE_FACTOR: u32 = 100;

/// Predicts the time left repeatedly while a sweep runs.
pub struct Countdown {
    /// Channel to the thread; `None` if the system refused a thread.
    records: Option<Sender<State>>,
    shared: Arc<Mutex<Shared>>,
    is_cancelled: Arc<AtomicBool>,
}

#[derive(Default)]
struct Shared {
    /// The last forecast in seconds, and the time at which it was made.
    last: Option<(Instant, f64)>,
    /// Time at which the next forecast may begin; `None` while a forecast is under way.
    next: Option<Instant>,
}

impl Countdown {
    /// Starts a countdown of the remaining work of a schedule, on a thread of `scope`. `options` has the results of earlier forecasts of
    /// this schedule.
    pub fn start<'s, 'e>(scope: &'s Scope<'s, 'e>, schedule: Schedule<'e>, options: &Options) -> Countdown {
        let limits = limits(MOST_TOKENS_MEANWHILE);
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

    /// The time left after an event, in seconds, by the last forecast. The event may begin another forecast.
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
            next: Some(ended + (ended - began) * PAUSE_FACTOR),
        };
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
