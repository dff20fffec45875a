//! The state after all lines so far: a pure fold. The lines of different journals may come in any order, because every decision compares
//! positions in the total order. Resuming a sweep, tables, status and reports all use it.
//!
//! Owns which result of a run counts, which chain of a search counts, and which points belong to the experiment. Reads no
//! file: who does tells it which results are lost.

mod answers;
mod apply;
mod attached;
mod chains;
mod counts;
mod mend;
mod nodes;
mod records;
mod resume;
mod unlisted;

use super::declared::{Compared, Optimization, ProposedStart};
use super::event::{Event, RunFinished, Seen, SeenJournal};
use super::line::Entry;
use super::rank::{Launch, LineId, Nonce, Rank};
pub use attached::ServerMatch;
use chains::SearchLines;
pub use counts::Duplicate;
pub use nodes::covered_s;
use records::RunStatus;
pub use records::{RunRecord, SearchEnd, SearchRecord, ServerRecord, Session, StartRecord, number};
pub use resume::MissingRecord;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;
pub use unlisted::UnlistedRuns;
use vsweep_base::cause::Outcome;
use vsweep_base::ids::{PointId, SearchId, ServerId};
use vsweep_base::validity::Doubt;
use vsweep_strategy::search::{Level, Probe};

/// The content of all journals of a directory.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Server configs that were used.
    pub servers: BTreeMap<ServerId, ServerRecord>,
    /// Lost and damaged records, one sentence each.
    pub damage: Vec<String>,
    sessions: Vec<Session>,
    /// The end of each session.
    endings: BTreeMap<Nonce, String>,
    /// Number and moment of the last line of each session.
    last_lines: BTreeMap<Nonce, (u64, String)>,
    /// The parts of other journals that sessions had read, with the lines that say so.
    seen: BTreeMap<Nonce, Vec<(u64, Seen)>>,
    /// Every try at a run, and every run that was given up untried.
    attempts: Vec<RunRecord>,
    by_line: HashMap<LineId, usize>,
    by_point: HashMap<PointId, Vec<usize>>,
    /// Results whose `run_started` was not read, by its line.
    orphans: BTreeMap<LineId, (Option<LineId>, String, RunFinished)>,
    searches: BTreeMap<(SearchId, u32), SearchLines>,
    /// Runs that were given up without a record of each, by the ranks of their lines.
    unlisted: Vec<UnlistedRuns>,
    retirements: Vec<Retirement>,
    /// The starts that an optimisation asked for, in their order.
    proposals: Vec<ProposedStart>,
    /// Starts whose answers to the fixed questions speak against what was measured on them.
    answers_doubted: BTreeMap<Launch, Doubt>,
    are_answers_judged: bool,
    /// The read part of each journal; empty unless the state was loaded from a directory.
    read: Seen,
    lamport: u64,
    /// The attempts that count, in the order of the tables; made when asked for.
    counted: OnceLock<Vec<usize>>,
    /// Number of points and of runs for each of `unlisted`; made when asked for.
    unlisted_counts: OnceLock<Vec<(u64, u64)>>,
}

/// A server whose earlier results count no more.
#[derive(Debug, Clone)]
struct Retirement {
    server: ServerId,
    rank: Rank,
    reason: String,
}

/// The first planned start of a server.
pub const FIRST_SLOT: u32 = 0;
/// The start on which a recommended server that ran beside others is measured alone; above all that plans and answers ask for.
pub const ALONE_SLOT: u32 = 100_000;

impl State {
    /// Folds some entries.
    pub fn of(entries: impl IntoIterator<Item = Entry>) -> State {
        let mut state = State::default();
        for entry in entries {
            state.apply(entry);
        }
        state
    }

    /// Results, one for each point, start slot and repetition, in the order in which they were first begun; without those of
    /// points that are not in the plan. One whose file is lost is among them.
    pub fn runs(&self) -> impl Iterator<Item = &RunRecord> {
        self.counted().iter().map(|at| &self.attempts[*at])
    }

    /// The runs of [`State::runs`] that are not lost, so that they need not be measured again.
    pub fn measured(&self) -> impl Iterator<Item = &RunRecord> {
        self.runs().filter(|run| !run.is_lost())
    }

    /// Number of [`State::runs`] that are lost.
    pub fn lost(&self) -> usize {
        self.runs().filter(|run| run.is_lost()).count()
    }

