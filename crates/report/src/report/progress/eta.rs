//! The work that one invocation has before it, counted. Knows nothing of the plan: whoever drives the sweep says what is to be
//! done, and how long that will take.

use std::collections::{BTreeMap, BTreeSet};
use vsweep_plan::ids::{SearchId, ServerId};
use vsweep_record::journal::{Entry, Event, FIRST_SLOT, State};

/// What is to be done on one start of a server: runs by the name of their load, and searches.
#[derive(Debug, Clone, Default)]
struct Share {
    runs: BTreeMap<String, u64>,
    searches: BTreeSet<SearchId>,
}

/// What lies ahead of one invocation.
#[derive(Debug, Clone, Default)]
pub struct Eta {
    shares: BTreeMap<(ServerId, u32), Share>,
    /// Runs that this invocation has to do in all, without those of searches.
    pub total: u64,
    /// How many of them are done.
    pub done: u64,
    up: BTreeSet<(ServerId, u32)>,
    /// Servers under a run that has begun.
    measured: BTreeSet<ServerId>,
    /// The starts that this invocation has made or given up.
    begun: BTreeSet<(ServerId, u32)>,
    /// Time that the rest will take, in seconds, if it is known.
    pub seconds_left: Option<f64>,
    /// What a start takes by a forecast, in seconds; told as long as none was measured.
    pub predicted_start: Option<f64>,
    /// Whether the runs load the engine themselves, so that no server is started or stopped for them.
    pub without_server: bool,
}

impl Eta {
    /// What one config is called.
    pub fn noun(&self) -> &'static str {
        if self.without_server { "engine" } else { "server" }
    }

    /// Adds runs of one load on one start of a server; `load` is the name of their point.
    pub fn add_runs(&mut self, server: &ServerId, slot: u32, load: &str, runs: u64) {
        *self.share(server, slot).runs.entry(load.to_owned()).or_default() += runs;
        self.total += runs;
    }

    /// Adds a search on one start of a server.
    pub fn add_search(&mut self, server: &ServerId, slot: u32, search: &SearchId) {
        self.share(server, slot).searches.insert(search.clone());
    }

    /// Whether anything is known to be left on this start of a server.
    pub fn knows(&self, server: &ServerId, slot: u32) -> bool {
        self.shares.contains_key(&(server.clone(), slot))
    }

    fn share(&mut self, server: &ServerId, slot: u32) -> &mut Share {
        self.shares.entry((server.clone(), slot)).or_default()
    }

    /// Takes note of an event.
    pub fn note(&mut self, entry: &Entry, state: &State) {
        match &entry.event {
            Event::ServerStarting { server, slot, .. } => {
                self.up.insert((server.clone(), *slot));
                self.begun.insert((server.clone(), *slot));
            }
            Event::ServerExited { server, .. } => self.up.retain(|(up, _)| up != server),
            Event::RunStarted(run) => {
                self.measured.insert(run.server.clone());
            }
            Event::RunFinished(_) => {
                if let Some(run) = state.run_of(entry) {
                    self.measured.remove(&run.server);
                }
                if let Some(run) = state.run_of(entry).filter(|run| run.search.is_none()) {
                    self.finish(&run.server, run.slot, &run.name);
                }
            }
            Event::GroupGivenUp(given_up) => {
                self.begun.insert((given_up.server.clone(), given_up.slot));
                for point in given_up.points.iter().filter(|point| point.search.is_none()) {
                    point
                        .runs
                        .iter()
                        .for_each(|_| self.finish(&given_up.server, given_up.slot, &point.name));
                }
                for (search, _) in &given_up.searches {
                    self.end_search(search, given_up.slot);
                }
            }
            Event::ResultsRetired { server, .. } => {
                for run in state.retired_at(entry.rank.line) {
                    match &run.search {
                        None => self.add_runs(server, run.slot, &run.name, 1),
                        Some(search) => self.add_search(server, run.slot, search),
                    }
                }
            }
            Event::SearchFinished { search, .. } => {
                let slot = state
                    .latest_search(search)
                    .map_or(FIRST_SLOT, |record| record.started.slot);
                self.end_search(search, slot);
            }
            _ => {}
        }
    }

    fn end_search(&mut self, search: &SearchId, slot: u32) {
        let of_slot = self.shares.iter_mut().filter(|((_, at), _)| *at == slot);
        of_slot.for_each(|(_, share)| _ = share.searches.remove(search));
        self.forget_done();
    }

    /// Takes off a run that was done. One that was not foreseen (intervals may ask for more) counts as well, but only on
    /// a start that this invocation works on.
    fn finish(&mut self, server: &ServerId, slot: u32, load: &str) {
        let key = (server.clone(), slot);
        let left = self.shares.get_mut(&key).and_then(|share| share.runs.get_mut(load));
        match left {
            Some(left) => *left -= 1,
            None if self.up.contains(&key) => self.total += 1,
            None => return,
        }
        self.done += 1;
        if let Some(share) = self.shares.get_mut(&key) {
            share.runs.retain(|_, left| *left > 0);
        }
        self.forget_done();
    }

    fn forget_done(&mut self) {
        self.shares
            .retain(|_, share| !share.runs.is_empty() || !share.searches.is_empty());
    }

    /// Whether a run on this server has begun and is not told of yet.
    pub fn is_measured(&self, server: &ServerId) -> bool {
        self.measured.contains(server)
    }

    /// How many starts of servers were begun or given up, and how many there are in all.
    pub fn servers(&self) -> (u64, u64) {
        let begun = self.begun.len() as u64;
        let to_come = self.shares.keys().filter(|start| !self.begun.contains(start));
        (begun, begun + to_come.count() as u64)
    }

    /// What a server's start will take, in seconds, and how that is known.
    pub fn expected_start(&self, state: &State) -> Option<(&'static str, f64)> {
        let starts = state.servers.values().flat_map(|server| &server.starts);
        let ready: Vec<f64> = starts.filter_map(|start| start.ready_seconds).collect();
        match ready.len() {
            0 => self.predicted_start.map(|seconds| ("predicted", seconds)),
            count => Some(("usually", ready.iter().sum::<f64>() / count as f64)),
        }
    }
}
