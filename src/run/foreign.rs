//! Records results of `vllm bench sweep` in an experiment, as a session that measured nothing itself and whose launches are unknown. These
//! results count like vsweep's own, and missing ones are measured when the plan is run.

use super::live::reduce;
use super::{Changes, Sweep};
use crate::agenda::{Task, kept_metrics};
use crate::bench::{
    LoadSpec, Measurement, figures_contradiction, judge, load_contradiction, measured, of_engine, params_of,
    read_result, warms_up,
};
use crate::cause::{Cause, Failure, Outcome};
use crate::error::Result;
use crate::files;
use crate::import::vllm_sweep;
use crate::journal::{Event, FIRST_SLOT, GroupBegun, Recorder, RunStarted, ServerDescription};
use crate::matrix::{Matrix, Point, ServerConfig};
use crate::plan::{Params, Plan, ServeCommand, Warmup, spelling};
use crate::table::ECHOED;
use crate::validity::{Code, Doubt};
use std::path::Path;

/// Remark on every imported run.
const REMARK: &str = "imported from a directory of vLLM's sweep; the server start on which it was measured is unknown";

/// One run of another program.
#[derive(Debug)]
pub struct ImportedRun {
    /// Number of the repetition, from 0.
    pub run: u32,
    /// The result of its client, followed by the number of the run and the parameters of the sweep; or the reason for its failure.
    pub result: std::result::Result<Params, String>,
}

impl ImportedRun {
    /// Reads a run's file of vLLM's sweep. An error completes a sentence that begins with the file's name.
    pub fn read(path: &Path, run: u32) -> std::result::Result<ImportedRun, String> {
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            return Err("is a link or another special file; put the file itself there".to_owned());
        }
        let json = files::read(path, files::MOST_RESULT).map_err(|error| format!("cannot be read: {error}"))?;
        let content = read_result(&json)?;
        let error = content.get("error").filter(|_| content.contains_key("error_type"));
        let result = match error {
            Some(error) => Err(error.as_str().unwrap_or("the file gives no reason").to_owned()),
            None => match figures_contradiction(&content) {
                Some(contradiction) => return Err(contradiction),
                None if !measured(&content).any(|(_, value)| value.is_number()) => {
                    return Err("holds no figure".to_owned());
                }
                None => Ok(content),
            },
        };
        Ok(ImportedRun { run, result })
    }
}

/// Records the runs as one session. `runs` has a list for each point, in the order of the plan. Returns the names of figures that are lost,
/// because the sweep overwrote them with parameters of the same name.
pub fn import_results(
    plan: &Plan,
    matrix: &Matrix,
    runs: Vec<Vec<ImportedRun>>,
    recorder: &mut Recorder,
) -> Result<Vec<String>> {
    begin(plan, matrix, recorder)?;
    let mut runs = runs.into_iter();
    let mut lost_names = Vec::new();
    for server in matrix.servers() {
        let points: Vec<(Point, Vec<ImportedRun>)> = matrix
            .points_of(&server)
            .map(|point| (point, runs.next().unwrap_or_default()))
            .collect();
        if points.iter().all(|(_, runs)| runs.is_empty()) {
            continue;
        }
        recorder.record(Event::GroupBegun(Box::new(declared(plan, &server))))?;
        for (point, runs) in points {
            for run in runs {
                record(plan, &server, &point, run, recorder, &mut lost_names)?;
            }
        }
    }
    recorder.record(Event::SessionEnded {
        reason: "imported".into(),
    })?;
    lost_names.sort();
    lost_names.dedup();
    Ok(lost_names)
}

fn begin(plan: &Plan, matrix: &Matrix, recorder: &mut Recorder) -> Result<()> {
    let changes = Changes::between(recorder.state(), matrix, plan);
    let started = Sweep::of(plan, matrix).session_started(changes, None, recorder.state());
    recorder.record(Event::SessionStarted(Box::new(started))).map(drop)
}

/// Returns the declaration of a server without a start.
pub(super) fn declared(plan: &Plan, server: &ServerConfig) -> GroupBegun {
    GroupBegun {
        server: server.id.clone(),
        slot: FIRST_SLOT,
        config: ServerDescription::of(server, &plan.secrets),
        ..GroupBegun::default()
    }
}