    /// The comparison that the plan of the last session asks for.
    pub fn compared(&self) -> Option<&Compared> {
        self.planning_session()?.compare.as_deref()
    }

    /// The optimisation that the plan of the last session asks for.
    pub fn optimization(&self) -> Option<&Optimization> {
        self.planning_session()?.optimize.as_deref()
    }

    /// The starts that an optimisation asked for, each once, in the order in which they began.
    pub fn proposals(&self) -> &[ProposedStart] {
        &self.proposals
    }

    /// Runs of the plan; where searches decide on their runs, those recorded.
    pub fn planned_runs(&self) -> u64 {
        match self.planning_session() {
            // More may be recorded than planned: runs of an earlier, longer plan.
            Some(planned) if planned.searches == 0 => planned.runs.max(self.recorded_runs()),
            _ => self.recorded_runs(),
        }
    }

    /// Searches of the plan that have not ended.
    pub fn searches_left(&self) -> u64 {
        let ended = self.searches().filter(|record| record.ended.is_some()).count() as u64;
        self.planning_session()
            .map_or(0, |planned| planned.searches.saturating_sub(ended))
    }

    /// Number of searches of the plan that were given up.
    pub fn searches_given_up(&self) -> usize {
        let is_given_up = |record: &&SearchRecord| matches!(record.ended, Some(SearchEnd::GivenUp(..)));
        self.searches().filter(is_given_up).count()
    }

    /// Number of failed runs. A probe that failed under its load is an answer and does not count.
    pub fn failures(&self) -> u64 {
        let is_failure = |run: &&RunRecord| run.outcome == Outcome::Failed && run.probe().is_none();
        self.runs().filter(is_failure).count() as u64 + self.unlisted_runs()
    }

    /// The result of a run that counts, whether or not its point is still in the plan; `None` where it is still to be measured.
    pub fn outcome(&self, point: &PointId, slot: u32, run: u32) -> Option<Outcome> {
        match self.run(point, slot, run) {
            Some(counts) => (counts.standing == RunStatus::Done).then_some(counts.outcome),
            None => self.unlisted_at(point, slot, run).map(|_| Outcome::Failed),
        }
    }

    /// The first repetition of a point on a start that has no result.
    pub fn free_run(&self, point: &PointId, slot: u32) -> u32 {
        let run = (0..).find(|run| self.outcome(point, slot, *run).is_none());
        run.expect("a journal does not hold four billion runs")
    }

    /// The record of a run, whether or not its point is still in the plan.
    pub fn run(&self, point: &PointId, slot: u32, run: u32) -> Option<&RunRecord> {
        Some(&self.attempts[self.counting(point, slot, run)?])
    }

    /// The run that a line gives a result to.
    pub fn run_of(&self, entry: &Entry) -> Option<&RunRecord> {
        let Event::RunFinished(finished) = &entry.event else {
            return None;
        };
        let line = LineId {
            journal: entry.rank.line.journal,
            seq: finished.started,
        };
        Some(&self.attempts[*self.by_line.get(&line)?])
    }

    /// The record of a search on the last planned start on which it has begun.
    pub fn latest_search(&self, search: &SearchId) -> Option<&SearchRecord> {
        let of_search = (search.clone(), FIRST_SLOT)..=(search.clone(), u32::MAX);
        let mut slots = self.searches.range(of_search).rev();
        slots.find_map(|((_, slot), _)| self.search(search, *slot))
    }

    /// The searches that were started and are still in the plan, oldest first; one for each planned start.
    pub fn searches(&self) -> impl Iterator<Item = &SearchRecord> {
        let planned = self
            .searches
            .iter()
            .filter(|((search, _), _)| self.is_planned_search(search));
        let mut begun: Vec<(Rank, &SearchRecord)> = planned
            .filter_map(|((search, slot), facts)| Some((facts.began()?, self.search(search, *slot)?)))
            .collect();
        begun.sort_by_key(|(rank, _)| *rank);
        begun.into_iter().map(|(_, record)| record)
    }

    /// The probes of a search on a planned start, in order.
    pub fn probes(&self, search: &SearchId, slot: u32) -> impl Iterator<Item = &Probe> {
        self.chained(search, slot).filter_map(RunRecord::probe)
    }

    /// The levels of an exploration on a planned start, in order.
    pub fn levels(&self, exploration: &SearchId, slot: u32) -> impl Iterator<Item = &Level> {
        self.chained(exploration, slot).filter_map(RunRecord::level)
    }

