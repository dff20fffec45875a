//! One try of one run: the benchmark, under supervision of its server and of signals from the user.

use super::{Live, Running};
use crate::agenda::{self, ActionOutcome, MeasuredRun, MeasuredView, Task};
use crate::bench::judge;
use crate::bench::{self, Job, Measurement};
use crate::cause::{Cause, Failure};
use crate::error::Result;
use crate::files::write_atomic;
use crate::journal::{Measured, Recorder};
use crate::plan::{BenchRunner, Params, Plan, Warmup, spelling};
use crate::run::Update;
use crate::run::sampler::{self, Sampler};
use crate::server::{Identity, Server};
use crate::telemetry::series::{Course, Series, Window};
use crate::validity::{Code, Doubt};
use jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Time after which a server shows that its engine died: a real vLLM needed 0.2 s.
const SHOWS: Duration = Duration::from_millis(500);
/// Time for such a server to end, after which its log names the reason: a real vLLM needed 5.5 s.
const ENDS: Duration = Duration::from_secs(20);
/// Time in which a server must make progress with the requests of a run that took too long.
const GOES_ON: Duration = Duration::from_secs(20);

impl Live<'_, '_> {
    pub(super) async fn measure(&mut self, run: &agenda::Run, admitted: Timestamp) -> Result<ActionOutcome> {
        self.settle().await;
        let identity = self.ready().identity.clone().expect("a ready server told who it is");
        if let Err(failure) = offers(&identity, &run.task) {
            return Ok(ran(Err(failure), 0.0));
        }
        let (scratch, telemetry) = self.files(run)?;
        let (plan, writer) = (self.plan, self.writer);
        let server = self.config.id.clone();
        let others = self.others_up();
        let running = self.ready();
        let job = job(plan, run, running, &identity, scratch);
        self.scratch = Some(job.scratch.clone());
        let running = self.ready();
        let began = Instant::now();
        writer.notify(Update::Running(&server, &job.counters))?;
        let watch = run.task.watch();
        let gpus = Arc::clone(&running.gpus);
        let is_watched = plan.bench.telemetry;
        let sampler =
            is_watched.then(|| sampler::start(Some(running.server.http()), move || gpus.read(), telemetry.clone()));
        let measured = tokio::select! {
            // A measurement that is complete counts even if the server died in the same moment.
            biased;
            measured = bench::probe(&job, watch.cloned()) => measured,
            failure = running.server.failed() => {
                let seconds = began.elapsed().as_secs_f64();
                self.keep(&telemetry, readings(sampler).await, None)?;
                return Ok(ActionOutcome::Died { failure, seconds });
            }
        };
        let seconds = began.elapsed().saturating_sub(job.counters.warmed_for()).as_secs_f64();
        self.hide_in_scratch()?;
        let window = job.counters.measured.get().copied();
        let (mut figures, course) = self.end_telemetry(admitted, sampler, &telemetry, window).await?;
        let others = others.max(self.others_up());
        figures.extend((others > 0).then(|| ("other_servers_beside".to_owned(), others.into())));
        let running = self.ready();
        figures.extend(running.startup.clone());
        let death = match &measured {
            Ok(measurement) if !has_failed_requests(measurement) => None,
            _ => why_it_died(&mut running.server).await,
        };
        let hung = match &measured {
            // A limit below `hang_timeout` would hide a hung server, and every run after this one would meet it again.
            Err(failure) if death.is_none() && failure.cause == Cause::BenchTimeout => {
                running.server.is_hung(GOES_ON.min(plan.serve.hang_timeout)).await
            }
            _ => None,
        };
        if let Some(failure) = death.or(hung) {
            return Ok(ActionOutcome::Died { failure, seconds });
        }
        let is_sound = matches!(&measured, Ok(measurement) if !has_failed_requests(measurement));
        let outcome = match measured {
            Ok(mut measurement) => {
                running.has_leftovers = measurement.cut.is_some();
                add(figures, &mut measurement.result.values);
                let result = &measurement.result.values;
                let shares = running.hardware.as_ref().map(|hardware| hardware.columns(result));
                add(shares.unwrap_or_default(), &mut measurement.result.values);
                measurement.doubts.extend(unwarmed(plan, &job, run.is_warm));
                measurement.doubts.extend(running.unlike.clone());
                // Fields of a request's body may multiply the request.
                let is_plain = spelling::find(&job.params, "extra_body").is_none();
                if let Some(course) = course.filter(|_| is_plain) {
                    let mut doubts = judge::telemetry(&measurement.result.values, &course);
                    // A part of a run need not be steady. A disturbance does not explain why it was cut.
                    let of_gpu = |code| matches!(code, Code::GpuNotAlone | Code::GpuSlowedDown);
                    doubts.retain(|doubt| measurement.cut.is_none() || of_gpu(doubt.code));
                    doubts.retain(|doubt| measurement.doubts.iter().all(|known| known.code != doubt.code));
                    measurement.doubts.extend(doubts);
                }
                let mut reduced = reduce(measurement, &run.task, identity.simulated);
                let warmup_seconds = job.counters.warmed_for().as_secs_f64();
                reduced.warmup_seconds = (warmup_seconds > 0.0).then_some(warmup_seconds);
                ran(Ok(Box::new(reduced)), seconds)
            }
            Err(failure) => ran(Err(failure), seconds),
        };
        self.confirm(outcome, is_sound).await
    }

