//! The remaining work on one start of a server: runs of the plan's points, searches and explorations.

use super::begin::has_lost_rival;
use super::grid::Grid;
use super::schedule::{Schedule, Start};
use vsweep_base::ids::SearchId;
use vsweep_plan::matrix::{LoadExploration, LoadSearch, ServerConfig};
use vsweep_record::journal::{SearchEnd, SearchRecord, State};
use vsweep_strategy::search::Found;
use vsweep_strategy::selection::optimized::Reason;

/// One start of a server and the measurements on it.
#[derive(Debug, Clone)]
pub struct Group {
    /// The server.
    pub server: ServerConfig,
    /// Number of the planned start, from 0.
    pub slot: u32,
    /// The reason for which an optimisation asked for it.
    pub proposed: Option<Reason>,
    /// The runs of the plan's points, if any is left.
    pub grid: Option<Grid>,
    /// The searches, in order, which find their own runs. A group has only one of the three: a grid, searches or explorations.
    pub searches: Vec<LoadSearch>,
    /// The explorations, in order, which find their own runs as well.
    pub explorations: Vec<LoadExploration>,
}

impl Group {
    /// Returns a group with nothing to measure.
    pub fn of(server: ServerConfig, slot: u32) -> Group {
        Group {
            server,
            slot,
            proposed: None,
            grid: None,
            searches: Vec::new(),
            explorations: Vec::new(),
        }
    }
}

impl Schedule<'_> {
    /// Returns all work that may remain on a start, if any.
    pub fn group(self, start: &Start, state: &State) -> Option<Group> {
        self.group_of(start, state, false)
    }

    /// Returns the part of [`Schedule::group`] that remains in any case. If intervals decide on the number of runs, more may follow.
    pub fn sure_group(self, start: &Start, state: &State) -> Option<Group> {
        self.group_of(start, state, true)
    }

    /// Returns the number of runs of the plan's points that remain on a start in any case.
    pub fn sure_runs(self, start: &Start, state: &State) -> u64 {
        Grid::of(self, start, state, true).count(self, state)
    }

    /// Returns the number of runs that the finals still need in any case.
    pub fn runs_of_finals(self, state: &State) -> u64 {
        let all = self.whole();
        all.finals(state).map(|start| all.sure_runs(&start, state)).sum()
    }

    fn group_of(self, start: &Start, state: &State, is_sure: bool) -> Option<Group> {
        let grid = Grid::of(self, start, state, is_sure);
        let grid = (!grid.is_empty(self, state)).then_some(grid);
        let searches: Vec<LoadSearch> = self.searches(start, state).collect();
        let explorations: Vec<LoadExploration> = self.explorations(start, state).collect();
        let has_work = grid.is_some() || !searches.is_empty() || !explorations.is_empty();
        has_work.then(|| Group {
            proposed: start.proposed,
            grid,
            searches,
            explorations,
            ..Group::of(start.server.clone(), start.slot)
        })
    }

    /// Returns true if [`Schedule::group`] is not `None`.
    pub fn has_group(self, start: &Start, state: &State) -> bool {
        !Grid::of(self, start, state, false).is_empty(self, state)
            || self.searches(start, state).next().is_some()
            || self.explorations(start, state).next().is_some()
    }

    /// Returns the remaining searches of a start.
    pub fn searches(self, start: &Start, state: &State) -> impl Iterator<Item = LoadSearch> {
        self.matrix.searches_of(&start.server).filter_map(move |mut search| {
            if let Some(only) = &start.only {
                // Fresh starts measure the load that a finalist can take, even if another server can take more.
                search.settings.skip_beaten = false;
                only.searches.contains(&search.id).then_some(())?;
            }
            let record = state.search(&search.id, start.slot);
            let answers = record.map_or(&[][..], SearchRecord::answers);
            let is_skipped = answers.iter().any(|answer| answer.found == Found::Skipped);
            let is_left = self.is_left(&search.id, start.slot, state);
            if !is_left && !is_skipped {
                return None;
            }
            // Once a rival holds less than it did, nothing shows that this server is beaten.
            search.settings.skip_beaten = search.settings.skip_beaten
                && !record.is_some_and(|record| has_lost_rival(&search, record, self.plan, state));
            (is_left || !search.settings.skip_beaten).then_some(search)
        })
    }

    fn explorations(self, start: &Start, state: &State) -> impl Iterator<Item = LoadExploration> {
        let all = self.matrix.explorations_of(&start.server).filter(|_| !start.is_alone());
        all.filter(move |exploration| self.is_left(&exploration.id, start.slot, state))
    }

    fn is_left(self, search: &SearchId, slot: u32, state: &State) -> bool {
        match state.search(search, slot).and_then(|record| record.ended.as_ref()) {
            None => true,
            Some(SearchEnd::Answered(_)) => false,
            Some(SearchEnd::GivenUp(..)) => self.retry_failed,
        }
    }
}
