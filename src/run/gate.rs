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
    /// How long the first server waits, and the others.
    limits: [Duration; 2],
}

impl Gate {
    /// Looks at the machine before the first server. Nothing of ours can be in its way, so it does not wait; unless Slurm gave us GPUs
    /// for ourselves, of which a task before us, or an earlier try of this one, may not have let go yet.
    pub async fn now() -> Gate {
        let is_given = ["SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES"]
            .iter()
            .all(|name| std::env::var_os(name).is_some());
        match is_given {
            false => Gate::waiting([Duration::ZERO, SETTLE_LIMIT]).await,
            true => Gate {
                baseline: Baseline::empty().await,
                is_passed: Cell::new(false),
                limits: [SETTLE_LIMIT; 2],
            },
        }
    }

    /// The same where somebody else may take a GPU beside the servers of a sweep: each waits at least so long.
    pub async fn patient(limit: Duration) -> Gate {
        Gate::waiting([limit, limit.max(SETTLE_LIMIT)]).await
    }

    async fn waiting(limits: [Duration; 2]) -> Gate {
        Gate {
            baseline: Baseline::now().await,
            is_passed: Cell::new(false),
            limits,
        }
    }

    /// Waits until the server can start.
    pub async fn pass(&self, launch: &Launch) -> Result<(), Failure> {
        let limit = self.limits[usize::from(self.is_passed.replace(true))];
        self.baseline.wait(launch, limit).await
    }
}
