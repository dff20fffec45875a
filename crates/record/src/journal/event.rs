//! The events: one durable fact per line. The names and fields here are a file format: see `docs/formats.md`.

use super::declared::{ComparisonDesign, LoadNames, Optimization, RecordedPlan, ServerDescription};
use super::figures::Figures;
use super::given_up::GroupGivenUp;
use super::machine::Machine;
use super::rank::{LineId, Nonce, Sum};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vsweep_answer::MetricNoise;
use vsweep_base::cause::{Cause, Failure, Outcome};
use vsweep_base::fingerprint::Fingerprint;
use vsweep_base::ids::{Hash256, PointId, SearchId, ServerId};
use vsweep_base::request_error::RequestError;
use vsweep_base::validity::{Doubt, Validity};
use vsweep_plan::Params;
use vsweep_strategy::checks::AnswerCheck;
use vsweep_strategy::search::{Answer, ExplorationRun, Probe, Rival, Seed, Target, Vary};
use vsweep_strategy::selection::optimized::Reason;

/// Version of the record, `major.minor`. A reader refuses another major and skips events it does not know from a newer minor.
///
/// - 1.1: `unlisted` points of a `group_given_up`.
/// - 1.0: the events below.
pub const FORMAT: (u32, u32) = (1, 1);

/// An event in the life of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// First line of a journal. A reader that does not know its format refuses the directory.
    JournalCreated {
        /// `major.minor` of [`FORMAT`].
        format: String,
        /// vsweep's own version.
        vsweep: String,
        /// The share of the server groups that the session takes, e.g. `1-of-1`.
        shard: String,
    },
    /// Second line of a journal: the session and its plan.
    SessionStarted(Box<SessionStarted>),
    /// The session is about to work on a start of a server config.
    GroupBegun(Box<GroupBegun>),
    /// A search is about to ask its first question.
    SearchStarted(Box<SearchStarted>),
    /// A search has its answers, or was given up.
    SearchFinished {
        /// The search.
        search: SearchId,
        /// The `run_started` line of its last probe; the search's own beginning if it asked nothing.
        after: LineId,
        /// One answer for each target; empty if it was given up.
        answers: Vec<Answer>,
        /// Cause, if it was given up.
        cause: Option<Cause>,
        /// Observed details, as text; may be empty.
        detail: String,
    },
    /// A server process is being started, or a connection made to one that runs.
    ServerStarting {
        /// The config.
        server: ServerId,
        /// The planned start, from 0.
        slot: u32,
        /// Number of the launch in this session, from 1.
        launch: u32,
        /// Numbers of the GPUs that it was given; empty unless servers run at the same time on different GPUs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        gpus: Vec<u32>,
    },
    /// A server answers, and serves the expected model.
    ServerReady(Box<ServerReady>),
    /// A server is gone: vsweep stopped it (no cause), or it ended by itself.
    ServerExited(Box<ServerExited>),
    /// A run is about to be measured.
    RunStarted(Box<RunStarted>),
    /// A run has a result; if it was measured, its file is on disk.
    RunFinished(Box<RunFinished>),
    /// Runs will not be tried, because their server or their point was given up. Each of them counts as failed.
    GroupGivenUp(Box<GroupGivenUp>),
    /// The results that this session has read of a server no longer count, because another server answers at the address now.
    ResultsRetired {
        /// The config.
        server: ServerId,
        /// The reason, as a sentence.
        reason: String,
    },
    /// The session ended without being killed.
    SessionEnded {
        /// `finished`, `interrupted`, `stopped`, `out_of_time` or `superseded`; `imported` for results of another program, `submitted` if
        /// it only recorded a plan for workers.
        reason: String,
    },
}

