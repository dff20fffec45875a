//! What is known of one run, search, server, start and session.

use crate::journal::event::{RunFinished, SearchStarted};
use std::collections::BTreeMap;
use vsweep_plan::cause::Cause;
use vsweep_plan::ids::PointId;
use vsweep_plan::plan::Params;
use vsweep_strategy::search::Answer;

/// The outcome of one run, as the journal has it.
pub type RunRecord = RunFinished;

/// One search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRecord {
    /// What it looks for.
    pub started: SearchStarted,
    /// How it ended, if it did.
    pub ended: Option<SearchEnd>,
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchEnd {
    /// With an answer for each target.
    Answered(Vec<Answer>),
    /// It was given up, for this cause.
    GivenUp(Cause, String),
}

/// A run without an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// Its point.
    pub point: PointId,
    /// Its repetition.
    pub run: u32,
    /// Sequence number of its `run_started`, which its file repeats.
    pub seq: u64,
    /// When that was written.
    pub at: String,
}

/// Size of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Servers.
    pub servers: u64,
    /// Points.
    pub points: u64,
    /// Runs of all points.
    pub runs: u64,
    /// Searches.
    pub searches: u64,
}

/// One server config that was used.
#[derive(Debug, Clone, Default)]
pub struct ServerRecord {
    /// Short text for people.
    pub name: String,
    /// Command line, secrets redacted; empty when attached.
    pub argv: Vec<String>,
    /// Environment of the plan, secrets redacted.
    pub env: BTreeMap<String, String>,
    /// Every server parameter.
    pub params: Params,
    /// Name of its combination, if the plan names one.
    pub combo: Option<String>,
    /// Its starts, oldest first.
    pub starts: Vec<StartRecord>,
}

/// One start of a server.
#[derive(Debug, Clone, Default)]
pub struct StartRecord {
    /// Counts from 1.
    pub start: u32,
    /// When it was launched, RFC 3339.
    pub started_at: String,
    /// From launch to ready, in seconds, if it got there.
    pub ready_seconds: Option<f64>,
    /// Whether it was the simulator.
    pub simulated: bool,
    /// The model it served; empty before it was ready.
    pub model: String,
    /// What `/version` said.
    pub version: Option<String>,
    /// When it was gone, RFC 3339.
    pub exited_at: Option<String>,
    /// Why it ended, unless vsweep stopped it.
    pub cause: Option<Cause>,
}

/// One stretch of work on the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// When it began, RFC 3339.
    pub started_at: String,
    /// Process id.
    pub pid: u32,
    /// SHA-256 of the plan's text.
    pub plan_sha256: String,
    /// How it ended; `None` if it was killed, or is still running.
    pub ended: Option<String>,
}
