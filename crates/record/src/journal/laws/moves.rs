//! The random actions of sessions in the tests of laws, and the points, servers and plans that the sessions know.

use crate::journal::declared::RecordedPlan;
use proptest::prelude::*;
use proptest::sample::Index;
use vsweep_base::ids::{PointId, SearchId, ServerId};

pub(super) const RUNS: u32 = 2;
pub(super) const SERVERS: usize = 2;

pub(super) fn point(number: usize) -> PointId {
    PointId(format!("{number:016x}").into())
}

pub(super) fn server(number: usize) -> ServerId {
    ServerId(format!("{number:015x}5").into())
}

pub(super) fn search() -> SearchId {
    SearchId("5ea5c45ea5c45ea5".into())
}

/// Returns the points of a plan. An edited plan shares some of them.
pub(super) fn plan_points(plan: usize) -> std::ops::Range<usize> {
    plan * 2..plan * 2 + 4
}

pub(super) fn plan(number: usize) -> RecordedPlan {
    let points: Vec<PointId> = plan_points(number).map(point).collect();
    RecordedPlan::new("p", format!("plan {number}"), &points, &[search()])
}

/// Next action of a session.
#[derive(Debug, Clone, Copy)]
pub(super) enum Move {
    Begin(usize),
    TakeGroup(usize),
    /// Begins an open run of the group. With `true`, it may be a failed run that is measured again.
    Run(Index, bool),
    Probe,
    Finish(Result),
    /// Writes the file and dies before the line.
    FileOnly,
    /// Ends the search with an answer or, with `false`, gives it up.
    Answer(bool),
    GiveUp,
    Retire,
    End,
    /// Dies after writing this many bytes of a line.
    Die(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Result {
    Ok,
    Suspect,
    Invalid,
    Failed,
    Cut,
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
