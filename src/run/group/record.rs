//! What a group writes into the journal.

use super::{Attempt, GroupSession};
use crate::bench::Measurement;
use crate::cause::{Failure, Outcome};
use crate::error::Result;
use crate::ids::SearchId;
use crate::journal::{
    Entry, Event, FIRST_SLOT, GroupBegun, GroupGivenUp, LineId, Link, Measured, RunFinished, RunStarted,
    ServerDeclared, Untried,
};
use crate::plan::{Params, Plan};
use crate::run::{Task, Update, record};
use crate::validity::{Doubt, Validity};

impl GroupSession<'_, '_> {
    /// Says on which server config work begins, and what was read of other sessions.
    pub(super) fn declare(&mut self) -> Result<()> {
        let server = &self.group.server;
        let secrets = &self.plan.secrets;
        let config = ServerDeclared {
            name: server.name.clone(),
            argv: secrets.redact_argv(&server.argv),
            env: secrets.redact_env(&server.env),
            params: secrets.redact_params(&server.params),
            combo: server.combo.clone(),
        };
        let begun = GroupBegun {
            server: server.id.clone(),
            slot: FIRST_SLOT,
            config,
            seen: self.recorder.news(),
        };
        record(self.recorder, self.observer, Event::GroupBegun(Box::new(begun))).map(drop)
    }

    pub(super) fn begin_run(&mut self, task: &Task) -> Result<Entry> {
        let server = &self.group.server.id;
        let state = self.recorder.state();
        let link = task.asked.as_ref().map(|asked| {
            let search = state.search(&asked.search).expect("a search begins before it asks");
            Link {
                id: asked.search.clone(),
                after: search.tip,
                step: search.steps,
                draw: task.draw(),
            }
        });
        let started = RunStarted {
            point: task.point.id.clone(),
            server: server.clone(),
            slot: FIRST_SLOT,
            run: task.run,
            launch: self.running.as_ref().map_or(0, |running| running.launch),
            name: task.point.name.clone(),
            params: self.plan.secrets.redact_params(&task.point.params),
            combo: task.point.combo.clone(),
            search: link,
            anew: state.retired_by(server, self.recorder.nonce()),
        };
        record(self.recorder, self.observer, Event::RunStarted(Box::new(started)))
    }

    pub(super) fn commit(
        &mut self,
        task: &Task,
        started: &Entry,
        measurement: Measurement,
        seconds: f64,
    ) -> Result<Attempt> {
        let validity = measurement.validity();
        let outcome = match (&measurement.failure, validity) {
            (Some(_), _) => Outcome::Failed,
            _ if measurement.cut.is_some() => Outcome::Cut,
            (None, Validity::Valid) => Outcome::Ok,
            (None, _) => Outcome::Suspect,
        };
        let failure = measurement.failure.as_ref();
        let detail = match (&measurement.cut, failure) {
            (Some(cut), _) => cut.why.clone(),
            (None, failure) => failure.map_or_else(String::new, |failure| self.plan.secrets.redact(&failure.detail)),
        };
        let finished = RunFinished {
            started: started.place.line.seq,
            outcome,
            validity,
            doubts: redacted(self.plan, &measurement.doubts),
            cause: failure.map(|failure| failure.cause),
            detail,
            seconds,
            file: None,
            learned: task.asked.as_ref().and_then(|asked| asked.learn(&measurement)),
        };
        if measurement.result.values.is_empty() {
            record(self.recorder, self.observer, Event::RunFinished(Box::new(finished)))?;
            return Ok(Attempt::Recorded(outcome));
        }
        let running = self.running.as_ref().expect("a run was measured on a ready server");
        let measured = Measured {
            result: measurement.result,
            simulated: running.identity.simulated,
        };
        let entry = self.recorder.commit(started, finished, measured)?;
        (self.observer)(Update::Recorded(&entry), self.recorder)?;
        Ok(Attempt::Recorded(outcome))
    }

    pub(super) fn record_failed(
        &mut self,
        task: &Task,
        started: &Entry,
        failure: &Failure,
        seconds: f64,
    ) -> Result<()> {
        let failed = RunFinished {
            started: started.place.line.seq,
            outcome: Outcome::Failed,
            validity: Validity::Valid,
            doubts: Vec::new(),
            cause: Some(failure.cause),
            detail: self.plan.secrets.redact(&failure.detail),
            seconds,
            file: None,
            learned: task.asked.as_ref().and_then(|asked| asked.learn_of_failure(failure)),
        };
        record(self.recorder, self.observer, Event::RunFinished(Box::new(failed))).map(drop)
    }

    /// Records that runs, and with them searches, have failed untried. The server died under the run that `blamed` began, or did
    /// not start.
    pub(super) fn give_up<'t>(
        &mut self,
        tasks: impl Iterator<Item = &'t Task>,
        searches: Vec<(SearchId, LineId)>,
        failure: &Failure,
        blamed: Option<&Entry>,
    ) -> Result<()> {
        let mut points: Vec<Untried> = Vec::new();
        for task in tasks {
            match points.iter_mut().find(|point| point.point == task.point.id) {
                Some(point) => point.runs.push(task.run),
                None => points.push(Untried {
                    point: task.point.id.clone(),
                    runs: vec![task.run],
                    name: task.point.name.clone(),
                    params: self.plan.secrets.redact_params(&task.point.params),
                    combo: task.point.combo.clone(),
                    search: task.asked.as_ref().map(|asked| asked.search.clone()),
                }),
            }
        }
        if points.is_empty() && searches.is_empty() {
            return Ok(());
        }
        let given_up = GroupGivenUp {
            server: self.group.server.id.clone(),
            slot: FIRST_SLOT,
            cause: failure.cause,
            detail: self.plan.secrets.redact(&failure.detail),
            blamed: blamed.map(|started| started.place.line.seq),
            common: Params::new(),
            points,
            searches,
        };
        let event = Event::GroupGivenUp(Box::new(given_up.compact()));
        record(self.recorder, self.observer, event).map(drop)
    }

    pub(super) fn note_retry(&mut self, failure: &Failure) -> Result<()> {
        let note = format!("trying again after {}: {}", failure.cause, failure.detail);
        (self.observer)(Update::Note(&note), self.recorder)
    }
}

/// Doubts as they may be written down: what was seen can repeat what a server said.
fn redacted(plan: &Plan, doubts: &[Doubt]) -> Vec<Doubt> {
    let hidden = |doubt: &Doubt| Doubt::new(doubt.code, plan.secrets.redact(&doubt.detail));
    doubts.iter().map(hidden).collect()
}
