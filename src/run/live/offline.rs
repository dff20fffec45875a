//! Runs a benchmark that loads the engine itself, such as `vllm bench startup`. Without a server, a start only waits until the machine is
//! free. An interrupt ends the benchmark program.

use super::measure::{add, ran};
use super::{Live, reduce};
use crate::agenda::{self, ActionOutcome, ReadyInfo};
use crate::bench::{self, Job, LOG, Program, judge};
use crate::cause::{Cause, Failure};
use crate::error::Result;
use crate::plan::{BenchRunner, Offline};
use crate::run::{Update, sampler};
use crate::server::{diagnose, startup};
use jiff::Timestamp;
use std::time::Instant;

impl Live<'_, '_> {
    /// Waits until earlier programs have released their ports and GPU memory.
    pub(super) async fn start_offline(&self, offline: Offline) -> Result<ActionOutcome> {
        let waited = match offline.command(&self.config.argv) {
            Ok(argv) => self.release_wait.wait(&argv, &self.env()).await,
            Err(why) => Err(Failure::new(Cause::BadConfig, why)),
        };
        Ok(ActionOutcome::Started(waited.map(|()| ReadyInfo::default())))
    }

    /// Runs the program to its end.
    pub(super) async fn measure_offline(
        &mut self,
        offline: Offline,
        run: &agenda::Run,
        permitted_at: Timestamp,
    ) -> Result<ActionOutcome> {
        let (scratch, telemetry) = self.files(run)?;
        let plan = self.plan;
        let argv = run.task.point.argv.clone().unwrap_or_default();
        let job = Job {
            runner: BenchRunner::Offline(offline),
            argv: Some(argv.clone()),
            env: self.env(),
            cpus: self.allocation.cpus.clone(),
            scratch,
            timeout: plan.bench.timeout,
            ..Job::new("", "", "", run.task.params())
        };
        self.scratch = Some(job.scratch.clone());
        let began = *job.counters.sending.get_or_init(Instant::now);
        self.writer.notify(Update::Running(&self.config.id, &job.counters))?;
        let gpus = self.visible_gpus();
        let sampler = plan
            .bench
            .telemetry
            .then(|| sampler::start(None, move || gpus.read(), telemetry.clone()));
        let measured = match Program::start(&job, &argv, plan.serve.stop_grace) {
            Ok(program) => self.program.insert(program).finish().await,
            Err(failure) => Err(failure),
        };
        let seconds = began.elapsed().as_secs_f64();
        self.program = None;
        self.hide_in_scratch();
        let (mut figures, course) = self.end_telemetry(permitted_at, sampler, &telemetry, None).await?;
        if offline != Offline::Startup {
            figures.extend(startup::phases(&diagnose::read_log(&job.scratch.join(LOG), 0)));
        }
        Ok(match measured {
            Err(failure) => ran(Err(failure), seconds),
            Ok(result) => {
                let mut result = bench::of_engine(result, &argv);
                if let Some(duration) = result.get("elapsed_time").and_then(|duration| duration.as_f64()) {
                    // The time outside the measurement is the start and the end of the program.
                    figures.insert("startup_s".to_owned(), (seconds - duration).max(0.0).into());
                }
                add(figures, &mut result);
                let mut measurement = bench::judge(result);
                if let Some(course) = course {
                    let doubts = judge::telemetry(&measurement.result.values, &course);
                    measurement.doubts.extend(doubts);
                }
                ran(Ok(Box::new(reduce(measurement, &run.task, false))), seconds)
            }
        })
    }
}
