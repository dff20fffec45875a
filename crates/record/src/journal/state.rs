//! What is known after all events so far: a pure fold. Resume asks it what is missing; tables, status and reports are
//! made from it.

mod apply;
mod records;

pub use records::{Planned, RunRecord, SearchEnd, SearchRecord, ServerRecord, Session, StartRecord, Unfinished};

use super::directory::Directory;
use super::event::{Entry, Searched};
use super::log;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use vsweep_plan::cause::Outcome;
use vsweep_plan::error::{Error, Result};
use vsweep_plan::ids::{PointId, SearchId, ServerId};
use vsweep_strategy::search::{Level, Probe};

/// Everything a journal tells.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Server configs that were used.
    pub servers: BTreeMap<ServerId, ServerRecord>,
    /// Size of the plan at the last session.
    pub planned: Option<Planned>,
    /// Every session, oldest first (of the first shard, then the next).
    pub sessions: Vec<Session>,
    /// Runs that were started and have no outcome: interrupted ones, or the one in progress.
    pub unfinished: Vec<Unfinished>,
    /// Recorded points that are no longer in the plan.
    pub dropped: BTreeSet<PointId>,
    /// Searches of the plan as of the last session.
    pub planned_searches: BTreeSet<SearchId>,
    searches: Vec<SearchRecord>,
    /// Recorded runs whose file is missing or not what was recorded: they count as not measured.
    pub disowned: BTreeSet<(PointId, u32)>,
    positions: HashMap<(PointId, u32), usize>,
    recorded: Vec<RunRecord>,
    finished_at: Vec<String>,
}

/// Folds every journal of a directory without changing anything.
pub fn load(directory: &Directory) -> Result<State> {
    // Results without any journal are told apart from a directory that is not there.
    let journals = match directory.is_new() || directory.is_experiment() {
        true => directory.journals()?,
        false => Vec::new(),
    };
    let journals = journals
        .iter()
        .map(|journal| log::read(journal))
        .collect::<Result<Vec<_>>>()?;
    fold(directory, journals)
}

/// What the entries of all journals of a directory tell. Results that no journal tells of are an error, for whoever took the
/// directory for a new one would measure over them.
pub fn fold(directory: &Directory, journals: Vec<Vec<Entry>>) -> Result<State> {
    let is_blank = journals.iter().all(Vec::is_empty);
    if is_blank && directory.has_runs() {
        return Err(Error::Fatal(format!(
            "{} holds runs, but its journal is missing or empty; restore journal/ from a copy, or start over with --fresh",
            directory.root().display()
        )));
    }
    Ok(State::of(&merge(journals)))
}

/// Brings the entries of several journals into one order: that of each journal, and between journals that of their clocks.
fn merge(journals: Vec<Vec<Entry>>) -> Vec<Entry> {
    let mut timed = Vec::new();
    for journal in journals {
        let mut latest = jiff::Timestamp::MIN;
        for entry in journal {
            // A clock that was set back does not reorder a journal.
            latest = latest.max(entry.at.parse().unwrap_or(latest));
            timed.push((latest, entry));
        }
    }
    timed.sort_by_key(|(at, _)| *at);
    timed.into_iter().map(|(_, entry)| entry).collect()
}

