//! Calibrates a forecast by an experiment's own record: compares the durations of its starts and runs with those that the model predicts.

use super::load::{Play, Player, overhead_s};
use super::server::ModelledServer;
use super::spread::TimeFactor;
use super::{Budget, Options};
use crate::agenda::{Run, Schedule, Task, seeded};
use crate::bench::params_of;
use crate::cause::Outcome;
use crate::ids::{PointId, ServerId};
use crate::journal::{RunRecord, ServerRecord, State};
use crate::matrix::{Matrix, Point, ServerConfig};
use crate::plan::commands::flags;
use crate::plan::{BenchRunner, Params, Plan, Reset, Warmup};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Most recorded runs that are played for comparison. More would add little and take time.
const MOST_COMPARED: usize = 16;

/// Assumed time between two runs, in seconds: resets, files that are synced to disk, tables.
pub const PAUSE_S: f64 = 0.01;

/// Assumed number of runs of a search that cannot be played.
pub const USUAL_PROBES: f64 = 8.0;

/// Uncertainty of the time between two runs, because disks differ.
const PAUSE: TimeFactor = TimeFactor::of(1.0, 0.7);

/// Variation between repetitions of a measured point.
pub const REPEATED: TimeFactor = TimeFactor::of(0.02, 0.05);

/// Uncertainty of the time that a run takes in addition to its load.
pub const OVERHEAD: TimeFactor = TimeFactor::of(0.5, 0.3);

/// Uncertainty of runs that cannot be played and are predicted from measured ones.
pub const USUAL: TimeFactor = TimeFactor::of(0.3, 0.5);

/// Compiled graphs of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedGraphs {
    /// Key of the graphs, which servers with equal compile settings share.
    pub key: String,
    /// Time that they save a start, in seconds.
    pub saved_s: f64,
    /// True if the first start was predicted with compiled graphs.
    pub is_compiled: bool,
}

/// The calibration of a forecast by the record.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// Factor for server starts.
    pub start: TimeFactor,
    /// Factor for runs.
    pub run: TimeFactor,
    /// Factor for the time between two runs.
    pub pause: TimeFactor,
    /// Mean size of a run's file and rows, in bytes, if any was recorded.
    pub run_bytes: Option<u64>,
    /// The measurements used, in words.
    pub sources: Vec<String>,
    /// Durations of measured runs by their point, in seconds.
    by_point: HashMap<PointId, Vec<f64>>,
    /// Durations of measured runs by the name of their load, in seconds.
    by_load: HashMap<String, Vec<f64>>,
    /// Durations of all measured runs, in seconds.
    all: Vec<f64>,
    /// Durations of the warm-ups of measured runs by their point, in seconds.
    warmups: HashMap<PointId, Vec<f64>>,
    /// Mean duration of all these warm-ups, in seconds; `None` without any.
    mean_warmup: Option<f64>,
    /// The servers that were ready at least once.
    ready: HashSet<ServerId>,
    /// A server with the mean time of the recorded starts. It replaces servers that were ready although the model predicts their failure.
    recorded_server: ModelledServer,
    /// True if runs were measured. Then that server also replaces those that the model cannot predict.
    is_measured: bool,
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns true if any run was measured.
pub fn is_measured(state: &State) -> bool {
    state.runs().any(|run| has_result(&run))
}

/// Returns true if a run has a measured result, even a doubtful one.
pub fn has_result(run: &&RunRecord) -> bool {
    matches!(run.outcome, Outcome::Ok | Outcome::Suspect)
}

impl Calibration {
    /// Returns the calibration without any record, for servers like this one.
    pub fn prior(server: &ModelledServer) -> Calibration {
        Calibration {
            start: server.start_factor(),
            run: server.run_factor(),
            pause: PAUSE,
            run_bytes: None,
            sources: Vec::new(),
            by_point: HashMap::new(),
            by_load: HashMap::new(),
            all: Vec::new(),
            warmups: HashMap::new(),
            mean_warmup: None,
            ready: HashSet::new(),
            recorded_server: ModelledServer::default(),
            is_measured: false,
        }
    }

    /// Returns the calibration by the record of the plan's own experiment, for servers like this one.
    pub fn from(
        state: &State,
        plan: &Plan,
        matrix: &Matrix,
        server: &ModelledServer,
        options: &Options,
    ) -> Calibration {
        let mut calibration = Calibration::prior(server);
        if state.servers.is_empty() {
            return calibration;
        }
        let ready = state.servers.iter().filter(|(_, server)| server.was_ready());
        calibration.ready = ready.map(|(id, _)| id.clone()).collect();
        calibration.recorded_server = ModelledServer::measured(state);
        calibration.is_measured = is_measured(state);
        let ready = |server: ServerConfig| {
            let stand_in = calibration.stand_in(&server, options).ok()?;
            stand_in.failure.is_none().then_some((server.id, stand_in))
        };
        let stand_ins: BTreeMap<ServerId, ModelledServer> = matrix
            .servers()
            .filter(|server| state.servers.contains_key(&server.id))
            .filter_map(ready)
            .collect();
        calibration.learn_starts(state, &stand_ins);
        calibration.learn_runs(state, plan, &stand_ins, options);
        calibration.learn_pauses(state);
        calibration
    }

