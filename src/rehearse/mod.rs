//! Plays the whole plan in virtual time: the schedule and the searches of the real run, on a simulated engine. So it predicts, before the
//! real run begins, the duration and the disk space of that run, and the servers that will probably not fit.
//!
//! All results are predictions and must be shown as such. A rehearsal starts no process, opens no connection and writes nothing.

mod assumptions;
mod budget;
mod imagined;
mod learn;
mod load;
mod moved;
mod packed;
mod plays;
mod server;
mod spread;
mod stage;
mod threads;
pub mod twin;

pub use budget::{Budget, Limits};
pub use learn::SharedGraphs;
pub use load::{Play, Player};
pub use moved::moved_results;
pub use packed::Packing;
pub use plays::{PlayCache, Timing};
pub use server::{ModelledServer, needs_gpu};
pub use spread::{ServerConstants, TimeFactor, TimeInterval, Total};

use crate::agenda::{Predictions, Schedule, needs_predictions, optimization, wants_forecast};
use crate::cause::Failure;
use crate::evidence::Results;
use crate::ids::{SearchId, ServerId};
use crate::journal::{Optimization, State};
use crate::matrix::ServerConfig;
use crate::plan::Plan;
use crate::run::Forecasts;
use crate::search::Found;
use crate::sim::engine::gpu::Gpu;
use crate::table::count_gpus;
use assumptions::assumptions;
use learn::Calibration;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use twin::{Twin, TwinSource};

/// Input of a rehearsal in addition to the plan.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The GPU of real servers. Nothing is predicted of them without it.
    pub card: Option<Card>,
    /// Number of GPUs of the machine, for servers that run at the same time.
    pub gpus: u32,
    /// Source of that number, as a phrase.
    pub gpus_source: &'static str,
    /// The `config.json` of the model of a real server.
    pub model_config: Option<PathBuf>,
    /// Limits of the computation.
    pub limits: Limits,
    /// True if a session works on the rehearsed plan. A server that is up then needs no start.
    pub at_work: bool,
    /// Cache of played runs, for repeated predictions.
    pub plays: Arc<PlayCache>,
    /// Measured runs by which the engine model is calibrated.
    pub known: Arc<TwinSource>,
    /// Constants of the engine model from measured runs, if they are known.
    pub calibrated: Option<Arc<ServerConstants>>,
    /// Index of a constant of the twin that is made one standard deviation larger than its likely value.
    pub moved: Option<usize>,
}

impl Options {
    /// Returns the twin of servers like this one, and these options with its constants. They are nominal without a twin: for a simulated
    /// server, or if no such server was measured or the fit fails, and no constant is moved.
    fn with_twin(
        &self,
        record: &State,
        plan: &Plan,
        server: &ServerConfig,
    ) -> (Options, Result<Option<Arc<Twin>>, Unknown>) {
        let nominal = Options {
            calibrated: None,
            ..self.clone()
        };
        let modelled = ModelledServer::of(server, &nominal)
            .ok()
            .filter(|modelled| !modelled.is_simulator);
        let settings = modelled.and_then(|modelled| modelled.settings);
        let twin = settings.map_or(Ok(None), |settings| {
            let twin = self.known.twin(record, plan, &settings.cost, &nominal);
            let Some(constant) = self.moved else { return twin };
            let twin = twin.ok().flatten();
            let twin = twin.unwrap_or_else(|| Arc::new(Twin::prior(&settings.cost)));
            Ok(Some(Arc::new(twin.moved(constant))))
        });
        let fitted = twin.as_ref().ok().and_then(Option::as_ref);
        let calibrated = fitted.map(|twin| Arc::new(twin.calibrated()));
        nominal
            .plays
            .set_constants(calibrated.as_ref().map(|calibrated| calibrated.constants));
        (Options { calibrated, ..nominal }, twin)
    }
}

/// A GPU, and the source of that knowledge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Card {
    /// The GPU.
    pub gpu: Gpu,
    /// Source of the GPU's name, as a phrase.
    pub source: &'static str,
    /// True if this machine may have another GPU, or none.
    pub is_assumed: bool,
}

/// The reason why a plan cannot be rehearsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The rehearsal takes more computing than allowed.
    #[error("there is too much to compute")]
    TooMuch,
    /// A fact is unknown. The sentence names the fact, and ends with the remedy, if there is one.
    #[error("{0}")]
    Because(String),
}

impl From<String> for Unknown {
    fn from(why: String) -> Unknown {
        Unknown::Because(why)
    }
}

/// A point or search of the plan that will probably fail.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loss {
    /// Its name for display.
    pub point: String,
    /// The reason.
    #[serde(flatten)]
    pub failure: Failure,
}

