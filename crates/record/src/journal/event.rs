//! One durable fact a line. The names and fields here are a file format: see `docs/formats.md`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vsweep_plan::cause::{Cause, Outcome};
use vsweep_plan::ids::{PointId, SearchId, ServerId};
use vsweep_plan::plan::Params;
use vsweep_strategy::search::{Answer, Level, Probe, Rival, Seed, Target, Vary};

/// Version of the journal and of the directory, `major.minor`. A reader refuses a newer major and skips events it does
/// not know from a newer minor.
///
/// - 1.0: first.
/// - 1.1: searches: the events `searches_planned`, `search_started` and `search_finished`, and the field `search` of a run.
/// - 1.2: the outcome `cut`; explorations: searches without targets, and the field `level` of a run's `search`.
/// - 1.3: what the `seed` of a search comes from, and its `rivals`; the verdict `skipped`.
/// - 1.4: the `combo` of a server and of a run.
/// - 1.5: whether a probe's reading is `starved`.
/// - 1.6: the `draw` of a probe's question, what it `served`, and the `missed` of a reading's `requests`.
pub const FORMAT: (u32, u32) = (1, 6);

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Counts from 0 without gaps.
    pub seq: u64,
    /// When it was written, RFC 3339 in UTC. For people only: nothing is decided by it.
    pub at: String,
    /// What happened.
    pub event: Event,
}

/// What can happen to an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// First line of a journal.
    JournalCreated {
        /// `major.minor` of [`FORMAT`].
        format: String,
        /// vsweep's own version.
        vsweep: String,
        /// Which share of the server groups this journal holds, e.g. `1-of-1`.
        shard: String,
    },
    /// A vsweep began to work on the directory.
    SessionStarted {
        /// vsweep's own version.
        vsweep: String,
        /// Its process id, for whoever looks for it.
        pid: u32,
        /// SHA-256 of the plan's text.
        plan_sha256: String,
        /// Servers of the whole plan.
        servers: u64,
        /// Points of the whole plan.
        points: u64,
        /// Runs of the whole plan.
        runs: u64,
        /// Searches of the whole plan; they decide on their runs themselves.
        #[serde(default)]
        searches: u64,
    },
    /// These points are recorded but no longer in the plan: their runs leave the tables.
    PointsDropped {
        /// The points.
        points: Vec<PointId>,
    },
    /// These points are in the plan again: their runs count again.
    PointsRestored {
        /// The points.
        points: Vec<PointId>,
    },
    /// These are the searches of the plan; answers of all others leave the tables.
    SearchesPlanned {
        /// The searches.
        searches: Vec<SearchId>,
    },
    /// A search is about to ask its first question.
    SearchStarted(Box<SearchStarted>),
    /// A search has its answers, or was given up.
    SearchFinished {
        /// Which search.
        search: SearchId,
        /// One a target; empty if it was given up.
        answers: Vec<Answer>,
        /// Why it was given up.
        cause: Option<Cause>,
        /// What was seen; empty if nothing is to be said.
        detail: String,
    },
    /// A server config is about to be used for the first time in this journal.
    ServerDeclared {
        /// Its identity.
        server: ServerId,
        /// Short text for people.
        name: String,
        /// Command line, secrets redacted; empty when attached.
        argv: Vec<String>,
        /// Environment of the plan, secrets redacted.
        env: BTreeMap<String, String>,
        /// Every parameter.
        params: Params,
        /// Name of its combination, if the plan names one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        combo: Option<String>,
    },
    /// A server process is being started.
    ServerStarting {
        /// Which config.
        server: ServerId,
        /// Counts the starts of this config from 1.
        start: u32,
    },
    /// It answers and serves the expected model.
    ServerReady {
        /// Which config.
        server: ServerId,
        /// Which start.
        start: u32,
        /// From launch to ready, in seconds.
        seconds: f64,
        /// Name of the model it serves.
        model: String,
        /// What `/version` said.
        version: Option<String>,
        /// Whether it is the simulator.
        simulated: bool,
    },
    /// It is gone: stopped by us (no cause), or by itself.
    ServerExited {
        /// Which config.
        server: ServerId,
        /// Which start.
        start: u32,
        /// Why, unless we stopped it.
        cause: Option<Cause>,
        /// What it said.
        detail: String,
    },
    /// A run is about to be measured.
    RunStarted {
        /// Which point.
        point: PointId,
        /// Which repetition, from 0.
        run: u32,
        /// Short text of the point for people.
        name: String,
        /// On which start of the server.
        start: u32,
    },
    /// A run has an outcome; if it was measured, its file is on disk.
    RunFinished(Box<RunFinished>),
    /// vsweep ended its work in order.
    SessionEnded {
        /// `finished`, `interrupted` or `stopped`.
        reason: String,
    },
}

/// What a search looks for. Together with the probes of its runs it decides the next question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchStarted {
    /// Its identity.
    pub search: SearchId,
    /// The server config it runs on.
    pub server: ServerId,
    /// Short text of the load for people; `default` if only the searched parameter varies.
    pub name: String,
    /// Every bench parameter but those that the search decides.
    pub params: Params,
    /// The load that is varied.
    pub vary: Vary,
    /// The targets; none for an exploration.
    pub targets: Vec<Target>,
    /// Where it starts.
    pub seed: Seed,
    /// The best answers of other server configs, where the plan lets a beaten one be skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rivals: Vec<Rival>,
}

/// A run's part in a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Searched {
    /// The search that asked for it.
    pub id: SearchId,
    /// The question and what the run says; `None` if it says nothing about its load.
    pub probe: Option<Probe>,
    /// The load and what was measured, if an exploration asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
}

/// The outcome of one run with all that tables need except the metrics, which are in its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFinished {
    /// Which point.
    pub point: PointId,
    /// The server config it belongs to.
    pub server: ServerId,
    /// Which repetition, from 0.
    pub run: u32,
    /// Short text of the point for people.
    pub name: String,
    /// Every bench parameter.
    pub params: Params,
    /// Name of the load's combination, if the plan names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub combo: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it failed or is suspect.
    pub cause: Option<Cause>,
    /// What was seen, in one line; empty if nothing is to be said.
    pub detail: String,
    /// From start to end of the benchmark, in seconds.
    pub seconds: f64,
    /// Where the figures are; `None` if nothing was measured.
    pub file: Option<StoredFile>,
    /// The search that asked for it; `None` for a point of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Searched>,
}

/// A file that the journal vouches for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFile {
    /// Relative to the experiment directory, with forward slashes.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the content, 64 hex digits.
    pub sha256: String,
}
