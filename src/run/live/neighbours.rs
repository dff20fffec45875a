//! Records the other servers of the sweep on this machine during a run: all of them, and those that were starting, which costs the host
//! most.

use super::Live;
use crate::agenda::ActionOutcome;
use crate::journal::{Nonce, StartRecord};
use crate::plan::{Parallel, Params};
use crate::run::activity_lock::Permit;
use crate::run::drive::Writer;
use crate::server::claim::Presence;
use jiff::{SignedDuration, Timestamp};

impl Live<'_, '_> {
    /// Lets other sessions know that a server is up here.
    pub(super) fn show_presence(&mut self) {
        self.presence = Presence::of(&self.session(), &self.config.id.0);
    }

    /// Servers of other sessions that are up on this machine.
    pub(super) fn others_up(&self) -> usize {
        Presence::of_others(&self.session())
    }

    fn session(&self) -> String {
        self.writer.with(|recorder| recorder.nonce()).to_string()
    }

    /// Adds the activity on the machine to a run.
    pub(super) fn note_company(&self, outcome: &mut ActionOutcome, permit: &Permit<'_>) {
        if self.plan.exec.parallel != Parallel::No
            && let ActionOutcome::Ran { result: Ok(ran), .. } = outcome
        {
            ran.neighbours = Some(permit.neighbours());
        }
    }

    /// Number of other servers of this session that ran, and that were starting, at any time since then. Empty if servers run one after the
    /// other.
    pub(super) fn neighbours(&self, since: Timestamp) -> Params {
        if self.plan.exec.parallel == Parallel::No {
            return Params::new();
        }
        let session = self.writer.with(|recorder| recorder.nonce());
        let (servers, starts) = self.writer.look(|state| {
            let others = state.servers.iter().filter(|(id, _)| **id != self.config.id);
            let starts = others.flat_map(|(_, server)| &server.starts);
            let neighbours: Vec<&StartRecord> = starts.filter(|start| is_neighbour(start, session, since)).collect();
            let starting = neighbours.iter().filter(|start| was_starting(start, since));
            (neighbours.len(), starting.count())
        });
        [("servers_beside", servers), ("starts_beside", starts)]
            .map(|(name, count)| (name.to_owned(), count.into()))
            .into_iter()
            .collect()
    }
}

fn is_neighbour(start: &StartRecord, session: Nonce, since: Timestamp) -> bool {
    let ended = start.exited_at.as_ref().and_then(|at| at.parse::<Timestamp>().ok());
    start.launch.session == session && ended.is_none_or(|ended| ended >= since)
}

/// Returns true if a server was starting since then. One that never became ready was starting until its end.
fn was_starting(start: &StartRecord, since: Timestamp) -> bool {
    let took = start
        .ready_seconds()
        .and_then(|seconds| SignedDuration::try_from_secs_f64(seconds).ok());
    let launched = start.started_at.parse::<Timestamp>().ok();
    let ready = launched
        .zip(took)
        .and_then(|(launched, took)| launched.checked_add(took).ok());
    ready.is_none_or(|ready| ready >= since)
}
