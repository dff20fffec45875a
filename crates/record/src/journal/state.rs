//! The state after all lines so far: a pure fold. The lines of different journals may come in any order, because every decision compares
//! the positions of lines in the total order. Resuming a sweep, tables, status and reports all use this state.
//!
//! Decides which result of a run counts, which chain of a search counts, and which points belong to the experiment. Reads no file: callers
//! report which results are lost.

mod answers;
mod apply;
mod attached;
mod chains;
mod counts;
mod mend;
mod names;
mod nodes;
mod records;
mod resume;
mod unlisted;

use super::declared::{ComparisonDesign, Optimization, ProposedStart};
use super::event::{Event, ReadPositions, RunFinished, SeenJournal};
use super::line::Entry;
use super::rank::{Launch, LineId, Nonce, Rank};
pub use attached::ServerMatch;
use chains::SearchLines;
pub use counts::{Duplicate, DuplicateReason};
use itertools::Itertools;
pub use nodes::covered_s;
use records::RunStatus;
pub use records::{LaunchRecord, RunRecord, SearchEnd, SearchRecord, ServerRecord, Session, number};
pub use resume::MissingRecord;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;
pub use unlisted::UnlistedRuns;
use vsweep_base::cause::Outcome;
use vsweep_base::ids::{PointId, SearchId, ServerId};
use vsweep_base::validity::Doubt;
use vsweep_strategy::search::{ExplorationRun, Probe};

/// The state after all lines of the journals of a directory.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Server configs that were used.
    pub servers: BTreeMap<ServerId, ServerRecord>,
    /// Lost and damaged records, one sentence each.
    pub damage: Vec<String>,
    sessions: Vec<Session>,
    /// The reasons for the ends of sessions, by their lines.
    endings: BTreeMap<Nonce, BTreeMap<u64, String>>,
    /// Number and time of the last line of each session.
    last_lines: BTreeMap<Nonce, (u64, String)>,
    /// The parts of other journals that each session had read, with the numbers of the lines that record them.
    seen: BTreeMap<Nonce, Vec<(u64, ReadPositions)>>,
    /// Every try at a run, and every run that was given up untried.
    attempts: Vec<RunRecord>,
    by_line: HashMap<LineId, usize>,
    by_point: HashMap<PointId, Vec<usize>>,
    /// Results whose `run_started` line was not read, by that line; each with the line and the time of the result.
    orphans: BTreeMap<LineId, (Option<LineId>, String, RunFinished)>,
    searches: BTreeMap<(SearchId, u32), SearchLines>,
    /// Runs that were given up without a record of each, in the order of their lines.
    unlisted: Vec<UnlistedRuns>,
    retirements: Vec<Retirement>,
    /// The starts that an optimisation asked for, in their order.
    proposals: Vec<ProposedStart>,
    names: names::Names,
    /// Doubts about launches because of their answers to the fixed questions.
    answers_doubted: BTreeMap<Launch, Doubt>,
    are_answers_judged: bool,
    /// The read part of each journal; empty unless the state was loaded from a directory.
    read: ReadPositions,
    lamport: u64,
    /// The attempts that count, in the order of the tables; computed on first use.
    counted: OnceLock<Vec<usize>>,
    /// Number of runs for each of `unlisted`; computed on first use.
    unlisted_counts: OnceLock<Vec<u64>>,
}

/// The line that retired the earlier results on a server.
#[derive(Debug, Clone)]
struct Retirement {
    server: ServerId,
    rank: Rank,
    reason: String,
}

/// Slot of the first planned start of a server.
pub const FIRST_SLOT: u32 = 0;
/// Slot of the start on which a recommended server that ran next to others is measured alone. It is above all slots that plans and answers
/// ask for.
pub const ALONE_SLOT: u32 = 100_000;

impl State {
    /// Returns the state after some entries.
    pub fn of(entries: impl IntoIterator<Item = Entry>) -> State {
        let mut state = State::default();
        for entry in entries {
            state.apply(entry);
        }
        state
    }

    /// Returns the results that count, one for each point in the plan, start slot and repetition, in the order in which they were first
    /// begun. Results whose file is lost are among them.
    pub fn runs(&self) -> impl Iterator<Item = &RunRecord> {
        self.counted().iter().map(|at| &self.attempts[*at])
    }

