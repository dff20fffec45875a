//! Where runs were measured, and what sentinels showed there.

use super::{RunRecord, State};
use crate::journal::machine::{Machine, SENTINEL_SLOT};
use crate::journal::rank::Nonce;
use std::collections::{BTreeMap, BTreeSet};
use vsweep_plan::ids::PointId;

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

    /// Where a run was measured.
    pub fn measured_at(&self, run: &RunRecord) -> Option<Machine> {
        self.machine_of(run.rank.line.journal)
    }

    /// Where runs of the tables were measured: each node as each of its sessions found it.
    pub fn machines(&self) -> BTreeSet<Machine> {
        let sessions: BTreeSet<Nonce> = self.runs().map(|run| run.rank.line.journal).collect();
        sessions
            .into_iter()
            .filter_map(|session| self.machine_of(session))
            .collect()
    }

    /// The runs of sentinels that count, by their nodes.
    pub fn sentinels(&self) -> BTreeMap<String, Vec<&RunRecord>> {
        let points: BTreeSet<&PointId> = self
            .recorded()
            .filter(|run| run.slot == SENTINEL_SLOT)
            .map(|run| &run.point)
            .collect();
        let mut sentinels: BTreeMap<String, Vec<&RunRecord>> = BTreeMap::new();
        for point in points {
            for run in (0..).map_while(|run| self.run(point, SENTINEL_SLOT, run)) {
                if let Some(machine) = self.machine_of(run.rank.line.journal) {
                    sentinels.entry(machine.node).or_default().push(run);
                }
            }
        }
        sentinels
    }
}