fn record(
    plan: &Plan,
    server: &ServerConfig,
    point: &Point,
    run: ImportedRun,
    recorder: &mut Recorder,
    lost_names: &mut Vec<String>,
) -> Result<()> {
    let started = recorder.record(Event::RunStarted(Box::new(RunStarted {
        point: point.id.clone(),
        server: server.id.clone(),
        slot: FIRST_SLOT,
        run: run.run,
        name: point.name.clone(),
        params: plan.secrets.redact_params(&point.params),
        combo: point.combo.clone(),
        // The launch is unknown.
        launch: 0,
        ..RunStarted::default()
    })))?;
    let simulated = matches!(&run.result, Ok(result) if result.get("simulated") == Some(&true.into()));
    let mut warmup_seconds = None;
    let mut measured = match run.result {
        Ok(mut result) => {
            warmup_seconds = result
                .shift_remove(vllm_sweep::WARMUP_SECONDS)
                .and_then(|seconds| seconds.as_f64());
            let figures = figures(&result, server, point, lost_names);
            judge(match (plan.bench.runner.offline(), &point.argv) {
                (Some(_), Some(argv)) => of_engine(figures, argv),
                _ => figures,
            })
        }
        Err(error) => Measurement {
            failure: Some(Failure::new(Cause::BenchFailed, error)),
            doubts: Vec::new(),
            ..judge(Params::new())
        },
    };
    if measured.failure.is_none() {
        measured.doubts.extend(of_other_load(&measured, server, point));
    }
    // vsweep doubts its own first runs without a warm-up in the same way.
    if run.run == 0
        && measured.failure.is_none()
        && warmup_seconds.is_none()
        && plan.bench.warmup == Warmup::Requests(0)
        && !warms_up(&point.params, point.argv.as_deref())
    {
        let detail = "the first run of this load, without warm-up";
        measured.doubts.push(Doubt::new(Code::ColdServer, detail));
    }
    let seconds = measured.result.get("duration").and_then(|duration| duration.as_f64());
    let task = Task::of(point.clone(), FIRST_SLOT, run.run, kept_metrics(plan));
    let mut ran = reduce(measured, &task, simulated);
    ran.warmup_seconds = warmup_seconds;
    let (mut finished, measured) = ran.finish(&started, seconds.unwrap_or(0.0));
    finished.detail = match finished.outcome {
        Outcome::Failed => format!("{REMARK}; {}", finished.detail),
        _ => REMARK.to_owned(),
    };
    match measured {
        None => recorder.record(Event::RunFinished(Box::new(finished))).map(drop),
        Some(measured) => recorder.commit(finished, measured).map(drop),
    }
}

/// Returns a doubt about a result that was measured under another load than that of its point.
fn of_other_load(measured: &Measurement, server: &ServerConfig, point: &Point) -> Option<Doubt> {
    let argv = point.argv.as_deref().unwrap_or_default();
    let params = params_of(argv).unwrap_or_else(|| point.params.clone());
    // The benchmark's model is the one in its parameters, or else the server's.
    let given = ServeCommand::of(argv).value("model");
    let served = ServeCommand::of(&server.argv);
    let found = served.model_names().into_iter().chain(served.model());
    let models: Vec<&str> = given.into_iter().chain(found).collect();
    let asked = LoadSpec {
        params: &params,
        models: &models,
    };
    load_contradiction(&measured.result.values, asked)
}

/// Returns the client's measurements: all keys before the number of the run, except those that the sweep overwrote.
fn figures(result: &Params, server: &ServerConfig, point: &Point, lost_names: &mut Vec<String>) -> Params {
    let set = |name: &str| {
        let is_set = spelling::find(&server.params, name)
            .or(spelling::find(&point.params, name))
            .is_some();
        is_set && !ECHOED.contains(&name)
    };
    let measured = measured(result).map(|(name, value)| (name.clone(), value.clone()));
    let (lost, kept): (Params, Params) = measured.partition(|(name, _)| set(name));
    lost_names.extend(lost.into_iter().map(|(name, _)| name));
    kept
}
