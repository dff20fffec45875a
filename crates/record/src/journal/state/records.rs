//! Records of one run, search, server, launch and session.

use super::{ALONE_SLOT, FIRST_SLOT};
use crate::journal::declared::ServerDescription;
use crate::journal::directory::RunFiles;
use crate::journal::event::{
    RunEvidence, RunFinished, RunStarted, SearchStarted, ServerExited, ServerReady, SessionStarted,
};
use crate::journal::figures::Figures;
use crate::journal::rank::{Launch, LineId, Nonce, Rank};
use std::ops::Deref;
use std::sync::Arc;
use vsweep_base::cause::{Failure, Outcome, RuledOut};
use vsweep_base::fingerprint::Fingerprint;
use vsweep_base::ids::{PointId, SearchId, ServerId};
use vsweep_base::validity::Validity;
use vsweep_plan::Params;
use vsweep_strategy::checks::AnswerCheck;
use vsweep_strategy::search::{Answer, ExplorationRun, Found, Probe};

/// One try at a run and its result, or a run that was given up untried.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunRecord {
    /// The point.
    pub point: PointId,
    /// The server config it belongs to.
    pub server: ServerId,
    /// The planned start of the server that it belongs to, from 0.
    pub slot: u32,
    /// Number of the repetition, from 0.
    pub run: u32,
    /// The launch on which the run was measured; intervals group runs by launch. `None` if no launch was ready.
    pub launch: Option<Launch>,
    /// Short text of the point for people.
    pub name: Arc<str>,
    /// Every bench parameter.
    pub params: Arc<Params>,
    /// Name of the load's combination, if the plan names one.
    pub combo: Option<Arc<str>>,
    /// True if the run was tried. An untried run failed because another run failed.
    pub tried: bool,
    /// The comparison with another server, if the run's server was not started because the other one ran out of memory.
    pub ruled_out: Option<Arc<RuledOut>>,
    /// The search that asked for it.
    pub search: Option<SearchId>,
    /// Rank of the line that began it, or that gave it up. Its files are named after that line.
    pub rank: Rank,
    /// Time of its end, RFC 3339; for people only.
    pub finished_at: String,
    /// The result, boxed so that the growing list of runs moves less memory.
    pub(super) result: Box<RunFinished>,
    /// Outcome and validity as recorded, before doubts about the server's answers.
    pub(super) as_recorded: (Outcome, Validity),
    pub(super) status: RunStatus,
    /// The line of its result, or the line that gave it up; `None` if only the run's file has the result.
    pub(super) finished: Option<LineId>,
    /// Its position among the runs that one line gave up.
    pub(super) index: u32,
    /// The line that it follows in the chain of a search.
    pub(super) after: Option<LineId>,
    /// Number of the line of its journal that retired earlier results on its server.
    pub(super) anew: Option<u64>,
}

/// Status of an attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum RunStatus {
    /// It has no result: it was interrupted, or is in progress.
    #[default]
    Open,
    /// It has a result.
    Done,
    /// It had a result, but the file is missing or differs from the record.
    Lost,
}

/// Gives access to the fields of its result.
impl Deref for RunRecord {
    type Target = RunFinished;

    fn deref(&self) -> &RunFinished {
        &self.result
    }
}

impl RunRecord {
    /// Returns true if a rehearsal or a forecast imagined it.
    pub fn is_imagined(&self) -> bool {
        self.rank.line.journal == Nonce::IMAGINED
    }

    /// Returns a run without a result, as the line of this rank begins it.
    pub(super) fn begun(rank: Rank, started: RunStarted) -> RunRecord {
        let session = rank.line.journal;
        let result = RunFinished {
            outcome: Outcome::Failed,
            ..RunFinished::default()
        };
        RunRecord {
            point: started.point,
            server: started.server,
            slot: started.slot,
            run: started.run,
            launch: Some(started.launch).filter(|n| *n > 0).map(|n| Launch { session, n }),
            name: started.name.into(),
            params: Arc::new(started.params),
            combo: started.combo.map(Arc::from),
            tried: true,
            after: started.search.as_ref().map(|link| link.after),
            search: started.search.map(|link| link.id),
            rank,
            as_recorded: (result.outcome, result.validity),
            result: Box::new(result),
            anew: started.anew,
            ..RunRecord::default()
        }
    }