    /// Returns the mean duration of a point's measured runs, in seconds.
    pub fn measured(&self, point: &PointId) -> Option<f64> {
        mean(self.by_point.get(point)?)
    }

    /// Predicts the duration of the warm-up of a run that is not played, in seconds: the mean of those of its point, else of all.
    pub(super) fn usual_warmup(&self, run: &Run) -> f64 {
        if run.is_warm {
            return 0.0;
        }
        let of_point = self.warmups.get(&run.task.point.id).and_then(|warmups| mean(warmups));
        of_point.or(self.mean_warmup).unwrap_or(0.0)
    }

    /// Predicts the duration of a run that is not played, in seconds: the mean of the measured runs of its point, else of its load, else of
    /// all.
    pub(super) fn usual(&self, point: &Point) -> Option<f64> {
        let by_load = || mean(self.by_load.get(&point.name)?);
        self.measured(&point.id).or_else(by_load).or_else(|| mean(&self.all))
    }

    /// Returns a server as the model predicts it. A server that the model cannot predict is assumed to be like the measured ones. So is a
    /// server that was ready although the model predicts its failure.
    pub fn stand_in(&self, server: &ServerConfig, options: &Options) -> Result<ModelledServer, String> {
        match ModelledServer::of(server, options) {
            Ok(modelled) if modelled.failure.is_none() || !self.ready.contains(&server.id) => Ok(modelled),
            Err(why) if !self.is_measured => Err(why),
            _ => Ok(self.recorded_server.clone()),
        }
    }

    /// Returns the servers that were never ready, but whose graphs another server compiles first if servers start in the order of the plan.
    pub(super) fn compiled_by_others(
        &self,
        schedule: &Schedule<'_>,
        done: &State,
        options: &Options,
    ) -> HashSet<ServerId> {
        let is_ready = |server: &ServerId| done.servers.get(server).is_some_and(ServerRecord::was_ready);
        let graphs = |server: ServerConfig| Some((self.stand_in(&server, options).ok()?.graphs()?, server.id));
        let graphs = schedule.servers().filter_map(graphs);
        let (ready, others): (Vec<_>, Vec<_>) = graphs.partition(|(_, server)| is_ready(server));
        let mut known: HashSet<String> = ready.into_iter().map(|(graphs, _)| graphs).collect();
        let others = others.into_iter();
        others
            .filter_map(|(graphs, server)| (!known.insert(graphs)).then_some(server))
            .collect()
    }

    fn learn_starts(&mut self, state: &State, stand_ins: &BTreeMap<ServerId, ModelledServer>) {
        let starts = stand_ins.iter().filter(|(_, stand_in)| stand_in.start_s > 0.0);
        let starts = starts.flat_map(|(server, stand_in)| {
            let ready = state.launches_of(server).iter();
            ready.filter_map(move |start| Some((&*start.started_at, start.ready_seconds()?, stand_in)))
        });
        let mut starts: Vec<(&str, f64, &ModelledServer)> = starts.collect();
        starts.sort_by_key(|(started_at, ..)| *started_at);
        // Of several servers with equal graphs, the first start compiles them.
        let mut compiled = HashSet::new();
        let ratio = |(_, seconds, stand_in): &(&str, f64, &ModelledServer)| match compiled.insert(stand_in.graphs()) {
            true => seconds / stand_in.start_s,
            false => seconds / stand_in.warm_start_s,
        };
        let ratios: Vec<f64> = starts.iter().map(ratio).collect();
        if !ratios.is_empty() {
            self.sources.push(format!("{} measured server starts", ratios.len()));
            self.start = self.start.after(&ratios);
        }
    }

