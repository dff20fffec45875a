//! The signals that tell a server to stop, and one that does not listen to them.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that mean "stop".
pub struct Stops {
    terminate: Signal,
    interrupt: Signal,
    ignored: bool,
}

impl Stops {
    /// Hears them from now on, or is deaf to them.
    pub fn listen(ignored: bool) -> std::io::Result<Stops> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Stops {
            terminate,
            interrupt,
            ignored,
        })
    }

    /// Resolves at the first signal; never if they are to be ignored.
    pub async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        if self.ignored {
            std::future::pending().await
        }
    }
}
