//! What a group writes into the journal.

use super::{Attempt, GroupSession};
use crate::bench::{Measurement, Verdict};
use crate::cause::{Failure, Outcome};
use crate::error::Result;
use crate::journal::{Entry, Event, Measured, RunFinished};
use crate::plan::Plan;
use crate::run::{Group, Task, Update, record};

impl GroupSession<'_, '_> {
    pub(super) fn declare(&mut self) -> Result<()> {
        let server = &self.group.server;
        if self.recorder.state().servers.contains_key(&server.id) {
            return Ok(());
        }
        let secrets = &self.plan.secrets;
        let declared = Event::ServerDeclared {
            server: server.id.clone(),
            name: server.name.clone(),
            argv: secrets.redact_argv(&server.argv),
            env: secrets.redact_env(&server.env),
            params: secrets.redact_params(&server.params),
            combo: server.combo.clone(),
        };
        record(self.recorder, self.observer, declared).map(drop)
    }

    pub(super) fn begin_run(&mut self, task: &Task) -> Result<Entry> {
        let started = Event::RunStarted {
            point: task.point.id.clone(),
            run: task.run,
            name: task.point.name.clone(),
            start: self.running.as_ref().map_or(0, |running| running.start),
        };
        record(self.recorder, self.observer, started)
    }

    pub(super) fn commit(
        &mut self,
        task: &Task,
        started: &Entry,
        measurement: Measurement,
        seconds: f64,
    ) -> Result<Attempt> {
        let outcome = match measurement.verdict {
            Verdict::Sound | Verdict::Suspect(_) if measurement.cut.is_some() => {
                return self.record_cut(task, &measurement, seconds);
            }
            Verdict::Sound => Outcome::Ok,
            Verdict::Suspect(_) => Outcome::Suspect,
            Verdict::Void(_) => Outcome::Failed,
        };
        let objection = measurement.verdict.objection();
        let learned = task.asked.as_ref().map(|asked| asked.learn(&measurement));
        let finished = RunFinished {
            search: learned,
            outcome,
            cause: objection.map(|failure| failure.cause),
            detail: objection.map_or_else(String::new, |failure| self.plan.secrets.redact(&failure.detail)),
            seconds,
            ..finished(self.plan, self.group, task)
        };
        let running = self.running.as_ref().expect("a run was measured on a ready server");
        let measured = Measured {
            result: measurement.result,
            simulated: running.identity.simulated,
        };
        let entry = self.recorder.commit(started, finished, measured)?;
        (self.observer)(Update::Recorded(&entry), self.recorder)?;
        Ok(Attempt::Recorded(outcome))
    }

    /// Records a probe that was ended early: what it says, and no figures.
    fn record_cut(&mut self, task: &Task, measurement: &Measurement, seconds: f64) -> Result<Attempt> {
        let why = measurement.cut.as_ref().map(|cut| cut.why.clone());
        let cut = RunFinished {
            search: task.asked.as_ref().map(|asked| asked.learn(measurement)),
            outcome: Outcome::Cut,
            detail: why.unwrap_or_default(),
            seconds,
            ..finished(self.plan, self.group, task)
        };
        record(self.recorder, self.observer, Event::RunFinished(Box::new(cut)))?;
        Ok(Attempt::Recorded(Outcome::Cut))
    }

    pub(super) fn record_failed(&mut self, task: &Task, failure: &Failure, seconds: f64) -> Result<()> {
        let learned = task.asked.as_ref().map(|asked| asked.learn_of_failure(failure));
        let failed = RunFinished {
            search: learned,
            outcome: Outcome::Failed,
            cause: Some(failure.cause),
            detail: self.plan.secrets.redact(&failure.detail),
            seconds,
            ..finished(self.plan, self.group, task)
        };
        record(self.recorder, self.observer, Event::RunFinished(Box::new(failed))).map(drop)
    }

    pub(super) fn note_retry(&mut self, failure: &Failure) -> Result<()> {
        let note = format!("trying again after {}: {}", failure.cause, failure.detail);
        (self.observer)(Update::Note(&note), self.recorder)
    }
}

/// The part of a run's record that does not depend on how it went.
fn finished(plan: &Plan, group: &Group, task: &Task) -> RunFinished {
    RunFinished {
        point: task.point.id.clone(),
        server: group.server.id.clone(),
        run: task.run,
        name: task.point.name.clone(),
        params: plan.secrets.redact_params(&task.point.params),
        combo: task.point.combo.clone(),
        outcome: Outcome::Ok,
        cause: None,
        detail: String::new(),
        seconds: 0.0,
        file: None,
        search: None,
    }
}
