//! Identifies the server behind `serve.url`, and retires results when a session begins: those of a server that was replaced, or all if the
//! plan asks for that. The fingerprint defines which differences count as a change.

use super::writer::SessionWriter;
use super::{Interrupt, Sweep, Writer};
use crate::agenda::Ending;
use crate::error::{Error, Result};
use crate::fingerprint::{Differences, Fingerprint};
use crate::ids::ServerId;
use crate::journal::{Event, ServerMatch, State};
use crate::matrix::ServerConfig;
use crate::plan::{Secrets, Serve, Target};
use crate::server::Server;
use std::time::Duration;

/// Number of readings before a server counts as another one. Behind a load balancer, the server that was measured may answer again.
const LOOKS: usize = 5;

/// Reads the properties of the server behind a URL, without secrets. Returns its differences instead if they make it another server. Fails
/// if different servers answer in turn.
pub(super) async fn recognise(
    server: &Server,
    secrets: &Secrets,
    compare: impl Fn(&Fingerprint) -> ServerMatch,
) -> Result<std::result::Result<Fingerprint, Differences>> {
    let in_turn = |differences: &Differences| {
        Error::Fatal(format!(
            "different servers answer in turn at {}: one with {}, one with {}; give the URL of one of them, or wait until one has replaced \
             the other, and run again: what is recorded is kept",
            secrets.redact(server.base_url()),
            differences.before(),
            differences.now()
        ))
    };
    let mut replaced = None;
    for _ in 0..LOOKS {
        let read = server.read_identity().await;
        let read = secrets.redact_data(read.map_err(|differences| in_turn(&differences))?);
        if read == Fingerprint::default() {
            // The server gives no properties, or does not answer at the moment.
            match replaced {
                None => break,
                Some(_) => continue,
            }
        }
        match (compare(&read), &replaced) {
            (ServerMatch::Same, None) => return Ok(Ok(read)),
            (ServerMatch::Same, Some(differences)) => return Err(in_turn(differences)),
            (ServerMatch::InTurn(differences), _) => return Err(in_turn(&differences)),
            (ServerMatch::Replaced(differences), _) => replaced = Some(differences),
        }
    }
    Ok(replaced.map_or_else(|| Ok(Fingerprint::default()), Err))
}

/// Returns the server behind a URL.
pub(super) fn attach(url: &str, serve: &Serve) -> Server {
    Server::attach(url, serve.ready_timeout, serve.hang_timeout).with_health(&serve.protocol.health)
}

/// Returns the reason for retiring earlier results, as a sentence for the record.
pub(super) fn reason(differences: &Differences) -> String {
    format!("another server answers now: {differences}")
}

/// Returns a note for the user about a server that was started again since it was measured last. Only in vLLM's development mode does it
/// show the settings of its scheduler, so without that mode the note says that they may have changed.
pub(super) fn restarted(url: &str, read: &Fingerprint) -> String {
    let hidden = match read.settings.contains_key("max_num_seqs") {
        true => "",
        false => {
            "; it does not report max_num_seqs and similar settings (with VLLM_SERVER_DEV_MODE=1 it does): if they changed, use --fresh"
        }
    };
    format!("the server at {url} was restarted since the last run there{hidden}")
}

/// Reason for retiring earlier results if the plan asks for it.
const ASKED: &str = "measured anew, as serve.fresh asks";

impl Sweep<'_> {
    /// Returns true if a session that begins now must measure the server behind the URL anew, as the plan asks. Interrupted work is
    /// finished first.
    pub fn begins_anew(&self, state: &State) -> bool {
        let last = state.last_session().and_then(|session| session.ended.as_deref());
        let has_ended = |ending: Ending| last == Some(ending.reason());
        // Work for which `max_time` is too short could never be finished. A larger one continues it.
        let is_spent = || self.plan.max_time.is_some_and(|most| most <= state.time_of_work());
        let is_over = has_ended(Ending::Finished) || (has_ended(Ending::OutOfTime) && is_spent());
        self.plan.serve.fresh && (is_over || !self.schedule().has_work(state))
    }

    /// Retires, in an imagined state, the results that a session which begins now would retire because the plan asks for it.
    pub fn imagine_anew(&self, state: &mut State) {
        if self.begins_anew(state) {
            for server in self.schedule().servers() {
                let (server, reason) = (server.id, ASKED.to_owned());
                state.apply_hypothetical(Event::ResultsRetired { server, reason });
            }
        }
    }

    /// Returns the time until `max_time` is spent; `None` without such a limit. Earlier time does not count if all its results are measured
    /// anew, because the plan asks for it or their servers are among the `outdated` ones.
    pub(super) fn time_left(&self, outdated: &[(ServerId, String)], state: &State) -> Option<Duration> {
        let mut servers = state.runs().map(|run| &run.server);
        let all_outdated = !outdated.is_empty() && servers.all(|server| outdated.iter().any(|(id, _)| id == server));
        let spent = match all_outdated || self.begins_anew(state) {
            true => Duration::ZERO,
            false => state.time_of_work(),
        };
        self.plan.max_time.map(|most| most.saturating_sub(spent))
    }

    /// Returns the servers whose results a session that begins now retires, with the reasons. `None` if the user asked to stop meanwhile.
    pub(super) async fn outdated(
        &self,
        writer: &SessionWriter<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<Option<Vec<(ServerId, String)>>> {
        let Target::Attach(url) = &self.plan.serve.target else {
            return Ok(Some(Vec::new()));
        };
        let session = writer.with(|recorder| recorder.nonce());
        let is_anew = writer.look(|state| self.begins_anew(state));
        let mut outdated = Vec::new();
        for ServerConfig { id, .. } in self.schedule().servers() {
            if !writer.look(|state| state.has_results(&id)) {
                continue;
            }
            if is_anew {
                outdated.push((id, ASKED.to_owned()));
                continue;
            }
            let server = attach(url, &self.plan.serve);
            let compare = |read: &Fingerprint| writer.look(|state| state.recognise(&id, session, read));
            let recognised = tokio::select! {
                recognised = recognise(&server, &self.plan.secrets, compare) => recognised?,
                () = interrupt.requested() => return Ok(None),
            };
            if let Err(differences) = recognised {
                outdated.push((id, reason(&differences)));
            }
        }
        Ok(Some(outdated))
    }
}
