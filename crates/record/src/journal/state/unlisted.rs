//! Runs that were given up with others of their start, and that no line describes, because they are too many. Such runs have failed, and no
//! table has a row for them.

use super::State;
use crate::journal::rank::Rank;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use vsweep_base::cause::{Cause, RuledOut};
use vsweep_base::ids::{Ids, PointId, ServerId};

/// Runs of one start that failed for the same reason.
#[derive(Debug, Clone)]
pub struct UnlistedRuns {
    /// The server config.
    pub server: ServerId,
    /// The cause.
    pub cause: Cause,
    /// Observed details, as text.
    pub detail: String,
    /// The comparison with another server, if this server was not started because the other one ran out of memory.
    pub ruled_out: Option<Arc<RuledOut>>,
    pub(super) slot: u32,
    pub(super) rank: Rank,
    pub(super) runs: Vec<u32>,
    pub(super) points: Arc<Ids>,
}

impl State {
    pub(super) fn give_up_unlisted(&mut self, unlisted: UnlistedRuns) {
        self.unlisted_counts = OnceLock::new();
        let at = self.unlisted.partition_point(|other| other.rank < unlisted.rank);
        self.unlisted.insert(at, unlisted);
    }

    /// Returns the unlisted runs that include a run, if it has no result of its own.
    pub(super) fn unlisted_at(&self, point: &PointId, slot: u32, run: u32) -> Option<&UnlistedRuns> {
        let has_run = |own: &&UnlistedRuns| {
            let is_in = own.slot == slot && own.runs.contains(&run) && own.points.contains(&point.0);
            is_in && self.retired_from(&own.server, own.rank.line).is_none()
        };
        let own = self.unlisted.iter().find(has_run)?;
        self.counting(point, slot, run).is_none().then_some(own)
    }

    /// Returns true if unlisted runs of a point were given up.
    pub fn is_unlisted(&self, point: &PointId) -> bool {
        self.unlisted.iter().any(|own| own.points.contains(&point.0))
    }

    /// Returns the unlisted runs of the plan, each with the number of runs that have no result of their own.
    pub fn unlisted(&self) -> impl Iterator<Item = (&UnlistedRuns, u64)> {
        let counts = self.unlisted_counts.get_or_init(|| {
            let count = |own: &UnlistedRuns| self.left_of(own).map(|(_, runs)| runs).sum::<u64>();
            self.unlisted.iter().map(count).collect()
        });
        let counted = self.unlisted.iter().zip(counts.iter().copied());
        counted.filter(|(_, runs)| *runs > 0)
    }

    /// Returns the points of unlisted runs that have no result of their own, each with the number of these runs.
    fn left_of(&self, own: &UnlistedRuns) -> impl Iterator<Item = (PointId, u64)> {
        let plan = self.plan();
        let planned = move |id: &&str| plan.is_none_or(|(points, _)| points.contains(id));
        let left = own.points.iter().filter(planned).map(move |id| {
            let point = PointId(id.into());
            let is_left = |run: &&u32| {
                let line = self.unlisted_at(&point, own.slot, **run);
                line.is_some_and(|line| line.rank == own.rank)
            };
            let runs = own.runs.iter().filter(is_left).count() as u64;
            (point, runs)
        });
        left.filter(|(_, runs)| *runs > 0)
    }

    /// Returns the number of points of these unlisted runs without `listed` ones. A point counts once, however many starts it failed on.
    pub fn unlisted_points<'a>(
        &self,
        unlisted: impl Iterator<Item = &'a UnlistedRuns>,
        listed: &HashSet<&PointId>,
    ) -> usize {
        let points: HashSet<PointId> = unlisted
            .flat_map(|own| self.left_of(own))
            .map(|(point, _)| point)
            .collect();
        points.iter().filter(|point| !listed.contains(point)).count()
    }

    /// Returns the number of unlisted runs of the plan.
    pub fn unlisted_runs(&self) -> u64 {
        self.unlisted().map(|(_, runs)| runs).sum()
    }

    /// Returns the number of failed runs that were not tried, because the failure of another run implied theirs.
    pub fn skipped_runs(&self) -> u64 {
        self.measured().filter(|run| run.is_skipped()).count() as u64 + self.unlisted_runs()
    }

    /// Returns the number of runs with a result, listed or not.
    pub fn recorded_runs(&self) -> u64 {
        self.runs().count() as u64 + self.unlisted_runs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Event, GroupGivenUp, Unlisted};

    #[test]
    fn a_point_that_fails_on_two_starts_is_one_point() {
        let mut state = State::default();
        let points = ["0000000000000001", "0000000000000002"];
        for slot in 0..2 {
            state.apply_hypothetical(Event::GroupGivenUp(Box::new(GroupGivenUp {
                server: ServerId("s".into()),
                slot,
                cause: Cause::OomAtLoad,
                detail: String::new(),
                ruled_out: None,
                blamed: None,
                common: Default::default(),
                points: Vec::new(),
                unlisted: vec![Unlisted {
                    runs: vec![0],
                    points: Ids::of(points),
                }],
                searches: Vec::new(),
            })));
        }
        let count = |listed: &[&PointId]| {
            let lost = state.unlisted().map(|(lost, _)| lost);
            state.unlisted_points(lost, &listed.iter().copied().collect())
        };
        assert_eq!((state.unlisted_runs(), count(&[])), (4, 2));
        assert_eq!(count(&[&PointId(points[0].into())]), 1, "the other has a row");
    }
}