impl State {
    /// Folds some entries.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> State {
        let mut state = State::default();
        for entry in entries {
            state.apply(entry);
        }
        state
    }

    /// Outcomes, one for each point and run, in the order of first completion; without those of dropped points.
    pub fn runs(&self) -> impl Iterator<Item = &RunRecord> {
        self.recorded.iter().filter(|run| !self.dropped.contains(&run.point))
    }

    /// Those of [`State::runs`] that count as measured: their file is what was recorded, as far as that was looked at.
    pub fn measured(&self) -> impl Iterator<Item = &RunRecord> {
        self.runs()
            .filter(|run| self.disowned.is_empty() || !self.disowned.contains(&(run.point.clone(), run.run)))
    }

    /// Runs of the plan; where searches decide on their runs, those recorded.
    pub fn planned_runs(&self) -> u64 {
        match &self.planned {
            // More may be recorded than planned: runs of an earlier, longer plan.
            Some(planned) if planned.searches == 0 => planned.runs.max(self.runs().count() as u64),
            _ => self.runs().count() as u64,
        }
    }

    /// Searches of the plan that have not ended.
    pub fn searches_left(&self) -> u64 {
        let ended = self.searches().filter(|record| record.ended.is_some()).count() as u64;
        self.planned.map_or(0, |planned| planned.searches).saturating_sub(ended)
    }

    /// Searches that an error ended before they had an answer.
    pub fn searches_given_up(&self) -> usize {
        let is_given_up = |record: &&SearchRecord| matches!(record.ended, Some(SearchEnd::GivenUp(..)));
        self.searches().filter(is_given_up).count()
    }

    /// How many runs failed; a probe that failed under its load is an answer and does not count.
    pub fn failures(&self) -> usize {
        let taught = |run: &RunRecord| run.search.as_ref().is_some_and(|searched| searched.probe.is_some());
        self.runs()
            .filter(|run| run.outcome == Outcome::Failed && !taught(run))
            .count()
    }

    /// When a run ended, RFC 3339.
    pub fn finished_at(&self, point: &PointId, run: u32) -> Option<&str> {
        let at = self.positions.get(&(point.clone(), run))?;
        Some(&self.finished_at[*at])
    }

    /// The recorded outcome of a run, whether or not its point is still in the plan.
    pub fn outcome(&self, point: &PointId, run: u32) -> Option<Outcome> {
        let key = (point.clone(), run);
        let at = self.positions.get(&key).filter(|_| !self.disowned.contains(&key))?;
        Some(self.recorded[*at].outcome)
    }

    /// The first repetition of a point that has no outcome.
    pub fn free_run(&self, point: &PointId) -> u32 {
        let run = (0..).find(|run| self.outcome(point, *run).is_none());
        run.expect("a journal does not hold four billion runs")
    }

    /// The record of a run, whether or not its point is still in the plan.
    pub fn run(&self, point: &PointId, run: u32) -> Option<&RunRecord> {
        let at = self.positions.get(&(point.clone(), run))?;
        Some(&self.recorded[*at])
    }

    /// The record of a search, whether or not it is still in the plan.
    pub fn search(&self, search: &SearchId) -> Option<&SearchRecord> {
        self.searches.iter().find(|record| record.started.search == *search)
    }

    /// The searches that were started and are still in the plan, oldest first.
    pub fn searches(&self) -> impl Iterator<Item = &SearchRecord> {
        let planned = |record: &&SearchRecord| self.planned_searches.contains(&record.started.search);
        self.searches.iter().filter(planned)
    }

    /// What a search has learned, in the order in which it did.
    pub fn probes<'a>(&'a self, search: &'a SearchId) -> impl Iterator<Item = &'a Probe> {
        self.searched(search).filter_map(|searched| searched.probe.as_ref())
    }

    /// The runs of an exploration, in their order.
    pub fn levels<'a>(&'a self, exploration: &'a SearchId) -> impl Iterator<Item = &'a Level> {
        self.searched(exploration)
            .filter_map(|searched| searched.level.as_ref())
    }

    /// What the runs of a search or an exploration say, in their order.
    fn searched<'a>(&'a self, search: &'a SearchId) -> impl Iterator<Item = &'a Searched> {
        let searched = self.recorded.iter().filter_map(|run| run.search.as_ref());
        searched.filter(move |searched| searched.id == *search)
    }

    /// Points at which some of these searches measured, dropped or not.
    pub fn probed_points<'a>(&'a self, searches: &'a BTreeSet<SearchId>) -> impl Iterator<Item = &'a PointId> {
        let asked = |run: &&RunRecord| run.search.as_ref().is_some_and(|search| searches.contains(&search.id));
        self.recorded.iter().filter(asked).map(|run| &run.point)
    }

    /// Every point with an outcome, dropped or not.
    pub fn recorded_points(&self) -> BTreeSet<&PointId> {
        self.recorded.iter().map(|run| &run.point).collect()
    }

    /// Pids of the vsweeps whose sessions did not end in order, other than this process.
    pub fn killed_sessions(&self) -> Vec<u32> {
        let killed = self.sessions.iter().filter(|session| session.ended.is_none());
        killed
            .map(|session| session.pid)
            .filter(|pid| *pid != std::process::id())
            .collect()
    }

    /// How many times a server config was started.
    pub fn starts_of(&self, server: &ServerId) -> u32 {
        self.servers
            .get(server)
            .and_then(|record| record.starts.last())
            .map_or(0, |last| last.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Event, RunFinished};
    use vsweep_plan::plan::Params;

    fn entry(seq: u64, event: Event) -> Entry {
        Entry {
            seq,
            at: format!("t{seq}"),
            event,
        }
    }

    fn finished(point: &str, run: u32, outcome: Outcome) -> Event {
        Event::RunFinished(Box::new(RunFinished {
            point: PointId(point.into()),
            server: ServerId("s".into()),
            run,
            name: String::new(),
            params: Params::new(),
            combo: None,
            outcome,
            cause: None,
            detail: String::new(),
            seconds: 1.0,
            file: None,
            search: None,
        }))
    }

    #[test]
    fn a_started_run_is_unfinished_until_it_has_an_outcome() {
        let started = entry(
            0,
            Event::RunStarted {
                point: PointId("a".into()),
                run: 1,
                name: String::new(),
                start: 1,
            },
        );
        let done = entry(1, finished("a", 1, Outcome::Ok));
        assert_eq!(State::of([&started]).unfinished.len(), 1);
        let state = State::of([&started, &done]);
        assert!(state.unfinished.is_empty());
        assert_eq!(state.outcome(&PointId("a".into()), 1), Some(Outcome::Ok));
        assert_eq!(state.outcome(&PointId("a".into()), 0), None);
    }

    #[test]
    fn measuring_again_replaces_the_outcome() {
        let entries = [
            entry(0, finished("a", 0, Outcome::Failed)),
            entry(1, finished("a", 0, Outcome::Ok)),
        ];
        let state = State::of(&entries);
        assert_eq!(state.runs().map(|run| run.outcome).collect::<Vec<_>>(), [Outcome::Ok]);
    }

    #[test]
    fn dropped_points_leave_the_runs_and_come_back() {
        let point = PointId("a".into());
        let entries = [
            entry(0, finished("a", 0, Outcome::Ok)),
            entry(
                1,
                Event::PointsDropped {
                    points: vec![point.clone()],
                },
            ),
            entry(2, Event::PointsRestored { points: vec![point] }),
        ];
        assert_eq!(State::of(&entries[..2]).runs().count(), 0);
        assert_eq!(State::of(&entries).runs().count(), 1);
    }
}
