//! One try of one run: the benchmark, while its server is watched. The driver drops the future if the user interrupts.

use super::{Live, Running};
use crate::agenda::{self, ActionOutcome, MeasuredRun, MeasuredView, Task};
use crate::bench::judge;
use crate::bench::{self, Job, Measurement};
use crate::cause::{Cause, Failure};
use crate::error::Result;
use crate::files::write_atomic;
use crate::journal::{BenchmarkResult, Recorder};
use crate::plan::{BenchRunner, Params, Plan, Warmup, spelling};
use crate::run::sampler::{self, Sampler};
use crate::run::{Update, Writer};
use crate::server::{Identity, Server};
use crate::telemetry::series::{Course, Series, Window};
use crate::validity::{Code, Doubt};
use jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Time in which a server shows that its engine has died. A real vLLM needed 0.2 s.
const SHOWS_DEATH: Duration = Duration::from_millis(500);
/// Time in which a server ends after its engine has died; its log then names the reason. A real vLLM needed 5.5 s.
const ENDS_AFTER_DEATH: Duration = Duration::from_secs(20);
/// Time in which a server must make progress with the requests of a run that took too long.
const PROGRESS: Duration = Duration::from_secs(20);

impl Live<'_, '_> {
    /// Measures a run. `permitted_at` is the time at which the activity lock permitted it. Servers that ran since then are its neighbours.
    pub(super) async fn measure(&mut self, run: &agenda::Run, permitted_at: Timestamp) -> Result<ActionOutcome> {
        self.settle().await;
        let identity = self.ready().identity.clone().expect("a ready server has an identity");
        if let Err(failure) = check_model(&identity, &run.task) {
            return Ok(ran(Err(failure), 0.0));
        }
        let (scratch, telemetry) = self.files(run)?;
        let (plan, writer) = (self.plan, self.writer);
        let server = self.config.id.clone();
        let other_servers = self.others_up();
        let running = self.ready();
        let job = job(plan, run, running, &identity, scratch);
        self.scratch = Some(job.scratch.clone());
        let running = self.running.as_mut().expect("a run begins on a ready server");
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
            measured = bench::measure_watched(&job, watch.cloned(), &mut self.program) => measured,
            failure = running.server.failed() => {
                let seconds = began.elapsed().as_secs_f64();
                self.end_program().await;
                self.keep(&telemetry, readings(sampler).await, None)?;
                return Ok(ActionOutcome::Died { failure, seconds });
            }
        };
        let seconds = began.elapsed().saturating_sub(job.counters.warmed_for()).as_secs_f64();
        self.hide_in_scratch();
        let window = job.counters.measured.get().copied();
        let (mut figures, course) = self.end_telemetry(permitted_at, sampler, &telemetry, window).await?;
        let other_servers = other_servers.max(self.others_up());
        figures.extend((other_servers > 0).then(|| ("other_servers_beside".to_owned(), other_servers.into())));
        let running = self.ready();
        figures.extend(running.startup.clone());
        let death = match &measured {
            Ok(measurement) if !has_failed_requests(measurement) => None,
            _ => why_it_died(&mut running.server).await,
        };
        let may_hang = match &measured {
            // A search may cut its run because no request ends any more.
            Ok(measurement) => measurement.cut.is_some(),
            // With a `bench.timeout` below `hang_timeout`, a hung server would otherwise stay unnoticed, and every later run would meet it
            // again.
            Err(failure) => failure.cause == Cause::BenchTimeout,
        };
        let hung = match death.is_none() && may_hang {
            true => running.server.hang(PROGRESS.min(plan.serve.hang_timeout)).await,
            false => None,
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
                bench::judge_hits(&job, &mut measurement);
                let cold = unwarmed(plan, &job, &measurement.result.values, run.is_warm);
                measurement.doubts.extend(cold);
                measurement.doubts.extend(running.not_as_planned.clone());
                if let Some(course) = course {
                    let mut doubts = judge::telemetry(&measurement.result.values, &course);
                    // Extra fields of a request's body may multiply its work, and a run that was cut need not be steady. Only doubts about
                    // the GPUs count in both cases.
                    let is_plain = measurement.cut.is_none() && spelling::find(&job.params, "extra_body").is_none();
                    let of_gpu = |code| matches!(code, Code::GpuNotAlone | Code::GpuSlowedDown);
                    doubts.retain(|doubt| is_plain || of_gpu(doubt.code));
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

    /// Creates the folder of a run. Returns the paths of its benchmark's folder and of its telemetry file.
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

    /// Ends the telemetry of a run. Returns its summary, with how many other servers ran and started meanwhile, and the course of the run.
    pub(super) async fn end_telemetry(
        &self,
        permitted_at: Timestamp,
        sampler: Option<Sampler>,
        telemetry: &Path,
        measured: Option<Window>,
    ) -> Result<(Params, Option<Course>)> {
        let series = readings(sampler).await;
        let course = series.window(measured).map(|window| series.course(window));
        let mut figures = self.keep(telemetry, series, measured)?;
        figures.extend(self.neighbours(permitted_at));
        Ok((figures, course))
    }

    /// Writes the readings of a run, and returns their summary. If they cannot be written, the run still counts.
    fn keep(&self, path: &Path, series: Series, measured: Option<Window>) -> Result<Params> {
        // The file of an earlier try would be mistaken for this one's.
        let _ = std::fs::remove_file(path);
        let Some(window) = series.window(measured) else {
            return Ok(Params::new());
        };
        if let Err(error) = write_atomic(path, series.to_csv(window).as_bytes()) {
            let note = format!("the telemetry of a run is lost: {error}");
            self.writer.note(&note)?;
        }
        Ok(series.summarize(window))
    }
}

/// Returns the readings of a sampler, if there was one.
async fn readings(sampler: Option<Sampler>) -> Series {
    match sampler {
        Some(sampler) => sampler.finish().await,
        None => Series::default(),
    }
}

/// Adds figures to a result. Figures of the benchmark itself are not replaced, and a result without figures stays empty.
pub(super) fn add(figures: Params, result: &mut Params) {
    if !result.is_empty() {
        for (name, figure) in figures {
            result.entry(name).or_insert(figure);
        }
    }
}

/// Returns the model that the load names, for a benchmark of vsweep itself.
fn asked_model(task: &Task) -> Option<&str> {
    match task.point.argv {
        None => task.point.params.get("model")?.as_str(),
        Some(_) => None,
    }
}

/// Refuses to measure one model under the name of another.
fn check_model(identity: &Identity, task: &Task) -> std::result::Result<(), Failure> {
    let is_same = |name: &str, model: &str| name.trim_end_matches('/') == model.trim_end_matches('/');
    let is_named_in_requests = spelling::find(&task.point.params, "served_model_name").is_some();
    let Some(model) = asked_model(task).filter(|_| !is_named_in_requests) else {
        return Ok(());
    };
    let mut names = identity.names.iter().chain([&identity.model_root]);
    if names.any(|name| is_same(name, model)) {
        return Ok(());
    }
    let served = identity.names.join(", ");
    let detail = format!("bench.params.model is {model}, but the server serves {served}");
    Err(Failure::new(Cause::WrongServer, detail))
}

fn job(plan: &Plan, run: &agenda::Run, running: &Running, identity: &Identity, scratch: PathBuf) -> Job {
    let task = &run.task;
    let mut params = task.params();
    if plan.bench.runner == BenchRunner::Phases && task.reader.is_some() {
        // A search sets the number of requests, but a window of time does not use it.
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

/// Reduces a measurement to its record and the figures that later decisions use.
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
        measured: (!measurement.result.values.is_empty()).then_some(BenchmarkResult {
            result: measurement.result,
            simulated,
        }),
    }
}

pub(super) fn ran(result: std::result::Result<Box<MeasuredRun>, Failure>, seconds: f64) -> ActionOutcome {
    ActionOutcome::Ran { result, seconds }
}

/// Returns a doubt about the first run of a load on a start of the server, if there was no warm-up. Programs that vsweep does not know may
/// warm up, and its own other benchmarks do, so neither gets this doubt.
fn unwarmed(plan: &Plan, job: &Job, result: &Params, is_warm: bool) -> Option<Doubt> {
    let asks_none = plan.bench.warmup == Warmup::Requests(0) && !bench::warms_up(&job.params, job.argv.as_deref());
    let is_asked = |argv: &[String]| argv.iter().any(|word| word.contains("warmup"));
    let (is_cold, why) = match &job.argv {
        // guidellm and aiperf warm up only if they are asked to.
        Some(argv) if result.contains_key("client") => (!is_asked(argv), "its command asks for no warm-up"),
        Some(argv) => (asks_none && bench::params_of(argv).is_some(), "warmup_prompts = 0"),
        None => (asks_none && job.runner == BenchRunner::Native, "warmup_prompts = 0"),
    };
    let detail = format!("the first run of this load on this start of the server, and {why}");
    (is_cold && !is_warm).then(|| Doubt::new(Code::ColdServer, detail))
}

/// Returns the cause of the server's death, if it died. Failed requests may be the first sign of that.
async fn why_it_died(server: &mut Server) -> Option<Failure> {
    if let Ok(reason) = timeout(SHOWS_DEATH, server.failed()).await {
        return Some(reason);
    }
    match server.is_unhealthy().await {
        true => timeout(ENDS_AFTER_DEATH, server.failed()).await.ok(),
        false => None,
    }
}

fn has_failed_requests(measurement: &Measurement) -> bool {
    let is_doubted = |doubt: &Doubt| doubt.code == Code::RequestErrors;
    measurement.failure.is_some() || measurement.doubts.iter().any(is_doubted)
}
