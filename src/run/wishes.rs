//! What is wanted of one group: what the user wants, and that it comes to an end soon because another group ended the sweep, or
//! another worker has the group now.

use super::drive::Signals;
use super::interrupt::Interrupt;
use crate::agenda::Signal;
use tokio::sync::watch;

/// The signals of one group.
pub struct Wishes {
    /// Those of the user.
    pub interrupt: Interrupt,
    ends: watch::Receiver<bool>,
    lost: watch::Receiver<bool>,
    is_told: bool,
}

impl Wishes {
    /// Of a group that is to end once `ends` holds, or `lost`.
    pub fn of(interrupt: Interrupt, ends: watch::Receiver<bool>, lost: watch::Receiver<bool>) -> Wishes {
        Wishes {
            interrupt,
            ends,
            lost,
            is_told: false,
        }
    }
}

impl Signals for Wishes {
    async fn next(&mut self) -> Signal {
        if self.is_told {
            return self.interrupt.next().await;
        }
        tokio::select! {
            biased;
            signal = self.interrupt.next() => signal,
            () = either(&mut self.ends, &mut self.lost) => {
                self.is_told = true;
                Signal::Drain
            }
        }
    }

    fn pending(&mut self) -> Option<Signal> {
        if let Some(signal) = self.interrupt.pending() {
            return Some(signal);
        }
        let is_new = (*self.ends.borrow() || *self.lost.borrow()) && !self.is_told;
        self.is_told |= is_new;
        is_new.then_some(Signal::Drain)
    }
}

async fn either(one: &mut watch::Receiver<bool>, other: &mut watch::Receiver<bool>) {
    tokio::select! {
        () = once(one) => {}
        () = once(other) => {}
    }
}

/// Waits until it holds; for ever if it never can.
async fn once(holds: &mut watch::Receiver<bool>) {
    if holds.wait_for(|holds| *holds).await.is_err() {
        std::future::pending::<()>().await;
    }
}