    /// Returns the results of [`State::runs`] that are not lost, and need not be measured again.
    pub fn measured(&self) -> impl Iterator<Item = &RunRecord> {
        self.runs().filter(|run| !run.is_lost())
    }

    /// Returns the number of [`State::runs`] that are lost.
    pub fn lost(&self) -> usize {
        self.runs().filter(|run| run.is_lost()).count()
    }

    /// Returns the comparison that the plan asks for.
    pub fn compared(&self) -> Option<&ComparisonDesign> {
        self.planning_session()?.compare.as_deref()
    }

    /// Returns the optimisation that the plan asks for, as the latest session with this plan designed it: the machine that submitted the plan
    /// may not know the GPUs of the workers.
    pub fn optimization(&self) -> Option<&Optimization> {
        let plan = &self.planning_session()?.plan.sha256;
        let latest = self.sessions.iter().rfind(|session| session.plan.sha256 == *plan);
        latest?.optimize.as_deref()
    }

    /// Returns the starts that an optimisation asked for, each once, in the order in which they began.
    pub fn proposals(&self) -> &[ProposedStart] {
        &self.proposals
    }

    /// Returns the number of runs of the plan; if searches decide on their runs, the number of recorded ones.
    pub fn planned_runs(&self) -> u64 {
        match self.planning_session() {
            // More may be recorded than planned: runs of an earlier, longer plan. Lost ones are among the recorded.
            Some(planned) if planned.searches == 0 => {
                planned.runs.max(self.recorded_runs() + self.open_after(self.runs()))
            }
            _ => self.recorded_runs(),
        }
    }

    /// Returns the number of searches of the plan that have not ended.
    pub fn searches_left(&self) -> u64 {
        let Some(planned) = self.planning_session() else {
            return 0;
        };
        let of_plan = self.searches().filter(|own| own.started.slot < planned.starts.max(1));
        let ended = of_plan.filter(|own| own.ended.is_some()).count() as u64;
        planned.searches.saturating_sub(ended)
    }

    /// Returns the number of searches of the plan that were given up.
    pub fn searches_given_up(&self) -> usize {
        let is_given_up = |record: &&SearchRecord| matches!(record.ended, Some(SearchEnd::GivenUp(..)));
        self.searches().filter(is_given_up).count()
    }

    /// Returns the number of failed runs. A probe or a level that failed under its load is an answer, and does not count.
    pub fn failures(&self) -> u64 {
        let is_answer = |run: &RunRecord| run.probe().is_some() || run.level().is_some();
        let is_failure = |run: &&RunRecord| run.outcome == Outcome::Failed && !is_answer(run);
        self.runs().filter(is_failure).count() as u64 + self.unlisted_runs()
    }

    /// Returns the outcome that counts for a run, whether or not its point is still in the plan; `None` if it is still to be measured, as
    /// a run that a search cut is.
    pub fn outcome(&self, point: &PointId, slot: u32, run: u32) -> Option<Outcome> {
        self.recorded_outcome(point, slot, run)
            .filter(|outcome| *outcome != Outcome::Cut)
    }

    fn recorded_outcome(&self, point: &PointId, slot: u32, run: u32) -> Option<Outcome> {
        match self.run(point, slot, run) {
            Some(counts) => (counts.status == RunStatus::Done).then_some(counts.outcome),
            None => self.unlisted_at(point, slot, run).map(|_| Outcome::Failed),
        }
    }

    /// Returns true if a start was used for an earlier plan alone: it has runs, and none of them is a run of the current plan.
    pub fn is_of_earlier_plan(&self, server: &ServerId, slot: u32, is_current: impl Fn(&RunRecord) -> bool) -> bool {
        let own = || {
            self.attempts
                .iter()
                .filter(|run| run.server == *server && run.slot == slot)
        };
        let is_unlisted = |unlisted: &UnlistedRuns| unlisted.server == *server && unlisted.slot == slot;
        (own().next().is_some() || self.unlisted.iter().any(is_unlisted)) && !own().any(is_current)
    }

