//! The runs of a plan's points on one start, in order: all points once, then all points again. If the plan repeats until an interval is
//! narrow, unnecessary repetitions are left out. Runs that are measured in any case are owed. If the first point is measured once more at
//! the end, that run has the number after the last possible repetition.
//!
//! A start may have a million points, so each run is made when it is asked for.

use super::finals::{kept_metrics, probed_points};
use super::schedule::{Schedule, Start};
use super::task::Task;
use std::collections::BTreeSet;
use vsweep_base::cause::Outcome;
use vsweep_base::ids::PointId;
use vsweep_base::validity::Validity;
use vsweep_plan::Runs;
use vsweep_plan::matrix::Point;
use vsweep_record::journal::{RunRecord, State};
use vsweep_strategy::stats::Repeats;

/// The runs of a start, and the position among them.
#[derive(Debug, Clone)]
pub struct Grid {
    start: Start,
    /// Points that searches measured. Their places come after the places of the plan's points.
    probed: Vec<Point>,
    /// Place of the point that is measured once more at the end.
    repeated: Option<usize>,
    /// True if only sure runs count: those that no interval can make unnecessary.
    only_sure: bool,
    /// Position from which the next run is sought. All runs before it were taken.
    next: Position,
    /// The run that was taken last.
    taken: Position,
    /// Points of which nothing more is measured.
    dropped: BTreeSet<PointId>,
}

/// The position of a run: its repetition, and the place of its point among all points of the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    run: u32,
    place: usize,
}

impl Grid {
    /// The runs of a start that the journal lacks; with `only_sure`, those that no interval can make unnecessary.
    pub(super) fn of(schedule: Schedule<'_>, start: &Start, state: &State, only_sure: bool) -> Grid {
        let alone = start.only.iter().filter(|only| only.is_alone);
        let probed = alone.flat_map(|only| probed_points(only, &start.server, schedule.matrix, state));
        let grid = Grid {
            probed: probed.collect(),
            start: start.clone(),
            repeated: None,
            only_sure,
            next: Position::default(),
            taken: Position::default(),
            dropped: BTreeSet::new(),
        };
        // If the first point is measured again at the end of a start, that shows a drift.
        let repeats = schedule.plan.repeat_first && !start.is_alone();
        let first = repeats.then(|| grid.ids(schedule, 0).next()).flatten();
        Grid {
            repeated: first.map(|(place, _)| place),
            ..grid
        }
    }

    /// Takes the next run.
    pub(super) fn take(&mut self, schedule: Schedule<'_>, state: &State) -> Option<Task> {
        let at = self.first(schedule, state)?;
        self.taken = at;
        self.next = Position {
            place: at.place + 1,
            ..at
        };
        let point = self.point(schedule, at.place);
        Some(Task::of(point, self.start.slot, at.run, kept_metrics(schedule.plan)))
    }

    /// The position of the next remaining run: the next one of this repetition, else the earliest of all.
    fn first(&self, schedule: Schedule<'_>, state: &State) -> Option<Position> {
        let first_of = |(place, id): (usize, PointId)| {
            let run = self.runs_of(schedule, place, &id, state).next()?;
            Some(Position { run, place })
        };
        let mut in_this_round = self.ids(schedule, self.next.place).filter_map(first_of);
        in_this_round
            .find(|at| at.run == self.next.run)
            .or_else(|| self.ids(schedule, 0).filter_map(first_of).min())
    }

    /// Makes the run that was taken last the next one again.
    pub(super) fn put_back(&mut self) {
        self.next = self.taken;
    }

    /// Drops the point of the run that was taken last. Returns the point's remaining runs that are owed.
    pub(super) fn drop_point(&mut self, schedule: Schedule<'_>, point: &PointId, state: &State) -> Vec<u32> {
        let left = self.runs_of(schedule, self.taken.place, point, state);
        let owed = left.filter(|run| is_owed(&schedule.plan.runs, *run)).collect();
        self.dropped.insert(point.clone());
        owed
    }

    /// The places and ids of the points with remaining runs that are owed, and the numbers of these runs.
    pub(super) fn owed(
        &self,
        schedule: Schedule<'_>,
        state: &State,
    ) -> impl Iterator<Item = (usize, PointId, Vec<u32>)> {
        self.left(schedule, state).filter_map(move |(place, id, mut runs)| {
            runs.retain(|run| is_owed(&schedule.plan.runs, *run));
            (!runs.is_empty()).then_some((place, id, runs))
        })
    }

    /// True if a remaining run failed before and is measured again.
    pub(super) fn has_failed(&self, schedule: Schedule<'_>, state: &State) -> bool {
        let has_failed = |id: &PointId, run: u32| state.outcome(id, self.start.slot, run) == Some(Outcome::Failed);
        let has_failed_run = |(place, id): (usize, PointId)| {
            let mut left = self.runs_of(schedule, place, &id, state);
            left.any(|run| has_failed(&id, run))
        };
        schedule.retry_failed && self.ids(schedule, 0).any(has_failed_run)
    }

    /// True if no run remains.
    pub(super) fn is_empty(&self, schedule: Schedule<'_>, state: &State) -> bool {
        let mut ids = self.ids(schedule, 0);
        ids.all(|(place, id)| self.runs_of(schedule, place, &id, state).next().is_none())
    }

