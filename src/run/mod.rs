//! The one loop that owns processes: server groups in order, each server started once, every run recorded before the
//! next begins. What was done is in the journal; this room only decides what comes next and sees it through.
//!
//! Knows nothing of displays: it tells an observer what was recorded and how a run is getting on.

mod behind;
mod changes;
mod drive;
mod facts;
mod foreign;
mod gate;
mod interrupt;
mod lease;
mod live;
mod node;
mod place;
mod sampler;
mod seat;
mod wishes;
mod writer;

pub use changes::Changes;
pub use drive::{Signals, Stage, Unattended, Writer, drive};
pub use facts::host;
pub use foreign::{Foreign, Found, take_in};
pub use interrupt::Interrupt;
pub use lease::{Leases, Sign, signs};
pub(crate) use live::reduce;
pub use node::{Node, demand, room};
pub use place::{COMPARISON, Share, group_name};

use crate::agenda::{Action, Agenda, Ending, Group, Hint, Hints, Schedule, Scope, Start, compared, first_point};
use crate::bench::{self, Counters};
use crate::error::Result;
use crate::ids::{SearchId, ServerId};
use crate::journal::{Entry, Event, FIRST_SLOT, Recorder, Seen, SessionStarted, Shard, State};
use crate::matrix::{LoadSearch, Matrix, ServerConfig};
use crate::plan::{BenchRunner, Plan};
use crate::selection::packed::Need;
use crate::server::settle;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use itertools::Itertools;
use live::Live;
use place::{Leased, Packed, Place, ThisHost};
use seat::Seat;
use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use wishes::Wishes;
use writer::SessionWriter;

/// Runs that a search takes as long as nothing is known of it.
const USUAL_PROBES: usize = 8;
/// How a session ends that only recorded a plan.
const SUBMITTED: &str = "submitted";
/// What the guards of a killed vsweep may need beyond the grace period.
const ORPHANS_MARGIN: Duration = Duration::from_secs(5);

/// What a sweep tells its observer.
#[derive(Debug)]
pub enum Update<'a> {
    /// An event is on disk.
    Recorded(&'a Entry),
    /// A benchmark begins on this server; its counters move on their own from now on.
    Running(&'a ServerId, &'a Arc<Counters>),
    /// A server is acted on, beside its runs.
    Acting(&'a ServerId, &'a Action),
    /// Something the user should read once.
    Note(&'a str),
}

/// Receives updates; an error ends the sweep in order (a report that cannot be written is no reason to lose results).
pub type Observer<'a> = dyn FnMut(Update<'_>, &Recorder) -> Result<()> + 'a;

/// What searches will likely find, by search and by the name of the target; of what is not listed nothing is predicted.
pub type Forecasts = BTreeMap<SearchId, BTreeMap<String, f64>>;

/// How long the work on each server will likely take, in seconds.
pub type Lengths = BTreeMap<ServerId, f64>;

/// One session of work on an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Sweep<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Everything the plan expands to; decides which recorded points still count.
    pub whole: &'a Matrix,
    /// The part of it to work on now (the whole, unless `--only` was given).
    pub wanted: &'a Matrix,
    /// Which share of the server groups is ours.
    pub shard: Shard,
    /// Measure failed runs again.
    pub retry_failed: bool,
    /// First guesses for searches.
    pub forecasts: &'a Forecasts,
    /// The machine, if servers run side by side.
    pub node: Option<&'a Node>,
    /// How long the work on each server will likely take, in seconds; of what is not listed nothing is known.
    pub lengths: &'a Lengths,
    /// What a worker takes beside others; `None` for a session that has the experiment to itself.
    pub share: Option<&'a Share>,
}

