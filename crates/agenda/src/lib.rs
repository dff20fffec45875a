//! The rules of the work on one start of a server: which step comes next, from its first launch to its last stop. Warm-up, reset, retries,
//! blame, giving up and resuming are decided here and nowhere else, so a rehearsal and a real run differ only in the stage that performs
//! the actions.
//!
//! Blame is kept narrow. A server that cannot start fails all runs of its config. A server that dies under load fails the point that was
//! being measured (after one more try if the cause is transient), and is started again for the other points. When three points in a row are
//! lost in this way, with nothing measured between them, the config is given up.
//!
//! An agenda performs no action and reads no clock: a driver asks for the next step, performs it, and reports the outcome.

mod begin;
mod chosen;
#[cfg(test)]
mod ends;
mod finals;
mod grid;
mod group;
mod launch;
mod loss;
mod optimization;
mod run;
mod schedule;
mod step;
mod strategy;
mod task;
#[cfg(test)]
mod tests;

pub use begin::{Hint, Hints, first_point, wants_forecast};
pub use chosen::compared;
pub use finals::{Finals, advised, kept_metrics};
pub use grid::Grid;
pub use group::Group;
pub use optimization::{Prediction, Predictions, fits_gpus, needs_predictions, optimization, predicted_values};
pub use schedule::{Schedule, Start};
pub use step::{Action, ActionOutcome, Ending, MeasuredRun, ReadyInfo, Run, Signal, Step};
pub use task::{MeasuredView, RunReader, SearchReader, Task, seed_of, seeded};

use launch::LaunchState;
use run::Attempt;
use std::collections::VecDeque;
use strategy::{Next, Strategy};
use vsweep_base::cause::Failure;
use vsweep_base::ids::SearchId;
use vsweep_plan::matrix::ServerConfig;
use vsweep_plan::{OnFailure, Target};
use vsweep_record::journal::{
    Entry, Event, GroupBegun, LineId, ReadPositions, SearchEnd, SearchStarted, ServerDescription, State,
};
use vsweep_strategy::search::Seed;
use vsweep_strategy::selection::optimized::Reason;

/// Largest number of tries of a run or a start, if the cause of its failure is transient.
const TRIES: u32 = 2;
/// Number of lost points, with no measured run between them, after which the server config is given up.
const LOST_POINTS: u32 = 3;

/// The remaining work on one start of a server.
#[derive(Debug)]
pub struct Agenda<'p> {
    schedule: Schedule<'p>,
    server: ServerConfig,
    /// The slot of the start.
    slot: u32,
    /// The reason for which an optimisation asked for the start.
    proposed: Option<Reason>,
    /// GPUs of the server if several run at the same time, for the record.
    gpus: Vec<u32>,
    /// The remaining strategies; the current one comes first.
    strategies: VecDeque<Strategy>,
    phase: AgendaPhase,
    /// Steps that follow from the last outcome, in order.
    due: VecDeque<Step>,
    /// The most urgent signal so far.
    signal: Option<Signal>,
    /// The least urgent signal that ends the current action; `None` if no signal does.
    yields_to: Option<Signal>,
    /// The launch, from the line that announces it to the line that says that the server is gone.
    launched: Option<LaunchState>,
    /// The run that is being tried.
    attempt: Option<Attempt>,
    /// The last run of a search or an exploration, until the strategy has checked it.
    unchecked: Option<Task>,
    lost_in_a_row: u32,
    /// Number of launches that failed one after the other at the end of a session that was killed. They count as used tries.
    failed_starts: u32,
    /// Reason why the server did not start, until a run reports it.
    start_failure: Option<Failure>,
    /// Reason for the server's last death, until something is measured again.
    death: Option<Failure>,
}

#[derive(Debug)]
enum AgendaPhase {
    Beginning,
    Working,
    /// The server config is given up for this failure.
    GivingUp {
        failure: Failure,
        /// The `run_started` line of the run in which the server died; `None` if the server did not start.
        died_in: Option<Box<Entry>>,
        /// The search that asked for that run, until its end is recorded.
        search: Option<SearchId>,
    },
    /// A changed server answers at the same address; the text is the reason for the record.
    Retiring(String),
    Leaving(Ending),
}