    /// Returns true if a run was begun before the first session with the plan that counts since the last other plan.
    pub fn is_before_plan(&self, run: &RunRecord) -> bool {
        let mut planning = self.sessions.iter().rev().filter(|session| !session.joined);
        let Some(last) = planning.next() else {
            return false;
        };
        let same = planning.take_while(|session| session.plan.sha256 == last.plan.sha256);
        run.rank < same.last().unwrap_or(last).rank
    }

    /// Returns the first repetition of a point on a start that has no result.
    pub fn free_run(&self, point: &PointId, slot: u32) -> u32 {
        let run = (0..).find(|run| self.recorded_outcome(point, slot, *run).is_none());
        run.expect("a journal does not hold four billion runs")
    }

    /// Returns the record that counts for a run, whether or not its point is still in the plan.
    pub fn run(&self, point: &PointId, slot: u32, run: u32) -> Option<&RunRecord> {
        Some(&self.attempts[self.counting(point, slot, run)?])
    }

    /// Returns the run that a `run_finished` line finishes.
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

    /// Returns the record of a search on the last planned start on which it has begun.
    pub fn latest_search(&self, search: &SearchId) -> Option<&SearchRecord> {
        let of_search = (search.clone(), FIRST_SLOT)..=(search.clone(), u32::MAX);
        let mut slots = self.searches.range(of_search).rev();
        slots.find_map(|((_, slot), _)| self.search(search, *slot))
    }

    /// Returns true if a search for a workload asked for a run on this server at this load, all three named as in an answer.
    pub fn is_probe_of(&self, run: &RunRecord, workload: &str, server: &str, load: &str) -> bool {
        let search = run.search.as_ref().and_then(|search| self.latest_search(search));
        let is_at = |probe: &Probe| load.parse() == Ok(probe.question.value);
        *run.server.0 == *server
            && run.probe().is_some_and(is_at)
            && search.is_some_and(|search| search.started.workload() == workload)
    }

    /// Returns the searches that have begun and are still in the plan, oldest first; one record for each start on which a search has begun.
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

    /// Returns the probes of a search on a planned start, in order. Those to whose requests the server objects are left out, because their
    /// loads are not the reason; so are, once a probe has figures, those before it whose requests the server refused.
    pub fn probes(&self, search: &SearchId, slot: u32) -> impl Iterator<Item = &Probe> {
        let mut runs = self.chained(search, slot);
        let first = runs.position(|run| run.probe().is_some_and(|probe| !probe.readings.is_empty()));
        let first = first.unwrap_or(0);
        let runs = self.chained(search, slot).enumerate();
        let runs = runs.filter(move |(at, run)| {
            let mut refused = run.request_error.iter();
            !refused.any(|error| error.is_of_client() || (*at < first && error.status.is_some()))
        });
        runs.filter_map(|(_, run)| run.probe())
    }

    /// Returns the levels of an exploration on a planned start, in order.
    pub fn levels(&self, exploration: &SearchId, slot: u32) -> impl Iterator<Item = &ExplorationRun> {
        self.chained(exploration, slot).filter_map(RunRecord::level)
    }

    /// Returns the runs of the chain that counts for a search, in order.
    fn chained(&self, search: &SearchId, slot: u32) -> impl Iterator<Item = &RunRecord> {
        let record = self.search(search, slot);
        let probes = record.map_or(&[][..], |record| &record.probes);
        probes.iter().map(|at| &self.attempts[*at])
    }

    /// Returns the points at which any of these searches measured, in the plan or not.
    pub fn probed_points(&self, searches: &BTreeSet<SearchId>) -> BTreeSet<&PointId> {
        let asked = |run: &&RunRecord| run.search.as_ref().is_some_and(|search| searches.contains(search));
        self.recorded().filter(asked).map(|run| &run.point).collect()
    }

    /// Returns every point with a result, in the plan or not.
    pub fn recorded_points(&self) -> BTreeSet<&PointId> {
        self.recorded().map(|run| &run.point).collect()
    }

    /// Returns every result, whether or not it counts.
    fn recorded(&self) -> impl Iterator<Item = &RunRecord> {
        self.attempts.iter().filter(|run| run.status != RunStatus::Open)
    }

    /// Returns every attempt that has this status.
    fn attempts_with(&self, status: RunStatus) -> impl Iterator<Item = &RunRecord> {
        self.attempts.iter().filter(move |run| run.status == status)
    }

