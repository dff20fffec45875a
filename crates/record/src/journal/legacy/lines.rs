//! The lines of vsweep 1.x, as they were written.

use crate::journal::declared::ServerDeclared;
use crate::journal::event::{Event, StoredFile};
use serde::Deserialize;
use vsweep_plan::cause::{Cause, Outcome};
use vsweep_plan::ids::{PointId, SearchId, ServerId};
use vsweep_plan::plan::Params;
use vsweep_strategy::search::{Answer, Level, Probe};

/// One line of a journal.
#[derive(Deserialize)]
pub(super) struct OldLine<E> {
    pub(super) seq: u64,
    pub(super) at: String,
    pub(super) event: E,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OldEvent {
    JournalCreated {
        format: String,
        vsweep: String,
    },
    SessionStarted {
        pid: u32,
        plan_sha256: String,
        servers: u64,
        points: u64,
        runs: u64,
        #[serde(default)]
        searches: u64,
    },
    PointsDropped {
        points: Vec<PointId>,
    },
    PointsRestored {
        points: Vec<PointId>,
    },
    SearchesPlanned {
        searches: Vec<SearchId>,
    },
    SearchFinished {
        search: SearchId,
        answers: Vec<Answer>,
        cause: Option<Cause>,
        detail: String,
    },
    ServerDeclared {
        server: ServerId,
        #[serde(flatten)]
        config: ServerDeclared,
    },
    RunStarted {
        point: PointId,
        run: u32,
        start: u32,
    },
    RunFinished(Box<OldRun>),
    /// What has not changed since, but for members that came later.
    #[serde(untagged)]
    Same(Event),
}

#[derive(Clone, Deserialize)]
pub(super) struct OldRun {
    pub(super) point: PointId,
    pub(super) server: ServerId,
    pub(super) run: u32,
    pub(super) name: String,
    pub(super) params: Params,
    #[serde(default)]
    pub(super) combo: Option<String>,
    pub(super) outcome: Outcome,
    /// A text, because some causes of then are reasons for doubt today.
    pub(super) cause: Option<String>,
    pub(super) detail: String,
    pub(super) seconds: f64,
    pub(super) file: Option<StoredFile>,
    #[serde(default)]
    pub(super) search: Option<OldSearched>,
}

#[derive(Clone, Deserialize)]
pub(super) struct OldSearched {
    pub(super) id: SearchId,
    pub(super) probe: Option<Probe>,
    #[serde(default)]
    pub(super) level: Option<Level>,
}

/// The provenance in a run file of 1.x.
#[derive(Deserialize)]
pub(super) struct OldProvenance {
    pub(super) shard: String,
    pub(super) started_seq: u64,
    pub(super) started_at: String,
    pub(super) finished: OldRun,
}