impl<'p> Agenda<'p> {
    /// Returns the agenda of a group: the work that the journal still lacks.
    pub fn new(schedule: Schedule<'p>, group: Group, mut hints: Hints, state: &State) -> Agenda<'p> {
        let grid = group.grid.map(Box::new).map(Strategy::Grid);
        let searches = group.searches.into_iter().map(|search| {
            let hint = hints.remove(&search.id).unwrap_or_default();
            Strategy::Search(Box::new(search), hint, false)
        });
        let explorations = group.explorations.into_iter().map(Box::new);
        let explorations = explorations.map(|exploration| Strategy::Exploration(exploration, false));
        Agenda {
            schedule,
            strategies: grid.into_iter().chain(searches).chain(explorations).collect(),
            phase: AgendaPhase::Beginning,
            due: VecDeque::new(),
            signal: None,
            yields_to: None,
            launched: None,
            attempt: None,
            unchecked: None,
            lost_in_a_row: state.lost_in_a_row(&group.server.id, group.slot),
            failed_starts: state.failed_starts(&group.server.id, group.slot),
            start_failure: None,
            death: None,
            slot: group.slot,
            proposed: group.proposed,
            gpus: Vec::new(),
            server: group.server,
        }
    }

    /// Assigns GPUs of the machine.
    pub fn on(self, gpus: Vec<u32>) -> Agenda<'p> {
        Agenda { gpus, ..self }
    }

    /// Returns the next step. Must not be called again before that step is done: recorded, noted, or its outcome settled.
    pub fn next(&mut self, state: &State) -> Step {
        let step = loop {
            if let Some(step) = self.due.pop_front().or_else(|| self.decide(state)) {
                break step;
            }
        };
        self.yields_to = match &step {
            Step::Act(Action::Stop) => Some(Signal::Kill),
            Step::Act(Action::Kill) => None,
            // A server that waits for its turn is not started yet.
            Step::Act(Action::Await) => Some(Signal::Drain),
            Step::Act(_) => Some(Signal::Interrupt),
            _ => None,
        };
        step
    }

    /// Notes a line that the agenda asked to record. The state already contains the line.
    pub fn recorded(&mut self, entry: &Entry, state: &State) {
        match &entry.event {
            Event::ServerStarting { launch, .. } => self.launch_recorded(entry, *launch),
            Event::ServerReady(ready) if ready.answers.is_some() => {
                let note = self.note_of_answers(state);
                self.due.extend(note.map(Step::Note));
            }
            Event::RunStarted(_) => {
                let attempt = self.attempt.as_mut().expect("a run begins for an attempt");
                attempt.started = Some(entry.clone());
            }
            Event::SearchStarted(started) => {
                let mut strategies = self.strategies.iter_mut();
                let begun = strategies.find(|strategy| strategy.id() == Some(&started.search));
                begun.into_iter().for_each(Strategy::note_begun);
            }
            _ => {}
        }
    }

    /// Notes the outcome of an action.
    pub fn settle(&mut self, outcome: ActionOutcome) {
        self.yields_to = None;
        match outcome {
            ActionOutcome::Permitted => self.due.push_back(self.announcement()),
            ActionOutcome::Started(started) => self.settle_start(started),
            ActionOutcome::Unchanged => {
                let attempt = self.attempt.as_mut().expect("a server is checked for a run");
                attempt.is_checked = true;
            }
            ActionOutcome::Replaced(reason) => self.phase = AgendaPhase::Retiring(reason),
            ActionOutcome::Disturbed => self.settle_disturbance(),
            ActionOutcome::Reset { result, seconds } => {
                let attempt = self.attempt.as_mut().expect("caches are reset for a run");
                attempt.refusal = result.err();
                attempt.reset_seconds = Some(seconds);
            }
            ActionOutcome::Ran { result, seconds } => self.settle_run(result, seconds),
            ActionOutcome::Died { failure, seconds } => self.settle_death(failure, seconds),
            ActionOutcome::Stopped { seconds, held_seconds } => self.settle_stop(seconds, held_seconds),
            ActionOutcome::Abandoned => {}
        }
    }

    /// Notes a signal. Returns true if the current action must be given up because of it.
    pub fn signal(&mut self, signal: Signal) -> bool {
        self.signal = self.signal.max(Some(signal));
        self.gives_up()
    }

    /// Returns true if the action that was asked for must be given up, or must not even begin.
    pub fn gives_up(&self) -> bool {
        self.yields_to.is_some_and(|least| self.signal >= Some(least))
    }