    /// Makes the folder of a run, and returns that of its benchmark and the file of its telemetry.
    pub(super) fn files(&self, run: &agenda::Run) -> Result<(PathBuf, PathBuf)> {
        let of = |recorder: &mut Recorder| {
            let directory = recorder.directory();
            let (scratch, telemetry) = (run.files.scratch(directory), run.files.telemetry(directory));
            let made = telemetry
                .parent()
                .map_or(Ok(()), |folder| directory.create_folder(folder));
            made.map(|()| (scratch, telemetry))
        };
        let (scratch, telemetry) = self.writer.with(of)?;
        // Absolute, because the benchmark may change its working directory.
        Ok((std::path::absolute(&scratch).unwrap_or(scratch), telemetry))
    }

    /// Ends the telemetry of a run and summarises it, together with the other servers and the course of the run.
    pub(super) async fn end_telemetry(
        &self,
        admitted: Timestamp,
        sampler: Option<Sampler>,
        telemetry: &Path,
        measured: Option<Window>,
    ) -> Result<(Params, Option<Course>)> {
        let series = readings(sampler).await;
        let course = series.window(measured).map(|window| series.course(window));
        let mut figures = self.keep(telemetry, series, measured)?;
        figures.extend(self.neighbours(admitted));
        Ok((figures, course))
    }

    /// Writes what was read during a run, and returns what it amounts to. A run is not lost because this cannot be written.
    fn keep(&self, path: &Path, series: Series, measured: Option<Window>) -> Result<Params> {
        // The file of an earlier try would be mistaken for this one's.
        let _ = std::fs::remove_file(path);
        let Some(window) = series.window(measured) else {
            return Ok(Params::new());
        };
        if let Err(error) = write_atomic(path, series.to_csv(window).as_bytes()) {
            let note = format!("the telemetry of a run is lost: {error}");
            self.writer.notify(Update::Note(&note))?;
        }
        Ok(series.summarize(window))
    }
}

/// The readings of a sampler, if there was one.
async fn readings(sampler: Option<Sampler>) -> Series {
    match sampler {
        Some(sampler) => sampler.finish().await,
        None => Series::default(),
    }
}

/// Joins figures to those of a result. What the benchmark itself says by such a name stays; a run without figures gets none.
pub(super) fn add(figures: Params, result: &mut Params) {
    if !result.is_empty() {
        for (name, figure) in figures {
            result.entry(name).or_insert(figure);
        }
    }
}

/// The model that the load names for a benchmark of ours.
fn asked_model(task: &Task) -> Option<&str> {
    match task.point.argv {
        None => task.point.params.get("model")?.as_str(),
        Some(_) => None,
    }
}

