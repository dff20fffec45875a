//! The remaining work, in order: all server configs in the order of the plan, then all of them again on their next start, so that the
//! starts of a config are spread over the sweep. A start launches its server once, unless the server dies or `reset = "restart"` asks for a
//! launch before each run. Within a start, all points are measured once, then all again, so that drift of the machine spreads over all
//! points instead of favouring some.

use super::finals::{Finals, alone, finalists, is_packed};
use super::optimization::needs_predictions;
use std::sync::Arc;
use std::time::Duration;
use vsweep_plan::Plan;
use vsweep_plan::matrix::{Matrix, ServerConfig};
use vsweep_record::journal::{FIRST_SLOT, Shard, State};
use vsweep_strategy::selection::optimized::Reason;

/// The work of one session. It is generated start by start, so that a million points are never in memory at once.
#[derive(Debug, Clone, Copy)]
pub struct Schedule<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The matrix of the plan, or the part of the matrix that is wanted.
    pub matrix: &'a Matrix,
    shard: Shard,
    pub(super) retry_failed: bool,
    advised: Option<&'a Finals>,
    /// Largest number of servers that may run at the same time.
    pub(super) at_once: usize,
}

/// A planned start of a server.
#[derive(Debug, Clone)]
pub struct Start {
    /// The server.
    pub server: ServerConfig,
    /// Number of the start of this server, from 0.
    pub slot: u32,
    /// The parts that are measured on a start of the finals; `None` means everything.
    pub only: Option<Arc<Finals>>,
    /// Index of the set of GPUs that it gets, 0 or 1, if both servers of a comparison run at the same time.
    pub set: Option<usize>,
    /// The reason why an optimisation asked for it.
    pub proposed: Option<Reason>,
}

impl Start {
    /// True if nothing else may run on the machine meanwhile.
    pub fn is_alone(&self) -> bool {
        self.only.as_ref().is_some_and(|only| only.is_alone)
    }

    /// A start on which everything is measured.
    pub(super) fn of(server: ServerConfig, slot: u32) -> Start {
        Start {
            server,
            slot,
            only: None,
            set: None,
            proposed: None,
        }
    }
}

