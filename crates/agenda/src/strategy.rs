//! The measurements on a server: the points of a grid, a search, or an exploration. Each derives its next run from the recorded runs alone,
//! so it continues at the same place after an interruption.

use super::begin::{Hint, definition, search_started};
use super::grid::Grid;
use super::schedule::Schedule;
use super::task::{RunReader, Task};
use std::collections::BTreeMap;
use vsweep_base::cause::{Cause, Failure};
use vsweep_base::ids::{PointId, SearchId};
use vsweep_base::validity::Validity;
use vsweep_plan::Plan;
use vsweep_plan::matrix::{LoadExploration, LoadSearch, Point};
use vsweep_record::journal::{MOST_LISTED, RunRecord, SearchEnd, SearchRecord, SearchStarted, State, Untried};
use vsweep_strategy::search::{Exploration, Search};

/// Measurements of one kind on a server.
#[derive(Debug)]
pub(super) enum Strategy {
    /// The remaining runs of the plan's points, in order.
    Grid(Box<Grid>),
    /// A search. True once this agenda has begun it.
    Search(Box<LoadSearch>, Hint, bool),
    /// An exploration. True once this agenda has begun it.
    Exploration(Box<LoadExploration>, bool),
}

/// Next request of a strategy.
#[derive(Debug)]
pub(super) enum Next {
    /// Record the beginning of the search or exploration.
    Begin(Box<SearchStarted>),
    /// Measure a run.
    Run(Box<Task>),
    /// The search or exploration has ended.
    Ended(SearchEnd),
    /// The grid has no run left.
    Empty,
}

impl Strategy {
    /// Returns the next request. A grid asks for each run once. Searches and explorations ask for a run until its result is recorded.
    pub fn ask(&mut self, schedule: Schedule<'_>, slot: u32, state: &State) -> Next {
        match self {
            Strategy::Grid(grid) => match grid.take(schedule, state) {
                Some(task) => Next::Run(Box::new(task)),
                None => Next::Empty,
            },
            Strategy::Search(planned, hint, is_begun) => ask_search(planned, hint, *is_begun, schedule, slot, state),
            Strategy::Exploration(planned, is_begun) => ask_exploration(planned, *is_begun, schedule, slot, state),
        }
    }

    /// Notes that this agenda has recorded the beginning of the search or exploration.
    pub fn note_begun(&mut self) {
        if let Strategy::Search(.., is_begun) | Strategy::Exploration(_, is_begun) = self {
            *is_begun = true;
        }
    }

    /// Id of the search or exploration; `None` for a grid.
    pub fn id(&self) -> Option<&SearchId> {
        match self {
            Strategy::Grid(_) => None,
            Strategy::Search(planned, ..) => Some(&planned.id),
            Strategy::Exploration(planned, _) => Some(&planned.id),
        }
    }

    /// Returns the remaining runs that are known. Of a grid, only the first `MOST_LISTED` points; the ids of the others go to `unlisted`,
    /// keyed by the numbers of their remaining runs.
    pub fn left(
        &mut self,
        schedule: Schedule<'_>,
        slot: u32,
        state: &State,
        unlisted: &mut BTreeMap<Vec<u32>, Vec<PointId>>,
    ) -> Vec<Untried> {
        if let Strategy::Grid(grid) = self {
            let mut owed = grid.owed(schedule, state);
            let first = owed.by_ref().take(MOST_LISTED);
            let listed = first.map(|(place, _, runs)| untried(schedule.plan, grid.point(schedule, place), runs, None));
            let listed = listed.collect();
            for (_, id, runs) in owed {
                unlisted.entry(runs).or_default().push(id);
            }
            return listed;
        }
        match self.ask(schedule, slot, state) {
            Next::Run(task) => vec![untried(schedule.plan, task.point, vec![task.run], self.id().cloned())],
            _ => Vec::new(),
        }
    }

    /// Returns true if a part of the strategy failed before and is measured again, such as a search that has already ended.
    pub fn has_failed(&self, schedule: Schedule<'_>, slot: u32, state: &State) -> bool {
        match self {
            Strategy::Grid(grid) => grid.has_failed(schedule, state),
            _ => self
                .id()
                .and_then(|id| state.search(id, slot))
                .is_some_and(|record| record.ended.is_some()),
        }
    }

    /// Returns the reason to end a search or exploration after this run, if further runs would teach it nothing either.
    pub fn objection(&self, task: &Task, state: &State) -> Option<Failure> {
        match self {
            Strategy::Search(planned, ..) => search_objection(planned, task, state),
            Strategy::Exploration(..) => lacks_level(task, state),
            Strategy::Grid(_) => None,
        }
    }
}

/// Record of the runs of a point that will not be tried.
pub(super) fn untried(plan: &Plan, point: Point, runs: Vec<u32>, search: Option<SearchId>) -> Untried {
    Untried {
        params: plan.secrets.redact_params(&point.params),
        point: point.id,
        runs,
        name: point.name,
        combo: point.combo,
        search,
    }
}