    /// The runs of the chain of a search that counts, in their order.
    fn chained(&self, search: &SearchId, slot: u32) -> impl Iterator<Item = &RunRecord> {
        let record = self.search(search, slot);
        let probes = record.map_or(&[][..], |record| &record.probes);
        probes.iter().map(|at| &self.attempts[*at])
    }

    /// Points at which some of these searches measured, in the plan or not.
    pub fn probed_points(&self, searches: &BTreeSet<SearchId>) -> BTreeSet<&PointId> {
        let asked = |run: &&RunRecord| run.search.as_ref().is_some_and(|search| searches.contains(search));
        self.recorded().filter(asked).map(|run| &run.point).collect()
    }

    /// Every point with a result, in the plan or not.
    pub fn recorded_points(&self) -> BTreeSet<&PointId> {
        self.recorded().map(|run| &run.point).collect()
    }

    /// Every result, whether or not it counts.
    fn recorded(&self) -> impl Iterator<Item = &RunRecord> {
        self.attempts.iter().filter(|run| run.standing != RunStatus::Open)
    }

    /// Every try that has this standing.
    fn attempts_with(&self, standing: RunStatus) -> impl Iterator<Item = &RunRecord> {
        self.attempts.iter().filter(move |run| run.standing == standing)
    }

    /// The run that each server which is up was given last and that has no result: it is in progress, unless its session was killed.
    pub fn runs_in_progress(&self) -> Vec<&RunRecord> {
        let open = self.attempts_with(RunStatus::Open);
        let is_up = |record: &&RunRecord| {
            let mut starts = self.starts_of(&record.server).iter();
            starts.any(|start| Some(start.launch) == record.launch && start.exited_at.is_none())
        };
        let mut last: BTreeMap<Option<Launch>, &RunRecord> = BTreeMap::new();
        for record in open.filter(is_up) {
            last.insert(record.launch, record);
        }
        last.into_values().collect()
    }

    /// The starts of all servers, those of each oldest first.
    pub fn starts(&self) -> impl Iterator<Item = &StartRecord> {
        self.servers.values().flat_map(|server| &server.starts)
    }

    /// The starts of a server, oldest first.
    pub fn starts_of(&self, server: &ServerId) -> &[StartRecord] {
        self.servers.get(server).map_or(&[], |record| &record.starts)
    }

    /// Every session, oldest first.
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// The latest session.
    pub fn last_session(&self) -> Option<&Session> {
        self.sessions.last()
    }

    /// The latest session that said which plan counts. One that only took up a plan may not know yet that another one was recorded, so
    /// its place in the order says nothing about plans.
    pub fn planning_session(&self) -> Option<&Session> {
        let planning = self.sessions.iter().rfind(|session| !session.joined);
        planning.or_else(|| self.last_session())
    }

    /// Pids of the vsweeps whose sessions did not end in order, other than this process.
    pub fn killed_sessions(&self) -> Vec<u32> {
        let killed = self.sessions.iter().filter(|session| session.ended.is_none());
        killed
            .map(|session| session.pid)
            .filter(|pid| *pid != std::process::id())
            .collect()
    }

    /// The greatest lamport number read.
    pub fn lamport(&self) -> u64 {
        self.lamport
    }

    /// Describes the source of the state: the length and the last checksum of each journal, and the number of damages. Equal texts of one
    /// directory mean equal states.
    pub fn basis(&self) -> String {
        let journals = self
            .read
            .iter()
            .map(|(name, seen)| format!("{name} {} {}", seen.lines, seen.sum));
        journals
            .chain([self.damage.len().to_string()])
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Notes what was read of each journal, and gives back the memory that further runs would take.
    pub(super) fn note_read(&mut self, read: Seen) {
        self.read = read;
        self.attempts.shrink_to_fit();
    }

    /// Everything that sessions saw of each other's journals.
    pub(super) fn all_seen(&self) -> impl Iterator<Item = (&Nonce, &SeenJournal)> {
        self.seen.values().flatten().flat_map(|(_, seen)| seen)
    }

    /// Returns true if some session had read so many lines of a journal.
    pub(super) fn is_known(&self, journal: Nonce, lines: u64) -> bool {
        self.all_seen()
            .any(|(other, seen)| *other == journal && seen.lines >= lines)
    }
}
