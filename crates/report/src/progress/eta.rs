//! Counts the remaining work of one invocation. This module does not know the plan: the driver of the sweep reports the work and how long
//! it will take.

use std::collections::{BTreeMap, BTreeSet};
use vsweep_base::ids::{SearchId, ServerId};
use vsweep_record::journal::{Entry, Event, LaunchRecord, State};

/// A planned start of a server.
type PlannedStart = (ServerId, u32);

/// Remaining work of one invocation.
#[derive(Debug, Clone, Default)]
pub struct Eta {
    /// Remaining work of each start.
    remaining: BTreeMap<PlannedStart, RemainingWork>,
    /// Runs that this invocation has to do in all, without those of searches.
    pub total: u64,
    /// Number of finished runs, without the skipped ones.
    pub done: u64,
    /// Number of these runs that were given up untried.
    skipped: u64,
    /// Starts with a run in progress, whose end is not recorded yet.
    in_progress: BTreeSet<PlannedStart>,
    /// The starts that this invocation has made or given up.
    begun: BTreeSet<PlannedStart>,
    /// Time that the rest will take, in seconds, if it is known.
    pub seconds_left: Option<f64>,
    /// Predicted duration of a start, in seconds; used until one was measured.
    pub predicted_start: Option<f64>,
    /// True if the runs load the engine themselves, so that no server is started or stopped for them.
    pub without_server: bool,
    /// True if the results decide which starts follow, so that their number is unknown.
    pub is_open_ended: bool,
}

/// Remaining work of a start.
#[derive(Debug, Clone, Default)]
struct RemainingWork {
    runs: u64,
    searches: BTreeSet<SearchId>,
}