    /// Number of remaining runs. A server without any record has as many for each point as for the first, so only the first point is
    /// counted.
    pub fn count(&self, schedule: Schedule<'_>, state: &State) -> u64 {
        let ids = self.ids(schedule, 0);
        let mut counts = ids.map(|(place, id)| self.runs_of(schedule, place, &id, state).count() as u64);
        let server = &self.start.server;
        if self.start.only.is_some() || state.servers.contains_key(&server.id) {
            return counts.sum();
        }
        let repeated = u64::from(self.repeated.is_some());
        let of_each = counts.next().map_or(0, |of_first| of_first - repeated);
        of_each * schedule.matrix.count_of(server) + repeated
    }

    /// Upper bound of the number of runs.
    pub fn most(&self, schedule: Schedule<'_>) -> u64 {
        let points = schedule.matrix.count_of(&self.start.server) + self.probed.len() as u64;
        points * u64::from(schedule.plan.runs.most()) + 1
    }

    /// The places and ids of the points with remaining runs, in the order of the plan, and the numbers of these runs.
    pub fn left(&self, schedule: Schedule<'_>, state: &State) -> impl Iterator<Item = (usize, PointId, Vec<u32>)> {
        self.ids(schedule, 0).filter_map(move |(place, id)| {
            let left: Vec<u32> = self.runs_of(schedule, place, &id, state).collect();
            (!left.is_empty()).then_some((place, id, left))
        })
    }

    /// The point at a place.
    pub fn point(&self, schedule: Schedule<'_>, place: usize) -> Point {
        match place.checked_sub(schedule.matrix.loads()) {
            None => schedule.matrix.point_of(&self.start.server, place),
            Some(at) => self.probed[at].clone(),
        }
    }

    /// The numbers of the remaining runs of a point.
    fn runs_of(&self, schedule: Schedule<'_>, place: usize, id: &PointId, state: &State) -> impl Iterator<Item = u32> {
        let most = schedule.plan.runs.most();
        let from = self.next.run + u32::from(place < self.next.place);
        let to = if self.dropped.contains(id) { 0 } else { most };
        let again = self
            .repeated
            .filter(|repeated| *repeated == place && to > 0)
            .map(|_| most);
        let runs = (from..to).chain(again.filter(|run| *run >= from));
        runs.filter(move |run| match self.only_sure {
            true => is_sure(schedule, id, self.start.slot, *run, state),
            false => is_open(schedule, id, self.start.slot, *run, state),
        })
    }

    /// The places and ids of the points from a place on: first the points of the plan, then the points that searches measured.
    fn ids(&self, schedule: Schedule<'_>, from: usize) -> impl Iterator<Item = (usize, PointId)> {
        let only = self.start.only.as_ref();
        let planned = schedule.matrix.point_ids_from(&self.start.server, from);
        let planned = planned.filter(move |(_, id)| only.is_none_or(|only| only.points.contains(id)));
        let loads = schedule.matrix.loads();
        let probed = self.probed.iter().enumerate();
        let probed = probed.map(move |(at, point)| (loads + at, point.id.clone()));
        planned.chain(probed.filter(move |(place, _)| *place >= from))
    }
}

/// Returns true if a run remains.
fn is_open(schedule: Schedule<'_>, point: &PointId, slot: u32, run: u32, state: &State) -> bool {
    let outcome = state.outcome(point, slot, run);
    let is_settled = outcome.is_some_and(|outcome| outcome != Outcome::Failed || !schedule.retry_failed);
    !is_settled && is_wanted(&schedule.plan.runs, point, slot, run, state)
}

/// Returns true if a run remains and no interval can make it unnecessary. Repetitions beyond the least number are sure only one at a time,
/// after a real result: runs that a forecast imagined decide nothing.
fn is_sure(schedule: Schedule<'_>, point: &PointId, slot: u32, run: u32, state: &State) -> bool {
    let runs = &schedule.plan.runs;
    let is_measured = |run: u32| {
        let is_imagined = || state.run(point, slot, run).is_some_and(RunRecord::is_imagined);
        state.outcome(point, slot, run).is_some() && !is_imagined()
    };
    is_open(schedule, point, slot, run, state) && (!(runs.least()..runs.most()).contains(&run) || is_measured(run - 1))
}

/// Returns true if a run is owed: it is measured whatever the intervals are.
fn is_owed(runs: &Runs, run: u32) -> bool {
    run < runs.least() || run >= runs.most()
}

/// Returns true if a repetition may still be needed, after those before it.
fn is_wanted(runs: &Runs, point: &PointId, slot: u32, run: u32, state: &State) -> bool {
    match runs {
        _ if run >= runs.most() => true,
        Runs::Exactly(_) => true,
        Runs::Until { .. } if run < runs.least() => true,
        Runs::Until { metric, rule } => {
            let before = (0..run).map_while(|run| state.run(point, slot, run).filter(|run| !run.is_lost()));
            let before: Vec<&RunRecord> = before.collect();
            let has_failed = before.iter().any(|run| run.outcome == Outcome::Failed);
            let is_narrow = |count| is_enough(*rule, metric, &before[..count]);
            !has_failed && !(rule.min..=before.len()).any(is_narrow)
        }
    }
}

/// True if the interval of some runs is narrow enough. Disturbed runs count only if all are disturbed.
fn is_enough(rule: Repeats, metric: &str, runs: &[&RunRecord]) -> bool {
    let values = |is_disturbed: bool| -> Vec<f64> {
        let such = runs
            .iter()
            .filter(|run| run.validity != Validity::Invalid && run.is_disturbed() == is_disturbed);
        such.filter_map(|run| run.figures().get(metric)).collect()
    };
    let undisturbed = values(false);
    let values = match undisturbed.is_empty() {
        true => values(true),
        false => undisturbed,
    };
    rule.is_enough(&values)
}
