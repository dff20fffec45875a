//! Ctrl-C and its relatives. The first asks the sweep to end in order; the second to end at once.

use super::drive::Signals;
use crate::agenda::Signal;
use crate::error::{Error, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How urgently the user wants the sweep to end. Cheap to clone; every clone sees every signal.
#[derive(Debug, Clone)]
pub struct Interrupt {
    presses: watch::Receiver<u32>,
    /// How many of them were passed on as signals.
    passed_on: u32,
}

impl Signals for Interrupt {
    async fn next(&mut self) -> Signal {
        self.at_least(self.passed_on + 1).await;
        self.pass_on()
    }

    fn pending(&mut self) -> Option<Signal> {
        let presses = *self.presses.borrow();
        (presses > self.passed_on).then(|| self.pass_on())
    }
}

impl Interrupt {
    /// Takes over SIGINT, SIGTERM and SIGHUP for this process, except those that it was started to ignore (`nohup`). Must
    /// be called inside a runtime.
    pub fn install() -> Result<Interrupt> {
        let (sender, presses) = watch::channel(0);
        let ignored = ignored_signals();
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        for kind in kinds
            .into_iter()
            .filter(|kind| ignored >> (kind.as_raw_value() - 1) & 1 == 0)
        {
            let mut stream =
                signal(kind).map_err(|error| Error::Fatal(format!("cannot watch for signals: {error}")))?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() {
                    sender.send_modify(|presses| *presses += 1);
                }
            });
        }
        Ok(Interrupt { presses, passed_on: 0 })
    }

    fn pass_on(&mut self) -> Signal {
        self.passed_on += 1;
        match self.passed_on {
            1 => Signal::Interrupt,
            _ => Signal::Kill,
        }
    }

    /// Whether the user asked to end.
    pub fn is_requested(&self) -> bool {
        *self.presses.borrow() > 0
    }

    /// Resolves once the user asked to end.
    pub async fn requested(&mut self) {
        self.at_least(1).await;
    }

    /// Resolves once the user asked twice.
    pub async fn insisted(&mut self) {
        self.at_least(2).await;
    }

    /// Resolves once the user asks from now on, whatever was asked before.
    pub async fn pressed_again(&mut self) {
        let before = *self.presses.borrow();
        self.at_least(before + 1).await;
    }

    async fn at_least(&mut self, count: u32) {
        if self.presses.wait_for(|presses| *presses >= count).await.is_err() {
            // Nobody is left who could ask.
            std::future::pending::<()>().await;
        }
    }
}

/// The mask of signals that this process ignores; bit n - 1 stands for signal n.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
