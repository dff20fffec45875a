//! Signals that end a sweep. The first SIGINT (Ctrl-C), SIGTERM or SIGHUP asks it to end in an orderly way, the second to end at once.
//! SIGUSR1, which schedulers send before a time limit, asks it to begin nothing more.

use super::drive::SignalSource;
use crate::agenda::Signal;
use crate::error::{Error, Result};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Urgency with which the user wants the sweep to end. Cheap to clone; every clone sees every signal.
#[derive(Debug, Clone)]
pub struct Interrupt {
    asked: watch::Receiver<SignalState>,
    sender: watch::Sender<SignalState>,
    /// The part of `asked` that was passed on as signals.
    passed_on: SignalState,
    /// True if a holder ends in an orderly way, see [`Interrupt::heed`].
    is_heeded: Arc<AtomicBool>,
}

/// Signals received so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SignalState {
    /// Number of SIGINT, SIGTERM and SIGHUP.
    presses: u32,
    /// True if nothing more may be begun.
    drain: bool,
    /// True if that is because time is up.
    is_out_of_time: bool,
}

impl SignalSource for Interrupt {
    async fn next(&mut self) -> Signal {
        let before = self.passed_on;
        self.wait_until(move |asked| *asked != before).await;
        let asked = *self.asked.borrow();
        if asked.presses == before.presses {
            self.passed_on = asked;
            return Signal::Drain;
        }
        self.passed_on.presses += 1;
        match self.passed_on.presses {
            1 => Signal::Interrupt,
            _ => Signal::Kill,
        }
    }
}

impl Interrupt {
    /// Takes over SIGINT, SIGTERM, SIGHUP and SIGUSR1 for this process, except those that it was started to ignore (`nohup`). Must
    /// be called inside a runtime.
    pub fn install() -> Result<Interrupt> {
        let (sender, asked) = watch::channel(SignalState::default());
        let ignored = ignored_signals();
        let drain = SignalKind::user_defined1();
        let ends = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        for kind in ends.into_iter().chain([drain]) {
            if ignored >> (kind.as_raw_value() - 1) & 1 == 1 {
                continue;
            }
            let mut stream = signal(kind).map_err(cannot_watch)?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() {
                    sender.send_modify(|asked| match kind == drain {
                        true => asked.drain = true,
                        false => asked.presses += 1,
                    });
                }
            });
        }
        Ok(Interrupt {
            asked,
            sender,
            passed_on: SignalState::default(),
            is_heeded: Arc::default(),
        })
    }

    /// Installs the handler at the start of a command. Until [`Interrupt::heed`], the first signal calls `leave` at once, because nothing
    /// needs an orderly end.
    pub fn install_early(leave: impl FnOnce() + Send + 'static) -> Result<Interrupt> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let runtime = runtime.map_err(cannot_watch)?;
        let interrupt = runtime.block_on(async { Interrupt::install() })?;
        let mut own = interrupt.clone();
        let watch = move || {
            runtime.block_on(async {
                own.wait_until(|asked| asked.presses > 0).await;
                if !own.is_heeded.load(Ordering::SeqCst) {
                    leave();
                }
                std::future::pending::<()>().await;
            });
        };
        let thread = thread::Builder::new().name("vsweep-signals".into()).spawn(watch);
        thread.map_err(cannot_watch)?;
        Ok(interrupt)
    }

    /// Declares that the holder ends in an orderly way from now on.
    pub fn heed(&self) {
        self.is_heeded.store(true, Ordering::SeqCst);
    }

    /// Asks to begin nothing more once this time has passed. Must be called inside a runtime.
    pub fn drain_after(&self, time: Duration) {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            sender.send_if_modified(|asked| {
                let is_first = *asked == SignalState::default();
                (asked.is_out_of_time, asked.drain) = (is_first || asked.is_out_of_time, true);
                is_first
            });
        });
    }

    /// Returns true if time was up before the user asked to end, and the user has not asked since.
    pub fn is_out_of_time(&self) -> bool {
        let asked = self.asked.borrow();
        asked.is_out_of_time && asked.presses == 0
    }

    /// Returns true if the user or the time limit asked to end.
    pub fn is_requested(&self) -> bool {
        *self.asked.borrow() != SignalState::default()
    }

    /// Resolves once the user or the time limit asked to end.
    pub async fn requested(&mut self) {
        self.wait_until(|asked| *asked != SignalState::default()).await;
    }

    /// Returns the result of the work, or `None` as soon as the user or the time limit asks to end.
    pub async fn unless_requested<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.requested() => None,
        }
    }

    /// Resolves once the user asked twice.
    pub async fn insisted(&mut self) {
        self.wait_until(|asked| asked.presses > 1).await;
    }

    /// Resolves with the next Ctrl-C, however many came before.
    pub async fn pressed_again(&mut self) {
        let before = self.asked.borrow().presses;
        self.wait_until(move |asked| asked.presses > before).await;
    }

    async fn wait_until(&mut self, holds: impl FnMut(&SignalState) -> bool) {
        if self.asked.wait_for(holds).await.is_err() {
            // All senders are gone.
            std::future::pending::<()>().await;
        }
    }
}

fn cannot_watch(error: io::Error) -> Error {
    Error::Fatal(format!("cannot watch for signals: {error}"))
}

/// Returns the mask of signals that this process ignores; bit n - 1 is signal n.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
