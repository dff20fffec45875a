//! One run and its tries: the steps before a try, and the consequences of its end.

use super::step::{Action, Ending, MeasuredRun, Run, Step};
use super::strategy::Strategy;
use super::task::Task;
use super::{Agenda, TRIES, record, tip};
use std::collections::BTreeMap;
use vsweep_base::cause::{Failure, Outcome};
use vsweep_base::units::to_four_digits;
use vsweep_base::validity::{Code, Doubt, Validity};
use vsweep_plan::{OnFailure, Reset, Target, Warmup};
use vsweep_record::journal::{
    BenchmarkResult, Entry, Event, Link, RunFiles, RunFinished, RunStarted, SearchRecord, State,
};

/// A run that is being tried.
#[derive(Debug)]
pub(super) struct Attempt {
    pub task: Task,
    /// Number of tries, this one included.
    pub tries: u32,
    /// The `run_started` line of this try.
    pub started: Option<Entry>,
    /// The `run_started` line of the try in which the server died.
    pub died_in: Option<Entry>,
    /// True if the server was checked to be the same before this try.
    pub is_checked: bool,
    /// True if the server was asked to reset its caches for this try.
    pub is_reset: bool,
    /// The server's error if it did not reset them.
    pub refusal: Option<String>,
    /// Time that the reset took, in seconds.
    pub reset_seconds: Option<f64>,
    /// The death of the server in this try, with the seconds until then. If the tries were used up before, this is the death in the last of
    /// them, with 0 seconds, and the try only records it.
    pub death: Option<(Failure, f64)>,
}

impl Attempt {
    /// Discards a try without a result. Returns its `run_started` line.
    pub fn begin_again(&mut self) -> Option<Entry> {
        (self.is_checked, self.is_reset) = (false, false);
        (self.refusal, self.reset_seconds) = (None, None);
        self.started.take()
    }
}

impl Agenda<'_> {
    /// Returns the first try of a run in this session. Tries that a killed session used up count as well.
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
            died_in: None,
            is_checked: false,
            is_reset: false,
            refusal: None,
            reset_seconds: None,
            death: used_up.map(|death| (death.clone(), 0.0)),
        }
    }

    /// Returns the next step of a try.
    pub(super) fn next_step(&mut self, mut attempt: Attempt, state: &State) -> Option<Step> {
        let is_begun = attempt.started.is_some();
        if is_begun && let Some(death) = attempt.death.take() {
            return self.on_server_death(attempt, death, state);
        }
        // A run whose tries are used up is begun only to record its failure.
        let needs_server = !is_begun && attempt.death.is_none();
        if needs_server
            && self.launched.is_none()
            && let Some(failure) = self.start_failure.take()
        {
            return self.miss_start(attempt, failure);
        }
        // Once the sweep is asked to end, no server is started, not even for a second try.
        if needs_server && self.launched.is_none() && self.signal.is_some() {
            self.leave(Ending::Interrupted);
            return None;
        }
        let serve = &self.schedule.plan.serve;
        let is_used = self.launched.as_ref().is_some_and(|launched| launched.is_used);
        let is_attached = matches!(serve.target, Target::Attach(_));
        // Requests of others may be in the caches of an attached server.
        let holds_caches = is_used || is_attached;
        let step = match &attempt.started {
            None if needs_server && is_used && serve.reset == Reset::Restart => Step::Act(Action::Stop),
            None if needs_server && self.launched.is_none() => self.start(),
            None if needs_server && is_used && is_attached && !attempt.is_checked => Step::Act(Action::Check),
            None => record(Event::RunStarted(Box::new(self.run_started(&attempt.task, state)))),
            Some(_) if holds_caches && !attempt.is_reset && serve.reset != Reset::Nothing => {
                attempt.is_reset = true;
                Step::Act(Action::Reset)
            }
            Some(started) => Step::Act(Action::Run(Box::new(self.begin(&attempt.task, started)))),
        };
        self.attempt = Some(attempt);
        Some(step)
    }

    /// Returns the run to measure on the server, which is ready.
    fn begin(&mut self, task: &Task, started: &Entry) -> Run {
        let launched = self.launched.as_mut().expect("a run begins on a ready server");
        launched.is_used = true;
        let is_warm = launched.is_warm_for(&task.point.params);
        Run {
            task: task.clone(),
            files: RunFiles::of(&task.point.id, task.slot, task.run, started.rank.line),
            warmup: match is_warm {
                true => Warmup::Requests(0),
                false => self.schedule.plan.bench.warmup,
            },
            is_warm,
        }
    }

    pub(super) fn settle_run(&mut self, result: Result<Box<MeasuredRun>, Failure>, seconds: f64) {
        let attempt = self.attempt.take().expect("a run was begun for an attempt");
        let started = attempt.started.expect("the run was begun");
        let (outcome, step) = match result {
            Ok(mut ran) => {
                let launched = self.launched.as_mut().expect("a run was measured on a ready server");
                launched.note_served(&attempt.task.point.params);
                self.lost_in_a_row = 0;
                self.death = None;
                let refused = attempt.refusal.map(|refusal| Doubt::new(Code::CachesNotReset, refusal));
                ran.doubts.extend(refused);
                let (mut finished, measured) = ran.finish(&started, seconds);
                finished.reset_seconds = attempt.reset_seconds;
                let outcome = finished.outcome;
                let event = Box::new(Event::RunFinished(Box::new(finished)));
                (outcome, Step::Record(event, measured.map(Box::new)))
            }
            Err(failure) => (Outcome::Failed, failed(&attempt.task, &started, &failure, seconds)),
        };
        self.due.push_back(step);
        self.end_run(attempt.task, outcome);
    }

    /// Discards a try during which the server was restarted outside vsweep, because its figures belong to neither launch. The run is tried
    /// again on a new launch.
    pub(super) fn settle_disturbance(&mut self) {
        let attempt = self.attempt.as_mut().expect("a disturbance interrupts an attempt");
        attempt.begin_again();
        self.due.push_back(Step::Act(Action::Stop));
    }

    /// Decides what follows the end of a run.
    pub(super) fn end_run(&mut self, task: Task, outcome: Outcome) {
        match self.strategies.front() {
            // A search looks for loads at which runs fail.
            Some(Strategy::Search(..)) => self.unchecked = Some(task),
            _ if outcome == Outcome::Failed && self.schedule.plan.on_failure == OnFailure::Stop => {
                self.leave(Ending::StoppedOnFailure);
            }
            Some(Strategy::Exploration(..)) => self.unchecked = Some(task),
            _ => {}
        }
    }

    fn run_started(&self, task: &Task, state: &State) -> RunStarted {
        let link = task.reader.as_ref().map(|reader| Link {
            id: reader.id().clone(),
            after: tip(reader.id(), self.slot, state),
            step: state.search(reader.id(), self.slot).map_or(0, SearchRecord::steps),
            draw: task.draw(),
        });
        RunStarted {
            point: task.point.id.clone(),
            server: self.server.id.clone(),
            slot: self.slot,
            run: task.run,
            launch: self.launched.as_ref().map_or(0, |launched| launched.id.n),
            name: task.point.name.clone(),
            params: self.schedule.plan.secrets.redact_params(&task.point.params),
            combo: task.point.combo.clone(),
            search: link,
            ..RunStarted::default()
        }
    }
}