fn ask_search(
    planned: &LoadSearch,
    hint: &Hint,
    is_begun: bool,
    schedule: Schedule<'_>,
    slot: u32,
    state: &State,
) -> Next {
    let begin = || {
        let forecast = hint.forecast.as_ref();
        Next::Begin(Box::new(search_started(planned, slot, schedule.plan, state, forecast)))
    };
    let Some(record) = state.search(&planned.id, slot) else {
        return begin();
    };
    let mut search = Search::new(planned.settings.clone(), record.started.seed).against(&record.started.rivals);
    state.probes(&planned.id, slot).for_each(|probe| search.add(probe));
    match search.ask() {
        Err(question) => {
            let point = schedule.matrix.point_for(planned, &question);
            run(point, slot, RunReader::of_search(planned, &search, question), state)
        }
        Ok(_) if has_measured_nothing(&planned.id, slot, state) => {
            if !is_begun && begins_anew(record, schedule) {
                return begin();
            }
            let detail = "every run of the search failed, so its load is not to blame; see their causes";
            Next::Ended(SearchEnd::GivenUp(Failure::new(Cause::BenchFailed, detail)))
        }
        Ok(answers) => Next::Ended(SearchEnd::Answered(planned.with_remark(answers))),
    }
}

fn ask_exploration(
    planned: &LoadExploration,
    is_begun: bool,
    schedule: Schedule<'_>,
    slot: u32,
    state: &State,
) -> Next {
    let vary = planned.settings.vary;
    let begin = || Next::Begin(Box::new(definition(planned, vary, slot, schedule.plan)));
    let Some(record) = state.search(&planned.id, slot) else {
        return begin();
    };
    let mut exploration = Exploration::new(planned.settings.clone());
    state.levels(&planned.id, slot).for_each(|level| exploration.add(level));
    let Some(load) = exploration.ask() else {
        if exploration.has_anchors() {
            return Next::Ended(SearchEnd::Answered(Vec::new()));
        }
        if !is_begun && begins_anew(record, schedule) {
            return begin();
        }
        let detail = "an exploration needs one request at a time and one higher load, and one of the two was never \
                      measured; see the causes of its runs";
        return Next::Ended(SearchEnd::GivenUp(Failure::new(Cause::BenchFailed, detail)));
    };
    let point = schedule.matrix.point_at(planned, &load);
    let id = planned.id.clone();
    run(point, slot, RunReader::Exploration { id, load }, state)
}

/// Returns true if a search or exploration was given up after runs that teach nothing, and this session retries what failed.
fn begins_anew(record: &SearchRecord, schedule: Schedule<'_>) -> bool {
    schedule.retry_failed && matches!(record.ended, Some(SearchEnd::GivenUp(..)))
}

/// Asks for the next repetition of a point. Its result is read by `reader`.
fn run(point: Point, slot: u32, reader: RunReader, state: &State) -> Next {
    let run = state.free_run(&point.id, slot);
    Next::Run(Box::new(Task {
        reader: Some(reader),
        ..Task::of(point, slot, run, Vec::new())
    }))
}

/// Returns true if a search has runs, and all failed without figures for a reason other than a disturbance.
fn has_measured_nothing(search: &SearchId, slot: u32, state: &State) -> bool {
    let mut probes = state.probes(search, slot).peekable();
    probes.peek().is_some() && probes.all(|probe| probe.readings.is_empty() && !probe.is_disturbed())
}

/// Returns a failure if a run gave an exploration no level, because the exploration would ask for that run for ever.
fn lacks_level(task: &Task, state: &State) -> Option<Failure> {
    let run = state.run(&task.point.id, task.slot, task.run)?;
    let detail = "the result of a run says nothing about its load, so the next load cannot be chosen";
    run.level().is_none().then(|| Failure::new(Cause::BenchFailed, detail))
}

fn search_objection(planned: &LoadSearch, task: &Task, state: &State) -> Option<Failure> {
    let run = state.run(&task.point.id, task.slot, task.run)?;
    let probe = run.probe();
    if run.validity == Validity::Invalid && probe.is_none() {
        return invalid_again(task, run, state);
    }
    let is_of_client = run.request_error.as_ref().is_some_and(|error| error.is_of_client());
    let Some(probe) = probe.filter(|_| !is_of_client) else {
        let cause = run.cause.unwrap_or(Cause::BenchFailed);
        return Some(Failure::new(cause, run.detail.clone()));
    };
    let criteria = planned.settings.targets.iter().flat_map(|target| &target.criteria);
    let mut texts = criteria.map(ToString::to_string);
    let missing = texts.find(|text| !probe.readings.contains_key(text));
    let has_figures = probe.stopped.is_none() && !probe.is_disturbed() && !probe.is_too_slow();
    missing.filter(|_| has_figures).map(|text| {
        let detail = format!(
            "the result says nothing about `{text}`; let the benchmark report it (metric_percentiles, percentile_metrics, goodput), or bound something else"
        );
        Failure::new(Cause::BenchFailed, detail)
    })
}