/// The predicted answer of a search for one of its targets.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedAnswer {
    /// The search.
    pub search: SearchId,
    /// The target.
    pub target: String,
    /// The workload; empty if it is the only one.
    pub workload: String,
    /// The verdict, with the load if there is one.
    pub found: Found,
    /// The load at which the limit probably lies, if it may exceed the answer by more than the tolerance.
    pub limit: Option<f64>,
}

impl PredictedAnswer {
    /// Returns the target, and the workload if there are several: `chat`, or `chat, long prompts`.
    pub fn name(&self) -> String {
        match self.workload.as_str() {
            "" => self.target.clone(),
            workload => format!("{}, {workload}", self.target),
        }
    }
}

/// Prediction for one server config.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forecast {
    /// The server config.
    pub server: ServerId,
    /// Its name for display.
    pub name: String,
    /// Number of its starts.
    pub starts: u32,
    /// Number of runs on it, those of searches included.
    pub runs: u64,
    /// Number of those runs without a prediction, because they cannot be played. A search that cannot be played counts once.
    pub unknown_runs: u64,
    /// Answers of its searches.
    pub answers: Vec<PredictedAnswer>,
    /// Reason why it will likely not become ready, or not even be started.
    pub failure: Option<Failure>,
    /// Points and searches that will likely fail on it.
    pub losses: Vec<Loss>,
    /// Size of its files, in bytes.
    pub disk_bytes: u64,
    /// Total duration.
    pub total: Total,
    /// The results of its first start, if an optimisation that has not begun may choose it.
    pub results: Option<Results>,
    /// The compiled graphs that it may share with other servers; `None` if it will not become ready.
    pub shared: Option<SharedGraphs>,
}

/// Prediction for a whole plan, or for its remaining part.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rehearsal {
    /// Forecasts of the servers, in the order of the plan.
    pub servers: Vec<Forecast>,
    /// Total duration.
    pub total: Total,
    /// Division of the machine, if its servers run at the same time.
    pub packed: Option<Packing>,
    /// Size of all files, in bytes.
    pub disk_bytes: u64,
    /// Assumptions, as sentences.
    pub assumptions: Vec<String>,
    /// Sources of the calibration, as phrases such as `3 measured server starts`.
    pub learned_from: Vec<String>,
    /// The twin that predicted the runs, if runs of such servers were measured.
    pub twin: Option<Arc<Twin>>,
    /// Likely GPU-hours; `None` for simulated servers, unless the plan gives GPUs a price.
    pub gpu_hours: Option<f64>,
    /// The cost of these GPU-hours, if the plan gives GPUs a price.
    pub cost: Option<f64>,
    /// Time of further work after which the plan begins nothing more.
    pub time_left: Option<Duration>,
}

impl Rehearsal {
    /// Number of all server starts.
    pub fn starts(&self) -> u64 {
        self.servers.iter().map(|server| u64::from(server.starts)).sum()
    }

    /// Number of all runs, those of searches included.
    pub fn runs(&self) -> u64 {
        self.servers.iter().map(|server| server.runs).sum()
    }

    /// Returns the time left, if the likely time exceeds it or if it is spent.
    pub fn binding_limit(&self) -> Option<Duration> {
        let likely = self.total.interval().likely;
        self.time_left
            .filter(|left| left.is_zero() || left.as_secs_f64() < likely)
    }

    /// Returns true if a server or a run will probably fail.
    pub fn foresees_failures(&self) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|server| server.failure.is_some() || !server.losses.is_empty())
    }

    /// Number of runs without a prediction.
    pub fn unknown_runs(&self) -> u64 {
        self.servers.iter().map(|server| server.unknown_runs).sum()
    }
}

/// The common input for playing the servers of a plan.
struct Rehearser<'a> {
    schedule: Schedule<'a>,
    options: &'a Options,
    calibration: &'a Calibration,
    budget: &'a Budget,
    /// The optimisation, if it has not begun.
    optimization: Option<Optimization>,
    /// Servers that were never ready, and whose graphs another one compiles before their first start.
    compiled_by_others: HashSet<ServerId>,
}

