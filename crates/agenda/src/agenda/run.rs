//! One run and the tries at it: what must be there before it begins, and what its end means.

use super::probing::Probing;
use super::step::{Action, Commit, Ran, Run, Step};
use super::task::Task;
use super::{Agenda, TRIES, record, tip};
use vsweep_plan::cause::{Failure, Outcome};
use vsweep_plan::plan::{OnFailure, Reset, Target, Warmup};
use vsweep_plan::validity::{Code, Doubt, Validity};
use vsweep_record::journal::{Entry, Event, Link, RunFinished, RunStarted, State};

/// A run that is being tried.
#[derive(Debug)]
pub(super) struct Attempt {
    pub task: Task,
    /// This one included.
    pub tries: u32,
    /// The `run_started` of this try.
    pub started: Option<Entry>,
    /// That of a try under which the server died.
    pub under: Option<Entry>,
    /// Whether the server was found to be the same before this try.
    pub is_looked_at: bool,
    /// Whether the caches were reset for this try, and what the server refused.
    pub is_reset: bool,
    pub refusal: Option<String>,
    /// How long the reset took, in seconds.
    pub reset_seconds: Option<f64>,
    /// Why the server died under it, and how long it had taken by then, in seconds.
    pub death: Option<(Failure, f64)>,
}

impl Attempt {
    /// Forgets the try that came to nothing. Returns its `run_started`.
    pub fn begin_again(&mut self) -> Option<Entry> {
        (self.is_looked_at, self.is_reset, self.reset_seconds) = (false, false, None);
        self.started.take()
    }
}

