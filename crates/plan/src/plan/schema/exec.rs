//! The `[exec]` table of the plan format.

use super::Scalar;
use schemars::JsonSchema;
use std::collections::BTreeMap;

/// How many servers run side by side, each with GPUs, a port and, where there are enough, cores of its own. The longest run first,
/// and one that needs every GPU runs alone. What a server measures beside others is not the same as alone: see docs/packing.md.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ExecTable {
    /// `"gpus"`: as many servers at once as the GPUs of the machine hold; or a number: at most so many, also on a machine without
    /// GPUs. `CUDA_VISIBLE_DEVICES` of vsweep says which GPUs it may use.
    pub parallel: SideBySide,
    /// GPUs that each server takes. Default: tensor × pipeline × data parallel size, as its flags say. 0: none.
    #[schemars(range(max = 1024))]
    pub gpus: Option<u32>,
    /// How long GPUs that somebody else uses are waited for, e.g. `10m` (default).
    pub wait: Option<String>,
    /// How much slower servers may be beside others than alone, e.g. `5 %` (default). It is measured with further runs of a sample of
    /// points, alone and beside others; from there on servers run one after the other, or start apart from runs. `false`: it is not
    /// measured.
    pub interference: Option<Slowdown>,
    /// Servers that never run beside others: `true` for each, or values of parameters such as `{ tensor_parallel_size = ">=4" }`, all
    /// of which must hold. Default: false.
    pub exclusive: Option<Exclusive>,
}

/// A slowdown, or none.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum Slowdown {
    /// As a percentage.
    Percent(String),
    /// Not measured.
    Not(bool),
}

/// Which servers run alone.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum Exclusive {
    /// Each or none.
    All(bool),
    /// Those with these parameters.
    Such(BTreeMap<String, Scalar>),
}

/// How many servers run at once.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum SideBySide {
    /// As many as a resource allows.
    By(Resource),
    /// At most so many.
    Servers(u32),
}

/// What is shared out among servers that run at once.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum Resource {
    /// GPUs.
    Gpus,
}
