//! The nodes of runs.

use super::{RunRecord, State};
use crate::journal::machine::Machine;
use crate::journal::rank::Nonce;
use std::collections::BTreeSet;

impl State {
    /// The machine of a session; none of one that measured nothing itself.
    pub fn machine_of(&self, session: Nonce) -> Option<Machine> {
        let session = self.sessions.iter().find(|other| other.nonce() == session)?;
        session.machine.as_deref().cloned()
    }

    /// The moment of the last line of a session.
    pub fn last_moment(&self, session: Nonce) -> Option<&str> {
        self.last_lines.get(&session).map(|(_, at)| at.as_str())
    }

    /// Node of a run.
    pub fn measured_at(&self, run: &RunRecord) -> Option<Machine> {
        self.machine_of(run.rank.line.journal)
    }

    /// Nodes of the tables' runs: each node as each of its sessions found it.
    pub fn machines(&self) -> BTreeSet<Machine> {
        let sessions: BTreeSet<Nonce> = self.runs().map(|run| run.rank.line.journal).collect();
        sessions
            .into_iter()
            .filter_map(|session| self.machine_of(session))
            .collect()
    }
}
