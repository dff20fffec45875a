//! One server config and the runs on it: start, reset, measure, record, and what to do when something fails.
//!
//! Blame is kept narrow. A server that cannot start fails all runs of its config. A server that dies under load fails
//! the point that was on it (after one more try if the cause may pass), and is started again for the other points. When
//! three points in a row are lost so, with nothing measured between them, the config is given up.

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
use super::{Ending, Forecasts, Group, Interrupt, Observer, Sweep, Task, Update};
use crate::bench::{Measurement, Verdict};
use crate::cause::{Cause, Failure, NOT_TRIED, Outcome};
use crate::error::Result;
use crate::ids::PointId;
use crate::journal::{Recorder, Shard};
use crate::matrix::Matrix;
use crate::plan::{OnFailure, Plan, Target};
use crate::server::{Identity, Server};
use crate::telemetry::nvml::Gpus;
use std::collections::{HashMap, HashSet};
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
    shard: Shard,
    running: Option<Running>,
    lost_in_a_row: u32,
    /// Why the server did not start when it was wanted before the first run: the next run is told, instead of trying again.
    failed_start: Option<Failure>,
    /// Why the server died last, until something is measured again.
    death: Option<Failure>,
}

/// A ready server.
struct Running {
    server: Server,
    identity: Identity,
    start: u32,
    /// The GPUs it uses, as far as they can be read.
    gpus: Arc<Gpus>,
    /// Whether a run used it since it started, so that its caches hold something.
    is_used: bool,
    /// Points whose warm-up this start has seen.
    warmed: HashSet<PointId>,
}

/// Where one task got to.
enum Attempt {
    Recorded(Outcome),
    /// The server died under the run: recorded, and the point is not tried again.
    PointLost(Failure),
    /// The config is beyond hope: nothing recorded for this task yet.
    ServerLost(Failure),
    Interrupted,
}

/// What came of one try to measure.
enum Try {
    Measured(Measurement, f64),
    BenchFailed(Failure, f64),
    ServerDied(Failure, f64),
    Interrupted,
}

/// What came of one try to have a ready server.
enum Start {
    Ready,
    Failed(Failure),
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
        GroupSession {
            plan: sweep.plan,
            matrix: sweep.wanted,
            group,
            recorder,
            interrupt,
            observer,
            gate,
            forecasts: sweep.forecasts,
            shard: sweep.shard,
            running: None,
            lost_in_a_row: 0,
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
        let mut lost_points: HashMap<PointId, Failure> = HashMap::new();
        for (position, task) in self.group.tasks.iter().enumerate() {
            if self.interrupt.is_requested() {
                return Ok(Ending::Interrupted);
            }
            let outcome = if let Some(failure) = lost_points.get(&task.point.id) {
                self.record_failed(task, &not_tried(failure), 0.0)?;
                Outcome::Failed
            } else {
                match self.attempt(task).await? {
                    Attempt::Recorded(outcome) => outcome,
                    Attempt::PointLost(failure) => {
                        lost_points.insert(task.point.id.clone(), failure);
                        Outcome::Failed
                    }
                    Attempt::ServerLost(failure) => return self.give_up(position, &failure),
                    Attempt::Interrupted => return Ok(Ending::Interrupted),
                }
            };
            if outcome == Outcome::Failed && self.plan.on_failure == OnFailure::Stop {
                return Ok(Ending::StoppedOnFailure);
            }
        }
        match self.search_all().await? {
            Ending::Finished => self.explore_all().await,
            early => Ok(early),
        }
    }

    /// Records the rest of the group as failed for one reason.
    fn give_up(&mut self, position: usize, failure: &Failure) -> Result<Ending> {
        for (i, task) in self.group.tasks[position..].iter().enumerate() {
            if i == 0 {
                self.record_failed(task, failure, 0.0)?;
            } else {
                self.record_failed(task, &not_tried(failure), 0.0)?;
            }
        }
        Ok(self.after(Some(failure)))
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
        let mut tries = 1;
        let mut died_here = false;
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
                Start::Failed(failure) => return Ok(Attempt::ServerLost(self.blame(failure, died_here))),
                Start::Interrupted => return Ok(Attempt::Interrupted),
            }
            let started = self.begin_run(task)?;
            let reset = self.reset().await;
            match self.measure(task).await? {
                Try::Measured(mut measurement, seconds) => {
                    if let (Err(refusal), Verdict::Sound) = (reset, &measurement.verdict) {
                        measurement.verdict = Verdict::Suspect(Failure::new(Cause::CachesNotReset, refusal));
                    }
                    self.lost_in_a_row = 0;
                    self.death = None;
                    return self.commit(task, &started, measurement, seconds);
                }
                Try::BenchFailed(failure, seconds) => {
                    self.record_failed(task, &failure, seconds)?;
                    return Ok(Attempt::Recorded(Outcome::Failed));
                }
                Try::ServerDied(failure, seconds) => {
                    self.stop(Some(&failure)).await?;
                    self.death = Some(failure.clone());
                    died_here = true;
                    if failure.cause.is_transient() && tries < TRIES {
                        tries += 1;
                        self.note_retry(&failure)?;
                        continue;
                    }
                    self.lost_in_a_row += 1;
                    // A search learns from deaths: they say that its load was too high.
                    if self.lost_in_a_row >= LOST_POINTS && task.asked.is_none() {
                        return Ok(Attempt::ServerLost(failure));
                    }
                    self.record_failed(task, &failure, seconds)?;
                    return Ok(Attempt::PointLost(failure));
                }
                Try::Interrupted => return Ok(Attempt::Interrupted),
            }
        }
    }
}

fn not_tried(failure: &Failure) -> Failure {
    Failure::new(failure.cause, format!("{NOT_TRIED}{}", failure.detail))
}
