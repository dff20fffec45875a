//! Plays one server group in virtual time. The agenda is that of a real run. The stage plays each action on the simulated engine and adds
//! up the times.

use super::Rehearser;
use super::budget::Steps;
use super::imagined::RehearsalRecord;
use super::learn::{OVERHEAD, PAUSE_S, REPEATED, USUAL, USUAL_PROBES};
use super::load::{Play, Player, overhead_s};
use super::plays::Timing;
use super::server::ModelledServer;
use super::spread::Time;
use super::{Forecast, Loss, SharedGraphs, Unknown};
use crate::agenda::{
    Action, ActionOutcome, Agenda, Ending, Group, Hint, Hints, MeasuredRun, ReadyInfo, Run, RunReader, Schedule,
    wants_forecast,
};
use crate::bench::params_of;
use crate::cause::{Cause, Failure};
use crate::ids::{SearchId, ServerId};
use crate::journal::{FIRST_SLOT, ServerReady, ServerRecord, State};
use crate::matrix::{LoadExploration, LoadSearch, Point};
use crate::plan::{BenchRunner, Offline, Plan, Reset, Warmup, spelling};
use crate::run::{NoSignals, Stage, drive, reduce};
use crate::search::ExploreSettings;
use crate::server::answers;
use futures_util::FutureExt;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Size of the report, charts, manifest and plan of a sweep, in bytes. All sizes in this file were measured on real directories and rounded
/// up.
pub const BASE_BYTES: u64 = 2_000_000;
/// Size of a run's result without its lists, plus its journal lines and its rows in the tables, in bytes.
const RUN_BYTES: u64 = 12_000;
/// Size of a request's part of a result, in bytes.
const REQUEST_BYTES: u64 = 45;
/// Size of a request's part of a result that keeps the figures of every request, in bytes.
const DETAILED_REQUEST_BYTES: u64 = 6_000;

/// Upper bound of the steps of an agenda per run. Steps are actions and events; those of a second try and of a new server are included.
const STEPS_OF_RUN: u64 = 64;

/// The stage of a rehearsal.
struct VirtualStage<'a> {
    rehearser: &'a Rehearser<'a>,
    stand_in: &'a ModelledServer,
    player: Player<'a>,
    forecast: &'a RefCell<Forecast>,
    steps: &'a Steps<'a>,
    /// Number of runs that each exploration still lacks.
    runs_left: BTreeMap<SearchId, usize>,
    /// True if the server is already up and needs no start.
    is_up: bool,
    /// True if its graphs are compiled.
    is_compiled: bool,
}

/// Plays a group. The error is the reason why it cannot be played.
pub(super) fn play_group(
    rehearser: &Rehearser<'_>,
    group: Group,
    stand_in: &ModelledServer,
    state: &mut State,
) -> Result<(Forecast, Ending), Unknown> {
    let mut hints = Hints::new();
    let plan = rehearser.schedule.plan;
    let is_open = |search: &&LoadSearch| stand_in.failure.is_none() && wants_forecast(search, plan, state);
    for search in group.searches.iter().filter(is_open) {
        let forecast = Some(foresee(rehearser, &group, stand_in, state, search)?);
        let lengths = None;
        hints.insert(search.id.clone(), Hint { forecast, lengths });
    }
    play(rehearser, group, hints, stand_in, state)
}

/// Plays a search to its end on a copy of the state, and returns the loads that it finds, by target.
pub(super) fn foresee(
    rehearser: &Rehearser<'_>,
    group: &Group,
    stand_in: &ModelledServer,
    state: &State,
    search: &LoadSearch,
) -> Result<BTreeMap<String, f64>, Unknown> {
    let alone = Group {
        searches: vec![search.clone()],
        ..Group::of(group.server.clone(), group.slot)
    };
    let (forecast, _) = play(rehearser, alone, Hints::new(), stand_in, &mut state.clone())?;
    let answers = forecast.answers.into_iter();
    Ok(answers
        .filter_map(|answer| Some((answer.target, answer.found.value()?)))
        .collect())
}