impl MeasuredRun {
    /// Returns the content of the `run_finished` line for the run that `started` began, and its figures.
    pub fn finish(self, started: &Entry, seconds: f64) -> (RunFinished, Option<BenchmarkResult>) {
        let validity = Validity::of(self.doubts.iter().map(|doubt| doubt.code));
        let outcome = match (&self.failure, validity) {
            (Some(_), _) => Outcome::Failed,
            _ if self.cut.is_some() => Outcome::Cut,
            (None, Validity::Valid) => Outcome::Ok,
            (None, _) => Outcome::Suspect,
        };
        let finished = RunFinished {
            started: started.rank.line.seq,
            outcome,
            validity,
            doubts: self.doubts,
            cause: self.failure.as_ref().map(|failure| failure.cause),
            request_error: self
                .failure
                .as_ref()
                .and_then(|failure| failure.request_error.clone())
                .map(Box::new),
            detail: self
                .failure
                .map(|failure| failure.detail)
                .or(self.cut)
                .unwrap_or_default(),
            errors: rounded(self.errors).into_iter().collect(),
            seconds,
            warmup_seconds: self.warmup_seconds,
            learned: self.learned,
            neighbours: self.neighbours.map(Box::new),
            ..RunFinished::default()
        };
        (finished, self.measured)
    }
}

/// Rounds numbers to four significant digits, and drops those that are not finite, which JSON cannot hold.
fn rounded(mut numbers: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    numbers.retain(|_, number| number.is_finite());
    for number in numbers.values_mut() {
        *number = to_four_digits(*number);
    }
    numbers
}

/// Returns the step that records a run without figures.
pub(super) fn failed(task: &Task, started: &Entry, failure: &Failure, seconds: f64) -> Step {
    let ran = MeasuredRun {
        learned: task.learn_of_failure(failure),
        failure: Some(failure.clone()),
        ..MeasuredRun::default()
    };
    let (finished, _) = ran.finish(started, seconds);
    record(Event::RunFinished(Box::new(finished)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_base::cause::Cause;

    #[test]
    fn a_failed_run_that_was_cut_has_the_detail_of_its_failure() {
        let reason = "finished".to_owned();
        let started = State::default().apply_hypothetical(Event::SessionEnded { reason });
        let ran = MeasuredRun {
            failure: Some(Failure::new(Cause::BenchFailed, "no answers")),
            cut: Some("too slow".to_owned()),
            ..MeasuredRun::default()
        };
        let (finished, _) = ran.finish(&started, 1.0);
        assert_eq!(
            (finished.cause, &*finished.detail),
            (Some(Cause::BenchFailed), "no answers")
        );
    }
}