    /// Shares the memory of equal texts and parameters with another run.
    pub(super) fn share(&mut self, other: &RunRecord) {
        fn share(own: &mut Arc<str>, other: &Arc<str>) {
            if own == other {
                *own = Arc::clone(other);
            }
        }
        share(&mut self.point.0, &other.point.0);
        share(&mut self.server.0, &other.server.0);
        share(&mut self.name, &other.name);
        if let (Some(own), Some(other)) = (&mut self.combo, &other.combo) {
            share(own, other);
        }
        if let (Some(own), Some(other)) = (&mut self.search, &other.search) {
            share(&mut own.0, &other.0);
        }
        // Parameters of one plan are in the same order, so they are compared without a look-up of each.
        if self.params.iter().eq(other.params.iter()) {
            self.params = Arc::clone(&other.params);
        }
    }

    /// Returns true if its file is missing or differs from the record, as far as that was checked.
    pub fn is_lost(&self) -> bool {
        self.status == RunStatus::Lost
    }

    /// Returns true if it was given up with others after a failure of their server.
    pub(in crate::journal) fn is_given_up(&self) -> bool {
        self.finished == Some(self.rank.line)
    }

    /// Returns true if it has a result of its own, instead of being given up with others.
    pub(super) fn is_result(&self) -> bool {
        self.status != RunStatus::Open && !self.is_given_up()
    }

    /// Returns its position in the total order of all runs.
    pub(super) fn order(&self) -> (Rank, u32) {
        (self.rank, self.index)
    }

    /// Returns the names of its files.
    pub fn files(&self) -> RunFiles {
        RunFiles::of(&self.point, self.slot, self.run, self.rank.line)
    }

    /// Returns its number among the runs of its point, as [`number`] writes it.
    pub fn number(&self) -> String {
        number(self.slot, self.run)
    }

    /// Returns the line after which its result is known.
    pub(super) fn known(&self) -> LineId {
        self.finished.unwrap_or(self.rank.line)
    }

    /// Returns true if something other than the server and its load influenced it.
    pub fn is_disturbed(&self) -> bool {
        self.doubts.iter().any(|doubt| doubt.code.is_disturbance())
    }

    /// Returns true if it failed without being tried, because the failure of another run implied its own.
    pub fn is_skipped(&self) -> bool {
        self.outcome == Outcome::Failed && !self.tried
    }

    /// Returns the seconds of the run with its preparation on the server: the warm-up and the reset.
    pub fn seconds_with_preparation(&self) -> f64 {
        self.seconds + self.warmup_seconds.unwrap_or(0.0) + self.reset_seconds.unwrap_or(0.0)
    }

    /// Returns the question and the readings, if a search asked and the run has readings.
    pub fn probe(&self) -> Option<&Probe> {
        match &self.learned {
            Some(RunEvidence::Probe(probe)) => Some(probe),
            _ => None,
        }
    }

    /// Returns the load and the figures, if an exploration asked.
    pub fn level(&self) -> Option<&ExplorationRun> {
        match &self.learned {
            Some(RunEvidence::Level(level)) => Some(level),
            _ => None,
        }
    }

    /// Returns the figures by which decisions judge it.
    pub fn figures(&self) -> Figures {
        match &self.learned {
            Some(RunEvidence::Figures(figures)) => figures.clone(),
            Some(RunEvidence::Probe(probe)) => {
                let throughput = probe.throughput.map(|value| ("output_throughput".to_owned(), value));
                Figures::from_iter(throughput)
            }
            _ => Figures::default(),
        }
    }
}

/// Returns the number of a run among those of its point: `2` on the first planned start, `1.2` on the next, `alone.2` on the start without
/// neighbours.
pub fn number(slot: u32, run: u32) -> String {
    match slot {
        FIRST_SLOT => run.to_string(),
        ALONE_SLOT => format!("alone.{run}"),
        slot => format!("{slot}.{run}"),
    }
}

/// One search, with the chain of probes that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRecord {
    /// Its definition.
    pub started: SearchStarted,
    /// Its end, if it has ended.
    pub ended: Option<SearchEnd>,
    /// The line that the next probe must refer to: that of the last probe, or the search's beginning.
    pub tip: LineId,
    /// Indices of the attempts of its probes, in order.
    pub(super) probes: Vec<usize>,
}

