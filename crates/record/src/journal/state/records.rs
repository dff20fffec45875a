//! What is known of one run, search, server, launch and session.

use super::FIRST_SLOT;
use crate::journal::compared::Compared;
use crate::journal::declared::ServerDeclared;
use crate::journal::event::{Figures, Learned, RecordedPlan, SearchStarted, StoredFile};
use crate::journal::machine::{Machine, SENTINEL_SLOT};
use crate::journal::place::{LineId, Nonce, Place};
use crate::journal::sample::Beside;
use std::fmt;
use std::sync::Arc;
use vsweep_plan::cause::{Cause, Outcome};
use vsweep_plan::fingerprint::Fingerprint;
use vsweep_plan::ids::{PointId, SearchId, ServerId};
use vsweep_plan::plan::Params;
use vsweep_plan::validity::{Doubt, Validity};
use vsweep_strategy::checks::AnswerCheck;
use vsweep_strategy::search::{Answer, Found, Level, Probe};

/// One run and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    /// Which point.
    pub point: PointId,
    /// The server config it belongs to.
    pub server: ServerId,
    /// The planned start of the server that it belongs to, from 0.
    pub slot: u32,
    /// Which repetition, from 0.
    pub run: u32,
    /// The start of a server process that it was measured on; intervals group by it. `None` where none was ready.
    pub launch: Option<Launch>,
    /// Short text of the point for people.
    pub name: String,
    /// Every bench parameter.
    pub params: Arc<Params>,
    /// Name of the load's combination, if the plan names one.
    pub combo: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether its figures may be believed.
    pub validity: Validity,
    /// Why they may not.
    pub doubts: Vec<Doubt>,
    /// Why it failed or is suspect.
    pub cause: Option<Cause>,
    /// What was seen, in one line; empty if nothing is to be said.
    pub detail: String,
    /// Whether it was tried. One that was not failed for what happened to another.
    pub tried: bool,
    /// From start to end of the benchmark, in seconds.
    pub seconds: f64,
    /// How long the reset of the caches before it took, in seconds, where there was one.
    pub reset_seconds: Option<f64>,
    /// How long the warm-up before it took, in seconds, where there was one.
    pub warmup_seconds: Option<f64>,
    /// Where the figures are; `None` if nothing was measured.
    pub file: Option<StoredFile>,
    /// The search that asked for it, and what it learned.
    pub search: Option<Searched>,
    /// What went on beside it, where servers run side by side.
    pub beside: Option<Beside>,
    /// The figures that decide how often its point is measured, where they do.
    pub figures: Figures,
    /// The line that began it, or that gave it up; its files are named by it.
    pub started: LineId,
    /// When it ended, RFC 3339; for people only.
    pub finished_at: String,
}

impl RunRecord {
    /// Its number among the runs of its point: `2`, on a later start than the first `1.2`.
    pub fn number(&self) -> String {
        number(self.slot, self.run)
    }

    /// A run of which nothing is known but what it is.
    pub(super) fn new(point: PointId, server: ServerId, params: Arc<Params>, started: LineId) -> RunRecord {
        RunRecord {
            point,
            server,
            slot: 0,
            run: 0,
            launch: None,
            name: String::new(),
            params,
            combo: None,
            outcome: Outcome::Failed,
            validity: Validity::Valid,
            doubts: Vec::new(),
            cause: None,
            detail: String::new(),
            tried: true,
            seconds: 0.0,
            reset_seconds: None,
            warmup_seconds: None,
            file: None,
            search: None,
            beside: None,
            figures: Figures::new(),
            started,
            finished_at: String::new(),
        }
    }
}

/// The number of a run among those of its point: `2` on the first planned start, `1.2` on the next, `sentinel.2` of a sentinel.
pub fn number(slot: u32, run: u32) -> String {
    match slot {
        FIRST_SLOT => run.to_string(),
        SENTINEL_SLOT => format!("sentinel.{run}"),
        slot => format!("{slot}.{run}"),
    }
}

/// A run's part in a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Searched {
    /// The search that asked for it.
    pub id: SearchId,
    /// What is added to the plan's seed.
    pub draw: u32,
    /// What the search learned; `None` if the run says nothing about its load.
    pub learned: Option<Learned>,
}

impl Searched {
    /// The question and what the run says, if a search asked and it says something.
    pub fn probe(&self) -> Option<&Probe> {
        match &self.learned {
            Some(Learned::Probe(probe)) => Some(probe),
            _ => None,
        }
    }

    /// The load and what was measured, if an exploration asked.
    pub fn level(&self) -> Option<&Level> {
        match &self.learned {
            Some(Learned::Level(level)) => Some(level),
            _ => None,
        }
    }
}