/// Refuses to measure one model under the name of another.
fn offers(identity: &Identity, task: &Task) -> std::result::Result<(), Failure> {
    let is_same = |name: &str, model: &str| name.trim_end_matches('/') == model.trim_end_matches('/');
    let is_named_in_requests = spelling::find(&task.point.params, "served_model_name").is_some();
    match asked_model(task) {
        Some(model) if !is_named_in_requests => {
            let mut names = identity.names.iter().chain([&identity.model_root]);
            if names.any(|name| is_same(name, model)) {
                return Ok(());
            }
            let served = identity.names.join(", ");
            let detail = format!("bench.params.model is {model}, and the server serves {served}");
            Err(Failure::new(Cause::WrongServer, detail))
        }
        _ => Ok(()),
    }
}

fn job(plan: &Plan, run: &agenda::Run, running: &Running, identity: &Identity, scratch: PathBuf) -> Job {
    let task = &run.task;
    let mut params = task.params();
    if plan.bench.runner == BenchRunner::Phases && task.reader.is_some() {
        // A search sets the number of requests; a window of time does not use it.
        params.shift_remove("num_prompts");
    }
    let asked = asked_model(task).filter(|model| identity.names.iter().any(|name| name == model));
    let served_model = asked.unwrap_or(&identity.served_model);
    Job {
        places: plan.bench.result.clone(),
        api_key: running.server.api_key(),
        runner: plan.bench.runner.clone(),
        argv: task.point.argv.clone(),
        env: plan.bench.env.clone(),
        scratch,
        warmup: run.warmup,
        timeout: plan.bench.timeout,
        ..Job::new(running.server.base_url(), served_model, &identity.model_root, params)
    }
}

/// Reduces a measurement to its record and the figures for its requester.
pub(crate) fn reduce(measurement: Measurement, task: &Task, simulated: bool) -> MeasuredRun {
    let seen = MeasuredView {
        result: &measurement.result,
        requests: &measurement.requests,
        cut: measurement.cut.as_ref(),
        is_failed: measurement.failure.is_some(),
        doubts: &measurement.doubts,
    };
    MeasuredRun {
        errors: measurement.errors,
        neighbours: None,
        warmup_seconds: None,
        learned: task.learn(seen),
        failure: measurement.failure,
        doubts: measurement.doubts,
        cut: measurement.cut.map(|cut| cut.why),
        measured: (!measurement.result.values.is_empty()).then_some(Measured {
            result: measurement.result,
            simulated,
        }),
    }
}

pub(super) fn ran(result: std::result::Result<Box<MeasuredRun>, Failure>, seconds: f64) -> ActionOutcome {
    ActionOutcome::Ran { result, seconds }
}

/// The doubt about the first run of a load on a start of the server, if nothing went before it. Whether another program than
/// the known ones warms up is not known, and our other benchmarks do so by themselves.
fn unwarmed(plan: &Plan, job: &Job, is_warm: bool) -> Option<Doubt> {
    let is_known = match &job.argv {
        None => job.runner == BenchRunner::Native,
        Some(argv) => bench::params_of(argv).is_some(),
    };
    let warms_up_itself = spelling::find(&job.params, "num_warmups").is_some_and(|count| count != 0);
    let is_cold = !is_warm && is_known && plan.bench.warmup == Warmup::Requests(0) && !warms_up_itself;
    let detail = "the first run of this load on this start of the server, and warmup_prompts = 0";
    is_cold.then(|| Doubt::new(Code::ColdServer, detail))
}

/// Requests that failed may be the server's death seen from outside: the cause then is its own.
async fn why_it_died(server: &mut Server) -> Option<Failure> {
    if let Ok(reason) = timeout(SHOWS, server.failed()).await {
        return Some(reason);
    }
    match server.is_unhealthy().await {
        true => timeout(ENDS, server.failed()).await.ok(),
        false => None,
    }
}

fn has_failed_requests(measurement: &Measurement) -> bool {
    let is_doubted = |doubt: &Doubt| doubt.code == Code::RequestErrors;
    measurement.failure.is_some() || measurement.doubts.iter().any(is_doubted)
}
