//! The running engines: they take commands, and send tokens to the requesters. Each replica (`data_parallel_size`) is a separate engine on
//! a thread of its own (`engine_thread`). A request goes to the engine that it names, or else to the engine with the fewest unfinished
//! sequences, similar to vLLM's balancer. This module does not know HTTP.

mod engine_thread;

use self::engine_thread::{EngineThread, ThreadHandle};
use super::engine::stats::Stats;
use super::engine::{Engine, SequenceRequest};
use futures_util::future::try_join_all;
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

/// An event of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineEvent {
    /// The next tokens of a choice: one, or several from a step with speculative decoding.
    Tokens {
        /// Index of the choice.
        choice: u32,
        /// Number of tokens.
        count: u32,
        /// True if they are the choice's last.
        last: bool,
    },
    /// The request was aborted: its client is gone, or the server is paused or stops.
    Aborted,
    /// The engine has died.
    EngineDead,
}

/// A request for the engine: one sequence for each choice.
pub struct Submission {
    /// Names the request in the truth file.
    pub id: String,
    /// Names the request in [`EngineHandle::abort`].
    pub number: u64,
    /// The sequences, in the order of the choices.
    pub sequences: Vec<SequenceRequest>,
    /// Index of the engine that the request names, if it names one.
    pub rank: Option<usize>,
    /// Channel to which its events are sent.
    pub events: UnboundedSender<EngineEvent>,
}

/// Effect on the process of a fault that occurs after some requests or some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimedFault {
    /// Die at once.
    Crash,
    /// Lose the engine.
    EngineDeath,
    /// Lose the engine and not notice.
    EngineLost,
    /// Lose the engine to a lack of memory.
    OutOfMemory,
    /// Stay and produce nothing.
    Hang,
    /// Accept connections and answer nothing.
    Mute,
}

/// State shared by the threads of all engines.
struct Shared {
    truth: Option<Truth>,
    /// Faults that have not occurred, each with the number of admitted requests after which it occurs.
    pending_faults: Mutex<Vec<(u64, TimedFault)>>,
    /// Channel for faults that occur now.
    due_faults: UnboundedSender<TimedFault>,
    /// Number of requests that the engines have accepted.
    admitted: AtomicU64,
    /// True once the engines hang.
    hung: AtomicBool,
}

/// The handle of all engines. Commands to an engine whose thread has ended are lost.
pub struct EngineHandle {
    threads: Vec<ThreadHandle>,
    shared: Arc<Shared>,
    /// Start of the search for the least busy engine, so that ties rotate.
    next: AtomicUsize,
}

impl EngineHandle {
    /// Starts a thread for each engine. Each of `pending_faults` is sent to `due_faults` once its number of requests was admitted.
    pub fn start(
        engines: Vec<Engine>,
        truth: Option<Truth>,
        pending_faults: Vec<(u64, TimedFault)>,
        due_faults: UnboundedSender<TimedFault>,
    ) -> std::io::Result<EngineHandle> {
        let shared = Arc::new(Shared {
            truth,
            pending_faults: Mutex::new(pending_faults),
            due_faults,
            admitted: AtomicU64::new(0),
            hung: AtomicBool::new(false),
        });
        let threads = engines
            .into_iter()
            .map(|engine| EngineThread::start(engine, shared.clone()));
        Ok(EngineHandle {
            threads: threads.collect::<std::io::Result<_>>()?,
            shared,
            next: AtomicUsize::new(0),
        })
    }

    /// Starts a request on the engine that it names, or else on the least busy one.
    pub fn submit(&self, submission: Submission) {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let indices = (0..self.threads.len()).map(|offset| (first + offset) % self.threads.len());
        let least_busy = indices.min_by_key(|index| self.threads[*index].unfinished.load(Ordering::Relaxed));
        if let Some(thread) = submission.rank.or(least_busy).map(|index| &self.threads[index]) {
            thread
                .unfinished
                .fetch_add(submission.sequences.len(), Ordering::Relaxed);
            thread.send(|thread| thread.submit(submission));
        }
    }

    /// Ends a request whose client is gone.
    pub fn abort(&self, number: u64) {
        self.send_to_all(move |thread| thread.abort(EngineEvent::Aborted, |other| other == number));
    }

    /// Ends every request.
    pub fn abort_all(&self) {
        self.send_to_all(|thread| thread.abort(EngineEvent::Aborted, |_| true));
    }

    /// Stops or resumes scheduling. Requests that come meanwhile wait, and start together.
    pub fn pause(&self, paused: bool) {
        self.send_to_all(move |thread| thread.set_paused(paused));
    }

    /// Makes the engines hang: they produce nothing more.
    pub fn hang(&self) {
        self.shared.hung.store(true, Ordering::Relaxed);
        // The threads check the flag before each step. The pause only freezes their gauges.
        self.pause(true);
    }

    /// Ends every request with this event, and answers later requests with it.
    pub fn end(&self, event: EngineEvent) {
        self.send_to_all(move |thread| thread.end(event));
    }

    /// Returns the state of every engine; `None` if the thread of one has ended.
    pub async fn inspect(&self) -> Option<Vec<Stats>> {
        self.ask(EngineThread::stats).await
    }

    /// Empties the prefix caches. Returns false if one of them could not be emptied.
    pub async fn reset_prefix_cache(&self) -> bool {
        let done = self.ask(|thread| thread.engine.reset_prefix_cache()).await;
        done.is_some_and(|done| done.into_iter().all(|done| done))
    }

    fn send_to_all(&self, command: impl FnOnce(&mut EngineThread) + Clone + Send + 'static) {
        self.threads.iter().for_each(|thread| thread.send(command.clone()));
    }

    async fn ask<T: Send + 'static>(&self, question: fn(&mut EngineThread) -> T) -> Option<Vec<T>> {
        let ask = |thread: &ThreadHandle| {
            let (answer, answered) = oneshot::channel();
            thread.send(move |thread| drop(answer.send(question(thread))));
            answered
        };
        try_join_all(self.threads.iter().map(ask)).await.ok()
    }
}

// The truth file: one JSON line with the times of each finished sequence, to compare with the figures of a load generator. Times are
// milliseconds of CLOCK_MONOTONIC, which all processes of a machine share.

/// Times and lengths of one sequence: a line of the truth file.
#[derive(Serialize)]
pub(super) struct SequenceTimes {
    pub request_id: String,
    pub choice: usize,
    /// Time at which it entered the engine's queue.
    pub arrival_ms: f64,
    pub first_token_ms: Option<f64>,
    /// Time at which each token was sent to its request.
    pub token_ms: Vec<f64>,
    pub prompt_tokens: usize,
    pub output_tokens: usize,
}

/// The open truth file.
pub struct Truth(Mutex<File>);

/// Returns the time by CLOCK_MONOTONIC, in milliseconds.
pub(super) fn monotonic_ms() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the clock exists on Linux");
    now.tv_sec() as f64 * 1e3 + now.tv_nsec() as f64 / 1e6
}

impl Truth {
    /// Creates the file.
    pub fn create(path: &Path) -> std::io::Result<Truth> {
        Ok(Truth(File::create(path)?.into()))
    }

    /// Writes the line of a sequence that has all its tokens.
    pub(super) fn write(&self, sequence: &SequenceTimes) {
        let line = serde_json::to_string(sequence).expect("numbers and a text") + "\n";
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not stop the server; the file then lacks the line.
        let _ = file.write_all(line.as_bytes());
    }
}
