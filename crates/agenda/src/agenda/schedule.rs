//! What is left to do, in order: server groups as the plan lists them, so that each server starts once, and within a
//! group one repetition of every point after the other, so that drift of the machine spreads over all points instead
//! of favouring some.

use super::task::Task;
use vsweep_plan::cause::Outcome;
use vsweep_plan::ids::SearchId;
use vsweep_plan::matrix::{LoadExploration, LoadSearch, Matrix, Point, ServerConfig};
use vsweep_record::journal::{SearchEnd, Shard, State};
use vsweep_strategy::search::{Answer, Found};

/// The work of one session, made server by server so that a million points never stand in memory at once.
#[derive(Debug, Clone, Copy)]
pub struct Schedule<'a> {
    matrix: &'a Matrix,
    runs: u32,
    shard: Shard,
    retry_failed: bool,
}

/// One server and what is to be measured on it.
#[derive(Debug, Clone)]
pub struct Group {
    /// The server.
    pub server: ServerConfig,
    /// The runs, in order.
    pub tasks: Vec<Task>,
    /// The searches, in order, which find their own runs. A group has tasks, searches or explorations.
    pub searches: Vec<LoadSearch>,
    /// The explorations, in order, which find their own runs as well.
    pub explorations: Vec<LoadExploration>,
}

impl<'a> Schedule<'a> {
    /// A schedule of `runs` repetitions of the matrix's points, as far as they fall into the shard.
    pub fn new(matrix: &'a Matrix, runs: u32, shard: Shard, retry_failed: bool) -> Schedule<'a> {
        Schedule {
            matrix,
            runs,
            shard,
            retry_failed,
        }
    }

    /// The shard's servers in plan order.
    pub fn servers(self) -> impl Iterator<Item = ServerConfig> + 'a {
        self.matrix
            .servers()
            .enumerate()
            .filter(move |(position, _)| self.shard.takes(*position))
            .map(|(_, server)| server)
    }

    /// What is left on this server, if anything.
    pub fn group(self, server: &ServerConfig, state: &State) -> Option<Group> {
        let points: Vec<Point> = self.matrix.points_of(server).collect();
        let tasks: Vec<Task> = (0..self.runs)
            .flat_map(|run| points.iter().map(move |point| (point, run)))
            .filter(|(point, run)| !is_settled(state.outcome(&point.id, *run), self.retry_failed))
            .map(|(point, run)| Task::of(point.clone(), run))
            .collect();
        let searches = self.matrix.searches_of(server);
        let searches = searches.filter(|search| self.is_open(&search.id, state) || was_skipped_before(search, state));
        let searches: Vec<LoadSearch> = searches.collect();
        let explorations = self.matrix.explorations_of(server);
        let explorations: Vec<LoadExploration> = explorations
            .filter(|exploration| self.is_open(&exploration.id, state))
            .collect();
        let has_work = !tasks.is_empty() || !searches.is_empty() || !explorations.is_empty();
        has_work.then(|| Group {
            server: server.clone(),
            tasks,
            searches,
            explorations,
        })
    }

    fn is_open(self, search: &SearchId, state: &State) -> bool {
        match state.search(search).and_then(|record| record.ended.as_ref()) {
            None => true,
            Some(SearchEnd::Answered(_)) => false,
            Some(SearchEnd::GivenUp(..)) => self.retry_failed,
        }
    }

    /// Whether anything is left in all.
    pub fn has_work(self, state: &State) -> bool {
        self.servers().any(|server| self.group(&server, state).is_some())
    }
}

/// Whether a search was left undone under a plan that allowed that, and this one does not.
fn was_skipped_before(search: &LoadSearch, state: &State) -> bool {
    let record = state.search(&search.id);
    let is_skipped = |answers: &[Answer]| answers.iter().any(|answer| answer.found == Found::Skipped);
    let ended = record.and_then(|record| record.ended.as_ref());
    !search.settings.skip_beaten && matches!(ended, Some(SearchEnd::Answered(answers)) if is_skipped(answers))
}

/// Whether an outcome means that a run need not be measured again.
fn is_settled(outcome: Option<Outcome>, retry_failed: bool) -> bool {
    match outcome {
        None => false,
        Some(Outcome::Failed) => !retry_failed,
        Some(Outcome::Ok | Outcome::Suspect | Outcome::Cut) => true,
    }
}