    /// Learns from the times between the ends of runs on one launch of a server, minus the runs themselves and their warm-ups.
    fn learn_pauses(&mut self, state: &State) {
        let end = |run: &RunRecord| {
            let at: jiff::Timestamp = run.finished_at.parse().ok()?;
            Some((run.launch?, at, run.seconds + run.warmup_seconds.unwrap_or(0.0)))
        };
        let mut ends: Vec<_> = state.runs().filter_map(end).collect();
        ends.sort_by_key(|(launch, at, _)| (*launch, *at));
        let same_launch = ends.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let pauses = same_launch.map(|pair| pair[1].1.duration_since(pair[0].1).as_secs_f64() - pair[1].2);
        let mut pauses: Vec<f64> = pauses.collect();
        pauses.sort_by(f64::total_cmp);
        if let Some(median) = pauses.get(pauses.len() / 2).filter(|median| **median > 0.0) {
            self.pause = self.pause.after(&vec![median / PAUSE_S; pauses.len().min(10)]);
        }
    }

    fn learn_runs(
        &mut self,
        state: &State,
        plan: &Plan,
        stand_ins: &BTreeMap<ServerId, ModelledServer>,
        options: &Options,
    ) {
        let runs: Vec<&RunRecord> = state.runs().filter(has_result).collect();
        if runs.is_empty() {
            return;
        }
        for run in &runs {
            self.by_point.entry(run.point.clone()).or_default().push(run.seconds);
            if let Some(seconds) = run.warmup_seconds {
                self.warmups.entry(run.point.clone()).or_default().push(seconds);
            }
            self.by_load.entry(run.name.to_string()).or_default().push(run.seconds);
            self.all.push(run.seconds);
        }
        let warmups: Vec<f64> = runs.iter().filter_map(|run| run.warmup_seconds).collect();
        self.mean_warmup = mean(&warmups);
        let sizes: Vec<u64> = runs.iter().filter_map(|run| Some(run.file.as_ref()?.bytes)).collect();
        if !sizes.is_empty() {
            self.run_bytes = Some(sizes.iter().sum::<u64>() / sizes.len() as u64 + 6_000);
        }
        let stride = runs.len().div_ceil(MOST_COMPARED);
        let ratios = runs
            .iter()
            .step_by(stride)
            .filter_map(|run| ratio(run, plan, stand_ins, options));
        let ratios: Vec<f64> = ratios.collect();
        if !ratios.is_empty() {
            self.sources.push(format!("{} measured runs", runs.len()));
            self.run = self.run.after(&ratios);
        }
    }
}

/// Returns the ratio of a run's duration to its duration by the model; `None` if the run cannot be played.
fn ratio(
    run: &RunRecord,
    plan: &Plan,
    stand_ins: &BTreeMap<ServerId, ModelledServer>,
    options: &Options,
) -> Option<f64> {
    let stand_in = stand_ins.get(&run.server)?;
    let (params, overhead) = played_params(run, plan)?;
    let play = Play {
        params: &params,
        warmup: Warmup::Requests(0),
        watch: None,
        limit: plan.bench.timeout,
        budget: &Budget::new(&options.limits),
    };
    let mut player = Player::new(stand_in, plan.serve.reset == Reset::Nothing, false);
    let playing = || player.play(play).ok().map(|(timing, _)| timing.seconds);
    let modelled = options
        .plays
        .recorded((run.point.clone(), run.slot, run.run), playing)?;
    let seconds = run.seconds - overhead;
    (seconds > 0.0 && modelled > 0.0).then_some(seconds / modelled)
}

/// Returns the parameters of a recorded run, with its seed, and the time that it takes in addition to its load, in seconds. `None` if it
/// cannot be played.
pub fn played_params(run: &RunRecord, plan: &Plan) -> Option<(Params, f64)> {
    let mut params = Params::clone(&run.params);
    Some(match &plan.bench.runner {
        BenchRunner::Native => {
            let probe = run.probe();
            let draw = probe.map_or(Task::draw_of(run.slot, run.run), |probe| probe.question.draw);
            params = seeded(params, draw);
            (params, overhead_s(None)?)
        }
        BenchRunner::Command(command) => {
            let argv = crate::matrix::argv::fill_in(&command.of(&params), &flags(&params));
            (params_of(&argv)?, overhead_s(Some(&argv))?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Format, World, parse};
    use std::path::Path;

    #[test]
    fn a_server_that_was_ready_is_not_predicted_to_fail() {
        let text = "version = 1\n[serve]\ncommand = \"vsweep sim serve demo-8b --sim-fault oom-at-load\"\n[bench.params]\nnum_prompts = 1\n";
        let plan = parse(text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
        let matrix = Matrix::expand(&plan).expect("it expands");
        let server = matrix.servers().next().expect("a server");
        let mut calibration = Calibration::prior(&ModelledServer::default());
        let fails = |calibration: &Calibration| {
            let stand_in = calibration.stand_in(&server, &Options::default());
            stand_in.is_ok_and(|stand_in| stand_in.failure.is_some())
        };
        assert!(fails(&calibration));
        calibration.ready.insert(server.id.clone());
        assert!(!fails(&calibration));
    }
}