/// A session and its plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStarted {
    /// Name of the machine.
    pub host: String,
    /// Identifier of the machine's boot. Process ids are only unique within one boot.
    pub boot: String,
    /// Process id of vsweep.
    pub pid: u32,
    /// Start time of the process, in clock ticks since the boot.
    pub started: u64,
    /// Properties that distinguish the machine from others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Box<Machine>>,
    /// True if the session continued the plan that it found, as a worker does. It then does not decide which plan counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub joined: bool,
    /// The plan to measure.
    pub plan: RecordedPlan,
    /// Number of server configs of the plan.
    pub servers: u64,
    /// Number of points of the plan.
    pub points: u64,
    /// Number of planned starts of each server config.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub starts: u32,
    /// Number of runs of the plan, on all starts; the smallest number if intervals decide how many.
    pub runs: u64,
    /// Number of searches of the plan. They decide on their runs themselves.
    pub searches: u64,
    /// The comparison that the plan asks for. It decides on its starts itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<Box<ComparisonDesign>>,
    /// The optimisation that the plan asks for. It decides on its starts itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimize: Option<Box<Optimization>>,
    /// New names of recorded loads.
    #[serde(default, skip_serializing_if = "LoadNames::is_empty")]
    pub renamed: LoadNames,
    /// The noise that other experiments measured on this machine before this one began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noise: Vec<MetricNoise>,
    /// The parts of other journals that the session had read.
    pub seen: ReadPositions,
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

/// The read part of each journal.
pub type ReadPositions = BTreeMap<Nonce, SeenJournal>;

/// The read part of one journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenJournal {
    /// Number of lines.
    pub lines: u64,
    /// Sum of the last line.
    pub sum: Sum,
}

/// A start of a server config to work on, and the parts of other journals that the session has read since it last recorded them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupBegun {
    /// Its identity.
    pub server: ServerId,
    /// The planned start, from 0.
    pub slot: u32,
    /// Its description.
    pub config: ServerDescription,
    /// Reason for which an optimisation asked for this start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed: Option<Reason>,
    /// The read part of each journal that has grown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seen: ReadPositions,
}

/// A server that is ready, and the properties that it reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerReady {
    /// The config.
    pub server: ServerId,
    /// Number of the server's launch in this session, from 1.
    pub launch: u32,
    /// Time from launch to ready, in seconds.
    pub seconds: f64,
    /// Name of the model it serves.
    pub model: String,
    /// The answer of `/version`.
    pub version: Option<String>,
    /// True if it is the simulator.
    pub simulated: bool,
    /// Properties that distinguish it from other servers, if vsweep did not launch it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Box<Fingerprint>>,
    /// Result of the fixed questions; `None` if they were not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Box<AnswerCheck>>,
}

/// The end of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerExited {
    /// The config.
    pub server: ServerId,
    /// Number of the server's launch in this session, from 1.
    pub launch: u32,
    /// Cause, unless vsweep stopped it.
    pub cause: Option<Cause>,
    /// Observed details, as text.
    pub detail: String,
    /// Time that stopping it took, in seconds; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Time from the announcement of its launch to its end by a monotonic clock, in seconds; `None` if vsweep did not launch it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_seconds: Option<f64>,
}

/// Definition of a search. Together with the probes of its runs it decides the next question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchStarted {
    /// Its identity.
    pub search: SearchId,
    /// The server config it runs on.
    pub server: ServerId,
    /// The planned start, from 0.
    pub slot: u32,
    /// Short text of the load for people; `default` if only the searched parameter varies.
    pub name: String,
    /// Every bench parameter, except those that the search decides.
    pub params: Params,
    /// The load that is varied.
    pub vary: Vary,
    /// The targets; none for an exploration.
    pub targets: Vec<Target>,
    /// Its starting point.
    pub seed: Seed,
    /// The best answers of other server configs, if the plan skips searches that these answers beat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rivals: Vec<Rival>,
}

