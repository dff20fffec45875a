//! Chooses the next group and its share of this host. Groups run one after the other, or as many at once as fit on the GPUs, each with its
//! own GPUs, cores and port. In a worker, a group is leased first, and resources of other workers are left alone. The pure policy of
//! `selection` chooses the order; this file finds the GPUs that others use.

use crate::agenda::Start;
use crate::error::{Error, Result};
use crate::journal::Recorder;
use crate::plan::Exec;
use crate::run::activity_lock::ActivityLock;
use crate::run::lease::{BEAT, Lease};
use crate::run::node::{Allocation, Node};
use crate::run::share::{Share, group_name};
use crate::run::writer::SessionWriter;
use crate::run::{Sweep, Writer};
use crate::selection::packed::{Need, choose};
use crate::server::claim::Claim;
use crate::server::settle::{self, ReleaseWait};
use crate::units::show_duration;
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::iter;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Time between two checks of GPUs that other processes use.
const CHECK_PERIOD: Duration = Duration::from_secs(1);
/// Time that GPUs may be in use without a note to the user: memory of a server that vsweep has just ended may still be held.
const PATIENCE: Duration = Duration::from_secs(5);

/// Rounds of starts. The next round follows when all starts of the last one are done; an optimisation asks for it whenever there is room.
/// After `None`, the queue may be asked again.
pub type StartQueue<'a> = Box<dyn Iterator<Item = Vec<Start>> + 'a>;

/// Schedules the groups of a sweep on this host.
pub struct Scheduler<'a> {
    sweep: &'a Sweep<'a>,
    /// Makes each server wait, before it starts, until earlier servers have released their ports and GPU memory.
    pub release_wait: ReleaseWait,
    /// Keeps starts apart from runs.
    pub activity_lock: ActivityLock,
    node: &'a Node,
    /// Leases for groups; `None` without other workers.
    share: Option<&'a Share>,
    rounds: RefCell<StartQueue<'a>>,
    /// Remaining groups of this round, in the order in which they are checked.
    waiting: RefCell<Vec<(Start, Need)>>,
    /// The lease of a comparison or an optimisation that this worker has begun.
    chosen: RefCell<Option<Rc<Lease>>>,
    /// The GPUs of each arm of a comparison.
    sets: [Vec<u32>; 2],
    /// Time since which only other processes hold up the next group.
    held_since: Cell<Option<Instant>>,
    /// True once the user was notified of this wait.
    is_announced: Cell<bool>,
}