impl Agenda<'_> {
    /// A first try in this session. Tries that a session used up before it was killed are not granted again.
    pub(super) fn attempt_at(&mut self, task: Task, state: &State) -> Attempt {
        let deaths = state.deaths(&task.point.id, self.slot, task.run);
        let used_up = deaths
            .last()
            .filter(|death| deaths.len() as u32 >= TRIES || !death.cause.is_transient());
        let mut tries = 1 + deaths.len() as u32;
        if used_up.is_none() {
            tries += std::mem::take(&mut self.failed_starts);
        }
        Attempt {
            task,
            tries,
            started: None,
            under: None,
            is_looked_at: false,
            is_reset: false,
            refusal: None,
            reset_seconds: None,
            death: used_up.map(|death| (death.clone(), 0.0)),
        }
    }

    /// The next step of a try.
    pub(super) fn pursue(&mut self, mut attempt: Attempt, state: &State) -> Option<Step> {
        let plan = self.scope.plan;
        let is_begun = attempt.started.is_some();
        if is_begun && let Some((failure, seconds)) = attempt.death.take() {
            return self.outlive(attempt, failure, seconds);
        }
        if !is_begun && attempt.death.is_none() {
            let is_used = self.launched.as_ref().is_some_and(|launched| launched.is_used);
            if is_used && plan.serve.reset == Reset::Restart {
                self.attempt = Some(attempt);
                return Some(Step::Act(Action::Stop));
            }
            if self.launched.is_none() {
                return match self.failed_start.take() {
                    Some(failure) => self.miss_start(attempt, failure),
                    None => {
                        self.attempt = Some(attempt);
                        Some(self.start())
                    }
                };
            }
            let is_attached = matches!(plan.serve.target, Target::Attach(_));
            if is_attached && is_used && !attempt.is_looked_at {
                self.attempt = Some(attempt);
                return Some(Step::Act(Action::Look));
            }
        }
        if !is_begun {
            let started = self.run_started(&attempt.task, state);
            self.attempt = Some(attempt);
            return Some(record(Event::RunStarted(Box::new(started))));
        }
        let launched = self.launched.as_mut().expect("a run begins on a ready server");
        let resets = launched.is_used && plan.serve.reset != Reset::Nothing;
        let action = match resets && !std::mem::replace(&mut attempt.is_reset, true) {
            true => Action::Reset,
            false => {
                launched.is_used = true;
                let is_warm = launched.warmth.covers(&attempt.task.point.params);
                Action::Run(Box::new(Run {
                    task: attempt.task.clone(),
                    started: attempt.started.clone().expect("the run was begun"),
                    warmup: if is_warm {
                        Warmup::Requests(0)
                    } else {
                        plan.bench.warmup
                    },
                    is_warm,
                }))
            }
        };
        self.attempt = Some(attempt);
        Some(Step::Act(action))
    }

    pub(super) fn settle_run(&mut self, result: Result<Box<Ran>, Failure>, seconds: f64) {
        let attempt = self.attempt.take().expect("a run was begun for an attempt");
        let started = attempt.started.expect("the run was begun");
        let outcome = match result {
            Ok(mut ran) => {
                let launched = self.launched.as_mut().expect("a run was measured on a ready server");
                launched.warmth.note(&attempt.task.point.params);
                launched.measured += 1;
                let is_whole = ran.failure.is_none() && ran.cut.is_none();
                self.last_measured = is_whole.then(|| (attempt.task.clone(), started.clone()));
                self.lost_in_a_row = 0;
                self.death = None;
                let refused = attempt.refusal.map(|refusal| Doubt::new(Code::CachesNotReset, refusal));
                ran.doubts.extend(refused);
                self.commit(started, *ran, seconds, attempt.reset_seconds)
            }
            Err(failure) => {
                self.due.push_back(failed(&attempt.task, &started, &failure, seconds));
                Outcome::Failed
            }
        };
        self.end_run(attempt.task, outcome);
    }

    /// What was measured is of neither start of the server: the run is tried again on the new one.
    pub(super) fn settle_disturbance(&mut self) {
        let attempt = self.attempt.as_mut().expect("a run was begun for an attempt");
        attempt.begin_again();
        self.due.push_back(Step::Act(Action::Stop));
    }

    /// What the end of a run means for what is measured next.
    pub(super) fn end_run(&mut self, task: Task, outcome: Outcome) {
        match self.probings.front() {
            // A search looks for loads at which runs fail.
            Some(Probing::Search(..)) => self.ended = Some(task),
            _ if outcome == Outcome::Failed && self.scope.plan.on_failure == OnFailure::Stop => {
                self.leave(super::Ending::StoppedOnFailure);
            }
            _ => {}
        }
    }

    fn commit(&mut self, started: Entry, ran: Ran, seconds: f64, reset_seconds: Option<f64>) -> Outcome {
        let validity = Validity::of(ran.doubts.iter().map(|doubt| doubt.code));
        let outcome = match (&ran.failure, validity) {
            (Some(_), _) => Outcome::Failed,
            _ if ran.cut.is_some() => Outcome::Cut,
            (None, Validity::Valid) => Outcome::Ok,
            (None, _) => Outcome::Suspect,
        };
        let cause = ran.failure.as_ref().map(|failure| failure.cause);
        let finished = RunFinished {
            started: started.place.line.seq,
            outcome,
            validity,
            doubts: ran.doubts,
            cause,
            request_error: ran.failure.as_ref().and_then(|failure| failure.request_error.clone()),
            detail: ran
                .cut
                .or(ran.failure.map(|failure| failure.detail))
                .unwrap_or_default(),
            seconds,
            reset_seconds,
            warmup_seconds: ran.warmup_seconds,
            learned: ran.learned,
            beside: ran.beside,
            ..RunFinished::default()
        };
        self.due.push_back(match ran.measured {
            None => record(Event::RunFinished(Box::new(finished))),
            Some(measured) => Step::Commit(Box::new(Commit {
                started,
                finished,
                measured,
            })),
        });
        outcome
    }

    fn run_started(&self, task: &Task, state: &State) -> RunStarted {
        let link = task.reader.as_ref().map(|reader| Link {
            id: reader.id().clone(),
            after: tip(reader.id(), self.slot, state),
            step: state.search(reader.id(), self.slot).map_or(0, |search| search.steps),
            draw: task.draw(),
        });
        RunStarted {
            point: task.point.id.clone(),
            server: self.server.id.clone(),
            slot: self.slot,
            run: task.run,
            launch: self.launched.as_ref().map_or(0, |launched| launched.id.n),
            name: task.point.name.clone(),
            params: self.scope.plan.secrets.redact_params(&task.point.params),
            combo: task.point.combo.clone(),
            search: link,
            ..RunStarted::default()
        }
    }
}

/// The line of a run without figures.
pub(super) fn failed(task: &Task, started: &Entry, failure: &Failure, seconds: f64) -> Step {
    record(Event::RunFinished(Box::new(RunFinished {
        started: started.place.line.seq,
        outcome: Outcome::Failed,
        cause: Some(failure.cause),
        detail: failure.detail.clone(),
        request_error: failure.request_error.clone(),
        seconds,
        learned: task.reader.as_ref().and_then(|reader| reader.learn_of_failure(failure)),
        ..RunFinished::default()
    })))
}