impl SearchRecord {
    /// Returns one answer for each target; empty unless it has ended with answers.
    pub fn answers(&self) -> &[Answer] {
        match &self.ended {
            Some(SearchEnd::Answered(answers)) => answers,
            _ => &[],
        }
    }

    /// Returns the answer for a target.
    pub fn answer(&self, target: &str) -> Option<&Answer> {
        self.answers().iter().find(|answer| answer.target == target)
    }

    /// Returns the number of its probes.
    pub fn steps(&self) -> u32 {
        self.probes.len() as u32
    }
}

/// End of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchEnd {
    /// It ended with an answer for each target.
    Answered(Vec<Answer>),
    /// It was given up.
    GivenUp(Failure),
}

impl SearchEnd {
    /// Returns true if every target has its answer. A skipped search is not final: another plan may continue it.
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
    /// Its description.
    pub config: ServerDescription,
    /// Its launches, oldest first.
    pub launches: Vec<LaunchRecord>,
    /// True if the server is the simulator, as the file of a run says; `None` unless that file was read in place of a lost line.
    pub(super) simulated: Option<bool>,
    /// Rank of its last declaration; `None` if neither an intact line nor a run file that was read in its place has one.
    pub(super) declared: Option<Rank>,
}

impl ServerRecord {
    /// Returns true if it is the simulator; `None` if that is unknown, because it never became ready.
    pub fn is_simulated(&self) -> Option<bool> {
        self.ready().last().map(|ready| ready.simulated).or(self.simulated)
    }

    /// Returns the events of its launches that became ready, oldest first.
    pub fn ready(&self) -> impl Iterator<Item = &ServerReady> {
        self.launches.iter().filter_map(|launched| launched.ready.as_deref())
    }

    /// Returns true if one of its launches became ready.
    pub fn was_ready(&self) -> bool {
        self.ready().next().is_some()
    }
}

/// Gives access to the fields of its declaration.
impl Deref for ServerRecord {
    type Target = ServerDescription;

    fn deref(&self) -> &ServerDescription {
        &self.config
    }
}

/// One launch of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LaunchRecord {
    /// The launch.
    pub launch: Launch,
    /// The planned start, from 0.
    pub slot: u32,
    /// Numbers of the GPUs that it was given; may be empty.
    pub gpus: Vec<u32>,
    /// Time of the launch, RFC 3339.
    pub started_at: String,
    /// Time at which it became ready, RFC 3339.
    pub ready_at: Option<String>,
    /// Its event when it became ready, if it did. The event's `identity` is always set.
    pub ready: Option<Box<ServerReady>>,
    /// Time of its end, RFC 3339.
    pub exited_at: Option<String>,
    /// Its end; the default while `exited_at` is `None`.
    pub exit: ServerExited,
    pub(super) rank: Rank,
}

impl LaunchRecord {
    /// Returns the time from launch to ready, in seconds, if it became ready.
    pub fn ready_seconds(&self) -> Option<f64> {
        self.ready.as_ref().map(|ready| ready.seconds)
    }

    /// Returns the properties that distinguish it from other servers, if it became ready.
    pub fn identity(&self) -> Option<&Fingerprint> {
        self.ready.as_ref()?.identity.as_deref()
    }

    /// Returns the result of the fixed questions; `None` if they were not asked.
    pub fn answers(&self) -> Option<&AnswerCheck> {
        self.ready.as_ref()?.answers.as_deref()
    }
}

/// One period of work on the directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Time of its beginning, RFC 3339.
    pub started_at: String,
    /// Reason for its end; `None` if it was killed, or is still running.
    pub ended: Option<String>,
    pub(in crate::journal) rank: Rank,
    pub(in crate::journal) beginning: SessionStarted,
}

/// Gives access to the fields of its beginning.
impl Deref for Session {
    type Target = SessionStarted;

    fn deref(&self) -> &SessionStarted {
        &self.beginning
    }
}

impl Session {
    /// Returns its name, which is that of its journal.
    pub fn nonce(&self) -> Nonce {
        self.rank.line.journal
    }
}
