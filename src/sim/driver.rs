//! Drives the engine model in real time, on a thread of its own: takes commands at any moment, sleeps out every step,
//! and hands each token to its request the moment the step ends. It alone owns the engine; everyone else sends commands.

use super::engine::stats::Stats;
use super::engine::{Engine, Key, Request};
use super::truth::Truth;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

/// What happens to one request's sequences, by the index of the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The next token of a choice is there.
    Token {
        /// Index of the choice.
        choice: u32,
        /// Whether it is the choice's last.
        last: bool,
    },
    /// The server was told to stop.
    Aborted,
    /// The engine is gone.
    EngineDead,
}

/// A request for the engine: one sequence for each choice.
pub struct Submission {
    /// Names the request in [`Command::Abort`] and in the truth file.
    pub id: String,
    /// The sequences, in the order of the choices.
    pub sequences: Vec<Request>,
    /// Where its tokens go.
    pub events: UnboundedSender<Event>,
}

/// What the engine's gauges and counters say.
pub struct Snapshot {
    /// Counters and histograms.
    pub stats: Stats,
    /// Requests being computed.
    pub running: usize,
    /// Requests in the queue.
    pub waiting: usize,
    /// Used share of the KV cache.
    pub kv_usage: f64,
}

/// What the driver can be told.
pub enum Command {
    /// Start a request.
    Submit(Submission),
    /// Its client is gone.
    Abort(String),
    /// Answer with the state.
    Inspect(oneshot::Sender<Snapshot>),
    /// Answer whether the prefix cache could be reset.
    ResetPrefixCache(oneshot::Sender<bool>),
    /// Stop or go on scheduling.
    Pause(bool),
    /// End every request with this event and take no more.
    End(Event),
}

/// What the process must do when a fault strikes under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    /// Die at once.
    Crash,
    /// Lose the engine.
    EngineDeath,
    /// Lose the engine to a lack of memory.
    OutOfMemory,
    /// Stay and produce nothing.
    Hang,
}

/// When which fault strikes: after so many admitted requests.
#[derive(Debug, Clone, Copy)]
pub struct Ambush {
    /// Requests to admit before.
    pub after: u64,
    /// What then happens.
    pub strike: Strike,
}

/// The sending side.
#[derive(Clone)]
pub struct Handle(Sender<Command>);

impl Handle {
    /// Sends a command; one to a driver that has ended is lost, as its requests are.
    pub fn send(&self, command: Command) {
        let _ = self.0.send(command);
    }
}

struct Client {
    events: UnboundedSender<Event>,
    keys: Vec<Key>,
    unfinished: usize,
}

/// A driver thread's state.
pub struct Driver {
    engine: Engine,
    commands: Receiver<Command>,
    clients: HashMap<String, Client>,
    /// Request and choice of each sequence.
    owners: HashMap<Key, (String, u32, UnboundedSender<Event>)>,
    truth: Option<Truth>,
    ambush: Option<Ambush>,
    strikes: UnboundedSender<Strike>,
    admitted: u64,
    zero: Instant,
    paused: bool,
    hung: bool,
    ended: Option<Event>,
}

/// Longest backlog of simulated time that is made up for by hurrying; a machine that stalled longer just lost time.
const MAKE_UP: Duration = Duration::from_millis(200);

impl Driver {
    /// Starts the thread. Strikes of the ambush go to `strikes`.
    pub fn start(
        engine: Engine,
        truth: Option<Truth>,
        ambush: Option<Ambush>,
        strikes: UnboundedSender<Strike>,
    ) -> std::io::Result<Handle> {
        let (sender, commands) = channel();
        let driver = Driver {
            engine,
            commands,
            clients: HashMap::new(),
            owners: HashMap::new(),
            truth,
            ambush,
            strikes,
            admitted: 0,
            zero: Instant::now(),
            paused: false,
            hung: false,
            ended: None,
        };
        std::thread::Builder::new()
            .name("engine".into())
            .spawn(move || driver.run())?;
        Ok(Handle(sender))
    }

    /// Until every handle is gone.
    fn run(mut self) {
        self.spring_ambush();
        let mut free_at = Instant::now();
        loop {
            let able = self.engine.is_busy() && !self.paused && !self.hung;
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
                    std::sync::mpsc::TryRecvError::Empty => RecvTimeoutError::Timeout,
                    std::sync::mpsc::TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
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
        let instant = self
            .truth
            .is_some()
            .then(super::truth::monotonic_ms)
            .unwrap_or_default();
        for output in self.engine.end_step(now) {
            let Some((id, choice, events)) = self.owners.get(&output.key) else {
                continue;
            };
            let _ = events.send(Event::Token {
                choice: *choice,
                last: output.finished,
            });
            if let Some(truth) = &mut self.truth {
                truth.token(output.key, instant, output.finished);
            }
            if output.finished {
                let id = id.clone();
                self.owners.remove(&output.key);
                if let Some(client) = self.clients.get_mut(&id) {
                    client.unfinished -= 1;
                    if client.unfinished == 0 {
                        self.clients.remove(&id);
                    }
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(submission) => self.submit(submission),
            Command::Abort(id) => self.abort(&id),
            Command::Inspect(answer) => {
                let _ = answer.send(Snapshot {
                    stats: self.engine.stats().clone(),
                    running: self.engine.running(),
                    waiting: self.engine.waiting(),
                    kv_usage: self.engine.kv_usage(),
                });
            }
            Command::ResetPrefixCache(answer) => {
                let _ = answer.send(self.engine.reset_prefix_cache());
            }
            Command::Pause(paused) => self.paused = paused,
            Command::End(event) => {
                self.ended = Some(event);
                let ids: Vec<String> = self.clients.keys().cloned().collect();
                for id in ids {
                    if let Some(client) = self.clients.get(&id) {
                        let _ = client.events.send(event);
                    }
                    self.abort(&id);
                }
            }
        }
    }

    fn submit(&mut self, submission: Submission) {
        if let Some(event) = self.ended {
            let _ = submission.events.send(event);
            return;
        }
        self.admitted += 1;
        let now = self.seconds(Instant::now());
        let mut keys = Vec::with_capacity(submission.sequences.len());
        for (choice, request) in submission.sequences.into_iter().enumerate() {
            let (prompt, output) = (request.prompt.len(), request.output_len);
            let key = self.engine.add(now, request);
            if let Some(truth) = &mut self.truth {
                truth.arrived(key, &submission.id, choice, prompt, output);
            }
            self.owners
                .insert(key, (submission.id.clone(), choice as u32, submission.events.clone()));
            keys.push(key);
        }
        let unfinished = keys.len();
        self.clients.insert(
            submission.id,
            Client {
                events: submission.events,
                keys,
                unfinished,
            },
        );
    }

    fn abort(&mut self, id: &str) {
        let Some(client) = self.clients.remove(id) else { return };
        for key in client.keys {
            self.engine.abort(key);
            self.owners.remove(&key);
            if let Some(truth) = &mut self.truth {
                truth.forget(key);
            }
        }
    }

    fn spring_ambush(&mut self) {
        let Some(ambush) = self.ambush.filter(|ambush| self.admitted >= ambush.after) else {
            return;
        };
        self.ambush = None;
        match ambush.strike {
            Strike::Hang => self.hung = true,
            strike => {
                let _ = self.strikes.send(strike);
            }
        }
    }
}