/// One start of a server process: the unit of intervals. Written `<nonce>-<n>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Launch {
    /// The session that started it.
    pub session: Nonce,
    /// Counts its launches from 1; of vsweep 1.x those of the server config.
    pub n: u32,
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.session {
            Nonce::SEALED => write!(f, "{}", self.n),
            session => write!(f, "{session}-{}", self.n),
        }
    }
}

/// One search, as the chain of probes that counts tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRecord {
    /// What it looks for.
    pub started: SearchStarted,
    /// How it ended, if it did.
    pub ended: Option<SearchEnd>,
    /// What the next probe follows: the last one, or the search's beginning.
    pub tip: LineId,
    /// How many probes it has.
    pub steps: u32,
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchEnd {
    /// With an answer for each target.
    Answered(Vec<Answer>),
    /// It was given up, for this cause.
    GivenUp(Cause, String),
}

impl SearchEnd {
    /// Whether every target has its answer. A search that was skipped has not: another plan may go on with it.
    pub(super) fn is_final(&self) -> bool {
        match self {
            SearchEnd::Answered(answers) => answers.iter().all(|answer| answer.found != Found::Skipped),
            SearchEnd::GivenUp(..) => false,
        }
    }
}

/// Size of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Servers.
    pub servers: u64,
    /// Points.
    pub points: u64,
    /// Planned starts of each server.
    pub starts: u32,
    /// Runs of all points on all starts.
    pub runs: u64,
    /// Searches.
    pub searches: u64,
}

/// One server config that was used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerRecord {
    /// What it is.
    pub config: ServerDeclared,
    /// Its starts, oldest first.
    pub starts: Vec<StartRecord>,
    /// Whether a run's file says that it is the simulator, where no line does.
    pub(super) simulated: Option<bool>,
    /// Where it was declared last; `None` if no intact line does.
    pub(super) declared: Option<Place>,
}

impl ServerRecord {
    /// Whether it is the simulator; unknown if it never became ready.
    pub fn is_simulated(&self) -> Option<bool> {
        let ready = self.starts.iter().rfind(|start| start.ready_seconds.is_some());
        ready.map(|start| start.simulated).or(self.simulated)
    }
}

/// Everything that is declared of a config can be asked of its record.
impl std::ops::Deref for ServerRecord {
    type Target = ServerDeclared;

    fn deref(&self) -> &ServerDeclared {
        &self.config
    }
}

/// One start of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct StartRecord {
    /// Which one.
    pub launch: Launch,
    /// The planned start that it stands for, from 0.
    pub slot: u32,
    /// The GPUs that it was given, by their numbers, if any were.
    pub gpus: Vec<u32>,
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
    /// What tells it from another server.
    pub identity: Fingerprint,
    /// What became of the fixed questions; none if they were not asked.
    pub answers: Option<Box<AnswerCheck>>,
    /// When it was gone, RFC 3339.
    pub exited_at: Option<String>,
    /// How long ending it took, in seconds; none where that was not recorded.
    pub stop_seconds: Option<f64>,
    /// From its launch to its end by a clock that nobody sets, in seconds; none where that was not recorded.
    pub held_seconds: Option<f64>,
    /// Why it ended, unless vsweep stopped it.
    pub cause: Option<Cause>,
    /// What it said then.
    pub detail: String,
    pub(super) place: Place,
}

impl StartRecord {
    pub(super) fn new(launch: Launch, place: Place) -> StartRecord {
        StartRecord {
            launch,
            slot: 0,
            gpus: Vec::new(),
            started_at: String::new(),
            ready_seconds: None,
            simulated: false,
            model: String::new(),
            version: None,
            identity: Fingerprint::default(),
            answers: None,
            exited_at: None,
            stop_seconds: None,
            held_seconds: None,
            cause: None,
            detail: String::new(),
            place,
        }
    }
}

/// One stretch of work on the directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// When it began, RFC 3339.
    pub started_at: String,
    /// Name of the machine; empty in older records.
    pub host: String,
    /// Which boot of it.
    pub boot: String,
    /// Process id.
    pub pid: u32,
    /// When the process started, in clock ticks since the boot; 0 in older records.
    pub started: u64,
    /// What tells its machine from others; `None` in older records.
    pub machine: Option<Machine>,
    /// Whether it took up the plan that it found, as a worker does.
    pub joined: bool,
    /// Its plan; `None` in older records.
    pub plan: Option<RecordedPlan>,
    /// SHA-256 of the plan.
    pub plan_sha256: String,
    /// The comparison that the plan asks for.
    pub compare: Option<Compared>,
    /// How much slower servers may be beside others than alone, in percent; `None` where that is not measured.
    pub interference: Option<f64>,
    /// Size of the plan.
    pub planned: Planned,
    /// How it ended; `None` if it was killed, or is still running.
    pub ended: Option<String>,
    pub(in crate::journal) place: Place,
}

impl Session {
    /// Its name, which is that of its journal.
    pub fn nonce(&self) -> Nonce {
        self.place.line.journal
    }
}
