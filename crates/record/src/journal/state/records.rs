//! What is known of one run, search, server, launch and session.

use super::FIRST_SLOT;
use crate::journal::declared::ServerDeclared;
use crate::journal::directory::RunFiles;
use crate::journal::event::{Figures, Learned, RunFinished, SearchStarted, Seen, SessionStarted};
use crate::journal::line::Entry;
use crate::journal::machine::SENTINEL_SLOT;
use crate::journal::place::{Launch, LineId, Nonce, Place};
use crate::journal::recorded_plan::RecordedPlan;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use vsweep_plan::cause::Cause;
use vsweep_plan::fingerprint::Fingerprint;
use vsweep_plan::ids::{PointId, SearchId, ServerId};
use vsweep_plan::plan::Params;
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
    /// Whether it was tried. One that was not failed for what happened to another.
    pub tried: bool,
    /// The search that asked for it.
    pub search: Option<SearchId>,
    /// The line that began it, or that gave it up; its files are named by it.
    pub started: LineId,
    /// When it ended, RFC 3339; for people only.
    pub finished_at: String,
    pub(super) result: RunFinished,
}

/// What came of it can be asked of its record.
impl Deref for RunRecord {
    type Target = RunFinished;

    fn deref(&self) -> &RunFinished {
        &self.result
    }
}

impl RunRecord {
    /// What its files are called.
    pub fn files(&self) -> RunFiles {
        match self.started.journal {
            Nonce::SEALED => RunFiles::of_1_x(&self.point, self.run),
            _ => RunFiles::of(&self.point, self.slot, self.run, self.started),
        }
    }

    /// Its number among the runs of its point: `2`, on a later start than the first `1.2`.
    pub fn number(&self) -> String {
        number(self.slot, self.run)
    }

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

    /// The figures that decide how often its point is measured, where they do.
    pub fn figures(&self) -> &Figures {
        static NONE: Figures = Figures::new();
        match &self.learned {
            Some(Learned::Figures(figures)) => figures,
            _ => &NONE,
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
    /// Their attempts, in their order.
    pub(super) probes: Vec<usize>,
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
impl Deref for ServerRecord {
    type Target = ServerDeclared;

    fn deref(&self) -> &ServerDeclared {
        &self.config
    }
}

/// One start of a server.
#[derive(Debug, Clone, Default, PartialEq)]
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

/// One stretch of work on the directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// When it began, RFC 3339.
    pub started_at: String,
    /// How it ended; `None` if it was killed, or is still running.
    pub ended: Option<String>,
    pub(in crate::journal) place: Place,
    pub(in crate::journal) said: SessionStarted,
}

/// What it said when it began can be asked of its record. Of older records hardly anything is known.
impl Deref for Session {
    type Target = SessionStarted;

    fn deref(&self) -> &SessionStarted {
        &self.said
    }
}

impl Session {
    /// Its name, which is that of its journal.
    pub fn nonce(&self) -> Nonce {
        self.place.line.journal
    }

    /// Its plan; `None` in older records.
    pub fn recorded_plan(&self) -> Option<&RecordedPlan> {
        (self.nonce() != Nonce::SEALED).then_some(&self.plan)
    }
}

/// Everything that vsweep 1.x left in a directory.
#[derive(Debug, Clone, Default)]
pub struct Sealed {
    /// As lines of today, all of one session.
    pub(in crate::journal) entries: Vec<Entry>,
    pub(in crate::journal) sessions: Vec<Session>,
    /// Recorded points that were no longer in the plan.
    pub(in crate::journal) dropped: BTreeSet<PointId>,
    /// Searches of the plan.
    pub(in crate::journal) searches: BTreeSet<SearchId>,
    pub(in crate::journal) damage: Vec<String>,
    /// The journals as they are.
    pub(in crate::journal) seen: Seen,
}
