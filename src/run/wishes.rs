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
        // What nobody can ask for any more does not match, and is not waited for.
        tokio::select! {
            biased;
            signal = self.interrupt.next() => return signal,
            Ok(_) = self.ends.wait_for(|ends| *ends), if !self.is_told => {}
            Ok(_) = self.lost.wait_for(|lost| *lost), if !self.is_told => {}
        }
        self.is_told = true;
        Signal::Drain
    }
}