/// Returns a failure, which ends the search, if this run and the one before it were invalid. After one invalid run the search asks again.
fn invalid_again(task: &Task, run: &RunRecord, state: &State) -> Option<Failure> {
    let before = state.run(&task.point.id, task.slot, task.run.checked_sub(1)?)?;
    let mut doubts = run.doubts.iter();
    let doubt = doubts.find(|doubt| doubt.code.severity() == Validity::Invalid)?;
    (before.validity == Validity::Invalid).then(|| {
        let detail = format!("two runs in a row did not measure what they should: {doubt}");
        Failure::new(Cause::BenchFailed, detail)
    })
}

#[cfg(test)]
mod tests {
    use crate::tests::{perform_next, plan, succeed};
    use crate::{Action, ActionOutcome, Agenda, MeasuredRun, MeasuredView, Run};
    use vsweep_base::cause::Failure;
    use vsweep_base::request_error::RequestError;
    use vsweep_metrics::RunResult;
    use vsweep_plan::Params;
    use vsweep_record::journal::{SearchRecord, State};
    use vsweep_strategy::search::Found;

    const TOP: &str = "version = 1\nruns = 1\n[serve]\ncommand = \"vllm serve m\"\n[bench.params]\nnum_prompts = 64\n";
    const EXPLORE: &str = "[explore]\nvary = \"max_concurrency\"\nlevels = 3\n";
    const SEARCH: &str =
        "[sla]\nvary = \"max_concurrency\"\nmax = 64\n[[sla.target]]\nname = \"chat\"\np99_ttft_ms = \"<=500\"\n";

    /// A run of which every request is refused with this error.
    fn refused(said: &str) -> ActionOutcome {
        let error = RequestError::read(said);
        ActionOutcome::Ran {
            result: Err(Failure::of_requests("all requests failed", Some(error))),
            seconds: 1.0,
        }
    }

    /// A run that meets the target.
    fn measured(run: &Run) -> ActionOutcome {
        let result: RunResult = Params::from_iter([("p99_ttft_ms".to_owned(), 1.0_f64.into())]).into();
        let seen = MeasuredView {
            result: &result,
            requests: &[],
            cut: None,
            is_failed: false,
            doubts: &[],
        };
        let ran = MeasuredRun {
            learned: run.task.learn(seen),
            ..MeasuredRun::default()
        };
        ActionOutcome::Ran {
            result: Ok(Box::new(ran)),
            seconds: 1.0,
        }
    }

    fn found(state: &State) -> Vec<Found> {
        let answers = state.searches().flat_map(SearchRecord::answers);
        answers.map(|answer| answer.found).collect()
    }

    #[test]
    fn what_was_given_up_is_searched_again_if_failed_runs_are_retried() {
        for table in [EXPLORE, SEARCH] {
            let (plan, matrix) = plan(&format!("{TOP}{table}"));
            let mut state = State::default();
            let mut refuse = |_: &mut Agenda<'_>, action: &Action| match action {
                Action::Run(_) => refused("HTTP 500: broken"),
                _ => succeed(action),
            };
            let (steps, _) = perform_next(&plan, &matrix, &mut state, false, &mut refuse);
            assert!(steps.starts_with("start run"), "{steps}");
            assert_eq!((state.searches_given_up(), state.failures()), (1, 0));
            let (again, _) = perform_next(&plan, &matrix, &mut state, true, &mut refuse);
            assert_eq!(again, steps);
            assert_eq!(state.searches_given_up(), 1);
        }
    }

    #[test]
    fn a_load_that_was_refused_before_any_run_had_figures_is_measured_again() {
        let (plan, matrix) = plan(&format!("{TOP}{SEARCH}"));
        let mut state = State::default();
        let mut runs = 0;
        let (steps, _) = perform_next(&plan, &matrix, &mut state, false, &mut |_, action| match action {
            Action::Run(run) => {
                runs += 1;
                if runs < 3 {
                    refused("HTTP 500: broken")
                } else {
                    measured(run)
                }
            }
            _ => succeed(action),
        });
        assert_eq!(found(&state), [Found::Beyond(64.0)], "{steps}");
    }

    #[test]
    fn a_search_ends_at_requests_that_the_server_objects_to_and_goes_on_without_their_load() {
        let (plan, matrix) = plan(&format!("{TOP}{SEARCH}"));
        let mut state = State::default();
        let mut runs = 0;
        perform_next(&plan, &matrix, &mut state, false, &mut |_, action| match action {
            Action::Run(run) => {
                runs += 1;
                if runs > 1 {
                    refused("HTTP 401: no key")
                } else {
                    measured(run)
                }
            }
            _ => succeed(action),
        });
        assert_eq!((runs, state.searches_given_up()), (2, 1));
        let (steps, _) = perform_next(&plan, &matrix, &mut state, true, &mut |_, action| match action {
            Action::Run(run) => measured(run),
            _ => succeed(action),
        });
        assert_eq!(found(&state), [Found::Beyond(64.0)], "{steps}");
    }
}
