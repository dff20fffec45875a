//! The messages between an agenda and its stage: actions and their outcomes.

use super::task::Task;
use std::collections::BTreeMap;
use vsweep_base::cause::Failure;
use vsweep_base::validity::Doubt;
use vsweep_plan::Warmup;
use vsweep_record::journal::{BenchmarkResult, Event, Launch, NeighbourShares, RunEvidence, RunFiles, ServerReady};

/// The next step on a server.
#[derive(Debug)]
pub enum Step {
    /// Write this event to the journal. The figures of a measured run are written first, because the event names their file and its
    /// checksum. No other step may be asked for before the event is on disk.
    Record(Box<Event>, Option<Box<BenchmarkResult>>),
    /// Show a note to the user.
    Note(String),
    /// Perform this action, and hand its outcome to the agenda.
    Act(Action),
    /// Everything is done and the server is gone.
    Done(Ending),
}

/// An action on the server.
#[derive(Debug)]
pub enum Action {
    /// Wait for the permit to start the server.
    Await,
    /// Launch it, or connect to it, and wait until it is ready.
    Start(Launch),
    /// Check that it is still the server that was started. Asked only of a server that somebody else runs.
    Check,
    /// Empty its caches.
    Reset,
    /// Measure a run on it.
    Run(Box<Run>),
    /// End it in an orderly way. A server that was only attached to keeps running.
    Stop,
    /// End it at once.
    Kill,
}

/// A run that is about to be measured.
#[derive(Debug)]
pub struct Run {
    /// The run to measure.
    pub task: Task,
    /// Names of its files.
    pub files: RunFiles,
    /// Requests before the measured ones.
    pub warmup: Warmup,
    /// True if the server has served this load, or a higher one, since it started.
    pub is_warm: bool,
}

/// The outcome of an action.
#[derive(Debug)]
pub enum ActionOutcome {
    /// After a wait: the server may start.
    Permitted,
    /// After a start: the properties of the ready server, or the reason why it is not ready. In both cases it must still be stopped.
    Started(Result<ReadyInfo, Failure>),
    /// After a check: the server is still the one that was started.
    Unchanged,
    /// After a start, a check or a run: the server that answers is not the one that was measured. Holds the reason, as a sentence.
    Replaced(String),
    /// After a check or a run: the server was restarted meanwhile, so the run's figures belong to neither launch.
    Disturbed,
    /// After a reset.
    Reset {
        /// The error is the server's refusal, as a sentence.
        result: Result<(), String>,
        /// Time that it took, in seconds.
        seconds: f64,
    },
    /// After a run.
    Ran {
        /// The figures, or why there are none.
        result: Result<Box<MeasuredRun>, Failure>,
        /// Time from start to end without the warm-up, in seconds.
        seconds: f64,
    },
    /// The server died during a run. It must still be stopped, which ends the rest of its process tree.
    Died {
        /// The reason.
        failure: Failure,
        /// Time that the run had taken, in seconds.
        seconds: f64,
    },
    /// After a stop or a kill: the server is gone, or was let go.
    Stopped {
        /// Time that it took, in seconds.
        seconds: f64,
        /// Lifetime of the server, from the beginning of its start, in seconds; `None` if it was not measured.
        held_seconds: Option<f64>,
    },
    /// The action was given up because [`Agenda::signal`](super::Agenda::signal) returned true.
    Abandoned,
}

/// Properties of a ready server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadyInfo {
    /// Its event, to which the agenda adds the ids of the server and the launch.
    pub recorded: ServerReady,
    /// Size of its KV cache, in tokens.
    pub kv_tokens: Option<u64>,
}

/// Measurements of a run.
#[derive(Debug, Default)]
pub struct MeasuredRun {
    /// Relative sampling errors of its figures.
    pub errors: BTreeMap<String, f64>,
    /// Reason why the run failed although it has figures, if it did.
    pub failure: Option<Failure>,
    /// Doubts about the figures.
    pub doubts: Vec<Doubt>,
    /// Reason why the run was ended before its last request, if it was.
    pub cut: Option<String>,
    /// Activity of other servers on the machine during the run, if servers run at the same time.
    pub neighbours: Option<NeighbourShares>,
    /// Time that its warm-up took, in seconds, if it had one.
    pub warmup_seconds: Option<f64>,
    /// Figures that later decisions use, if any.
    pub learned: Option<RunEvidence>,
    /// The figures to keep, if any.
    pub measured: Option<BenchmarkResult>,
}

/// A request of the user or the system to end the sweep. In ascending order of urgency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Finish the run that is under way, then end.
    Drain,
    /// Give up the run that is under way, and end.
    Interrupt,
    /// End at once; the server is killed.
    Kill,
}

/// End of the work on one server or of a whole sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Everything was recorded before; nothing was started.
    NothingLeft,
    /// Everything is done.
    Finished,
    /// The user asked to stop; the rest is still to do.
    Interrupted,
    /// A run failed, and the plan has `on_failure = "stop"`.
    StoppedOnFailure,
    /// The plan's `max_time` is spent; the rest is still to do.
    OutOfTime,
    /// Another session began with another plan, which counts from then on.
    Superseded,
}

impl Ending {
    /// The reason as the journal writes it.
    pub fn reason(self) -> &'static str {
        match self {
            Ending::NothingLeft | Ending::Finished => "finished",
            Ending::Interrupted => "interrupted",
            Ending::StoppedOnFailure => "stopped",
            Ending::OutOfTime => "out_of_time",
            Ending::Superseded => "superseded",
        }
    }
}