fn play(
    rehearser: &Rehearser<'_>,
    group: Group,
    hints: Hints,
    stand_in: &ModelledServer,
    state: &mut State,
) -> Result<(Forecast, Ending), Unknown> {
    let (plan, server) = (rehearser.schedule.plan, &group.server);
    let is_up = rehearser.options.at_work && is_up(state, &server.id, group.slot);
    let was_ready = state.servers.get(&server.id).is_some_and(ServerRecord::was_ready);
    let is_compiled = group.slot > FIRST_SLOT || was_ready || rehearser.compiled_by_others.contains(&server.id);
    let start = &rehearser.calibration.start;
    let saved_s = start.time(stand_in.start_s).likely - start.time(stand_in.warm_start_s).likely;
    let shared = stand_in.graphs().map(|key| SharedGraphs {
        key,
        saved_s,
        is_compiled,
    });
    let forecast = RefCell::new(Forecast {
        server: server.id.clone(),
        name: plan.secrets.redact(&server.name),
        shared,
        ..Forecast::default()
    });
    let lacking = |planned: &LoadExploration| {
        let measured = state.levels(&planned.id, group.slot).count();
        (planned.id.clone(), runs_of(&planned.settings).saturating_sub(measured))
    };
    let runs_left = group.explorations.iter().map(lacking).collect();
    let steps = rehearser
        .budget
        .steps(STEPS_OF_RUN * most_runs(&group, rehearser.schedule));
    let gpus = super::packed::gpus_of(plan, server, rehearser.options);
    let mut agenda = Agenda::new(rehearser.schedule, group, hints, state).on(gpus);
    let mut stage = VirtualStage {
        rehearser,
        stand_in,
        player: Player::new(stand_in, plan.serve.reset == Reset::Nothing, reads_gaps(plan)),
        forecast: &forecast,
        steps: &steps,
        runs_left,
        is_up,
        is_compiled,
    };
    let writer = RehearsalRecord::new(state, &forecast, &steps, rehearser.optimization.is_some());
    let driven = drive(&mut agenda, &mut stage, &writer, &mut NoSignals).now_or_never();
    let ending = driven.expect("virtual time never waits")?;
    Ok((forecast.into_inner(), ending))
}

/// Returns true if a target of a plan needs the gaps between tokens.
pub(super) fn reads_gaps(plan: &Plan) -> bool {
    let mut targets = plan.sla.iter().flat_map(|sla| &sla.targets);
    targets.any(|target| {
        target
            .criteria
            .iter()
            .any(|criterion| criterion.to_string().contains("itl"))
    })
}

/// Returns an upper bound of the runs that all strategies ask for on one start.
fn most_runs(group: &Group, schedule: Schedule<'_>) -> u64 {
    let searches = group.searches.iter().map(|search| 2 * search.settings.max_probes);
    // If the server fails at saturation, the load is halved, at most once for each of its 64 bits.
    let explorations = group.explorations.iter().map(|planned| runs_of(&planned.settings) + 64);
    let searched: usize = searches.chain(explorations).map(|runs| runs + 1).sum();
    let planned = group.grid.as_ref().map_or(0, |grid| grid.most(schedule));
    planned + searched as u64 + 1
}

/// Number of runs of an exploration, if its first and its highest load can be measured.
fn runs_of(settings: &ExploreSettings) -> usize {
    settings.levels.max(2) * settings.runs.max(1) as usize
}

impl Stage for VirtualStage<'_> {
    type Error = Unknown;

    async fn act(&mut self, action: Action) -> Result<ActionOutcome, Unknown> {
        self.steps.take()?;
        Ok(match action {
            // Each group is played by itself. The time for which groups wait for each other is added when they are packed.
            Action::Await => ActionOutcome::Permitted,
            Action::Start(_) => ActionOutcome::Started(self.start()),
            Action::Check => ActionOutcome::Unchanged,
            Action::Reset => ActionOutcome::Reset {
                result: Ok(()),
                seconds: 0.0,
            },
            Action::Run(job) => self.run(&job)?,
            Action::Stop | Action::Kill => ActionOutcome::Stopped {
                seconds: 0.0,
                held_seconds: None,
            },
        })
    }
}

