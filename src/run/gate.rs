//! The gate before a server starts: the machine must be as it was before the sweep's first one.

use crate::cause::Failure;
use crate::server::Launch;
use crate::server::settle::Baseline;
use std::cell::Cell;
use std::time::Duration;

/// How long ports and GPU memory of an earlier server of ours may take to be free again.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// What the machine was like, and whether we have started anything since.
#[derive(Debug)]
pub struct Gate {
    baseline: Baseline,
    is_passed: Cell<bool>,
}

impl Gate {
    /// Looks at the machine before the first server.
    pub async fn now() -> Gate {
        Gate {
            baseline: Baseline::now().await,
            is_passed: Cell::new(false),
        }
    }

    /// Waits until the server can start. Nothing of ours can be in the way of the first one, so it does not wait.
    pub async fn pass(&self, launch: &Launch) -> Result<(), Failure> {
        let limit = if self.is_passed.replace(true) {
            SETTLE_LIMIT
        } else {
            Duration::ZERO
        };
        self.baseline.wait(launch, limit).await
    }
}