/// Rehearses the rest of the schedule after `done`, with a calibration by `record`.
pub fn rehearse(schedule: Schedule<'_>, done: &State, record: &State, options: &Options) -> Result<Rehearsal, Unknown> {
    let Schedule { plan, matrix, .. } = schedule;
    let mut rehearsal = Rehearsal {
        disk_bytes: stage::BASE_BYTES,
        ..Rehearsal::default()
    };
    let mut starts = schedule.foreseen(done);
    let Some(first) = starts.find(|start| schedule.has_group(start, done)) else {
        return Ok(rehearsal);
    };
    rehearsal.time_left = schedule.time_left(done);
    let (options, twin) = &options.with_twin(record, plan, &first.server);
    let stand_in = match ModelledServer::of(&first.server, options) {
        Err(_) if learn::is_measured(record) => ModelledServer::measured(record),
        known => known?,
    };
    let calibration = Calibration::from(record, plan, matrix, &stand_in, options);
    let rehearser = Rehearser {
        schedule,
        options,
        calibration: &calibration,
        budget: &Budget::new(&options.limits),
        optimization: match needs_predictions(plan, matrix, done.optimization()) {
            true => optimization(plan, matrix, None, &Predictions::new(), None),
            false => None,
        },
        compiled_by_others: calibration.compiled_by_others(&schedule, done, options),
    };
    rehearsal.servers = rehearser.perform(done)?;
    for forecast in &rehearsal.servers {
        rehearsal.total += forecast.total;
        rehearsal.disk_bytes += forecast.disk_bytes;
    }
    rehearsal.packed = packed::pack(plan, schedule.servers(), &rehearsal.servers, options)?;
    if let Some(packed) = &rehearsal.packed {
        rehearsal.total = packed.total(&rehearsal.servers);
    }
    let price = plan.report.price_per_gpu_hour;
    if !stand_in.is_simulator || price.is_some() {
        rehearsal.gpu_hours = gpu_hours(plan, schedule.servers(), &rehearsal.servers, options);
        rehearsal.cost = price.zip(rehearsal.gpu_hours).map(|(price, hours)| hours * price);
    }
    rehearsal.assumptions = assumptions(plan, &stand_in, options, twin.as_ref().err());
    rehearsal
        .assumptions
        .extend(rehearsal.packed.as_ref().and_then(Packing::remark));
    rehearsal.learned_from = calibration.sources;
    rehearsal.twin = twin.clone().ok().flatten();
    Ok(rehearsal)
}

/// Returns the likely time for which the servers of some forecasts occupy their GPUs, in GPU-hours; `None` if their number is unknown.
fn gpu_hours(
    plan: &Plan,
    servers: impl Iterator<Item = ServerConfig>,
    forecasts: &[Forecast],
    options: &Options,
) -> Option<f64> {
    let gpus = |server: &ServerConfig| match packed::gpus_of(plan, server, options).len() {
        0 => count_gpus(&server.params, &server.argv),
        given => Some(given as f64),
    };
    let gpus: HashMap<ServerId, Option<f64>> = servers.map(|server| (server.id.clone(), gpus(&server))).collect();
    let hours = |forecast: &Forecast| {
        let gpus = gpus.get(&forecast.server).copied().unwrap_or(Some(0.0))?;
        Some(gpus * forecast.total.interval().likely / 3600.0)
    };
    forecasts.iter().map(hours).sum()
}

/// Predicts the answers of searches that have not begun yet and that a first guess would help, as far as the limits of computation allow.
/// Searches start at these answers.
pub fn foresee(schedule: Schedule<'_>, done: &State, options: &Options) -> Forecasts {
    let budget = Budget::new(&options.limits);
    let mut forecasts = Forecasts::new();
    if schedule.plan.sla.is_none() {
        return forecasts;
    }
    let first = schedule.starts().next();
    let options = &match first {
        Some(start) => options.with_twin(done, schedule.plan, &start.server).0,
        None => return forecasts,
    };
    for start in schedule.starts() {
        let Some(group) = schedule.group(&start, done).filter(|group| !group.searches.is_empty()) else {
            continue;
        };
        let Ok(stand_in @ ModelledServer { failure: None, .. }) = ModelledServer::of(&start.server, options) else {
            continue;
        };
        let calibration = Calibration::prior(&stand_in);
        let rehearser = Rehearser {
            schedule,
            options,
            calibration: &calibration,
            budget: &budget,
            optimization: None,
            compiled_by_others: HashSet::new(),
        };
        let open = group
            .searches
            .iter()
            .filter(|search| wants_forecast(search, schedule.plan, done));
        for search in open {
            match stage::foresee(&rehearser, &group, &stand_in, done, search) {
                Ok(forecast) => forecasts.insert(search.id.clone(), forecast),
                Err(Unknown::TooMuch) => return forecasts,
                Err(Unknown::Because(_)) => None,
            };
        }
    }
    forecasts
}

impl Forecast {
    /// Adds the forecast of another start of the same server.
    fn add(&mut self, other: Forecast) {
        self.starts += other.starts;
        self.runs += other.runs;
        self.unknown_runs += other.unknown_runs;
        self.answers.extend(other.answers);
        self.failure = self.failure.take().or(other.failure);
        let is_new = |loss: &Loss| !self.losses.iter().any(|known| known.point == loss.point);
        let new: Vec<Loss> = other.losses.into_iter().filter(is_new).collect();
        self.losses.extend(new);
        self.disk_bytes += other.disk_bytes;
        self.total += other.total;
        self.results = self.results.take().or(other.results);
    }
}