impl VirtualStage<'_> {
    fn start(&mut self) -> Result<ReadyInfo, Failure> {
        let ModelledServer { failure, .. } = self.stand_in;
        let (plan, calibration) = (self.rehearser.schedule.plan, self.rehearser.calibration);
        let mut forecast = self.forecast.borrow_mut();
        let start_s = match failure {
            _ if self.is_up => 0.0,
            Some(failure) if failure.cause == Cause::ReadyTimeout => plan.serve.ready_timeout.as_secs_f64(),
            None if self.is_compiled || forecast.starts > 0 => self.stand_in.warm_start_s,
            _ => self.stand_in.start_s,
        };
        forecast.starts += 1;
        forecast.total.starts += calibration.start.time(start_s + self.stand_in.stop_s);
        // The size of the server's log.
        forecast.disk_bytes += if self.stand_in.is_simulator { 50_000 } else { 200_000 };
        forecast.failure.clone_from(failure);
        if let Some(failure) = failure {
            return Err(failure.clone());
        }
        if plan.serve.answer_check && !self.is_up {
            forecast.total.starts += calibration.run.time(self.questions_s());
        }
        let recorded = ServerReady {
            seconds: start_s,
            ..ServerReady::default()
        };
        Ok(ReadyInfo {
            recorded,
            kv_tokens: None,
        })
    }

    /// Returns the duration of the fixed questions after a start, in seconds. Each is asked alone, then all at once. The long questions are
    /// left out, because they take little time.
    fn questions_s(&self) -> f64 {
        let rounds = answers::PROMPTS + 1;
        let params = json!({"random_input_len": 30, "random_output_len": answers::TOKENS, "num_prompts": rounds, "max_concurrency": 1});
        let played = Player::new(self.stand_in, false, false).play(Play {
            params: params.as_object().expect("an object"),
            warmup: Warmup::Requests(0),
            watch: None,
            limit: self.rehearser.schedule.plan.bench.timeout,
            budget: self.rehearser.budget,
        });
        // A server whose `max_model_len` is too small rejects the questions.
        played.map_or(0.0, |(timing, _)| timing.seconds)
    }

    fn run(&mut self, job: &Run) -> Result<ActionOutcome, Unknown> {
        let (point, calibration) = (&job.task.point, self.rehearser.calibration);
        let is_of_grid = job.task.reader.is_none();
        self.rehearser.options.plays.count_run();
        if is_of_grid && let Some(seconds) = calibration.measured(&point.id) {
            let load = REPEATED.time(calibration.usual_warmup(job) + seconds);
            self.count(point, 0, [load, calibration.pause.time(PAUSE_S)]);
            return Ok(ran(Ok(MeasuredRun::default()), seconds));
        }
        let plays = &self.rehearser.options.plays;
        if is_of_grid && let Some(timing) = plays.point(&point.id, job.task.slot) {
            self.count_played(job, &timing);
            let measured = MeasuredRun {
                learned: timing.learned,
                ..MeasuredRun::default()
            };
            let result = timing.failure.map_or(Ok(measured), Err);
            return Ok(ran(result, timing.seconds));
        }
        self.play(job)
    }

    /// Plays one run. If its benchmark cannot be played, the run is only counted.
    fn play(&mut self, job: &Run) -> Result<ActionOutcome, Unknown> {
        let (plan, point) = (self.rehearser.schedule.plan, &job.task.point);
        let params = match (&plan.bench.runner, &point.argv) {
            _ if self.stand_in.settings.is_none() => None,
            (BenchRunner::Iterations | BenchRunner::Phases | BenchRunner::Offline(_), _) => None,
            (_, Some(argv)) => params_of(argv),
            (_, None) => Some(job.task.params()),
        };
        let Some(params) = params else {
            return Ok(self.count_unplayed(job));
        };
        let played = self.player.play(Play {
            params: &params,
            warmup: job.warmup,
            // An external benchmark cannot be ended early.
            watch: job.task.watch().filter(|_| point.argv.is_none()).cloned(),
            limit: plan.bench.timeout,
            budget: self.rehearser.budget,
        });
        let (mut timing, measurement) = match played {
            Err(Unknown::TooMuch) if self.rehearser.calibration.usual(point).is_some() => {
                return Ok(self.count_unplayed(job));
            }
            played => played?,
        };
        let timeout = plan.bench.timeout.as_secs_f64();
        let limit = (timeout - overhead_s(point.argv.as_deref()).unwrap_or_default()).max(0.0);
        let result = match measurement {
            _ if timing.seconds > limit => {
                let detail = format!(
                    "it likely takes {:.0} s, and bench.timeout is {} s",
                    timing.seconds,
                    plan.bench.timeout.as_secs()
                );
                Err(Failure::new(Cause::BenchTimeout, detail))
            }
            None => Err(Failure::new(
                Cause::RequestErrors,
                "every request would be refused: prompt and output are longer than max_model_len",
            )),
            Some(measurement) => Ok(reduce(measurement, &job.task, false)),
        };
        timing.seconds = timing.seconds.min(limit);
        timing.failure = match &result {
            Ok(ran) => ran.failure.clone(),
            Err(failure) => Some(failure.clone()),
        };
        timing.learned = result.as_ref().ok().and_then(|ran| ran.learned.clone());
        self.count_played(job, &timing);
        let seconds = timing.seconds;
        if job.task.reader.is_none() {
            self.rehearser.options.plays.keep(&point.id, job.task.slot, timing);
        }
        Ok(ran(result, seconds))
    }

    /// Counts a run that cannot be played. If runs were measured, the run takes as long as those. A search then counts as the usual number
    /// of runs, and an exploration as the runs that it lacks. If none was measured, only the time of `vllm bench startup` is known: the
    /// benchmark starts engines, and the first of these starts was already counted as the start of a server.
    fn count_unplayed(&mut self, job: &Run) -> ActionOutcome {
        let (point, calibration) = (&job.task.point, self.rehearser.calibration);
        let searched = job.task.reader.is_some();
        if let Some(seconds) = calibration.usual(point) {
            let runs = match &job.task.reader {
                None => 1.0,
                Some(RunReader::Search(_)) => USUAL_PROBES,
                Some(RunReader::Exploration { id, .. }) => self.runs_left.get(id).map_or(1.0, |left| *left as f64),
            };
            let load = USUAL.time(runs * (calibration.usual_warmup(job) + seconds));
            let times = [load, calibration.pause.time(runs * PAUSE_S)];
            self.count(point, 0, times);
            self.forecast.borrow_mut().unknown_runs += u64::from(searched);
            return ran(Ok(MeasuredRun::default()), seconds);
        }
        if self.rehearser.schedule.plan.bench.runner.offline() != Some(Offline::Startup) {
            self.count(point, 0, []);
            self.forecast.borrow_mut().unknown_runs += 1;
            return ran(Ok(MeasuredRun::default()), 0.0);
        }
        let defaults = [("num_iters_cold", 3), ("num_iters_warmup", 1), ("num_iters_warm", 3)];
        let count = |(name, default): (&str, u64)| {
            let given = spelling::find(&point.params, name).and_then(Value::as_u64);
            given.unwrap_or(default)
        };
        let more = defaults.map(count).iter().sum::<u64>().saturating_sub(1);
        let seconds = more as f64 * self.stand_in.start_s;
        self.count(point, 0, [calibration.start.time(seconds)]);
        ran(Ok(MeasuredRun::default()), seconds)
    }

    /// Counts a run that was played.
    fn count_played(&mut self, job: &Run, timing: &Timing) {
        let (point, calibration) = (&job.task.point, self.rehearser.calibration);
        let warmup_s = if job.is_warm { 0.0 } else { timing.warmup_s };
        let overhead = overhead_s(point.argv.as_deref()).unwrap_or_default();
        let load = calibration.run.time(warmup_s + timing.seconds);
        let times = [load, OVERHEAD.time(overhead), calibration.pause.time(PAUSE_S)];
        self.count(point, timing.requests, times);
        // A search tries loads at which runs fail, so its failed runs are not losses.
        if let (Some(failure), false) = (&timing.failure, matches!(job.task.reader, Some(RunReader::Search(_)))) {
            let point = self.rehearser.schedule.plan.secrets.redact(&point.name);
            let losses = &mut self.forecast.borrow_mut().losses;
            if !losses.iter().any(|loss| loss.point == point) {
                let failure = failure.clone();
                losses.push(Loss { point, failure });
            }
        }
    }

    /// Counts a run, and adds the size of its files and its times.
    fn count<const N: usize>(&mut self, point: &Point, requests: u64, times: [Time; N]) {
        let request_bytes = match point.params.get("save_detailed") {
            None | Some(Value::Bool(false)) => REQUEST_BYTES,
            Some(_) => DETAILED_REQUEST_BYTES,
        };
        let known = self.rehearser.calibration.run_bytes;
        let mut forecast = self.forecast.borrow_mut();
        forecast.runs += 1;
        forecast.disk_bytes += known.unwrap_or(RUN_BYTES + requests * request_bytes);
        times.into_iter().for_each(|time| forecast.total.runs += time);
    }
}

/// Returns true if the last known process of a server belongs to this start and is up.
fn is_up(state: &State, server: &ServerId, slot: u32) -> bool {
    let last = state.launches_of(server).last();
    last.is_some_and(|start| start.slot == slot && start.exited_at.is_none() && start.ready.is_some())
}

fn ran(result: Result<MeasuredRun, Failure>, seconds: f64) -> ActionOutcome {
    ActionOutcome::Ran {
        result: result.map(Box::new),
        seconds,
    }
}