impl Eta {
    /// Noun for one config.
    pub fn noun(&self) -> &'static str {
        if self.without_server { "engine" } else { "server" }
    }

    /// Adds runs on one start of a server.
    pub fn add_runs(&mut self, server: &ServerId, slot: u32, runs: u64) {
        self.remaining.entry((server.clone(), slot)).or_default().runs += runs;
        self.total += runs;
    }

    /// Adds a search on one start of a server.
    pub fn add_search(&mut self, server: &ServerId, slot: u32, search: &SearchId) {
        let remaining = self.remaining.entry((server.clone(), slot)).or_default();
        remaining.searches.insert(search.clone());
    }

    /// Returns true if this start of a server has known remaining work.
    pub fn knows(&self, server: &ServerId, slot: u32) -> bool {
        self.remaining.contains_key(&(server.clone(), slot))
    }

    /// Updates the counts after an event.
    pub fn note(&mut self, entry: &Entry, state: &State) {
        match &entry.event {
            Event::ServerStarting { server, slot, .. } => {
                self.begun.insert((server.clone(), *slot));
            }
            Event::RunStarted(run) => {
                self.in_progress.insert((run.server.clone(), run.slot));
            }
            Event::RunFinished(_) => {
                let Some(run) = state.run_of(entry) else { return };
                self.in_progress.remove(&(run.server.clone(), run.slot));
                if run.search.is_none() {
                    self.finish(&run.server, run.slot);
                }
            }
            Event::GroupGivenUp(given_up) => {
                let (server, slot) = (&given_up.server, given_up.slot);
                self.begun.insert((server.clone(), slot));
                let of_searches = given_up.points.iter().filter(|point| point.search.is_some()).count() as u64;
                for _ in of_searches..given_up.runs() {
                    self.skipped += u64::from(self.take_off(server, slot));
                }
                for (search, _) in &given_up.searches {
                    self.end_search(server, slot, search);
                }
            }
            Event::ResultsRetired { server, .. } => {
                for run in state.retired_at(entry.rank.line) {
                    match &run.search {
                        None => self.add_runs(server, run.slot, 1),
                        Some(search) => self.add_search(server, run.slot, search),
                    }
                }
            }
            Event::SearchFinished { search, .. } => {
                if let Some(record) = state.latest_search(search) {
                    self.end_search(&record.started.server, record.started.slot, search);
                }
            }
            _ => {}
        }
    }

    /// Counts a finished run. A run that was not foreseen, such as one for a narrower confidence interval, counts only on a start that this
    /// invocation works on.
    fn finish(&mut self, server: &ServerId, slot: u32) {
        if !self.take_off(server, slot) {
            if !self.begun.contains(&(server.clone(), slot)) {
                return;
            }
            self.total += 1;
        }
        self.done += 1;
    }

    /// Takes a run off the remaining work, and returns true if it was foreseen.
    fn take_off(&mut self, server: &ServerId, slot: u32) -> bool {
        self.change(server, slot, |remaining| {
            let is_foreseen = remaining.runs > 0;
            remaining.runs -= u64::from(is_foreseen);
            is_foreseen
        })
    }

    fn end_search(&mut self, server: &ServerId, slot: u32, search: &SearchId) {
        self.change(server, slot, |remaining| remaining.searches.remove(search));
    }

    /// Applies `take_off` to the remaining work of a start, and returns true if the work was there, as `take_off` says.
    fn change(&mut self, server: &ServerId, slot: u32, take_off: impl FnOnce(&mut RemainingWork) -> bool) -> bool {
        let start = (server.clone(), slot);
        let Some(remaining) = self.remaining.get_mut(&start) else {
            return false;
        };
        let was_there = take_off(remaining);
        if remaining.runs == 0 && remaining.searches.is_empty() {
            self.remaining.remove(&start);
        }
        was_there
    }

    /// Number of the runs in `total` that were not skipped.
    pub fn to_measure(&self) -> u64 {
        self.total - self.skipped
    }

    /// Number of runs that have begun and not ended.
    pub fn under_way(&self) -> u64 {
        self.in_progress.len() as u64
    }

    /// Returns true if a run on this start of a server is in progress.
    pub fn is_running(&self, server: &ServerId, slot: u32) -> bool {
        self.in_progress.contains(&(server.clone(), slot))
    }

    /// Number of starts of servers that were begun or given up, and the number of all starts.
    pub fn servers(&self) -> (u64, u64) {
        let begun = self.begun.len() as u64;
        let to_come = self.remaining.keys().filter(|start| !self.begun.contains(start));
        (begun, begun + to_come.count() as u64)
    }

    /// Expected duration of a server's start, in seconds, with the source of the number.
    pub fn expected_start(&self, state: &State) -> Option<(&'static str, f64)> {
        let launches = state.launches();
        let ready: Vec<f64> = launches.filter_map(LaunchRecord::ready_seconds).collect();
        match ready.len() {
            0 => self.predicted_start.map(|seconds| ("predicted", seconds)),
            count => Some(("usually", ready.iter().sum::<f64>() / count as f64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_base::cause::Cause;
    use vsweep_base::ids::PointId;
    use vsweep_plan::Params;
    use vsweep_record::journal::{GroupGivenUp, RunFinished, RunStarted, Untried};

    #[test]
    fn a_run_in_progress_belongs_to_one_start_of_its_server() {
        let server = ServerId("a".into());
        let (mut state, mut eta) = (State::default(), Eta::default());
        let mut note = |event: Event| {
            let entry = state.apply_hypothetical(event);
            eta.note(&entry, &state);
            entry.rank.line.seq
        };
        let [first, _] = [0, 1].map(|slot| {
            let server = server.clone();
            note(Event::RunStarted(Box::new(RunStarted {
                server,
                slot,
                ..RunStarted::default()
            })))
        });
        note(Event::RunFinished(Box::new(RunFinished {
            started: first,
            ..RunFinished::default()
        })));
        assert!(!eta.is_running(&server, 0) && eta.is_running(&server, 1));
    }

    #[test]
    fn a_skipped_run_is_not_done() {
        let server = ServerId("a".into());
        let (mut state, mut eta) = (State::default(), Eta::default());
        eta.add_runs(&server, 0, 3);
        eta.add_runs(&server, 1, 2);
        let given_up = Event::GroupGivenUp(Box::new(GroupGivenUp {
            server,
            slot: 0,
            cause: Cause::OomAtLoad,
            detail: String::new(),
            ruled_out: None,
            blamed: None,
            common: Params::new(),
            points: vec![Untried {
                point: PointId("p".into()),
                runs: vec![0, 1, 2],
                name: "max_concurrency=8".into(),
                params: Params::new(),
                combo: None,
                search: None,
            }],
            unlisted: Vec::new(),
            searches: Vec::new(),
        }));
        eta.note(&state.apply_hypothetical(given_up), &state);
        assert_eq!((eta.done, eta.to_measure()), (0, 2));
    }
}
