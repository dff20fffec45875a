//! A directory and the sessions that work on it, on which the laws are tried.

use crate::journal::Directory;
use crate::journal::event::RunStarted;
use crate::journal::rank::{LineId, Nonce, Rank};
use crate::journal::state::{FIRST_SLOT, RunRecord, State};
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::{BTreeMap, BTreeSet};
use vsweep_base::ids::PointId;

use super::actor::Actor;
use super::moves::*;

/// A directory and the sessions that work on it.
pub(super) struct World {
    pub(super) folder: tempfile::TempDir,
    pub(super) actors: Vec<Option<Actor>>,
    /// The nonce of the session that began last.
    pub(super) nonces: u64,
    /// Every complete result, with its `run_started` and the rank of that line.
    pub(super) results: Vec<(Rank, RunStarted, Result)>,
    /// Every run that was known to a session when it retired the runs of its server.
    pub(super) retired: BTreeSet<LineId>,
}

impl World {
    pub(super) fn new(actors: usize) -> World {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Directory::at(folder.path()).create().expect("created");
        World {
            folder,
            actors: (0..actors).map(|_| None).collect(),
            nonces: 0x1000,
            results: Vec::new(),
            retired: BTreeSet::new(),
        }
    }

    pub(super) fn directory(&self) -> Directory {
        Directory::at(self.folder.path())
    }

    pub(super) fn play(&mut self, who: usize, action: Move) {
        if let Move::Begin(plan) = action {
            if self.actors[who].is_none() {
                self.nonces = self.nonces.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                self.actors[who] = Some(Actor::begin(&self.directory(), Nonce::from(self.nonces), plan));
            }
            return;
        }
        let Some(mut actor) = self.actors[who].take() else {
            return;
        };
        let lives = actor.act(&self.directory(), action, &mut self.results);
        self.retired.append(&mut actor.retired.drain(..).collect());
        self.actors[who] = lives.then_some(actor);
    }
}

pub(super) fn world(script: &[(usize, Move)]) -> World {
    let mut world = World::new(4);
    for (who, action) in script {
        world.play(*who, *action);
    }
    world
}

pub(super) fn script(length: usize) -> impl Strategy<Value = Vec<(usize, Move)>> {
    // Each session begins with the steps that it needs to measure.
    let begin = (0..4usize, 0..2usize, 0..SERVERS, any::<Index>()).prop_map(|(who, plan, group, which)| {
        vec![
            (who, Move::Begin(plan)),
            (who, Move::TakeGroup(group)),
            (who, Move::Run(which, false)),
        ]
    });
    let one = (0..4usize, moves()).prop_map(|step| vec![step]);
    let steps = prop::collection::vec(prop_oneof![1 => begin, 6 => one], 1..length);
    steps.prop_map(|steps| steps.concat())
}

impl World {
    /// Returns the result of each run that must be in the tables: the first of the best kind, or the last failure. A run that was given up
    /// and otherwise only cut has none. Retired results and those of searches are left to other laws.
    pub(super) fn expected(&self, state: &State) -> BTreeMap<(PointId, u32), LineId> {
        let mut best: BTreeMap<(PointId, u32), (Result, Rank)> = BTreeMap::new();
        for (rank, started, result) in &self.results {
            let is_planned = state.planned_points().contains(&started.point);
            if started.search.is_some() || !is_planned || self.retired.contains(&rank.line) {
                continue;
            }
            let class = |result: Result| result as u8;
            let key = (started.point.clone(), started.run);
            let known = best.entry(key).or_insert((*result, *rank));
            let is_better = match class(*result).cmp(&class(known.0)) {
                std::cmp::Ordering::Equal if *result == Result::Failed => *rank > known.1,
                std::cmp::Ordering::Equal => *rank < known.1,
                order => order.is_lt(),
            };
            if is_better {
                *known = (*result, *rank);
            }
        }
        let is_given_up = |(point, run): &(PointId, u32)| {
            let counts = state.run(point, FIRST_SLOT, *run);
            counts.is_some_and(RunRecord::is_given_up)
        };
        best.retain(|key, (result, _)| *result != Result::Cut || !is_given_up(key));
        best.into_iter().map(|(key, (_, rank))| (key, rank.line)).collect()
    }
}
