//! One engine in real time, on a thread of its own: takes commands at any moment, sleeps out every step, and hands each
//! token to its request the moment the step ends. It alone owns the engine.

use super::{EngineCommand, EngineEvent, Shared, Snapshot, Strike, Submission};
use crate::sim::engine::{Engine, Key, Output};
use crate::sim::truth::{self, Truth};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// One request: its sequences have consecutive keys, one for each choice.
struct Client {
    events: UnboundedSender<EngineEvent>,
    first: Key,
    sequences: usize,
    unfinished: usize,
}

/// A thread's state.
pub(super) struct Lane {
    number: usize,
    engine: Engine,
    commands: Receiver<EngineCommand>,
    clients: HashMap<String, Client>,
    /// Request and choice of each sequence.
    owners: HashMap<Key, (String, u32, UnboundedSender<EngineEvent>)>,
    shared: Arc<Shared>,
    unfinished: Arc<AtomicUsize>,
    zero: Instant,
    paused: bool,
    /// Requests that ran and waited at the last step before a pause: vLLM's gauges move with its steps.
    shown: Option<(usize, usize)>,
    ended: Option<EngineEvent>,
}

/// Longest backlog of simulated time that is made up for by hurrying; a machine that stalled longer just lost time.
const MAKE_UP: Duration = Duration::from_millis(200);

impl Lane {
    pub(super) fn new(
        number: usize,
        engine: Engine,
        commands: Receiver<EngineCommand>,
        shared: Arc<Shared>,
        unfinished: Arc<AtomicUsize>,
    ) -> Lane {
        Lane {
            number,
            engine,
            commands,
            clients: HashMap::new(),
            owners: HashMap::new(),
            shared,
            unfinished,
            zero: Instant::now(),
            paused: false,
            shown: None,
            ended: None,
        }
    }

    /// Until every handle is gone.
    pub(super) fn run(mut self) {
        self.spring_ambush();
        let mut free_at = Instant::now();
        loop {
            let hung = self.shared.hung.load(Ordering::Relaxed);
            let able = self.engine.is_busy() && !self.paused && !hung;
            if !able {
                match self.commands.recv() {
                    Ok(command) => self.obey(command),
                    Err(_) => return,
                }
                continue;
            }
            // The next step begins when the last one ended, even if this thread was late to notice.
            let now = Instant::now();
            let start = if now.saturating_duration_since(free_at) > MAKE_UP || self.fresh() {
                now
            } else {
                free_at
            };
            let Some(seconds) = self.engine.begin_step(self.seconds(start)) else {
                // Everything runs out of blocks only if nothing runs; a command must change that.
                match self.commands.recv() {
                    Ok(command) => self.obey(command),
                    Err(_) => return,
                }
                continue;
            };
            free_at = start + Duration::from_secs_f64(seconds);
            if !self.obey_until(free_at) {
                return;
            }
            self.deliver(free_at);
            self.spring_ambush();
        }
    }

    /// Whether the coming step is the first after an idle time.
    fn fresh(&self) -> bool {
        self.engine.running() == 0
    }

    fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.zero).as_secs_f64()
    }

    /// Obeys commands until the step ends; false when nobody can send any more.
    fn obey_until(&mut self, end: Instant) -> bool {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let command = match left.is_zero() {
                true => self.commands.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                }),
                false => self.commands.recv_timeout(left),
            };
            match command {
                Ok(command) => self.obey(command),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= end => return true,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn deliver(&mut self, at: Instant) {
        let now = self.seconds(at);
        // Taken before the first token goes out: no client can see a token earlier than the truth says.
        let instant = self.shared.truth.is_some().then(truth::monotonic_ms);
        let outputs = self.engine.end_step(now);
        let mut truth = lock(&self.shared);
        let mut finished = Vec::new();
        for tokens in outputs.chunk_by(|one, next| one.key == next.key) {
            let [
                ..,
                Output {
                    key, finished: last, ..
                },
            ] = *tokens
            else {
                continue;
            };
            let Some((_, choice, events)) = self.owners.get(&key) else {
                continue;
            };
            let (choice, count) = (*choice, tokens.len() as u32);
            if last {
                // Before anybody hears of the end: who asks again at once finds the engine idle.
                self.unfinished.fetch_sub(1, Ordering::Relaxed);
            }
            let _ = events.send(EngineEvent::Tokens { choice, count, last });
            if let (Some(truth), Some(instant)) = (&mut truth, instant) {
                truth.tokens((self.number, key), instant, tokens.len(), last);
            }
            if last {
                finished.push(key);
            }
        }
        drop(truth);
        finished.into_iter().for_each(|key| self.finish(key));
    }

    fn finish(&mut self, key: Key) {
        let Some((id, ..)) = self.owners.remove(&key) else {
            return;
        };
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.unfinished -= 1;
        if client.unfinished == 0 {
            self.clients.remove(&id);
        }
    }

    fn obey(&mut self, command: EngineCommand) {
        match command {
            EngineCommand::Submit(submission) => self.submit(submission),
            EngineCommand::Abort(id) => self.abort(&id),
            EngineCommand::Inspect(answer) => {
                let now = (self.engine.running(), self.engine.waiting());
                let (running, waiting) = self.shown.unwrap_or(now);
                let _ = answer.send(Snapshot {
                    stats: self.engine.stats().clone(),
                    running,
                    waiting,
                    kv_usage: self.engine.kv_usage(),
                });
            }
            EngineCommand::ResetPrefixCache(answer) => {
                let _ = answer.send(self.engine.reset_prefix_cache());
            }
            EngineCommand::Pause(paused) => {
                self.paused = paused;
                let now = (self.engine.running(), self.engine.waiting());
                self.shown = paused.then(|| self.shown.unwrap_or(now));
            }
            EngineCommand::AbortAll => self.end_all(EngineEvent::Aborted),
            EngineCommand::End(event) => {
                self.ended = Some(event);
                self.end_all(event);
            }
        }
    }

    fn end_all(&mut self, event: EngineEvent) {
        let ids: Vec<String> = self.clients.keys().cloned().collect();
        for id in ids {
            if let Some(client) = self.clients.get(&id) {
                let _ = client.events.send(event);
            }
            self.abort(&id);
        }
    }

    fn submit(&mut self, submission: Submission) {
        let sequences = submission.sequences.len();
        if let Some(event) = self.ended {
            self.unfinished.fetch_sub(sequences, Ordering::Relaxed);
            let _ = submission.events.send(event);
            return;
        }
        self.shared.admitted.fetch_add(1, Ordering::Relaxed);
        let now = self.seconds(Instant::now());
        let mut first = None;
        for (choice, request) in submission.sequences.into_iter().enumerate() {
            let (prompt, output) = (request.prompt.len(), request.output_len);
            let key = self.engine.add(now, request);
            first = first.or(Some(key));
            if let Some(mut truth) = lock(&self.shared) {
                truth.arrived((self.number, key), &submission.id, choice, prompt, output);
            }
            self.owners
                .insert(key, (submission.id.clone(), choice as u32, submission.events.clone()));
        }
        let client = Client {
            events: submission.events,
            first: first.unwrap_or_default(),
            sequences,
            unfinished: sequences,
        };
        self.clients.insert(submission.id, client);
    }

    fn abort(&mut self, id: &str) {
        let Some(client) = self.clients.remove(id) else { return };
        let _ = client.events.send(EngineEvent::Aborted);
        if self.shared.hung.load(Ordering::Relaxed) {
            // The engine does not hear of it, and what it last said stands in the metrics.
            return;
        }
        for key in client.first..client.first + client.sequences as Key {
            if self.owners.remove(&key).is_none() {
                continue;
            }
            self.unfinished.fetch_sub(1, Ordering::Relaxed);
            self.engine.abort(key);
            if let Some(mut truth) = lock(&self.shared) {
                truth.forget((self.number, key));
            }
        }
    }

    fn spring_ambush(&mut self) {
        let admitted = self.shared.admitted.load(Ordering::Relaxed);
        let mut ambushes = self.shared.ambushes.lock().unwrap_or_else(PoisonError::into_inner);
        for ambush in ambushes.extract_if(.., |ambush| admitted >= ambush.after) {
            // What is about to die produces nothing more: else a short load could end well before the process hears of it.
            if ambush.strike != Strike::Mute {
                self.shared.hung.store(true, Ordering::Relaxed);
            }
            if ambush.strike != Strike::Hang {
                let _ = self.shared.strikes.send(ambush.strike);
            }
        }
    }
}

fn lock(shared: &Shared) -> Option<MutexGuard<'_, Truth>> {
    let truth = shared.truth.as_ref()?;
    Some(truth.lock().unwrap_or_else(PoisonError::into_inner))
}
