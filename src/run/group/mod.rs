//! One server config and the runs on it: start, reset, measure, record, and what to do when something fails.
//!
//! Blame is kept narrow. A server that cannot start fails all runs of its config. A server that dies under load fails
//! the point that was on it (after one more try if the cause may pass), and is started again for the other points. When
//! three points in a row are lost so, with nothing measured between them, the config is given up.

mod behind;
mod explore;
mod measure;
mod record;
mod search;
mod server;
mod start;

pub(crate) use explore::figures;
pub(crate) use search::replay;
pub(crate) use start::{search_started, wants_forecast};

use super::gate::Gate;
use super::{Ending, Forecasts, Group, Interrupt, Observer, Sweep, Task, Update, Warmth};
use crate::bench::Measurement;
use crate::cause::{Failure, Outcome};
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::ids::PointId;
use crate::journal::{Entry, Recorder, RunFiles};
use crate::matrix::Matrix;
use crate::plan::{OnFailure, Plan, Target};
use crate::server::{Identity, Server};
use crate::telemetry::nvml::Gpus;
use crate::validity::{Code, Doubt};
use std::collections::HashSet;
use std::sync::Arc;

/// How often the same thing is tried when the cause of its failure may pass.
const TRIES: u32 = 2;
/// After this many lost points with no measured run between them, the server config is given up.
const LOST_POINTS: u32 = 3;
/// Work on one group.
pub struct GroupSession<'s, 'o> {
    plan: &'s Plan,
    matrix: &'s Matrix,
    group: &'s Group,
    recorder: &'s mut Recorder,
    interrupt: &'s mut Interrupt,
    observer: &'s mut Observer<'o>,
    gate: &'s Gate,
    forecasts: &'s Forecasts,
    running: Option<Running>,
    lost_in_a_row: u32,
    /// Starts that failed at the end of a session that was killed: tries that are used up.
    failed_starts: u32,
    /// Why the server did not start when it was wanted before the first run: the next run is told, instead of trying again.
    failed_start: Option<Failure>,
    /// Why the server died last, until something is measured again.
    death: Option<Failure>,
}

/// A ready server.
struct Running {
    server: Server,
    identity: Identity,
    launch: u32,
    /// What tells it from another one, if somebody else runs it.
    behind: Option<Fingerprint>,
    /// The GPUs it uses, as far as they can be read.
    gpus: Arc<Gpus>,
    /// Whether a run used it since it started, so that its caches hold something.
    is_used: bool,
    /// The loads that this start has held.
    warmth: Warmth,
}

/// Where one task got to.
enum Attempt {
    Recorded(Outcome),
    /// The server died under the run that this line began: recorded, and the point is not tried again.
    PointLost(Failure, Entry),
    /// The config is beyond hope: no result recorded for this task yet.
    ServerLost(Lost),
    /// Another server answers at the address now, and what was measured before is retired: the group is to be scheduled anew.
    Replaced,
    Interrupted,
}

/// Why a server config is beyond hope.
struct Lost {
    failure: Failure,
    /// The `run_started` of the task under which the server died; `None` if it did not start.
    under: Option<Entry>,
}

/// What came of one try to measure.
enum Try {
    Measured(Measurement, f64),
    BenchFailed(Failure, f64),
    ServerDied(Failure, f64),
    /// The server was started again meanwhile, and no request failed: what was measured is of neither start.
    Disturbed,
    Replaced,
    Interrupted,
}

/// What came of one try to have a ready server.
enum Start {
    Ready,
    Failed(Failure),
    Replaced,
    Interrupted,
}

impl<'s, 'o> GroupSession<'s, 'o> {
    /// Prepares; nothing is started yet.
    pub fn new(
        sweep: &Sweep<'s>,
        group: &'s Group,
        recorder: &'s mut Recorder,
        interrupt: &'s mut Interrupt,
        observer: &'s mut Observer<'o>,
        gate: &'s Gate,
    ) -> Self {
        let lost_in_a_row = recorder.state().lost_in_a_row(&group.server.id);
        let failed_starts = recorder.state().failed_starts(&group.server.id).len() as u32;
        GroupSession {
            plan: sweep.plan,
            matrix: sweep.wanted,
            group,
            recorder,
            interrupt,
            observer,
            gate,
            forecasts: sweep.forecasts,
            running: None,
            lost_in_a_row,
            failed_starts,
            failed_start: None,
            death: None,
        }
    }

    /// Measures every task of the group. The server is stopped when this returns, whatever happened.
    pub async fn perform(&mut self) -> Result<Ending> {
        let worked = self.work().await;
        if let Ok(Ending::Interrupted) = worked
            && self.running.is_some()
        {
            let note = match self.plan.serve.target {
                Target::Launch(_) => "interrupted: stopping the server (interrupt again to kill it at once)",
                Target::Attach(_) => "interrupted: the server is left running",
            };
            // Whether or not it can be said, the server is stopped.
            let _ = (self.observer)(Update::Note(note), self.recorder);
        }
        let stopped = self.stop(None).await;
        let ending = worked?;
        stopped?;
        Ok(ending)
    }

