//! Performs a sweep, and owns all its processes: it works on the server groups, and records every run before the next one of the group
//! begins. Earlier results are in the journal; this room only performs what is missing.
//!
//! Does not depend on displays: it reports events and the progress of runs to an observer.

mod activity_lock;
mod attached;
mod changes;
mod drive;
mod facts;
mod foreign;
mod groups;
pub(crate) mod hardware;
mod interrupt;
mod lease;
mod live;
mod node;
pub mod on_finish;
mod sampler;
mod scheduler;
mod share;
mod writer;

use crate::agenda::{Action, Ending, Finals, Predictions, Schedule, Start, compared, optimization};
use crate::answer::MetricNoise;
use crate::bench::Counters;
use crate::error::Result;
use crate::ids::{SearchId, ServerId};
use crate::journal::{
    Entry, Event, FIRST_SLOT, GroupBegun, LoadNames, Machine, Recorder, SessionStarted, Shard, State,
};
use crate::matrix::{Matrix, ServerConfig};
use crate::plan::Plan;
use crate::selection::packed::Need;
pub use crate::server::host;
use crate::server::settle;
use crate::units::{show_duration, show_many};
pub use changes::Changes;
pub use drive::{NoSignals, SignalSource, Stage, Writer, drive};
use foreign::declared;
pub use foreign::{ImportedRun, import_results};
pub use interrupt::Interrupt;
use itertools::Itertools;
pub use lease::{LeaseContent, Leases, leases_in_use};
pub(crate) use live::reduce;
pub use node::{Node, capacity, demand};
use scheduler::{Scheduler, StartQueue};
pub use share::{Share, chosen_group, group_name};
use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;
use std::time::Duration;
use writer::SessionWriter;

/// Assumed number of runs of a search without a prediction.
const USUAL_PROBES: usize = 8;
/// Time that the guards of a killed vsweep may need in addition to the grace period.
const ORPHANS_MARGIN: Duration = Duration::from_secs(5);

/// An update for the observer of a sweep.
#[derive(Debug)]
pub enum Update<'a> {
    /// An event is on disk.
    Recorded(&'a Entry),
    /// A benchmark begins on this server, and updates these counters from now on.
    Running(&'a ServerId, &'a Arc<Counters>),
    /// An action on a server begins.
    Acting(&'a ServerId, &'a Action),
    /// A note that the user should read once.
    Note(&'a str),
}

/// Receives updates. An error ends the sweep in an orderly way, because results must not be lost with a display.
pub type Observer<'a> = dyn FnMut(Update<'_>, &Recorder) -> Result<()> + 'a;

/// Expected answers of searches, by search and by the name of the target. Searches not listed have no prediction.
pub type Forecasts = BTreeMap<SearchId, BTreeMap<String, f64>>;

/// Expected duration of the work on each server, in seconds.
pub type ServerSeconds = BTreeMap<ServerId, f64>;

/// One session of work on an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Sweep<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The whole expanded plan; decides which recorded points still count.
    pub whole: &'a Matrix,
    /// The part of it to work on now (the whole, unless `--only` was given).
    pub wanted: &'a Matrix,
    /// The share of the server groups for this session.
    pub shard: Shard,
    /// True if failed runs are measured again.
    pub retry_failed: bool,
    /// Expected answers of searches.
    pub forecasts: &'a Forecasts,
    /// The machine, if servers run side by side.
    pub node: Option<&'a Node>,
    /// Expected duration of the work on each server, in seconds; servers not listed have none.
    pub seconds: &'a ServerSeconds,
    /// Predictions of the servers, for an optimisation that begins; servers not listed have none.
    pub predictions: &'a Predictions,
    /// The share of a worker among others; `None` for a session that takes no leases.
    pub share: Option<&'a Share>,
    /// Starts beyond those of the plan, as the answer advises them.
    pub advised: Option<&'a Finals>,
    /// The noise that other experiments measured on this machine, for a new one.
    pub noise: &'a [MetricNoise],
}

