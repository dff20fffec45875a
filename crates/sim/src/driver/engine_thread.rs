//! One engine in real time, on a thread of its own, which alone owns it. The thread waits until each step ends, executes commands
//! meanwhile, and sends the tokens to their requests as soon as the step has ended.

use super::{EngineEvent, Shared, Submission, TimedFault};
use crate::driver::{SequenceTimes, monotonic_ms};
use crate::engine::stats::Stats;
use crate::engine::{Engine, Key};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// The request and the choice to which a sequence belongs.
struct Owner {
    /// Number of the request.
    number: u64,
    choice: u32,
    events: UnboundedSender<EngineEvent>,
    /// Times for the truth file, if there is one.
    times: Option<SequenceTimes>,
}

/// A command that the thread executes between two steps or during one.
type ThreadTask = Box<dyn FnOnce(&mut EngineThread) + Send>;

/// The handle of the thread for others.
pub(super) struct ThreadHandle {
    commands: Sender<ThreadTask>,
    /// Number of sequences that were handed over and are not finished.
    pub(super) unfinished: Arc<AtomicUsize>,
}

impl ThreadHandle {
    /// Sends a command to the thread. It is lost if the thread has ended.
    pub(super) fn send(&self, command: impl FnOnce(&mut EngineThread) + Send + 'static) {
        let _ = self.commands.send(Box::new(command));
    }
}

/// The state of the thread.
pub(super) struct EngineThread {
    pub(super) engine: Engine,
    commands: Receiver<ThreadTask>,
    /// Owners of the unfinished sequences.
    owners: BTreeMap<Key, Owner>,
    shared: Arc<Shared>,
    unfinished: Arc<AtomicUsize>,
    /// Time 0 of the engine.
    zero: Instant,
    paused: bool,
    /// Numbers of running and waiting requests at the beginning of a pause. vLLM updates its gauges in steps only, so a pause freezes them.
    frozen_counts: Option<(usize, usize)>,
    /// The event that answers all further requests; `None` while requests are accepted.
    ended: Option<EngineEvent>,
}

/// Longest delay of the thread that is made up for by shorter waits. After a longer delay, the next step begins late.
const MAX_CATCH_UP: Duration = Duration::from_millis(200);

impl EngineThread {
    /// Starts the thread of an engine.
    pub(super) fn start(engine: Engine, shared: Arc<Shared>) -> std::io::Result<ThreadHandle> {
        let (commands, received) = channel();
        let unfinished = Arc::<AtomicUsize>::default();
        let engine_thread = EngineThread {
            engine,
            commands: received,
            owners: BTreeMap::new(),
            shared,
            unfinished: unfinished.clone(),
            zero: Instant::now(),
            paused: false,
            frozen_counts: None,
            ended: None,
        };
        thread::Builder::new()
            .name("engine".into())
            .spawn(move || engine_thread.run())?;
        Ok(ThreadHandle { commands, unfinished })
    }

    /// Runs until every handle is gone.
    fn run(mut self) {
        self.trigger_fault();
        let mut free_at = Instant::now();
        loop {
            let Some(end) = self.begin_step(free_at) else {
                match self.commands.recv() {
                    Ok(command) => command(&mut self),
                    Err(_) => return,
                }
                continue;
            };
            free_at = end;
            if !self.execute_until(free_at) {
                return;
            }
            self.deliver(free_at);
            self.trigger_fault();
        }
    }

    /// Begins a step and returns the time of its end; `None` if a command must come first.
    fn begin_step(&mut self, free_at: Instant) -> Option<Instant> {
        if self.paused || self.shared.hung.load(Ordering::Relaxed) || !self.engine.is_busy() {
            return None;
        }
        // A step begins when the last one ended, even if this thread noticed that late, except after an idle time or a long delay.
        let now = Instant::now();
        let was_idle = self.engine.running() == 0;
        let start = match was_idle || now.saturating_duration_since(free_at) > MAX_CATCH_UP {
            true => now,
            false => free_at,
        };
        let seconds = self.engine.begin_step(self.seconds(start))?;
        Some(start + Duration::from_secs_f64(seconds))
    }

    fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.zero).as_secs_f64()
    }

    /// Executes commands until the step ends. Returns false if every handle is gone.
    fn execute_until(&mut self, end: Instant) -> bool {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.commands.recv_timeout(left) {
                Ok(command) => command(self),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= end => return true,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn deliver(&mut self, at: Instant) {
        let now = self.seconds(at);
        // Taken before the first token is sent, so that no client sees a token before its time in the truth file.
        let instant = monotonic_ms();
        let outputs = self.engine.end_step(now);
        for tokens in outputs.chunk_by(|one, next| one.key == next.key) {
            let (key, last) = (tokens[0].key, tokens[tokens.len() - 1].finished);
            let Some(owner) = self.owners.get_mut(&key) else {
                continue;
            };
            if last {
                // Before the last token is sent, so that a client that sends its next request at once finds the engine idle.
                self.unfinished.fetch_sub(1, Ordering::Relaxed);
            }
            let (choice, count) = (owner.choice, tokens.len() as u32);
            let _ = owner.events.send(EngineEvent::Tokens { choice, count, last });
            if let Some(times) = &mut owner.times {
                times.first_token_ms.get_or_insert(instant);
                times.token_ms.extend(std::iter::repeat_n(instant, tokens.len()));
            }
            if last
                && let Some(owner) = self.owners.remove(&key)
                && let Some((truth, times)) = self.shared.truth.as_ref().zip(owner.times)
            {
                truth.write(&times);
            }
        }
    }

    /// Statistics of the engine for `/metrics`.
    pub(super) fn stats(&mut self) -> Stats {
        let mut stats = self.engine.stats();
        if let Some(frozen) = self.frozen_counts {
            (stats.running, stats.waiting) = frozen;
        }
        stats
    }

    pub(super) fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
        let now = (self.engine.running(), self.engine.waiting());
        self.frozen_counts = paused.then(|| self.frozen_counts.unwrap_or(now));
    }

    /// Ends every request with this event, and answers later requests with it.
    pub(super) fn end(&mut self, event: EngineEvent) {
        self.ended = Some(event);
        self.abort(event, |_| true);
    }

    pub(super) fn submit(&mut self, submission: Submission) {
        let sequences = submission.sequences.len();
        if let Some(event) = self.ended {
            self.unfinished.fetch_sub(sequences, Ordering::Relaxed);
            let _ = submission.events.send(event);
            return;
        }
        self.shared.admitted.fetch_add(1, Ordering::Relaxed);
        let now = self.seconds(Instant::now());
        for (choice, request) in submission.sequences.into_iter().enumerate() {
            let times = self.shared.truth.as_ref().map(|_| SequenceTimes {
                request_id: submission.id.clone(),
                choice,
                arrival_ms: monotonic_ms(),
                first_token_ms: None,
                token_ms: Vec::with_capacity(request.output_len),
                prompt_tokens: request.prompt.len(),
                output_tokens: request.output_len,
            });
            let owner = Owner {
                number: submission.number,
                choice: choice as u32,
                events: submission.events.clone(),
                times,
            };
            let key = self.engine.add(now, request);
            self.owners.insert(key, owner);
        }
    }

    /// Removes the sequences of the requests whose numbers satisfy `is_meant`, and sends this event for each sequence.
    pub(super) fn abort(&mut self, event: EngineEvent, is_meant: impl Fn(u64) -> bool) {
        for (key, owner) in self.owners.extract_if(.., |_, owner| is_meant(owner.number)) {
            let _ = owner.events.send(event);
            if self.shared.hung.load(Ordering::Relaxed) {
                // A hung engine does not notice, and its last state remains in the metrics.
                continue;
            }
            self.unfinished.fetch_sub(1, Ordering::Relaxed);
            self.engine.abort(key);
        }
    }

    fn trigger_fault(&mut self) {
        let admitted = self.shared.admitted.load(Ordering::Relaxed);
        let mut pending_faults = self
            .shared
            .pending_faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (_, fault) in pending_faults.extract_if(.., |(after, _)| admitted >= *after) {
            // From now on the engine produces nothing. Otherwise a short load could succeed before the process learns of the fault.
            if fault != TimedFault::Mute {
                self.shared.hung.store(true, Ordering::Relaxed);
            }
            if fault != TimedFault::Hang {
                let _ = self.shared.due_faults.send(fault);
            }
        }
    }
}