/// Facts about a run before it is measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The point.
    pub point: PointId,
    /// The server config it belongs to.
    pub server: ServerId,
    /// The planned start of the server, from 0.
    pub slot: u32,
    /// Number of the repetition, from 0.
    pub run: u32,
    /// Number of the server's launch in this session, from 1.
    pub launch: u32,
    /// Short text of the point for people.
    pub name: String,
    /// Every bench parameter.
    pub params: Params,
    /// Name of the load's combination, if the plan names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub combo: Option<String>,
    /// The search that asks for it; `None` for a point of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Link>,
    /// Number of the line of this journal that retired earlier results on the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anew: Option<u64>,
}

/// Position of a run in the chain of probes of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The search.
    pub id: SearchId,
    /// The `run_started` line of the previous probe; the search's own beginning for the first one.
    pub after: LineId,
    /// Number of probes before it.
    pub step: u32,
    /// Number that is added to the plan's seed.
    pub draw: u32,
}

/// Result of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFinished {
    /// Number of its `run_started` line in the same journal.
    pub started: u64,
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Validity of its figures.
    pub validity: Validity,
    /// Doubts about its figures.
    #[serde(default, rename = "codes", skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// Cause of the failure, if it failed.
    pub cause: Option<Cause>,
    /// Observed details, in one line of text; may be empty.
    pub detail: String,
    /// The most frequent error of failed requests, if they are the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_error: Option<Box<RequestError>>,
    /// Relative sampling errors of its figures (standard errors of their logarithms), as far as they are known.
    #[serde(default, skip_serializing_if = "Figures::is_empty")]
    pub errors: Figures,
    /// Time from start to end of the benchmark without its warm-up, in seconds.
    pub seconds: f64,
    /// Time that resetting the caches before the run took, in seconds; `None` if they were not reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_seconds: Option<f64>,
    /// Time that the warm-up before the run took, in seconds; `None` if unknown or without a warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_seconds: Option<f64>,
    /// File with the figures; `None` if nothing was measured.
    pub file: Option<StoredFile>,
    /// The figures that later decisions use: those of a search, an exploration, or the rules that repeat runs and starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<RunEvidence>,
    /// Activity on the machine during the run, if servers run at the same time.
    #[serde(default, rename = "beside", skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<Box<NeighbourShares>>,
}

/// Other activity of the session on the machine during a run: shares of the run's time from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct NeighbourShares {
    /// Share in which other servers were measured.
    pub servers: f64,
    /// Share in which other servers were starting.
    pub starts: f64,
}

impl SearchStarted {
    /// Returns the name of its workload; empty if it is the only one.
    pub fn workload(&self) -> &str {
        match self.name.as_str() {
            "default" => "",
            name => name,
        }
    }
}

impl RunFinished {
    /// Shares the memory of its figures' names with another run of the same benchmark.
    pub(super) fn share(&mut self, other: &RunFinished) {
        self.errors.share(&other.errors);
        if let (Some(RunEvidence::Figures(own)), Some(RunEvidence::Figures(others))) =
            (&mut self.learned, &other.learned)
        {
            own.share(others);
        }
    }

    /// Returns the failure, if it failed.
    pub fn failure(&self) -> Option<Failure> {
        Some(Failure {
            cause: self.cause?,
            detail: self.detail.clone(),
            request_error: self.request_error.as_deref().cloned(),
            ruled_out: None,
        })
    }
}

/// The figures of a run that later decisions use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEvidence {
    /// For a search: its question, and the readings. Boxed, because every run in memory has room for the largest variant.
    Probe(Box<Probe>),
    /// For an exploration: the load, and the figures.
    Level(Box<ExplorationRun>),
    /// For the rules that repeat runs and starts: their metrics.
    Figures(Figures),
}

/// A file whose size and hash the journal records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFile {
    /// Path relative to the experiment directory, with forward slashes.
    pub path: Box<str>,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the content.
    pub sha256: Hash256,
}

impl StoredFile {
    /// Returns the entry for a file with this content.
    pub fn of(path: String, content: &[u8]) -> StoredFile {
        StoredFile {
            path: path.into(),
            bytes: content.len() as u64,
            sha256: Hash256::of(content),
        }
    }
}
