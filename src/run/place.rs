//! Where groups run: this host, one after the other, or as many side by side as its GPUs hold, each with GPUs, cores and a port of its
//! own. The pure policy of `selection` says which one comes first; here is looked which GPUs somebody else uses. Beside other workers
//! on the same directory, what would begin next is leased first, and what others have is left to them.

use super::floor::Sharing;
use super::gate::Gate;
use super::lease::{BEAT, Leases};
use super::node::{Node, Seat};
use super::writer::SessionWriter;
use super::{Sweep, Update, Writer};
use crate::agenda::Start;
use crate::error::{Error, Result};
use crate::journal::Recorder;
use crate::selection::packed::{Need, choose};
use crate::server::claim::Claim;
use crate::server::settle;
use crate::units::show_duration;
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::iter;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Between two looks at GPUs that somebody else uses.
const LOOK: Duration = Duration::from_secs(1);
/// Memory of a server of ours that has just ended may be held so long without a word.
const PATIENCE: Duration = Duration::from_secs(5);

/// The name of a comparison's lease: its starts are one worker's, since each depends on those before.
pub const COMPARISON: &str = "compare";

/// What a worker takes of an experiment.
#[derive(Debug)]
pub struct Share {
    /// Which groups others are at.
    pub leases: Leases,
    /// The only group that is wanted; all of them if there is none.
    pub group: Option<String>,
}

impl Share {
    /// Whether a start is wanted, and this session neither has nor had it.
    pub(super) fn wants(&self, start: &Start) -> bool {
        let name = group_name(false, start);
        self.group.as_ref().is_none_or(|only| *only == name) && !self.leases.had(&name)
    }
}

/// What leases, command lines and scripts call a start: `<server>-<slot>`, or the whole comparison.
pub fn group_name(is_compared: bool, start: &Start) -> String {
    match is_compared {
        true => COMPARISON.to_owned(),
        false => format!("{}-{}", start.server.id, start.slot),
    }
}

/// This host, for as many groups at once as it has room for.
pub struct Place<'a, I> {
    sweep: &'a Sweep<'a>,
    /// What each server passes before it starts.
    pub(super) gate: Gate,
    node: &'a Node,
    share: Option<&'a Share>,
    /// Those that follow when all before them are done. With a share it offers what is open, and the same again when it is asked again
    /// after it offered nothing.
    rounds: RefCell<I>,
    /// Those of this round that are left, in the order in which they are asked whether they fit.
    waiting: RefCell<Vec<(Start, Need)>>,
    /// The GPUs of either arm of a comparison.
    sets: [Vec<u32>; 2],
    /// Since when only somebody else is in the way.
    held_since: Cell<Option<Instant>>,
    is_told: Cell<bool>,
}

