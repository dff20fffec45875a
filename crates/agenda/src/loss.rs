//! The consequences of a server that dies or does not start: which runs are tried again, and which are given up.

use super::run::{Attempt, failed};
use super::step::{Action, Ending, Step};
use super::strategy::{Next, Strategy, untried};
use super::{Agenda, AgendaPhase, LOST_POINTS, TRIES, record, search_finished, tip};
use std::collections::BTreeMap;
use vsweep_base::cause::{Failure, Outcome};
use vsweep_base::ids::{Ids, SearchId};
use vsweep_plan::{OnFailure, Params, Target};
use vsweep_record::journal::{
    Entry, Event, GroupGivenUp, LineId, SearchEnd, ServerDescription, State, Unlisted, Untried,
};

impl Agenda<'_> {
    /// Returns the reason not to start the server, if there is one: it did not become ready in an earlier slot, or another server that
    /// needs no more memory ran out of memory while starting. The second reason applies only to a config that was never started and has not
    /// failed.
    pub(super) fn reason_not_to_start(&self, config: &ServerDescription, state: &State) -> Option<Failure> {
        let is_new = || {
            state.launches_of(&self.server.id).is_empty()
                && !self
                    .strategies
                    .iter()
                    .any(|one| one.has_failed(self.schedule, self.slot, state))
        };
        match state.never_starts(&self.server.id, self.slot) {
            Some(failure) => {
                let detail = format!("not started again: {}", failure.detail);
                Some(Failure::new(failure.cause, detail))
            }
            None if is_new() => state.lacks_memory(config),
            None => None,
        }
    }

    pub(super) fn settle_death(&mut self, failure: Failure, seconds: f64) {
        let attempt = self.attempt.as_mut().expect("a server is watched while it is measured");
        attempt.death = Some((failure.clone(), seconds));
        let launched = self.launched.as_mut().expect("a server that died was started");
        launched.exit = Some(failure.clone());
        self.death = Some(failure);
        self.due.push_back(Step::Act(Action::Stop));
    }

    /// Continues after the server died under a run: tries the run again, drops its point, or gives up the server.
    pub(super) fn on_server_death(
        &mut self,
        mut attempt: Attempt,
        (failure, seconds): (Failure, f64),
        state: &State,
    ) -> Option<Step> {
        if failure.cause.is_transient() && attempt.tries < TRIES {
            attempt.tries += 1;
            attempt.died_in = attempt.begin_again();
            self.attempt = Some(attempt);
            return self.retrying(&failure);
        }
        self.lost_in_a_row += 1;
        let started = attempt.started.expect("the run was begun");
        self.due.push_back(failed(&attempt.task, &started, &failure, seconds));
        // A search or an exploration does not give up the server: it learns from deaths that its loads are too high.
        if self.lost_in_a_row >= LOST_POINTS && attempt.task.reader.is_none() {
            self.give_up(failure, Some(started));
            return None;
        }
        if let Some(Strategy::Grid(grid)) = self.strategies.front_mut()
            && self.schedule.plan.on_failure == OnFailure::Continue
        {
            let runs = grid.drop_point(self.schedule, &attempt.task.point.id, state);
            let point = (!runs.is_empty()).then(|| attempt.task.point.clone());
            let lost = point.map(|point| untried(self.schedule.plan, point, runs, None));
            let given_up = self.given_up(
                lost.into_iter().collect(),
                Vec::new(),
                Vec::new(),
                &failure,
                Some(&started),
            );
            self.due.extend(given_up);
        }
        self.end_run(attempt.task, Outcome::Failed);
        None
    }

    /// Continues after the server that a run needs did not start: tries again, or gives up the server.
    pub(super) fn miss_start(&mut self, mut attempt: Attempt, failure: Failure) -> Option<Step> {
        if failure.cause.is_transient() && attempt.tries < TRIES {
            attempt.tries += 1;
            self.attempt = Some(attempt);
            return self.retrying(&failure);
        }
        let failure = self.blame(failure, attempt.died_in.is_some());
        match &attempt.died_in {
            Some(started) => self.due.push_back(failed(&attempt.task, started, &failure, 0.0)),
            None => {
                if let Some(Strategy::Grid(grid)) = self.strategies.front_mut() {
                    grid.put_back();
                }
            }
        }
        self.give_up(failure, attempt.died_in);
        None
    }

    pub(super) fn give_up(&mut self, failure: Failure, died_in: Option<Entry>) {
        let of_run = died_in.as_ref().and(self.strategies.front());
        self.phase = AgendaPhase::GivingUp {
            search: of_run.and_then(Strategy::id).cloned(),
            failure,
            died_in: died_in.map(Box::new),
        };
    }

    /// Returns the next step of giving up: first ends the search that asked for the lost run, then begins the searches that have not begun,
    /// so that every search has a record, and finally records all remaining work as failed.
    pub(super) fn give_up_rest(&mut self, state: &State) -> Option<Step> {
        let AgendaPhase::GivingUp {
            failure,
            died_in,
            search,
        } = &mut self.phase
        else {
            unreachable!("called only while a server is given up");
        };
        let (failure, died_in, search) = (failure.clone(), died_in.clone(), search.take());
        if let Some(search) = search {
            self.strategies.pop_front();
            return Some(search_finished(search, SearchEnd::GivenUp(failure), self.slot, state));
        }
        for search in self.strategies.iter_mut().filter(|strategy| strategy.id().is_some()) {
            if let Next::Begin(started) = search.ask(self.schedule, self.slot, state) {
                return Some(record(Event::SearchStarted(started)));
            }
        }
        let mut unlisted = BTreeMap::new();
        let left = |strategy: &mut Strategy| strategy.left(self.schedule, self.slot, state, &mut unlisted);
        let points = self.strategies.iter_mut().flat_map(left).collect();
        let unlisted = unlisted.into_iter().map(|(runs, points)| Unlisted {
            runs,
            points: Ids::of(points),
        });
        let searches = self.strategies.iter().filter_map(Strategy::id);
        let searches = searches.map(|id| (id.clone(), tip(id, self.slot, state))).collect();
        let given_up = self.given_up(points, unlisted.collect(), searches, &failure, died_in.as_deref());
        self.leave(match self.schedule.plan.on_failure {
            OnFailure::Continue => Ending::Finished,
            OnFailure::Stop => Ending::StoppedOnFailure,
        });
        given_up
    }

    /// Returns the failure to blame for a server that did not start. If it had died before, its death is to blame, because the later
    /// failure follows from it. For a server that vsweep launches, this holds only if it died under this run.
    fn blame(&self, failure: Failure, died_in_run: bool) -> Failure {
        let is_attached = matches!(self.schedule.plan.serve.target, Target::Attach(_));
        match &self.death {
            Some(death) if died_in_run || is_attached => {
                let detail = format!("{}; it did not start again: {}", death.detail, failure.detail);
                Failure::new(death.cause, detail)
            }
            _ => failure,
        }
    }

    /// The event that records runs and searches as failed without a try; `None` if there are none. `blamed` is the `run_started` of the run
    /// under which the server died; `None` if the server did not start.
    fn given_up(
        &self,
        points: Vec<Untried>,
        unlisted: Vec<Unlisted>,
        searches: Vec<(SearchId, LineId)>,
        failure: &Failure,
        blamed: Option<&Entry>,
    ) -> Option<Step> {
        if points.is_empty() && searches.is_empty() {
            return None;
        }
        let given_up = GroupGivenUp {
            server: self.server.id.clone(),
            slot: self.slot,
            cause: failure.cause,
            detail: failure.detail.clone(),
            ruled_out: failure.ruled_out.clone(),
            blamed: blamed.map(|started| started.rank.line.seq),
            common: Params::new(),
            points,
            unlisted,
            searches,
        };
        Some(record(Event::GroupGivenUp(Box::new(given_up.compact()))))
    }

    /// Notes another try; nothing, once the sweep is asked to end and so starts no server.
    fn retrying(&self, failure: &Failure) -> Option<Step> {
        let name = self.schedule.plan.secrets.redact(&self.server.name);
        let (cause, detail) = (failure.cause.in_words(), &failure.detail);
        let note = Step::Note(format!("{name}: trying again after {cause}: {detail}"));
        self.signal.is_none().then_some(note)
    }
}
