//! A directory, those who work on it, and what they do: the stage on which the laws are tried.

use crate::journal::Directory;
use crate::journal::event::*;
use crate::journal::place::{LineId, Nonce, Place};
use crate::journal::state::State;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::{BTreeMap, BTreeSet};
use vsweep_plan::ids::{PointId, SearchId, ServerId};

use super::actor::Actor;

pub(super) const RUNS: u32 = 2;
pub(super) const SERVERS: usize = 2;

pub(super) fn point(number: usize) -> PointId {
    PointId(format!("{number:016x}"))
}

pub(super) fn server(number: usize) -> ServerId {
    ServerId(format!("{number:015x}5"))
}

pub(super) fn search() -> SearchId {
    SearchId("5ea5c45ea5c45ea5".into())
}

/// The points of a plan: an edited one shares some.
pub(super) fn plan_points(plan: usize) -> std::ops::Range<usize> {
    plan * 2..plan * 2 + 4
}

pub(super) fn plan(number: usize) -> RecordedPlan {
    let points: Vec<PointId> = plan_points(number).map(point).collect();
    RecordedPlan::new("p", format!("plan {number}"), &points, &[search()])
}

/// What a session does next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Move {
    Begin(usize),
    TakeGroup(usize),
    /// Begins a run of the group's open ones, or of the failed ones again.
    Run(Index, bool),
    Probe,
    Finish(Result),
    /// Writes the file and dies before the line.
    FileOnly,
    Answer(bool),
    GiveUp,
    Retire,
    End,
    /// Dies, having written so much of a line.
    Die(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Result {
    Ok,
    Suspect,
    Invalid,
    Cut,
    Failed,
}

pub(super) fn moves() -> impl Strategy<Value = Move> {
    let result = prop_oneof![
        4 => Just(Result::Ok),
        1 => Just(Result::Suspect),
        1 => Just(Result::Invalid),
        1 => Just(Result::Cut),
        2 => Just(Result::Failed)
    ];
    prop_oneof![
        2 => (0..2usize).prop_map(Move::Begin),
        3 => (0..SERVERS).prop_map(Move::TakeGroup),
        8 => (any::<Index>(), any::<bool>()).prop_map(|(which, retry)| Move::Run(which, retry)),
        4 => Just(Move::Probe),
        12 => result.prop_map(Move::Finish),
        1 => Just(Move::FileOnly),
        1 => any::<bool>().prop_map(Move::Answer),
        1 => Just(Move::GiveUp),
        1 => Just(Move::Retire),
        1 => Just(Move::End),
        1 => (0..40usize).prop_map(Move::Die),
    ]
}

/// A directory and those who work on it.
pub(super) struct World {
    pub(super) folder: tempfile::TempDir,
    pub(super) actors: Vec<Option<Actor>>,
    pub(super) nonces: u64,
    /// Every result that was written down whole: its `run_started`, and where it stands.
    pub(super) results: Vec<(Place, RunStarted, Result)>,
    /// Every run that a session knew of when it retired those of its server.
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
    // Each session begins with what lets it measure.
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
    /// The result of each run that must be in the tables: the first of the best kind, or the last failure. Retired ones and
    /// those of searches are left to other laws.
    pub(super) fn expected(&self, state: &State) -> BTreeMap<(PointId, u32), LineId> {
        let mut best: BTreeMap<(PointId, u32), (Result, Place)> = BTreeMap::new();
        for (place, started, result) in &self.results {
            let is_planned = state.planned_points().contains(&started.point);
            if started.search.is_some() || !is_planned || self.retired.contains(&place.line) {
                continue;
            }
            let rank = |result: Result| result as u8;
            let key = (started.point.clone(), started.run);
            let known = best.entry(key).or_insert((*result, *place));
            let is_better = match rank(*result).cmp(&rank(known.0)) {
                std::cmp::Ordering::Equal if *result == Result::Failed => *place > known.1,
                std::cmp::Ordering::Equal => *place < known.1,
                order => order.is_lt(),
            };
            if is_better {
                *known = (*result, *place);
            }
        }
        best.into_iter().map(|(key, (_, place))| (key, place.line)).collect()
    }
}
