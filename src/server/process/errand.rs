//! A command that is run to its end, or to a limit, and leaves no process.

use super::guard::Exit;
use super::guarded::{Guarded, Order};
use crate::cause::Cause;
use crate::units::show_duration;
use std::time::Duration;
use tokio::time::timeout;

/// Runs a command. `Err` says what it did instead of ending with 0: `ended with exit code 1`.
pub async fn run(order: Order<'_>, limit: Duration) -> Result<(), String> {
    let mut guarded = Guarded::start(order).map_err(|failure| format!("could not be run: {}", failure.detail))?;
    let exited = timeout(limit, guarded.exited(Cause::BenchFailed)).await;
    // What it left running ends with it.
    guarded.stop().await;
    match exited {
        Ok(Ok(Exit::Code(0))) => Ok(()),
        Ok(Ok(exit)) => Err(format!("ended with {exit}")),
        Ok(Err(lost)) => Err(format!("was lost: {}", lost.detail)),
        Err(_) => Err(format!("did not end within {}", show_duration(limit))),
    }
}
