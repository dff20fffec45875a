//! The stage of a real run: one server, or one program that needs none, started, measured and stopped as an agenda demands. It decides
//! nothing.

mod attached;
mod hidden;
mod measure;
mod offline;
mod server;

use super::Update;
use super::activity_lock::{Activity, ActivityLock};
use super::drive::Stage;
use super::hardware::Hardware;
use super::interrupt::Interrupt;
use super::node::Allocation;
use super::scheduler::Scheduler;
use super::writer::SessionWriter;
use crate::agenda::{Action, ActionOutcome};
use crate::bench::Program;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::journal::{Launch, LaunchRecord, State, now};
use crate::matrix::ServerConfig;
use crate::plan::{Parallel, Params, Plan};
use crate::run::activity_lock::Permit;
use crate::run::drive::Writer;
use crate::server::claim::Presence;
use crate::server::settle::ReleaseWait;
use crate::server::{Identity, Server};
use crate::telemetry::nvml::Gpus;
use crate::validity::Doubt;
pub(super) use hidden::{hide_in_log, hide_in_logs_of_killed};
use hidden::{hide_in_scratch, not_hidden};
use jiff::{SignedDuration, Timestamp};
pub(crate) use measure::reduce;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// One server config and its process.
pub struct Live<'p, 'w> {
    plan: &'p Plan,
    config: ServerConfig,
    allocation: &'p Allocation,
    release_wait: &'p ReleaseWait,
    activity_lock: &'p ActivityLock,
    writer: &'p SessionWriter<'w>,
    /// The permit to start, from the wait for it to the end of the start.
    permit: Option<Permit<'p>>,
    running: Option<Running>,
    /// The benchmark program of the run, unless vsweep itself measures.
    program: Option<Program>,
    /// Lets other vsweeps on the machine know of the server.
    presence: Option<Presence>,
    /// The log of the last launch, until secrets are hidden in it.
    log: Option<PathBuf>,
    /// The folder of the last benchmark, until secrets are hidden in it.
    scratch: Option<PathBuf>,
    /// The last launch, and its beginning.
    launched: Option<(Launch, Instant)>,
    /// Number of successive tries of a run during which the server behind a URL was restarted.
    disturbances: u32,
}

/// A server that was spawned or attached to.
struct Running {
    server: Server,
    /// Its identity, once it is ready.
    identity: Option<Identity>,
    /// Its fingerprint, if vsweep did not launch it.
    fingerprint: Option<Fingerprint>,
    /// Differences from the plan, as the server reports them.
    not_as_planned: Option<Doubt>,
    /// Its GPUs and its model, if they are known.
    hardware: Option<Hardware>,
    /// The GPUs it uses, as far as they can be read.
    gpus: Arc<Gpus>,
    /// Ids of the processes that were on these GPUs before it was started, as the driver reports them.
    before: BTreeSet<u32>,
    /// Durations of its start and of the phases of the start.
    startup: Params,
    /// True if the last run was cut, so that the server may still work on abandoned requests.
    has_leftovers: bool,
}

impl<'p, 'w> Live<'p, 'w> {
    /// Returns the stage of a server config. Starts nothing yet.
    pub fn new(
        plan: &'p Plan,
        config: ServerConfig,
        allocation: &'p Allocation,
        scheduler: &'p Scheduler<'_>,
        writer: &'p SessionWriter<'w>,
    ) -> Self {
        Live {
            plan,
            config,
            allocation,
            release_wait: &scheduler.release_wait,
            activity_lock: &scheduler.activity_lock,
            writer,
            permit: None,
            running: None,
            program: None,
            presence: None,
            log: None,
            scratch: None,
            launched: None,
            disturbances: 0,
        }
    }

    /// Ends the server that an error left behind: in an orderly way, or at once if the user insists.
    pub async fn clear(&mut self, interrupt: &mut Interrupt) {
        let is_stopped = tokio::select! {
            () = self.stop() => true,
            () = interrupt.insisted() => false,
        };
        if !is_stopped {
            self.kill().await;
        }
    }

    async fn stop(&mut self) {
        self.end_program().await;
        if let Some(running) = &mut self.running {
            running.server.stop().await;
        }
        self.forget_server();
    }

    async fn kill(&mut self) {
        if let Some(program) = &mut self.program {
            program.kill().await;
        }
        if let Some(running) = &mut self.running {
            running.server.kill().await;
        }
        self.forget_server();
    }

    /// Ends the program of a run, and awaits its end: it may still write secrets to its files until then.
    async fn end_program(&mut self) {
        if let Some(program) = &mut self.program {
            program.stop().await;
        }
        self.program = None;
    }

    fn stopped(&mut self, began: Instant) -> ActionOutcome {
        ActionOutcome::Stopped {
            seconds: began.elapsed().as_secs_f64(),
            held_seconds: self.launched.take().map(|(_, began)| began.elapsed().as_secs_f64()),
        }
    }

    /// Drops what belongs to a server that is gone. Hides secrets in its log and in the output of the last benchmark.
    fn forget_server(&mut self) {
        self.running = None;
        self.program = None;
        self.presence = None;
        let log = self.log.take();
        self.note_not_hidden(log.and_then(|log| hide_in_log(&log, &self.plan.secrets).err()));
        self.hide_in_scratch();
    }

    /// Hides secrets in the output of the last benchmark, whose program is gone.
    fn hide_in_scratch(&mut self) {
        let scratch = self.scratch.take().into_iter();
        self.note_not_hidden(scratch.flat_map(|scratch| hide_in_scratch(&scratch, &self.plan.secrets)));
    }