    /// Returns the last run without a result on each launch that has not ended. The run is in progress, unless its session was killed.
    pub fn runs_in_progress(&self) -> Vec<&RunRecord> {
        let open = self.attempts_with(RunStatus::Open);
        let is_up = |record: &&RunRecord| self.launched(record).is_some_and(|own| own.exited_at.is_none());
        let mut last: BTreeMap<Option<Launch>, &RunRecord> = BTreeMap::new();
        for record in open.filter(is_up) {
            last.insert(record.launch, record);
        }
        last.into_values().collect()
    }

    /// Returns the launches of all servers, those of each server oldest first.
    pub fn launches(&self) -> impl Iterator<Item = &LaunchRecord> {
        self.servers.values().flat_map(|server| &server.launches)
    }

    /// Returns the launches of a server, oldest first.
    pub fn launches_of(&self, server: &ServerId) -> &[LaunchRecord] {
        self.servers.get(server).map_or(&[], |record| &record.launches)
    }

    /// Returns the launch on which a run was measured.
    pub fn launched(&self, run: &RunRecord) -> Option<&LaunchRecord> {
        let mut launches = self.launches_of(&run.server).iter();
        launches.find(|launched| Some(launched.launch) == run.launch)
    }

    /// Returns the total duration of a server's launches for a start, in seconds: the recorded times until they ended, or the times until
    /// they were ready plus those of the runs, `run_seconds`, whichever sum is longer.
    pub fn seconds_of_start(&self, server: &ServerId, slot: u32, run_seconds: f64) -> f64 {
        let launches = || self.launches_of(server).iter().filter(|launch| launch.slot == slot);
        let held: f64 = launches().filter_map(|launch| launch.exit.held_seconds).sum();
        let ready: f64 = launches().filter_map(LaunchRecord::ready_seconds).sum();
        held.max(ready + run_seconds)
    }

    /// Returns every session, oldest first.
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// Returns the latest session.
    pub fn last_session(&self) -> Option<&Session> {
        self.sessions.last()
    }

    /// Returns the session whose plan counts: the latest one that did not join an earlier plan. A session that joined may not know that
    /// another plan was recorded since, so its position says nothing about plans.
    pub fn planning_session(&self) -> Option<&Session> {
        let planning = self.sessions.iter().rfind(|session| !session.joined);
        planning.or_else(|| self.last_session())
    }

    /// Returns the process ids and start times of all sessions. A session may be killed after its recorded end, while the command of
    /// `[on_finish]` runs.
    pub fn processes(&self) -> Vec<(u32, u64)> {
        let sessions = self.sessions.iter();
        sessions.map(|session| (session.pid, session.started)).collect()
    }

    /// Returns the greatest lamport number read.
    pub fn lamport(&self) -> u64 {
        self.lamport
    }

    /// Describes the source of the state: the length and the last checksum of each journal, the number of sentences in `damage`, and the
    /// runs without a sound result. Equal texts of one directory mean equal states.
    pub fn basis(&self) -> String {
        let unsound = self.attempts.iter().filter(|run| run.status != RunStatus::Done);
        let unsound = unsound.map(|run| run.rank.line.to_string()).sorted();
        let journals = self
            .read
            .iter()
            .map(|(name, seen)| format!("{name} {} {}", seen.lines, seen.sum));
        let damage = [self.damage.len().to_string()];
        journals.chain(damage).chain(unsound).join("\n")
    }

    /// Notes the read part of each journal, and frees the memory that is reserved for further runs.
    pub(super) fn note_read(&mut self, read: ReadPositions) {
        self.read = read;
        self.attempts.shrink_to_fit();
    }

    /// Returns all parts of other journals that sessions had read.
    pub(super) fn all_seen(&self) -> impl Iterator<Item = (&Nonce, &SeenJournal)> {
        self.seen.values().flatten().flat_map(|(_, seen)| seen)
    }

    /// Returns true if some session had read at least this many lines of a journal.
    pub(super) fn is_known(&self, journal: Nonce, lines: u64) -> bool {
        self.all_seen()
            .any(|(other, seen)| *other == journal && seen.lines >= lines)
    }
}
