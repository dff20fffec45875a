//! Checks the server behind `serve.url` before and after each run. A server that vsweep launched is watched by its guard instead.

use super::{Live, Running};
use crate::agenda::ActionOutcome;
use crate::cause::{Cause, Failure};
use crate::error::{Error, Result};
use crate::fingerprint::{Change, Differences, Fingerprint};
use crate::journal::{LaunchRecord, ServerMatch};
use crate::plan::Target;
use crate::run::attached::{reason, recognise, restarted};
use crate::run::drive::Writer;

/// The sweep ends after this many successive tries of a run during which the server was restarted although no request failed.
const DISTURBANCES: u32 = 3;

impl Live<'_, '_> {
    /// Returns the properties of an attached server, or its differences from the server that was measured; `None` for a server that vsweep
    /// launched.
    pub(super) async fn recognise_attached(&mut self) -> Result<std::result::Result<Option<Fingerprint>, Differences>> {
        let (Target::Attach(url), Some(running)) = (&self.plan.serve.target, &self.running) else {
            return Ok(Ok(None));
        };
        let (server, secrets, id) = (&running.server, &self.plan.secrets, &self.config.id);
        let session = self.writer.with(|recorder| recorder.nonce());
        let compare = |read: &Fingerprint| self.writer.look(|state| state.recognise(id, session, read));
        let read = match recognise(server, secrets, compare).await? {
            Ok(read) => read,
            Err(differences) => return Ok(Err(differences)),
        };
        let is_restarted = self.writer.look(|state| {
            let mut starts = state.launches_of(id).iter();
            let before = starts
                .rfind(|start| start.ready.is_some())
                .and_then(LaunchRecord::identity);
            before.is_some_and(|before| read.change_since(before) == Change::Restarted)
        });
        if is_restarted {
            let note = restarted(&secrets.redact(url), &read);
            self.writer.note(&note)?;
        }
        Ok(Ok(Some(read)))
    }

    /// Returns the change of the server since it was read last.
    async fn look(&mut self) -> Result<Change> {
        let Some(Running {
            server,
            fingerprint: Some(known),
            ..
        }) = &mut self.running
        else {
            return Ok(Change::Same);
        };
        let (secrets, id) = (&self.plan.secrets, &self.config.id);
        let session = self.writer.with(|recorder| recorder.nonce());
        let recorded = |read: &Fingerprint| self.writer.look(|state| state.recognise(id, session, read));
        // Properties learned after the launch was recorded are not in the record, so they are compared here.
        let compare = |read: &Fingerprint| match (recorded(read), read.differences_from(known)) {
            (ServerMatch::Same, Some(differences)) => ServerMatch::Replaced(differences),
            (recognised, _) => recognised,
        };
        let read = match recognise(server, secrets, compare).await? {
            Ok(read) => read,
            Err(differences) => return Ok(Change::Replaced(differences)),
        };
        let change = read.change_since(known);
        known.learn(read);
        Ok(change)
    }

    /// Checks the server before a run.
    pub(super) async fn inspect(&mut self) -> Result<ActionOutcome> {
        Ok(match self.look().await? {
            Change::Same => ActionOutcome::Unchanged,
            Change::Restarted => ActionOutcome::Disturbed,
            Change::Replaced(differences) => replaced(&differences),
        })
    }

    /// Checks the server after a run, which counts only if it was the same server from beginning to end.
    pub(super) async fn confirm(&mut self, outcome: ActionOutcome, is_sound: bool) -> Result<ActionOutcome> {
        let ActionOutcome::Ran { seconds, .. } = outcome else {
            return Ok(outcome);
        };
        let change = self.look().await?;
        if change != Change::Restarted || !is_sound {
            self.disturbances = 0;
        }
        Ok(match change {
            Change::Same => outcome,
            Change::Restarted if is_sound => {
                self.note_disturbance()?;
                ActionOutcome::Disturbed
            }
            Change::Restarted => {
                let detail = "the server was restarted during the run, as its start time shows";
                let failure = Failure::new(Cause::CrashedUnderLoad, detail);
                ActionOutcome::Died { failure, seconds }
            }
            Change::Replaced(differences) => replaced(&differences),
        })
    }

    fn note_disturbance(&mut self) -> Result<()> {
        self.disturbances += 1;
        let times = self.disturbances;
        if times >= DISTURBANCES {
            return Err(Error::Fatal(format!(
                "the server behind serve.url was restarted during each of {times} tries of a run; find out what restarts it, and \
                 run again: what is recorded is kept"
            )));
        }
        let note = "the server was restarted during the run, which is tried again";
        self.writer.note(note)
    }
}

/// Returns the outcome if the server was replaced by a different one.
pub(super) fn replaced(differences: &Differences) -> ActionOutcome {
    ActionOutcome::Replaced(reason(differences))
}
