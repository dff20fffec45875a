//! What an agenda asks for, and what it is told: the words between the rules and whoever acts on a server.

use super::task::Task;
use vsweep_plan::cause::Failure;
use vsweep_plan::fingerprint::Fingerprint;
use vsweep_plan::plan::Warmup;
use vsweep_plan::validity::Doubt;
use vsweep_record::journal::{Beside, Entry, Event, Launch, Learned, Measured, RunFinished};
use vsweep_strategy::checks::AnswerCheck;

/// What comes next on a server.
#[derive(Debug)]
pub enum Step {
    /// Write this event. No other step may be asked for before it is on disk.
    Record(Box<Event>),
    /// Write a run's figures and the event that vouches for them.
    Commit(Box<Commit>),
    /// Tell the user.
    Note(String),
    /// Do this, and settle its outcome.
    Act(Action),
    /// Nothing is left; the server is gone.
    Done(Ending),
}

/// A measured run, ready to be written.
#[derive(Debug)]
pub struct Commit {
    /// Its `run_started`.
    pub started: Entry,
    /// What came of it; the writer adds the file.
    pub finished: RunFinished,
    /// The content of the file.
    pub measured: Measured,
}

/// What is to be done with the server.
#[derive(Debug)]
pub enum Action {
    /// Launch it, or connect to it, and wait until it is ready.
    Start(Launch),
    /// Look whether it is still the server that was started; of one that somebody else runs.
    Look,
    /// Empty its caches.
    Reset,
    /// Measure a run on it.
    Run(Box<Run>),
    /// Measure a run once more, to learn how much servers that run side by side slow each other down.
    Check(Box<Check>),
    /// End it in order; of one that was attached to, let go.
    Stop,
    /// End it at once.
    Kill,
}

/// A run that is about to be measured.
#[derive(Debug)]
pub struct Run {
    /// What is to be measured.
    pub task: Task,
    /// Its `run_started`, which names its files.
    pub started: Entry,
    /// Unmeasured requests before.
    pub warmup: Warmup,
    /// Whether the server has held this load since it started.
    pub is_warm: bool,
}

/// A run that is repeated to be held against itself, alone and beside others. It has no files of its own.
#[derive(Debug)]
pub struct Check {
    /// The run. Its `started` is that of the run that it repeats.
    pub run: Run,
    /// Whether the others wait meanwhile.
    pub is_alone: bool,
}

/// What came of an action.
#[derive(Debug)]
pub enum Outcome {
    /// Of a start: what the ready server says of itself, or why it is not ready. It is still to be stopped then.
    Started(Result<Facts, Failure>),
    /// Of a look: the same server answers; whether it was started again meanwhile.
    Looked {
        /// That.
        is_restarted: bool,
    },
    /// Of a start, a look or a run: another server answers than the one that was measured. Why, as a sentence.
    Replaced(String),
    /// Of a run: the same server was started again meanwhile, so the figures are of neither start.
    Disturbed,
    /// Of a reset.
    Reset {
        /// What the server refused, as a sentence.
        result: Result<(), String>,
        /// How long it took, in seconds.
        seconds: f64,
    },
    /// Of a run.
    Ran {
        /// The figures, or why there are none.
        result: Result<Box<Ran>, Failure>,
        /// From start to end without the warm-up, in seconds.
        seconds: f64,
    },
    /// Of a check: what was measured.
    Checked {
        /// The mean latency; none if it failed.
        latency_ms: Option<f64>,
        /// What went on beside it.
        beside: Beside,
        /// From start to end without the warm-up, in seconds.
        seconds: f64,
    },
    /// Of a check: it was not done, since meanwhile enough is known or a server starts.
    Needless,
    /// The server died during a run. It is still to be stopped.
    Died {
        /// Why.
        failure: Failure,
        /// How long the run had taken, in seconds.
        seconds: f64,
    },
    /// Of a stop or a kill: the server is gone.
    Stopped {
        /// How long that took, in seconds.
        seconds: f64,
        /// How long it was there, from the beginning of its start, in seconds; none where that was not measured.
        held_seconds: Option<f64>,
    },
    /// The action was given up, as [`Agenda::signal`](super::Agenda::signal) demanded.
    Abandoned,
}

/// What a ready server says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// From launch to ready, in seconds.
    pub seconds: f64,
    /// Name of the model that it serves.
    pub model: String,
    /// Its version.
    pub version: Option<String>,
    /// Whether it is the simulator.
    pub simulated: bool,
    /// Size of its KV cache, in tokens.
    pub kv_tokens: Option<u64>,
    /// What tells it from another one, if somebody else runs it.
    pub identity: Option<Box<Fingerprint>>,
    /// What became of the fixed questions; none if they were not asked.
    pub answers: Option<Box<AnswerCheck>>,
}

/// What a run measured.
#[derive(Debug, Default)]
pub struct Ran {
    /// Why the figures mean nothing, if so.
    pub failure: Option<Failure>,
    /// Why they may not be believed.
    pub doubts: Vec<Doubt>,
    /// Why the run was ended before its last request, if it was.
    pub cut: Option<String>,
    /// What went on beside it, where servers run side by side.
    pub beside: Option<Beside>,
    /// How long its warm-up took, in seconds, if it had one.
    pub warmup_seconds: Option<f64>,
    /// What it says to the search that asked for it.
    pub learned: Option<Learned>,
    /// The figures; `None` if there are none to be kept.
    pub measured: Option<Measured>,
}

/// What whoever runs a sweep wants of it, the least urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Finish the run that is under way, then end.
    Drain,
    /// Give up the run that is under way, and end.
    Interrupt,
    /// End at once; the server is killed.
    Kill,
}

/// How work ended, on one server or in a whole sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Everything was recorded before; nothing was started.
    NothingLeft,
    /// Nothing is left to do.
    Finished,
    /// The user asked to stop; the rest is still to do.
    Interrupted,
    /// A run failed and the plan says to stop then.
    StoppedOnFailure,
    /// Another session began with another plan, which counts from then on.
    Superseded,
}

impl Ending {
    /// The word in the journal.
    pub fn reason(self) -> &'static str {
        match self {
            Ending::NothingLeft | Ending::Finished => "finished",
            Ending::Interrupted => "interrupted",
            Ending::StoppedOnFailure => "stopped",
            Ending::Superseded => "superseded",
        }
    }
}