impl<'a> Sweep<'a> {
    /// Returns a sweep of all work on a plan, without knowledge of the machine or of durations.
    pub fn of(plan: &'a Plan, matrix: &'a Matrix) -> Sweep<'a> {
        const NO_FORECASTS: &Forecasts = &Forecasts::new();
        const NO_SECONDS: &ServerSeconds = &ServerSeconds::new();
        const NO_PREDICTIONS: &Predictions = &Predictions::new();
        Sweep {
            plan,
            whole: matrix,
            wanted: matrix,
            shard: Shard::WHOLE,
            retry_failed: false,
            forecasts: NO_FORECASTS,
            node: None,
            seconds: NO_SECONDS,
            predictions: NO_PREDICTIONS,
            share: None,
            advised: None,
            noise: &[],
        }
    }
}

impl Sweep<'_> {
    /// Measures what the journal lacks. No server of the sweep is left when this returns, even after an error.
    pub async fn perform(
        self,
        changes: Changes,
        recorder: &mut Recorder,
        interrupt: &mut Interrupt,
        observer: &mut Observer<'_>,
    ) -> Result<Ending> {
        let writer = &SessionWriter::new(recorder, observer);
        let damage = writer.with(|recorder| recorder.damage());
        for note in changes.notes().iter().chain(&damage) {
            writer.note(note)?;
        }
        let is_new = writer.look(|state| state.sessions().is_empty());
        let Some(outdated) = self.outdated(writer, interrupt).await? else {
            return Ok(Ending::Interrupted);
        };
        // The figures that an edited optimisation needs, and so its starts, are known once it is recorded.
        let is_edited = self.plan.optimize.is_some() && changes.is_any();
        let has_work = is_edited || !outdated.is_empty() || writer.look(|state| self.schedule().has_work(state));
        // Without work, guards need not be awaited.
        let limit = if has_work { self.patience() } else { Duration::ZERO };
        tokio::select! {
            cleared = self.clear_away(limit, writer) => cleared?,
            () = interrupt.requested() => return Ok(Ending::Interrupted),
        }
        let unhidden = writer
            .with(|recorder| live::hide_in_logs_of_killed(recorder.directory(), recorder.state(), &self.plan.secrets));
        for note in &unhidden {
            writer.note(note)?;
        }
        let is_whole = writer.with(|recorder| recorder.gaps().is_empty());
        if !is_new && !has_work && !changes.is_any() && is_whole {
            return Ok(Ending::NothingLeft);
        }
        let left = writer
            .look(|state| self.time_left(&outdated, state))
            .filter(|_| has_work);
        let is_spent = left == Some(Duration::ZERO);
        if let Some(most) = self.plan.max_time.filter(|_| is_spent) {
            writer.note(&format!(
                "earlier sessions spent the time limit of {}, so nothing begins; raise --budget, or max_time in the plan, to continue",
                show_duration(most)
            ))?;
        }
        if is_spent && !changes.is_any() {
            return Ok(Ending::OutOfTime);
        }
        if let Some(left) = left.filter(|_| !is_spent) {
            interrupt.drain_after(left);
        }
        let machine = facts::machine(self.plan).await;
        self.begin(changes, Some(machine), writer).await?;
        // The starts of an optimisation are known once it is recorded.
        let is_left = has_work && (!outdated.is_empty() || writer.look(|state| self.schedule().has_work(state)));
        // Once the time is spent, only an edited plan is recorded.
        let has_work = is_left && !is_spent;
        let directory = writer.with(|recorder| recorder.directory().clone());
        let manifest = facts::collect(self.plan).await;
        manifest.write(&directory, has_work, self.share.is_some())?;
        for (server, reason) in outdated.into_iter().filter(|_| has_work) {
            writer.record(Event::ResultsRetired { server, reason }).await?;
        }
        let ending = match has_work {
            true => self.work(writer, interrupt).await?,
            false if is_left => Ending::OutOfTime,
            false => Ending::NothingLeft,
        };
        let ending = match ending {
            Ending::Interrupted if interrupt.is_out_of_time() => Ending::OutOfTime,
            ending => ending,
        };
        let reason = ending.reason().into();
        writer.record(Event::SessionEnded { reason }).await?;
        Ok(ending)
    }

    /// Ends the processes that killed vsweeps left behind. Waits at most `limit` for those that their guards are still ending.
    async fn clear_away(&self, limit: Duration, writer: &SessionWriter<'_>) -> Result<()> {
        let processes = writer.look(State::processes);
        match settle::clear_away(&processes, limit).await {
            Some(note) => writer.note(&note),
            None => Ok(()),
        }
    }

    /// Returns the time limit for guards to end the processes of a killed vsweep.
    fn patience(&self) -> Duration {
        self.plan.serve.stop_grace + ORPHANS_MARGIN
    }

    /// Returns the remaining work.
    pub fn schedule(&self) -> Schedule<'_> {
        let schedule =
            Schedule::new(self.plan, self.wanted, self.shard, self.retry_failed).with_at_once(self.at_once());
        self.advised.map_or(schedule, |advised| schedule.with_advised(advised))
    }

    /// Returns the largest number of servers that an optimisation runs at the same time, if each needs as few GPUs as the smallest one.
    /// Returns 1 for other plans.
    fn at_once(&self) -> usize {
        let Some(node) = self.node.filter(|_| self.plan.optimize.is_some()) else {
            return 1;
        };
        let demands = self
            .wanted
            .servers()
            .map(|server| demand(&self.plan.exec, node.capacity, &server));
        let by_gpus = demands
            .min()
            .filter(|gpus| *gpus > 0)
            .map(|gpus| node.capacity.gpus / gpus);
        let groups = node.capacity.groups;
        by_gpus.map_or(groups, |servers| servers.min(groups)).max(1) as usize
    }

    /// Records the session and its plan.
    async fn begin(&self, changes: Changes, machine: Option<Machine>, writer: &SessionWriter<'_>) -> Result<()> {
        let mut started = writer.look(|state| self.session_started(changes, machine, state));
        started.joined = self.share.is_some();
        if started.joined {
            started.renamed = LoadNames::default();
        }
        started.noise = self.noise.to_vec();
        writer.record(Event::SessionStarted(Box::new(started))).await?;
        match self.share {
            None => self.rename(writer).await,
            Some(_) => Ok(()),
        }
    }

    /// Records the present names of recorded servers: the plan may give one the name that another had.
    async fn rename(&self, writer: &SessionWriter<'_>) -> Result<()> {
        let renamed: Vec<GroupBegun> = writer.look(|state| {
            let renamed = |server: ServerConfig| {
                let record = state.servers.get(&server.id)?;
                let begun = declared(self.plan, &server);
                (record.config != begun.config).then_some(begun)
            };
            self.whole.servers().filter_map(renamed).collect()
        });
        for begun in renamed {
            writer.record(Event::GroupBegun(Box::new(begun))).await?;
        }
        Ok(())
    }

    /// Returns a session of this process with this plan.
    fn session_started(&self, changes: Changes, machine: Option<Machine>, state: &State) -> SessionStarted {
        let (plan, matrix) = (self.plan, self.whole);
        let counts = matrix.counts();
        let begun = state.optimization();
        let machine_gpus = self.node.map(|node| node.capacity.gpus);
        SessionStarted {
            machine: machine.map(Box::new),
            plan: state.refer(changes.plan),
            renamed: changes.renamed,
            servers: counts.servers,
            points: counts.points,
            starts: plan.starts,
            runs: counts.runs,
            searches: counts.searches,
            compare: compared(plan, matrix).map(Box::new),
            optimize: optimization(plan, matrix, begun, self.predictions, machine_gpus).map(Box::new),
            ..facts::session()
        }
    }

    /// Works on the remaining starts. A comparison or an optimisation chooses its starts by the results so far. Other plans have planned
    /// starts, then fresh starts of the finalists, which are known only after the planned ones.
    async fn work(&self, writer: &SessionWriter<'_>, interrupt: &mut Interrupt) -> Result<Ending> {
        let schedule = self.schedule();
        let mut tried = Vec::new();
        let chosen = iter::from_fn(|| {
            let group = chosen_group(self.plan);
            let has_it = |share: &Share| group.is_some_and(|group| share.leases.had(group));
            // Without the lease, another worker has had these starts, so this one has tried none.
            if !self.share.is_none_or(has_it) {
                tried.clear();
            }
            let mut starts = writer.look(|state| schedule.wanted_starts(state, &tried));
            if starts.is_empty() && self.plan.optimize.is_some() {
                // The points to measure without neighbours are known only at the end.
                starts = self.finals(writer, &tried);
            }
            tried.extend(starts.iter().map(|start| (start.server.id.clone(), start.slot)));
            (!starts.is_empty()).then_some(starts)
        });
        // Every config has its next start before any has the one after that.
        let planned = (FIRST_SLOT..self.wanted.starts()).map(|slot| schedule.starts_at(slot).collect());
        let rounds: StartQueue<'_> = match self.share {
            _ if schedule.chooses_starts() => Box::new(chosen),
            Some(share) => Box::new(self.offers(share, writer)),
            // The points to measure without neighbours are known only after the finals.
            None => Box::new(planned.chain(iter::repeat_with(|| self.finals(writer, &[])).take(2))),
        };
        let scheduler = Scheduler::now(self, self.node, self.share, rounds).await;
        self.run_groups(&scheduler, writer, interrupt).await
    }

    /// Returns the open starts of the finals, without those in `tried`, and notes them for the user.
    fn finals(&self, writer: &SessionWriter<'_>, tried: &[(ServerId, u32)]) -> Vec<Start> {
        let schedule = self.schedule();
        let is_tried = |start: &Start| tried.contains(&(start.server.id.clone(), start.slot));
        // Other shards may have ended since the last group began. If they cannot be read now, the next group reports that.
        let _ = writer.with(Recorder::refresh);
        let starts: Vec<Start> = writer.look(|state| {
            let finals = schedule.finals(state).filter(|start| !is_tried(start));
            finals.filter(|start| schedule.has_group(start, state)).collect()
        });
        let (alone, fresh): (Vec<&Start>, Vec<&Start>) = starts.iter().partition(|start| start.is_alone());
        let names = |starts: Vec<&Start>| starts.into_iter().map(|start| &*start.server.name).unique().join("; ");
        let slots = fresh.iter().map(|start| start.slot).unique().count();
        // Best effort: a failed note must not end the sweep.
        if !fresh.is_empty() {
            let _ = writer.note(&format!(
                "which server is best is not decided yet, so these get {} each: {}",
                show_many(slots as u64, "fresh start"),
                names(fresh)
            ));
        }
        if !alone.is_empty() {
            let _ = writer.note(&format!(
                "the best servers ran next to others, so each is measured once alone: {}",
                names(alone)
            ));
        }
        starts
    }

    /// Returns the GPUs of the arms of a comparison, which run side by side: two sets, each large enough for the larger arm.
    async fn sets(&self, node: &Node) -> [Vec<u32>; 2] {
        let is_compared = self.plan.compare.is_some();
        let arms = self.wanted.servers().take_while(|_| is_compared);
        let largest = arms.map(|server| demand(&self.plan.exec, node.capacity, &server)).max();
        node.sets(largest.unwrap_or(0) as usize).await
    }

    /// Returns the starts with remaining work, each with its needs.
    pub fn needs(&self, node: &Node, starts: impl Iterator<Item = Start>, state: &State) -> Vec<(Start, Need)> {
        let schedule = self.schedule();
        let starts = starts.filter(|start| schedule.has_group(start, state));
        // Without a prediction, the number of runs is used as the duration.
        let work = |start: &Start| {
            let group = schedule.group(start, state)?;
            let searched = USUAL_PROBES * (group.searches.len() + group.explorations.len());
            Some((schedule.sure_runs(start, state) + searched as u64) as f64)
        };
        let need = |start: Start| {
            let known = self.seconds.get(&start.server.id);
            let seconds = known.map(|seconds| seconds / f64::from(self.plan.starts.max(1)));
            // Durations decide the order only where servers share the machine.
            let seconds = seconds.or_else(|| (!node.is_undivided()).then(|| work(&start))?);
            let need = Need {
                gpus: demand(&self.plan.exec, node.capacity, &start.server),
                seconds: seconds.unwrap_or(0.0),
                alone: self.plan.exec.is_exclusive(&start.server.params),
            };
            (start, need)
        };
        starts.map(need).collect()
    }
}