impl Sweep<'_> {
    /// Performs what the journal lacks. Whatever happens, no server of the sweep is left when this returns.
    pub async fn perform(
        self,
        changes: Changes,
        recorder: &mut Recorder,
        interrupt: &mut Interrupt,
        observer: &mut Observer<'_>,
    ) -> Result<Ending> {
        for note in changes.notes() {
            observer(Update::Note(&note), recorder)?;
        }
        for sentence in recorder.damage() {
            observer(Update::Note(&sentence), recorder)?;
        }
        let is_new = recorder.state().sessions().is_empty();
        let outdated = self.outdated(recorder.state(), recorder.nonce(), interrupt).await?;
        let Some(outdated) = outdated else {
            return Ok(Ending::Interrupted);
        };
        let has_work = !outdated.is_empty() || self.schedule().has_work(recorder.state());
        if let Some(ending) = self.clear_away(has_work, recorder, interrupt, observer).await? {
            return Ok(ending);
        }
        if !is_new && !has_work && !changes.is_any() && recorder.gaps().is_empty() {
            return Ok(Ending::NothingLeft);
        }
        if self.share.is_none() || !recorder.directory().manifest().exists() {
            facts::collect(self.plan).await.write(recorder.directory())?;
        }
        self.begin(changes, recorder, observer)?;
        for (server, reason) in outdated {
            record(recorder, observer, Event::ResultsRetired { server, reason })?;
        }
        let ending = match has_work {
            true => self.work(recorder, interrupt, observer).await?,
            false => Ending::NothingLeft,
        };
        let reason = ending.reason().into();
        record(recorder, observer, Event::SessionEnded { reason })?;
        Ok(ending)
    }

    /// Records the plan for workers to come, unless it is the one that counts already. Nothing is started.
    pub async fn declare(&self, changes: Changes, recorder: &mut Recorder) -> Result<()> {
        if recorder.state().sessions().is_empty() || changes.is_any() || !recorder.gaps().is_empty() {
            facts::collect(self.plan).await.write(recorder.directory())?;
            let mut nobody = |_: Update<'_>, _: &Recorder| Ok(());
            self.begin(changes, recorder, &mut nobody)?;
            let reason = SUBMITTED.into();
            record(recorder, &mut nobody, Event::SessionEnded { reason })?;
        }
        Ok(())
    }

    /// The groups that are left, as leases and command lines call them, with the server of each; of a comparison it is one, with all.
    pub fn left(&self, state: &State) -> Vec<(String, Vec<ServerConfig>)> {
        let schedule = self.schedule();
        if self.plan.compare.is_some() {
            let all = || (COMPARISON.to_owned(), self.wanted.servers().collect());
            return schedule.next(state, &[]).map(|_| all()).into_iter().collect();
        }
        let open = schedule
            .foreseen(state)
            .filter(|start| schedule.group(start, state).is_some());
        open.map(|start| (group_name(false, &start), vec![start.server]))
            .collect()
    }

    /// Ends what killed vsweeps left behind, and, if there is work to do, waits for what their guards are still ending; an
    /// ending if the user asked to stop meanwhile.
    async fn clear_away(
        &self,
        has_work: bool,
        recorder: &Recorder,
        interrupt: &mut Interrupt,
        observer: &mut Observer<'_>,
    ) -> Result<Option<Ending>> {
        let limit = match has_work {
            true => self.plan.serve.stop_grace + ORPHANS_MARGIN,
            false => Duration::ZERO,
        };
        let killed = recorder.state().killed_sessions();
        let cleared = tokio::select! {
            cleared = settle::clear_away(&killed, limit) => cleared,
            () = interrupt.requested() => return Ok(Some(Ending::Interrupted)),
        };
        if let Some(note) = cleared.describe() {
            observer(Update::Note(&note), recorder)?;
        }
        Ok(None)
    }

    /// What there is to do.
    pub fn schedule(&self) -> Schedule<'_> {
        Schedule::new(self.plan, self.wanted, self.shard, self.retry_failed)
    }

    /// Notes the session and its plan.
    fn begin(&self, changes: Changes, recorder: &mut Recorder, observer: &mut Observer<'_>) -> Result<()> {
        let started = session_started(self.plan, self.whole, changes, recorder.state());
        record(recorder, observer, started).map(drop)
    }

    /// Works on what is left: on the starts that a comparison asks for; else on the planned starts, then on the fresh ones of the
    /// finalists, which are known only then.
    async fn work(
        &self,
        recorder: &mut Recorder,
        interrupt: &mut Interrupt,
        observer: &mut Observer<'_>,
    ) -> Result<Ending> {
        let writer = &SessionWriter::new(recorder, observer);
        let schedule = self.schedule();
        let mut tried = Vec::new();
        let asked = iter::from_fn(|| {
            let start = writer.look(|state| schedule.next(state, &tried))?;
            tried.push((start.server.id.clone(), start.slot));
            Some(start)
        });
        let is_compared = self.plan.compare.is_some();
        if let Some(share) = self.share {
            return self.work_beside_others(share, asked, writer, interrupt).await;
        }
        let asked = is_compared.then_some(asked).into_iter().flatten();
        let finals = iter::once_with(|| self.finals(writer)).filter(|starts| !starts.is_empty());
        match self.node {
            None => {
                let planned = (!is_compared).then(|| schedule.starts()).into_iter().flatten();
                let place = ThisHost::now(asked.chain(planned).chain(finals.flatten())).await;
                self.work_at(&place, writer, interrupt).await
            }
            Some(node) => {
                // Every config has its next start before any has the one after.
                let of_slot = |slot: u32| schedule.starts_at(slot).collect();
                let planned = (FIRST_SLOT..self.wanted.starts()).map(of_slot);
                let rounds = planned.chain(finals);
                let needs = |starts: Vec<Start>| writer.look(|state| self.needs(node, starts.into_iter(), state));
                let place = Packed::now(node, self.plan, rounds.map(needs)).await;
                self.work_at(&place, writer, interrupt).await
            }
        }
    }

    /// The same, of which other workers take what they can: what is open is offered again and again.
    async fn work_beside_others(
        &self,
        share: &Share,
        asked: impl Iterator<Item = Start>,
        writer: &SessionWriter<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<Ending> {
        let schedule = self.schedule();
        if self.plan.compare.is_some() {
            let place = Leased::new(ThisHost::now(asked).await, share, schedule, true);
            return self.work_at(&place, writer, interrupt).await;
        }
        let is_open = |start: &Start| {
            let name = group_name(false, start);
            let is_ours = share.wants(&name) && !share.leases.had(&name);
            is_ours && writer.look(|state| schedule.group(start, state).is_some())
        };
        let last = self.wanted.starts();
        let mut slot = FIRST_SLOT;
        // Nothing comes once after each time that all were offered.
        let mut rounds = iter::from_fn(move || {
            while slot <= last {
                let starts = match slot < last {
                    true => schedule.starts_at(slot).collect(),
                    false => self.finals(writer),
                };
                slot += 1;
                let open: Vec<Start> = starts.into_iter().filter(is_open).collect();
                if !open.is_empty() {
                    return Some(open);
                }
            }
            slot = FIRST_SLOT;
            None
        });
        match self.node {
            None => {
                let mut round = Vec::new().into_iter();
                let starts = iter::from_fn(move || {
                    loop {
                        if let Some(start) = round.next() {
                            return Some(start);
                        }
                        round = rounds.next()?.into_iter();
                    }
                });
                let place = Leased::new(ThisHost::now(starts).await, share, schedule, false);
                self.work_at(&place, writer, interrupt).await
            }
            Some(node) => {
                let needs = |starts: Vec<Start>| writer.look(|state| self.needs(node, starts.into_iter(), state));
                let place = Packed::now(node, self.plan, rounds.map(needs)).await;
                let place = Leased::new(place, share, schedule, false);
                self.work_at(&place, writer, interrupt).await
            }
        }
    }

    /// The fresh starts of the finalists, of which the user is told.
    fn finals(&self, writer: &SessionWriter<'_>) -> Vec<Start> {
        let schedule = self.schedule();
        let starts: Vec<Start> = writer.look(|state| {
            let finals = schedule.finals(state);
            finals.filter(|start| schedule.group(start, state).is_some()).collect()
        });
        let names: BTreeMap<&ServerId, &str> = starts
            .iter()
            .map(|start| (&start.server.id, &*start.server.name))
            .collect();
        if !names.is_empty() {
            let note = format!(
                "the best cannot be told apart yet, so they are measured on {} fresh starts each: {}",
                self.plan.starts,
                names.into_values().join("; ")
            );
            // Whoever cannot read this loses nothing else.
            let _ = Writer::note(writer, &note);
        }
        starts
    }

    /// The starts with work left, and what each needs.
    pub fn needs(&self, node: &Node, starts: impl Iterator<Item = Start>, state: &State) -> Vec<(Start, Need)> {
        let schedule = self.schedule();
        let groups = starts.filter_map(|start| Some((schedule.group(&start, state)?, start)));
        let need = |(group, start): (Group, Start)| {
            let known = self.lengths.get(&group.server.id);
            let known = known.map(|seconds| seconds / f64::from(self.plan.starts.max(1)));
            // Where nothing is predicted, much to do takes long.
            let work = group.tasks.len() + USUAL_PROBES * (group.searches.len() + group.explorations.len());
            let need = Need {
                gpus: demand(&self.plan.exec, node.room, &group.server),
                seconds: known.unwrap_or(work as f64),
            };
            (start, need)
        };
        groups.map(need).collect()
    }

    async fn work_at(
        &self,
        place: &impl Place,
        writer: &SessionWriter<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<Ending> {
        let (end, ends) = watch::channel(false);
        let (_never, never) = watch::channel(false);
        let mut seats: Vec<Seat> = Vec::new();
        let mut under_way = FuturesUnordered::new();
        // Nothing new begins once there is an ending.
        let mut ending: Option<Result<Ending>> = None;
        loop {
            let ended = tokio::select! {
                biased;
                Some((seat, ended)) = under_way.next() => {
                    // Without GPUs all are alike.
                    let place = seats.iter().position(|other| *other == seat);
                    seats.swap_remove(place.expect("every group has a seat"));
                    ended
                }
                next = place.next(&seats, writer), if ending.is_none() => match next {
                    Ok(Some((start, seat))) => {
                        seats.push(seat.clone());
                        let lost = seat.lease.as_ref().map_or_else(|| never.clone(), |lease| lease.lost());
                        let wishes = Wishes::of(interrupt.clone(), ends.clone(), lost);
                        under_way.push(async {
                            let ended = self.perform_group(start, &seat, place, writer, wishes).await;
                            // Somebody else goes on with what was lost.
                            let is_lost = seat.lease.as_ref().is_some_and(|lease| lease.is_lost());
                            let ended = ended.map(|ending| match ending {
                                Ending::Interrupted if is_lost => Ending::Finished,
                                ending => ending,
                            });
                            (seat, ended)
                        });
                        continue;
                    }
                    Ok(None) => {
                        ending = Some(Ok(Ending::Finished));
                        continue;
                    }
                    Err(error) => Err(error),
                },
                () = interrupt.requested(), if seats.is_empty() && ending.is_none() => Ok(Ending::Interrupted),
                else => {
                    let ending = ending.expect("the last group has ended")?;
                    // A user who could not wait counts more than what the plan says.
                    return Ok(if interrupt.is_requested() && ending != Ending::Finished { Ending::Interrupted } else { ending });
                }
            };
            // The others of a sweep that cannot go on, or is not to, finish the run that they are at.
            end.send_replace(!matches!(ended, Ok(Ending::Finished | Ending::Superseded)) || *end.borrow());
            ending = later(ending, ended);
        }
    }

    /// Works on a start of a server: once, and again whenever another one has taken the place of the one that was measured.
    async fn perform_group(
        &self,
        start: Start,
        seat: &Seat,
        place: &impl Place,
        writer: &SessionWriter<'_>,
        mut wishes: Wishes,
    ) -> Result<Ending> {
        let retired = || writer.with(|recorder| recorder.state().retired_by(&start.server.id, recorder.nonce()));
        loop {
            writer.with(Recorder::refresh)?;
            if writer.with(|recorder| recorder.is_superseded()) {
                return Ok(Ending::Superseded);
            }
            let Some(group) = writer.look(|state| self.schedule().group(&start, state)) else {
                return Ok(Ending::Finished);
            };
            let before = retired();
            let ending = self.drive_group(group, seat, place, writer, &mut wishes).await?;
            if ending != Ending::Finished || retired() == before {
                return Ok(ending);
            }
        }
    }

    async fn drive_group(
        &self,
        group: Group,
        seat: &Seat,
        place: &impl Place,
        writer: &SessionWriter<'_>,
        wishes: &mut Wishes,
    ) -> Result<Ending> {
        let scope = Scope {
            plan: self.plan,
            matrix: self.wanted,
        };
        let hints = group.searches.iter();
        let hints: Hints = hints.map(|search| (search.id.clone(), self.hint(search))).collect();
        let mut stage = Live::new(self.plan, group.server.clone(), seat.clone(), place.gate(), writer);
        let agenda = writer.look(|state| Agenda::new(scope, group, hints, state));
        let mut agenda = agenda.on(seat.gpus.clone());
        let ending = drive(&mut agenda, &mut stage, writer, wishes).await;
        stage.clear(&mut wishes.interrupt).await;
        ending
    }

    /// What is known of a search from outside.
    fn hint(&self, search: &LoadSearch) -> Hint {
        let point = first_point(self.wanted, search);
        let params = match (&self.plan.bench.runner, &point.argv) {
            (BenchRunner::Native, _) => Some(point.params),
            (BenchRunner::Command(_), Some(argv)) => bench::params_of(argv),
            _ => None,
        };
        Hint {
            forecast: self.forecasts.get(&search.id).cloned(),
            lengths: params.and_then(|params| bench::native::mean_lengths(&params)),
        }
    }
}

/// How a sweep ends of which a group has ended so: what was known before stays, unless the user or an error ends it.
fn later(before: Option<Result<Ending>>, ended: Result<Ending>) -> Option<Result<Ending>> {
    match (before, ended) {
        (before @ Some(Err(_)), _) => before,
        (_, Err(error)) => Some(Err(error)),
        (before, Ok(Ending::Finished)) => before,
        (None | Some(Ok(Ending::Finished)), Ok(ended)) => Some(Ok(ended)),
        (before, Ok(_)) => before,
    }
}

/// That a session begins, of this process and with this plan.
fn session_started(plan: &Plan, matrix: &Matrix, changes: Changes, state: &State) -> Event {
    let (counts, process) = (matrix.counts(), facts::process());
    Event::SessionStarted(Box::new(SessionStarted {
        host: process.host,
        boot: process.boot,
        pid: process.pid,
        started: process.started,
        plan: state.refer(changes.plan),
        servers: counts.servers,
        points: counts.points,
        starts: plan.starts,
        runs: counts.runs,
        searches: counts.searches,
        compare: compared(plan, matrix).map(Box::new),
        seen: Seen::new(),
    }))
}

/// Records an event and tells the observer.
fn record(recorder: &mut Recorder, observer: &mut Observer<'_>, event: Event) -> Result<Entry> {
    let entry = recorder.record(event)?;
    observer(Update::Recorded(&entry), recorder)?;
    Ok(entry)
}
