//! The `[exec]` table: how many servers run at once.

use super::schema::{Exclusive, SideBySide, Slowdown};
use super::{Condition, Params};
use schemars::JsonSchema;
use std::time::Duration;

/// How many servers run side by side, each with GPUs, a port and, where there are enough, cores of its own. The longest run first,
/// and one that needs every GPU runs alone. What a server measures beside others is not the same as alone: see docs/packing.md.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(rename = "ExecTable", deny_unknown_fields)]
pub struct Exec {
    /// `"gpus"`: as many servers at once as the GPUs of the machine hold; or a number: at most so many, also on a machine without
    /// GPUs. `CUDA_VISIBLE_DEVICES` of vsweep says which GPUs it may use.
    #[schemars(with = "SideBySide")]
    pub parallel: Parallel,
    /// GPUs that each server takes. Default: tensor × pipeline × data parallel size, as its flags say. 0: none.
    #[schemars(range(max = 1024))]
    pub gpus: Option<u32>,
    /// How long GPUs that somebody else uses are waited for, e.g. `10m` (default).
    #[schemars(with = "Option<String>")]
    pub wait: Duration,
    /// How much slower servers may be beside others than alone, e.g. `5 %` (default). It is measured with further runs of a sample of
    /// points, alone and beside others; from there on servers run one after the other, or start apart from runs. `false`: it is not
    /// measured.
    #[schemars(with = "Option<Slowdown>")]
    pub interference: Option<f64>,
    /// Servers that never run beside others: `true` for each, or values of parameters such as `{ tensor_parallel_size = ">=4" }`, all
    /// of which must hold. Default: false.
    #[schemars(with = "Option<Exclusive>")]
    pub exclusive: Option<Vec<Condition>>,
}

impl Exec {
    /// Whether a server with these parameters never runs beside others.
    pub fn is_exclusive(&self, params: &Params) -> bool {
        let conditions = self.exclusive.as_ref();
        conditions.is_some_and(|conditions| conditions.iter().all(|condition| condition.holds(params)))
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
