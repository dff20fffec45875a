//! The key `runs` as documented types.

use schemars::JsonSchema;

/// Repetitions of every point on each start.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum RunsValue {
    /// So many.
    Exactly(#[schemars(range(min = 1, max = 10_000))] u32),
    /// As many as it takes.
    Until(RunsTable),
}

/// Repeats a point on a start until the 95 % interval of a metric reaches no farther than `until` to either side of its mean. An example is
/// `runs = { min = 2, max = 10, metric = "p99_ttft_ms", until = "3 %" }`. The interval allows for being looked at after every run. It is one
/// of this start; of other starts it says nothing.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunsTable {
    /// At least so many runs. Default: 2.
    #[schemars(range(min = 2, max = 10_000))]
    pub min: Option<u32>,
    /// At most so many. Default: 10.
    #[schemars(range(min = 2, max = 10_000))]
    pub max: Option<u32>,
    /// The metric of the result. Default: `output_throughput`.
    pub metric: Option<String>,
    /// How far the interval may reach, such as `3 %`.
    pub until: String,
}