impl<'a> Scheduler<'a> {
    /// Looks at the machine before the first server, and keeps vsweep itself off the cores of the servers. A round holds the groups that
    /// may run in any order. If the arms of a comparison run at the same time, each start gets the GPUs of its arm. Without a node, groups
    /// run one after the other.
    pub async fn now(
        sweep: &'a Sweep<'a>,
        node: Option<&'a Node>,
        share: Option<&'a Share>,
        rounds: StartQueue<'a>,
    ) -> Scheduler<'a> {
        let release_wait = match node {
            None => ReleaseWait::now().await,
            Some(_) => ReleaseWait::patient(sweep.plan.exec.wait.unwrap_or(Exec::WAIT)).await,
        };
        let node = node.unwrap_or(Node::UNDIVIDED);
        node.leave_server_cores();
        Scheduler {
            sweep,
            release_wait,
            activity_lock: ActivityLock::default(),
            node,
            share,
            rounds: RefCell::new(rounds),
            waiting: RefCell::default(),
            sets: sweep.sets(node).await,
            chosen: RefCell::default(),
            held_since: Cell::new(None),
            is_announced: Cell::new(false),
        }
    }

    /// Waits until a group may begin in addition to those under way. Returns its start and its resources; `None` once no group is left. May
    /// be dropped and called again at any time.
    pub async fn next(
        &self,
        under_way: &[Rc<Allocation>],
        writer: &SessionWriter<'_>,
    ) -> Result<Option<(Start, Allocation)>> {
        let Some(share) = self.share else {
            return self.next_here(under_way, writer).await;
        };
        let schedule = self.sweep.schedule();
        let is_chosen = schedule.chooses_starts();
        loop {
            writer.with(Recorder::refresh)?;
            // Leases of a killed worker are free at once, but its servers hold their GPUs until their guards have ended them.
            self.sweep.clear_away(self.sweep.patience(), writer).await?;
            let next = match self.next_here(under_way, writer).await {
                // GPUs that stay in use end no worker as long as another one works, perhaps on these GPUs.
                Err(Error::Fatal(_)) if self.chosen.borrow().is_none() && self.is_done_by_others(share, writer)? => {
                    None
                }
                next => next?,
            };
            if let Some((start, mut allocation)) = next {
                let lease = match writer.look(|state| schedule.has_group(&start, state)) {
                    true => share.leases.take(&group_name(self.sweep.plan, &start))?,
                    false => None,
                };
                if let Some(note) = share.leases.unreadable.take() {
                    writer.note(&note)?;
                }
                if lease.is_some() {
                    // The lease is kept, because no other worker may take it between two of these starts, perhaps on another node.
                    self.chosen.replace(lease.clone().filter(|_| is_chosen));
                    allocation.lease = lease;
                    return Ok(Some((start, allocation)));
                }
                if !is_chosen {
                    continue;
                }
            } else if !under_way.is_empty() {
                return pending().await;
            } else if writer.with(|recorder| recorder.is_superseded())
                || !writer.look(|state| self.sweep.is_left_to(share, state))
            {
                return Ok(None);
            }
            sleep(BEAT).await;
        }
    }

    /// Returns true if another worker has work that this one wants, or nothing is left.
    fn is_done_by_others(&self, share: &Share, writer: &SessionWriter<'_>) -> Result<bool> {
        writer.with(Recorder::refresh)?;
        Ok(writer.look(|state| self.sweep.is_done_by_others(share, state)))
    }

    /// Returns the next group, without regard to other workers.
    async fn next_here(
        &self,
        under_way: &[Rc<Allocation>],
        writer: &SessionWriter<'_>,
    ) -> Result<Option<(Start, Allocation)>> {
        loop {
            if self.waiting.borrow().is_empty() {
                match under_way.is_empty() {
                    // An optimisation chooses again whenever there is room.
                    false if !self.is_rolling() || !self.begin_round(writer) => return pending().await,
                    true if !self.begin_round(writer) => return Ok(None),
                    _ => {}
                }
            }
            if under_way.iter().any(|allocation| allocation.alone) {
                return pending().await;
            }
            let is_ours = |gpu: &u32| under_way.iter().any(|allocation| allocation.gpus.contains(gpu));
            let free: Vec<u32> = self.node.gpus.iter().copied().filter(|gpu| !is_ours(gpu)).collect();
            if !self.has_room(free.len(), under_way.len()) {
                return pending().await;
            }
            let held = settle::held_by_others(&free).await;
            // Sessions on one machine measure without neighbours one after the other. Nothing is held during a wait.
            let is_alone = self.waiting.borrow().iter().any(|(start, _)| start.is_alone());
            let claim = is_alone.then(|| Claim::named("alone"));
            if let Some(None) = claim {
                self.held_since.set(None);
                writer.note("waiting while another vsweep measures alone on this machine")?;
                sleep(CHECK_PERIOD).await;
                continue;
            }
            let is_idle = |number: &u32| held.iter().all(|gpu| gpu.index != *number);
            let mut idle = free.iter().copied().filter(is_idle).collect();
            if let Some((start, mut allocation)) = self.take(&mut idle, under_way) {
                self.held_since.set(None);
                self.is_announced.set(false);
                allocation._claims.extend(claim.flatten().filter(|_| start.is_alone()));
                return Ok(Some((start, allocation)));
            }
            drop(claim);
            self.await_others(&free, &idle, under_way.is_empty(), writer).await?;
        }
    }

    /// Returns true if a round may begin while groups of the last one are under way.
    fn is_rolling(&self) -> bool {
        self.sweep.plan.optimize.is_some() && !self.node.is_undivided()
    }

    /// Begins the next round that has work, after the groups that wait. Returns false if there is none.
    fn begin_round(&self, writer: &SessionWriter<'_>) -> bool {
        let mut rounds = self.rounds.borrow_mut();
        let mut groups = iter::from_fn(|| rounds.next())
            .map(|starts| writer.look(|state| self.sweep.needs(self.node, starts.into_iter(), state)));
        let Some(mut groups) = groups.find(|groups| !groups.is_empty()) else {
            return false;
        };
        // Without concurrency, groups keep the order of the plan.
        if !self.node.is_undivided() {
            let in_order = |slot: &[(Start, Need)]| {
                let needs: Vec<Need> = slot.iter().map(|(_, need)| *need).collect();
                let order = self.node.capacity.order(&needs).into_iter();
                order.map(|index| slot[index].clone()).collect::<Vec<_>>()
            };
            // Every server has its next start before any has the one after that, so that a slow change of the machine affects all alike.
            let slots = groups.chunk_by(|(one, _), (next, _)| one.slot == next.slot);
            groups = slots.flat_map(in_order).collect();
        }
        self.waiting.borrow_mut().extend(groups);
        true
    }

    /// Takes the first group that fits on these GPUs. Removes GPUs that another vsweep has claimed since.
    fn take(&self, idle: &mut Vec<u32>, under_way: &[Rc<Allocation>]) -> Option<(Start, Allocation)> {
        let mut waiting = self.waiting.borrow_mut();
        loop {
            let has_set = |start: &Start, gpus: u32| {
                let set = start.set.map_or(&[][..], |set| &self.sets[set]);
                set.iter().take(gpus as usize).all(|gpu| idle.contains(gpu))
            };
            let fits = |waiting: &(Start, Need)| {
                self.fits(idle.len(), under_way.len(), waiting) && has_set(&waiting.0, waiting.1.gpus)
            };
            let index = waiting.iter().position(fits)?;
            let (start, need) = &waiting[index];
            let (set, is_alone, need) = (start.set, start.is_alone(), *need);
            let gpus = match set {
                None => choose(idle, need.gpus as usize),
                Some(set) => self.sets[set].iter().copied().take(need.gpus as usize).collect(),
            };
            // Other vsweeps must keep off all GPUs while a group runs alone.
            let claimed = if need.alone { &self.node.gpus } else { &gpus };
            let claims = match self.node.claim(claimed) {
                Ok(claims) => claims,
                Err(taken) => {
                    idle.retain(|gpu| *gpu != taken);
                    continue;
                }
            };
            let allocation = Allocation {
                cpus: self.node.cpus_for(&gpus, set, under_way),
                gpus,
                alone: need.alone || is_alone,
                _claims: claims,
                lease: None,
            };
            return Some((waiting.remove(index).0, allocation));
        }
    }

    /// Returns true if one of the remaining groups would fit on this number of GPUs.
    fn has_room(&self, free: usize, under_way: usize) -> bool {
        let waiting = self.waiting.borrow();
        waiting.iter().any(|waiting| self.fits(free, under_way, waiting))
    }

    fn fits(&self, free: usize, under_way: usize, (start, need): &(Start, Need)) -> bool {
        // A start without neighbours waits until the other groups of this sweep have ended. Other users of the machine may stay.
        let is_left_alone = (!need.alone || free == self.node.gpus.len()) && (!start.is_alone() || under_way == 0);
        is_left_alone && self.node.capacity.has(free as u32, under_way, need)
    }

    /// Waits a moment for GPUs that other processes use. After a while, notes that for the user.
    ///
    /// # Errors
    ///
    /// The GPUs are still in use after the plan's limit, and no group of this sweep runs.
    async fn await_others(&self, free: &[u32], idle: &[u32], is_idle: bool, writer: &SessionWriter<'_>) -> Result<()> {
        let since = self.held_since.get().filter(|_| is_idle).unwrap_or_else(Instant::now);
        self.held_since.set(Some(since));
        let plan = self.sweep.plan;
        let limit = plan.gpu_wait(writer.look(|state| self.sweep.schedule().time_left(state)));
        // An optimisation chooses further starts, which may need fewer GPUs. Without any, it would choose with no new results. Workers choose
        // only with their lease.
        let is_held = is_idle && !idle.is_empty() && since.elapsed() >= limit.min(PATIENCE);
        if is_held && self.share.is_none() && self.is_rolling() && self.begin_round(writer) {
            return Ok(());
        }
        if is_idle && since.elapsed() >= limit {
            self.held_since.set(None);
            let by = settle::holders_of(free).await;
            if by.is_empty() {
                // They became free meanwhile.
                return Ok(());
            }
            return Err(Error::Fatal(format!(
                "the GPUs did not become free within {} (exec.wait): {by}; end that program, or run the same command again later: what \
                 is recorded is kept",
                show_duration(limit)
            )));
        }
        if since.elapsed() >= PATIENCE && !self.is_announced.replace(true) {
            let by = settle::holders_of(free).await;
            // A worker waits as long as another one works.
            let at_most = match self.share {
                None => format!(", at most {}", show_duration(limit)),
                Some(_) => String::new(),
            };
            let note = format!("waiting for GPUs{at_most}: {by}");
            writer.note(&note)?;
        }
        sleep(CHECK_PERIOD).await;
        Ok(())
    }
}

impl Drop for Scheduler<'_> {
    fn drop(&mut self) {
        self.node.use_all_cores();
    }
}
