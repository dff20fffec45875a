//! The `[exec]` table: how many servers run at once.

use super::{Condition, Params, spelling};
use std::time::Duration;

/// The `[exec]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct Exec {
    /// How many servers run at once.
    pub parallel: Parallel,
    /// GPUs of each server, where its command does not decide.
    pub gpus: Option<u32>,
    /// How long GPUs that somebody else uses are waited for.
    pub wait: Duration,
    /// The slowdown of servers beside others, in percent, from which on they run apart; `None`: it is not measured.
    pub interference: Option<f64>,
    /// Which servers never run beside others: those that meet all of these. `None`: none; no condition: each.
    pub exclusive: Option<Vec<Condition>>,
}

impl Exec {
    /// Whether a server with these parameters never runs beside others.
    pub fn is_exclusive(&self, params: &Params) -> bool {
        let meets = |condition: &Condition| {
            spelling::find(params, &condition.param.name)
                .is_some_and(|value| condition.op.holds(value, &condition.value))
        };
        self.exclusive
            .as_ref()
            .is_some_and(|conditions| conditions.iter().all(meets))
    }

    /// The slowdown that is looked for while servers run side by side, in percent; `None` where nothing is looked for.
    pub fn watched_percent(&self) -> Option<f64> {
        self.interference.filter(|_| self.parallel != Parallel::No)
    }
}

/// How many servers run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parallel {
    /// One after the other.
    No,
    /// As many as the GPUs hold.
    Gpus,
    /// At most so many.
    Servers(u32),
}