    /// Notes the files in which secrets could not be hidden. The sweep continues even if a note cannot be shown.
    fn note_not_hidden(&self, errors: impl IntoIterator<Item = Error>) {
        for error in errors {
            let _ = self.writer.note(&not_hidden(&error));
        }
    }

    /// Returns the kind of activity that a start of this server is for the activity lock.
    fn starting(&self) -> Activity {
        let exec = &self.plan.exec;
        match exec.starts_apart(&self.config.argv, self.allocation.gpus.len() as u32) {
            true => Activity::StartApart,
            false => Activity::Start,
        }
    }

    /// Returns the server, which the agenda uses only when it is up.
    fn ready(&mut self) -> &mut Running {
        self.running.as_mut().expect("a run begins on a ready server")
    }

    /// Returns the number of servers of other sessions that are up on this machine.
    fn others_up(&self) -> usize {
        Presence::of_others(&self.session())
    }

    fn session(&self) -> String {
        self.writer.with(|recorder| recorder.nonce()).to_string()
    }

    /// Adds the activity of other groups to a run.
    fn note_neighbours(&self, outcome: &mut ActionOutcome, permit: &Permit<'_>) {
        if self.plan.exec.parallel != Parallel::No
            && let ActionOutcome::Ran { result: Ok(ran), .. } = outcome
        {
            ran.neighbours = Some(permit.neighbours());
        }
    }

    /// Returns the numbers of other launches of this session that ran, and that were starting, at any time since `since`: a start costs the
    /// host most. Empty if servers run one after the other.
    fn neighbours(&self, since: Timestamp) -> Params {
        let Some((own, _)) = self.launched.filter(|_| self.plan.exec.parallel != Parallel::No) else {
            return Params::new();
        };
        let (servers, starts) = self.writer.look(|state| {
            let neighbours = neighbours_of(own, state, since);
            let starting = neighbours.iter().filter(|start| was_starting(start, since));
            (neighbours.len(), starting.count())
        });
        [("servers_beside", servers), ("starts_beside", starts)]
            .map(|(name, count)| (name.to_owned(), count.into()))
            .into_iter()
            .collect()
    }
}

impl Stage for Live<'_, '_> {
    type Error = Error;

    async fn act(&mut self, action: Action) -> Result<ActionOutcome> {
        self.writer.notify(Update::Acting(&self.config.id, &action))?;
        let offline = self.plan.bench.runner.offline();
        let began = Instant::now();
        Ok(match action {
            Action::Await => {
                self.permit = Some(self.activity_lock.enter(self.starting()).await);
                ActionOutcome::Permitted
            }
            Action::Start(launch) => {
                let _permit = self.permit.take();
                self.launched = Some((launch, began));
                self.presence = Presence::of(&self.session(), launch.n);
                match offline {
                    None => self.start(launch).await?,
                    Some(offline) => self.start_offline(offline).await?,
                }
            }
            Action::Check => self.inspect().await?,
            Action::Reset => ActionOutcome::Reset {
                result: self.reset().await,
                seconds: began.elapsed().as_secs_f64(),
            },
            Action::Run(job) => {
                let permit = self.activity_lock.enter(Activity::Run).await;
                let permitted_at = now();
                let mut outcome = match offline {
                    None => self.measure(&job, permitted_at).await?,
                    Some(offline) => self.measure_offline(offline, &job, permitted_at).await?,
                };
                self.note_neighbours(&mut outcome, &permit);
                outcome
            }
            Action::Stop => {
                self.stop().await;
                self.stopped(began)
            }
            Action::Kill => {
                self.kill().await;
                self.stopped(began)
            }
        })
    }
}

/// Returns the other launches of a session that were up at any time since `since`. Several may be of one server.
fn neighbours_of(own: Launch, state: &State, since: Timestamp) -> Vec<&LaunchRecord> {
    let is_neighbour = |start: &&LaunchRecord| {
        let ended = start.exited_at.as_ref().and_then(|at| at.parse::<Timestamp>().ok());
        let is_other = start.launch.session == own.session && start.launch != own;
        is_other && ended.is_none_or(|ended| ended >= since)
    };
    state.launches().filter(is_neighbour).collect()
}

/// Returns true if a server was starting at any time since `since`. A server that never became ready was starting until its end. The wait
/// of a launch for earlier servers is not known here, so after such a wait a start seems to end earlier than it did.
fn was_starting(start: &LaunchRecord, since: Timestamp) -> bool {
    let took = start
        .ready_seconds()
        .and_then(|seconds| SignedDuration::try_from_secs_f64(seconds).ok());
    let launched = start.started_at.parse::<Timestamp>().ok();
    let ready = launched
        .zip(took)
        .and_then(|(launched, took)| launched.checked_add(took).ok());
    ready.is_none_or(|ready| ready >= since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ServerId;
    use crate::journal::Event;

    #[test]
    fn another_launch_of_the_same_server_is_a_neighbour() {
        let mut state = State::default();
        for launch in 1..=2 {
            state.apply_hypothetical(Event::ServerStarting {
                server: ServerId("a".into()),
                slot: launch - 1,
                launch,
                gpus: Vec::new(),
            });
        }
        let launches: Vec<Launch> = state.launches().map(|start| start.launch).collect();
        let found = neighbours_of(launches[0], &state, Timestamp::MIN);
        assert_eq!(
            found.iter().map(|start| start.launch).collect::<Vec<_>>(),
            launches[1..]
        );
    }
}
