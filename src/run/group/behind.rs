//! A look at the server behind `serve.url` before and after each run, and what follows if it has changed: one that was started
//! again is a new launch, another one begins anew, and what was being measured meanwhile does not count. A server of ours is
//! watched by its guard instead.

use super::measure::has_failed_requests;
use super::{GroupSession, Start, Try};
use crate::cause::{Cause, Failure};
use crate::error::{Error, Result};
use crate::fingerprint::{Change, Differences, Fingerprint};
use crate::journal::{Event, Recognised};
use crate::plan::Target;
use crate::run::behind::{Behind, reason};
use crate::run::{Update, record};
use crate::server::Server;

/// So often one run is tried again because the server was started again under it without failing a request.
const DISTURBANCES: u32 = 3;

/// Who was found at the address.
pub(super) enum Known {
    /// Nothing contradicts what was measured before. `None` of a server of ours.
    Same(Option<Fingerprint>),
    Replaced(Differences),
}

impl GroupSession<'_, '_> {
    /// Whether a server is running and is still the one that was measured; `None` if one is to be started or connected to.
    pub(super) async fn recognise_running(&mut self) -> Result<Option<Start>> {
        let Some(running) = &self.running else { return Ok(None) };
        if !running.is_used {
            // It was asked a moment ago.
            return Ok(Some(Start::Ready));
        }
        match self.look().await? {
            Some(Change::Same) => Ok(Some(Start::Ready)),
            Some(Change::Restarted) => {
                self.stop(None).await?;
                Ok(None)
            }
            Some(Change::Replaced(differences)) => {
                self.stop(None).await?;
                self.retire(&differences)?;
                Ok(Some(Start::Replaced))
            }
            None => Ok(Some(Start::Interrupted)),
        }
    }

    /// Who answers at an address that was just connected to.
    pub(super) async fn recognise_attached(&mut self, server: Option<&Server>) -> Result<Known> {
        let (Target::Attach(url), Some(server)) = (&self.plan.serve.target, server) else {
            return Ok(Known::Same(None));
        };
        let (state, id) = (self.recorder.state(), &self.group.server.id);
        let secrets = &self.plan.secrets;
        let behind = Behind { url, server, secrets };
        let session = self.recorder.nonce();
        let (read, differences) = behind.recognise(|read| state.recognise(id, session, read)).await?;
        if let Some(differences) = differences {
            return Ok(Known::Replaced(differences));
        }
        let starts = state.servers.get(id).map_or(&[][..], |record| &record.starts);
        let before = starts.iter().rfind(|start| start.ready_seconds.is_some());
        if before.is_some_and(|before| read.change_since(&before.identity) == Change::Restarted) {
            let note = format!(
                "the server at {} was started again since the last run there",
                secrets.redact(url)
            );
            (self.observer)(Update::Note(&note), self.recorder)?;
        }
        Ok(Known::Same(Some(read)))
    }

    /// What became of the running server since it was read last; `None` if the user asked to stop meanwhile.
    async fn look(&mut self) -> Result<Option<Change>> {
        let (Target::Attach(url), Some(running)) = (&self.plan.serve.target, &mut self.running) else {
            return Ok(Some(Change::Same));
        };
        let Some(known) = &mut running.behind else {
            return Ok(Some(Change::Same));
        };
        let (state, id, session) = (self.recorder.state(), &self.group.server.id, self.recorder.nonce());
        let behind = Behind {
            url,
            server: &running.server,
            secrets: &self.plan.secrets,
        };
        // What was learned since the launch was recorded is not in the record.
        let compare = |read: &Fingerprint| match (state.recognise(id, session, read), read.differences_from(known)) {
            (Recognised::Same, Some(differences)) => Recognised::Replaced(differences),
            (recognised, _) => recognised,
        };
        let (read, differences) = tokio::select! {
            recognised = behind.recognise(compare) => recognised?,
            () = self.interrupt.requested() => return Ok(None),
        };
        if let Some(differences) = differences {
            return Ok(Some(Change::Replaced(differences)));
        }
        let change = read.change_since(known);
        known.learn(read);
        Ok(Some(change))
    }

    /// Looks at the server after a run: what was measured counts only if it was one server from begin to end.
    pub(super) async fn confirm(&mut self, tried: Try) -> Result<Try> {
        let (is_sound, seconds) = match &tried {
            Try::Measured(measurement, seconds) => (!has_failed_requests(measurement), *seconds),
            Try::BenchFailed(_, seconds) => (false, *seconds),
            _ => return Ok(tried),
        };
        Ok(match self.look().await? {
            // What was measured is recorded, and the next run ends the sweep.
            Some(Change::Same) | None => tried,
            Some(Change::Restarted) if is_sound => {
                self.stop(None).await?;
                Try::Disturbed
            }
            Some(Change::Restarted) => {
                let detail = "the server was started again under the run, as its start time tells";
                Try::ServerDied(Failure::new(Cause::CrashedUnderLoad, detail), seconds)
            }
            Some(Change::Replaced(differences)) => {
                self.stop(None).await?;
                self.retire(&differences)?;
                Try::Replaced
            }
        })
    }

    /// What was measured on the server before counts no more.
    pub(super) fn retire(&mut self, differences: &Differences) -> Result<()> {
        let server = self.group.server.id.clone();
        let retired = Event::ResultsRetired {
            server,
            reason: reason(differences),
        };
        record(self.recorder, self.observer, retired).map(drop)
    }

    /// The run was tried so often in vain.
    pub(super) fn note_disturbance(&mut self, times: u32) -> Result<()> {
        if times >= DISTURBANCES {
            return Err(Error::Fatal(format!(
                "the server behind serve.url says after each of {times} tries at a run that it was started again meanwhile; find out \
                 what restarts it, and run again: what is recorded is kept"
            )));
        }
        let note = "the server was started again during the run, which is tried again";
        (self.observer)(Update::Note(note), self.recorder)
    }
}