impl<'a, I: Iterator<Item = Vec<Start>>> Place<'a, I> {
    /// Looks at the machine before the first server, and keeps vsweep itself off the cores of the servers. A round holds the groups
    /// that may run in any order; a group of a set gets GPUs of that one of the sweep's sets. Without a node, groups run one after
    /// the other; without a share, no other worker is asked.
    pub async fn now(
        sweep: &'a Sweep<'a>,
        node: Option<&'a Node>,
        share: Option<&'a Share>,
        rounds: I,
    ) -> Place<'a, I> {
        let gate = match node {
            None => Gate::now().await,
            Some(_) => Gate::patient(sweep.plan.exec.wait).await,
        };
        let node = node.unwrap_or(Node::UNDIVIDED);
        node.withdraw();
        Place {
            sweep,
            gate,
            node,
            share,
            rounds: RefCell::new(rounds),
            waiting: RefCell::default(),
            sets: sweep.sets(node),
            held_since: Cell::new(None),
            is_told: Cell::new(false),
        }
    }

    /// Waits until a group may begin beside those that are under way, and says which start of which server it is, and what it gets;
    /// `None` once no group is left. May be dropped and asked again at any time.
    pub async fn next(&self, under_way: &[Rc<Seat>], writer: &SessionWriter<'_>) -> Result<Option<(Start, Seat)>> {
        let Some(share) = self.share else {
            return self.next_fitting(under_way, writer).await;
        };
        let schedule = self.sweep.schedule();
        let is_compared = self.sweep.plan.compare.is_some();
        loop {
            writer.with(Recorder::refresh)?;
            // What a worker that was killed leaves is free at once; its servers hold their GPUs until their guards have ended them.
            self.sweep.clear_away(self.sweep.patience(), writer).await?;
            if let Some((start, seat)) = self.next_fitting(under_way, writer).await? {
                let lease = match writer.look(|state| schedule.group(&start, state).is_some()) {
                    true => share.leases.take(&group_name(is_compared, &start))?,
                    false => None,
                };
                if lease.is_some() {
                    return Ok(Some((start, Seat { lease, ..seat })));
                }
                if !is_compared {
                    continue;
                }
            } else if !under_way.is_empty() {
                return pending().await;
            } else if writer.with(|recorder| recorder.is_superseded()) || !self.is_left(share, writer) {
                return Ok(None);
            }
            sleep(BEAT).await;
        }
    }

    /// Whether others are at something that may yet come to this worker.
    fn is_left(&self, share: &Share, writer: &SessionWriter<'_>) -> bool {
        let schedule = self.sweep.schedule();
        if self.sweep.plan.compare.is_some() {
            return writer.look(|state| !schedule.asked(state, &[]).is_empty());
        }
        let finals: Vec<Start> = writer.look(|state| schedule.finals(state).collect());
        let mut all = schedule.starts().chain(finals);
        all.any(|start| share.wants(&start) && writer.look(|state| schedule.group(&start, state).is_some()))
    }

    /// The same on this host alone.
    async fn next_fitting(&self, under_way: &[Rc<Seat>], writer: &SessionWriter<'_>) -> Result<Option<(Start, Seat)>> {
        let is_watched = self.sweep.plan.exec.watched_percent().is_some();
        loop {
            if self.waiting.borrow().is_empty() {
                match under_way.is_empty() {
                    false => return pending().await,
                    true if !self.begin_round(writer) => return Ok(None),
                    true => {}
                }
            }
            let is_exclusive = under_way.iter().any(|seat| seat.alone);
            let are_apart = || writer.look(|state| Sharing::after(state.interference()) == Sharing::Apart);
            if is_exclusive || (!under_way.is_empty() && is_watched && are_apart()) {
                return pending().await;
            }
            let is_ours = |gpu: &u32| under_way.iter().any(|seat| seat.gpus.contains(gpu));
            let free: Vec<u32> = self.node.gpus.iter().copied().filter(|gpu| !is_ours(gpu)).collect();
            if !self.has_room(free.len(), under_way.len()) {
                return pending().await;
            }
            let held = settle::held_by_others(&free).await;
            let is_idle = |number: &u32| held.iter().all(|gpu| gpu.index != *number);
            let idle = free.iter().copied().filter(is_idle).collect();
            if let Some(next) = self.take(idle, under_way) {
                self.held_since.set(None);
                return Ok(Some(next));
            }
            self.await_others(&free, under_way.is_empty(), writer).await?;
        }
    }

    /// Begins the next round with anything to do; whether there is one.
    fn begin_round(&self, writer: &SessionWriter<'_>) -> bool {
        let mut rounds = self.rounds.borrow_mut();
        let mut groups = iter::from_fn(|| rounds.next())
            .map(|starts| writer.look(|state| self.sweep.needs(self.node, starts.into_iter(), state)));
        let Some(groups) = groups.find(|groups| !groups.is_empty()) else {
            return false;
        };
        // One after the other, they come in the order of the plan.
        if self.node.room == Node::UNDIVIDED.room {
            *self.waiting.borrow_mut() = groups;
            return true;
        }
        let needs: Vec<Need> = groups.iter().map(|(_, need)| *need).collect();
        let order = self.node.room.order(&needs);
        let mut groups: Vec<Option<(Start, Need)>> = groups.into_iter().map(Some).collect();
        let ordered = order.into_iter().filter_map(|place| groups[place].take());
        self.waiting.borrow_mut().extend(ordered);
        true
    }

    /// Takes the first group that fits on these GPUs, without those that another vsweep has meanwhile.
    fn take(&self, mut idle: Vec<u32>, under_way: &[Rc<Seat>]) -> Option<(Start, Seat)> {
        let mut waiting = self.waiting.borrow_mut();
        loop {
            let has_set = |start: &Start, gpus: u32| {
                let set = start.set.map_or(&[][..], |set| &self.sets[set]);
                set.iter().take(gpus as usize).all(|gpu| idle.contains(gpu))
            };
            let fits = |(start, need): &(Start, Need)| {
                self.fits(idle.len(), under_way.len(), need) && has_set(start, need.gpus)
            };
            let place = waiting.iter().position(fits)?;
            let need = waiting[place].1;
            let gpus = match waiting[place].0.set {
                None => choose(&idle, need.gpus as usize),
                Some(set) => self.sets[set].iter().copied().take(need.gpus as usize).collect(),
            };
            // Other vsweeps are to keep off what is next to one that is to be alone.
            let claimed = if need.alone { &self.node.gpus } else { &gpus };
            let claims: Vec<Option<Claim>> = claimed.iter().map(|gpu| Claim::of(*gpu)).collect();
            if let Some(taken) = claims.iter().position(Option::is_none) {
                idle.retain(|gpu| *gpu != claimed[taken]);
                continue;
            }
            let (start, _) = waiting.remove(place);
            let claims = claims.into_iter().flatten().collect();
            let seat = self.node.seat(gpus, start.set, claims, under_way);
            return Some((
                start,
                Seat {
                    alone: need.alone,
                    ..seat
                },
            ));
        }
    }

    /// Whether one of those that are left would fit on so many GPUs.
    fn has_room(&self, free: usize, under_way: usize) -> bool {
        let waiting = self.waiting.borrow();
        waiting.iter().any(|(_, need)| self.fits(free, under_way, need))
    }

    fn fits(&self, free: usize, under_way: usize, need: &Need) -> bool {
        let is_left_alone = !need.alone || free == self.node.gpus.len();
        is_left_alone && self.node.room.has(free as u32, under_way, need)
    }

    /// Somebody else has the GPUs that a group needs: says so, and gives up after the limit if nothing of ours runs.
    async fn await_others(&self, free: &[u32], is_alone: bool, writer: &SessionWriter<'_>) -> Result<()> {
        let since = self.held_since.get().filter(|_| is_alone).unwrap_or_else(Instant::now);
        self.held_since.set(Some(since));
        if is_alone && since.elapsed() >= self.sweep.plan.exec.wait {
            let by = settle::holders_of(free).await;
            let waited = show_duration(self.sweep.plan.exec.wait);
            return Err(Error::Fatal(format!(
                "{by} after {waited} (exec.wait); end it, or give the same command again later: what is recorded is kept"
            )));
        }
        if since.elapsed() >= PATIENCE && !self.is_told.replace(true) {
            let by = settle::holders_of(free).await;
            let limit = show_duration(self.sweep.plan.exec.wait);
            writer.tell(Update::Note(&format!("waiting for GPUs, at most {limit}: {by}")))?;
        }
        sleep(LOOK).await;
        Ok(())
    }
}

impl<I> Drop for Place<'_, I> {
    fn drop(&mut self) {
        self.node.come_back();
    }
}