    fn decide(&mut self, state: &State) -> Option<Step> {
        match &self.phase {
            AgendaPhase::Beginning => {
                let begun = self.group_begun();
                match self.reason_not_to_start(&begun.config, state) {
                    None => self.phase = AgendaPhase::Working,
                    Some(failure) => self.give_up(failure, None),
                }
                Some(record(Event::GroupBegun(Box::new(begun))))
            }
            AgendaPhase::Working => self.work(state),
            AgendaPhase::GivingUp { .. } => self.give_up_rest(state),
            AgendaPhase::Retiring(reason) => self.retire(reason.clone()),
            AgendaPhase::Leaving(ending) => Some(match &self.launched {
                None => Step::Done(*ending),
                Some(_) => self.end_server(),
            }),
        }
    }

    fn work(&mut self, state: &State) -> Option<Step> {
        let least_urgent = match self.attempt {
            Some(_) => Signal::Interrupt,
            None => Signal::Drain,
        };
        if self.signal >= Some(least_urgent) {
            self.leave(Ending::Interrupted);
            return None;
        }
        if let Some(attempt) = self.attempt.take() {
            return self.next_step(attempt, state);
        }
        let Some(strategy) = self.strategies.front_mut() else {
            self.leave(Ending::Finished);
            return None;
        };
        let objection = self.unchecked.take().and_then(|task| strategy.objection(&task, state));
        if let Some(failure) = objection {
            return self.end_search(SearchEnd::GivenUp(failure), state);
        }
        match strategy.ask(self.schedule, self.slot, state) {
            Next::Begin(started) => Some(self.begin_search(*started)),
            Next::Run(task) => {
                self.attempt = Some(self.attempt_at(*task, state));
                None
            }
            Next::Ended(end) => self.end_search(end, state),
            Next::Empty => {
                self.strategies.pop_front();
                None
            }
        }
    }

    /// Returns the step that begins a search, with a starting load within its range. If that load follows from the size of the KV cache,
    /// the start of the server comes first.
    fn begin_search(&mut self, mut started: SearchStarted) -> Step {
        if let Some(Strategy::Search(_, hint, _)) = self.strategies.front()
            && let Some((input, output)) = hint.lengths_for(&started)
        {
            match &self.launched {
                Some(LaunchState { kv_tokens, .. }) => {
                    let seed = kv_tokens.map(|tokens| Seed::kv_capacity(tokens as f64, input, output));
                    started.seed = seed.unwrap_or(started.seed);
                }
                None if self.start_failure.is_none() => return self.start(),
                None => {}
            }
        }
        if let Some(Strategy::Search(planned, ..)) = self.strategies.front() {
            let range = &planned.settings;
            started.seed.value = started.seed.value.min(range.upper).max(range.lower);
        }
        record(Event::SearchStarted(Box::new(started)))
    }

    fn end_search(&mut self, end: SearchEnd, state: &State) -> Option<Step> {
        let search = self.strategies.pop_front()?.id()?.clone();
        if matches!(end, SearchEnd::GivenUp(_)) && self.schedule.plan.on_failure == OnFailure::Stop {
            self.leave(Ending::StoppedOnFailure);
        }
        Some(search_finished(search, end, self.slot, state))
    }

    /// Drops all remaining work except stopping the server.
    fn leave(&mut self, ending: Ending) {
        let is_ready = self.launched.as_ref().is_some_and(|launched| launched.is_ready);
        if ending == Ending::Interrupted && is_ready && self.signal >= Some(Signal::Interrupt) {
            let note = match self.schedule.plan.serve.target {
                Target::Launch(_) => "interrupted: stopping the server (interrupt again to kill it at once)",
                Target::Attach(_) => "interrupted: the server is left running",
            };
            self.due.push_back(Step::Note(note.to_owned()));
        }
        self.attempt = None;
        self.phase = AgendaPhase::Leaving(ending);
    }

    fn group_begun(&self) -> GroupBegun {
        GroupBegun {
            server: self.server.id.clone(),
            slot: self.slot,
            config: ServerDescription::of(&self.server, &self.schedule.plan.secrets),
            proposed: self.proposed,
            seen: ReadPositions::new(),
        }
    }
}

fn record(event: Event) -> Step {
    Step::Record(Box::new(event), None)
}

fn search_finished(search: SearchId, end: SearchEnd, slot: u32, state: &State) -> Step {
    let (answers, cause, detail) = match end {
        SearchEnd::Answered(answers) => (answers, None, String::new()),
        SearchEnd::GivenUp(failure) => (Vec::new(), Some(failure.cause), failure.detail),
    };
    record(Event::SearchFinished {
        after: tip(&search, slot, state),
        search,
        answers,
        cause,
        detail,
    })
}

/// Returns the line that the next line of a search follows.
fn tip(search: &SearchId, slot: u32, state: &State) -> LineId {
    state.search(search, slot).expect("a search begins before it asks").tip
}
