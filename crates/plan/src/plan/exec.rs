//! The `[exec]` table: how many servers run at once.

use std::time::Duration;

/// The `[exec]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// How many servers run at once.
    pub parallel: Parallel,
    /// GPUs of each server, where its command does not decide.
    pub gpus: Option<u32>,
    /// How long GPUs that somebody else uses are waited for.
    pub wait: Duration,
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