impl<'a> Schedule<'a> {
    /// A schedule of the planned starts of those servers of the matrix that are in the shard.
    pub fn new(plan: &'a Plan, matrix: &'a Matrix, shard: Shard, retry_failed: bool) -> Schedule<'a> {
        Schedule {
            plan,
            matrix,
            shard,
            retry_failed,
            advised: None,
            at_once: 1,
        }
    }

    /// This schedule, followed by the starts that the answer advises.
    pub fn with_advised(self, advised: &'a Finals) -> Schedule<'a> {
        Schedule {
            advised: Some(advised),
            ..self
        }
    }

    /// This schedule, with at most this many servers at the same time.
    pub fn with_at_once(self, at_once: usize) -> Schedule<'a> {
        Schedule { at_once, ..self }
    }

    /// The time of further work until `max_time` or the budget of the optimisation is spent; `None` if the plan has no such limit.
    pub fn time_left(self, state: &State) -> Option<Duration> {
        let budget = self.plan.optimize.as_ref().and_then(|optimize| optimize.budget);
        let of_optimization = budget.map(|most| most.saturating_sub(state.time_of_optimization()));
        let of_work = self.plan.max_time.map(|most| most.saturating_sub(state.time_of_work()));
        of_optimization.into_iter().chain(of_work).min()
    }

    /// The shard's servers in plan order.
    pub fn servers(self) -> impl Iterator<Item = ServerConfig> + 'a {
        self.matrix
            .servers()
            .enumerate()
            .filter(move |(position, _)| self.shard.takes(*position))
            .map(|(_, server)| server)
    }

    /// The planned starts of the shard's servers, in order. For a comparison, only those that it makes whatever the results are.
    pub fn starts(self) -> impl Iterator<Item = Start> + 'a {
        (FIRST_SLOT..self.matrix.starts()).flat_map(move |slot| self.starts_at(slot))
    }

    /// One start of each of the shard's servers, in order.
    pub fn starts_at(self, slot: u32) -> impl Iterator<Item = Start> + 'a {
        self.servers().map(move |server| Start::of(server, slot))
    }

    /// The starts after the planned ones, in order: as many fresh starts of each finalist as were planned, then the advised starts, then one
    /// start, alone on the machine, of each winner and each server tied with a winner, if it was measured next to others. There are none
    /// until all shards have measured everything else. The other shards may have ended by then, so their servers are included, after the
    /// shard's own and from the end. A comparison, or a part of the matrix, has only the advised starts.
    pub fn finals(self, state: &State) -> impl Iterator<Item = Start> + use<'a> {
        let is_judged = self.plan.compare.is_none() && !self.matrix.is_part();
        let (has_finals, is_packed) = (is_judged && self.plan.starts > 1, is_judged && is_packed(state));
        // Most plans have none of these starts, and need no walk over all points.
        let is_wanted = has_finals || is_packed || self.advised.is_some();
        let is_measured = is_wanted && self.is_measured(state);
        let finals = (is_measured && has_finals).then(|| finalists(self.plan, self.matrix, state));
        let advised = self.advised.filter(|_| is_measured).cloned();
        let mut all: Vec<Arc<Finals>> = finals.into_iter().chain(advised).map(Arc::new).collect();
        let whole = self.whole();
        let mut repeated = all.iter().flat_map(|finals| whole.starts_of(Arc::clone(finals)));
        if is_measured && is_packed && !repeated.any(|start| whole.has_group(&start, state)) {
            all.push(Arc::new(alone(self.plan, self.matrix, state)));
        }
        all.into_iter().flat_map(move |finals| {
            let own: Vec<Start> = self.starts_of(Arc::clone(&finals)).collect();
            let is_own = |start: &Start| own.iter().any(|one| one.server.id == start.server.id);
            let mut others: Vec<Start> = whole.starts_of(finals).filter(|start| !is_own(start)).collect();
            // Shards that still run share these starts: another shard takes its own from the front.
            others.reverse();
            own.into_iter().chain(others)
        })
    }

    /// The starts of finals, slot by slot.
    fn starts_of(self, finals: Arc<Finals>) -> impl Iterator<Item = Start> + use<'a> {
        finals.slots.clone().flat_map(move |slot| {
            let finals = Arc::clone(&finals);
            self.starts_at(slot).filter_map(move |start| {
                let is_in = finals.servers.contains(&start.server.id);
                let only = Some(Arc::clone(&finals));
                is_in.then_some(Start { only, ..start })
            })
        })
    }

    /// The schedule of all shards, without retries.
    pub(crate) fn whole(self) -> Schedule<'a> {
        Schedule {
            shard: Shard::WHOLE,
            retry_failed: false,
            ..self
        }
    }

    /// All expected starts in order, including finished ones; used for forecasts. Once a comparison or an optimisation has ended, only the
    /// starts after the planned ones are left.
    pub fn foreseen(self, state: &State) -> impl Iterator<Item = Start> + use<'a> {
        let has_begun = !self.is_to_begin(state);
        let has_ended = self.chooses_starts() && has_begun && self.wanted_starts(state, &[]).is_empty();
        let starts = (!has_ended).then(|| self.starts());
        starts.into_iter().flatten().chain(self.finals(state))
    }

    /// Returns true if the planned starts of all shards have all their results.
    fn is_measured(self, state: &State) -> bool {
        let all = self.whole();
        if self.plan.optimize.is_some() {
            return all.wanted_starts(state, &[]).is_empty();
        }
        all.starts().all(|start| !all.has_group(&start, state))
    }

    /// Returns true if the plan asks for an optimisation that is not recorded yet. Until then, the starts that it wants are not known.
    fn is_to_begin(self, state: &State) -> bool {
        needs_predictions(self.plan, self.matrix, state.optimization())
    }

    /// Returns true if any work is left. Before an optimisation begins, any planned start counts as work.
    pub fn has_work(self, state: &State) -> bool {
        let is_left = |start: Start| self.has_group(&start, state);
        if self.chooses_starts() && !self.is_to_begin(state) {
            return !self.wanted_starts(state, &[]).is_empty() || self.finals(state).any(is_left);
        }
        self.starts().any(is_left) || self.finals(state).any(is_left)
    }
}