    async fn work(&mut self) -> Result<Ending> {
        self.declare()?;
        let group = self.group;
        let mut lost_points: HashSet<&PointId> = HashSet::new();
        for (position, task) in group.tasks.iter().enumerate() {
            if self.interrupt.is_requested() {
                return Ok(Ending::Interrupted);
            }
            if lost_points.contains(&task.point.id) {
                continue;
            }
            let rest = &group.tasks[position + 1..];
            let stops = self.plan.on_failure == OnFailure::Stop;
            match self.attempt(task).await? {
                Attempt::Recorded(Outcome::Failed) | Attempt::PointLost(..) if stops => {
                    return Ok(Ending::StoppedOnFailure);
                }
                Attempt::Recorded(_) => {}
                Attempt::PointLost(failure, started) => {
                    let others = rest.iter().filter(|other| other.point.id == task.point.id);
                    self.give_up(others, Vec::new(), &failure, Some(&started))?;
                    lost_points.insert(&task.point.id);
                }
                Attempt::ServerLost(Lost { failure, under }) => {
                    let mut left = rest;
                    match &under {
                        Some(started) => self.record_failed(task, started, &failure, 0.0)?,
                        None => left = &group.tasks[position..],
                    }
                    let left = left.iter().filter(|task| !lost_points.contains(&task.point.id));
                    self.give_up(left, Vec::new(), &failure, under.as_ref())?;
                    return Ok(self.after(Some(&failure)));
                }
                Attempt::Replaced => return Ok(Ending::Finished),
                Attempt::Interrupted => return Ok(Ending::Interrupted),
            }
        }
        match self.search_all().await? {
            Ending::Finished => self.explore_all().await,
            early => Ok(early),
        }
    }

    /// How a group ends that has recorded all it had to, the server lost or not.
    fn after(&self, lost: Option<&Failure>) -> Ending {
        match (lost, self.plan.on_failure) {
            (Some(_), OnFailure::Stop) => Ending::StoppedOnFailure,
            (None, _) | (_, OnFailure::Continue) => Ending::Finished,
        }
    }

    /// Why there is no server. One that died under a run and did not come back has the cause of its death: the other
    /// failure only follows from it. A server of ours that another run survived has none but its own.
    fn blame(&self, failure: Failure, died_here: bool) -> Failure {
        let is_attached = matches!(self.plan.serve.target, Target::Attach(_));
        match &self.death {
            Some(death) if died_here || is_attached => {
                let detail = format!("{}; it did not come back: {}", death.detail, failure.detail);
                Failure::new(death.cause, detail)
            }
            _ => failure,
        }
    }

    async fn attempt(&mut self, task: &Task) -> Result<Attempt> {
        // Tries that a session used up before it was killed are not granted again.
        let deaths = self.recorder.state().deaths(&task.point.id, task.run);
        if let Some(death) = deaths
            .last()
            .filter(|death| deaths.len() as u32 >= TRIES || !death.cause.is_transient())
        {
            let started = self.begin_run(task)?;
            return self.lose(task, death.clone(), started, 0.0);
        }
        let mut tries = 1 + deaths.len() as u32 + std::mem::take(&mut self.failed_starts);
        let mut under = None;
        let mut disturbed = 0;
        loop {
            let start = match self.failed_start.take() {
                Some(failure) => Start::Failed(failure),
                None => self.ensure_ready().await?,
            };
            match start {
                Start::Ready => {}
                Start::Failed(failure) if failure.cause.is_transient() && tries < TRIES => {
                    tries += 1;
                    self.note_retry(&failure)?;
                    continue;
                }
                Start::Failed(failure) => {
                    let failure = self.blame(failure, under.is_some());
                    return Ok(Attempt::ServerLost(Lost { failure, under }));
                }
                Start::Replaced => return Ok(Attempt::Replaced),
                Start::Interrupted => return Ok(Attempt::Interrupted),
            }
            let started = self.begin_run(task)?;
            let reset = self.reset().await;
            let files = RunFiles::begun_by(&started);
            let measured = self.measure(task, &files).await?;
            match self.confirm(measured).await? {
                Try::Measured(mut measurement, seconds) => {
                    let refused = reset.err().map(|refusal| Doubt::new(Code::CachesNotReset, refusal));
                    measurement.doubts.extend(refused);
                    self.lost_in_a_row = 0;
                    self.death = None;
                    return self.commit(task, &started, measurement, seconds);
                }
                Try::BenchFailed(failure, seconds) => {
                    self.record_failed(task, &started, &failure, seconds)?;
                    return Ok(Attempt::Recorded(Outcome::Failed));
                }
                Try::ServerDied(failure, seconds) => {
                    self.stop(Some(&failure)).await?;
                    self.death = Some(failure.clone());
                    if failure.cause.is_transient() && tries < TRIES {
                        tries += 1;
                        under = Some(started);
                        self.note_retry(&failure)?;
                        continue;
                    }
                    return self.lose(task, failure, started, seconds);
                }
                Try::Disturbed => {
                    disturbed += 1;
                    self.note_disturbance(disturbed)?;
                }
                Try::Replaced => return Ok(Attempt::Replaced),
                Try::Interrupted => return Ok(Attempt::Interrupted),
            }
        }
    }

    /// The server died under a run, and that is final.
    fn lose(&mut self, task: &Task, failure: Failure, started: Entry, seconds: f64) -> Result<Attempt> {
        self.lost_in_a_row += 1;
        // A search learns from deaths: they say that its load was too high.
        if self.lost_in_a_row >= LOST_POINTS && task.asked.is_none() {
            let under = Some(started);
            return Ok(Attempt::ServerLost(Lost { failure, under }));
        }
        self.record_failed(task, &started, &failure, seconds)?;
        Ok(Attempt::PointLost(failure, started))
    }
}
