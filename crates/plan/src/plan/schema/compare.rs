//! The `[compare]` table as documented type.

use schemars::JsonSchema;

/// Holds the servers of the plan against each other, start by start, until it is decided which is better (docs/verdicts.md). Two servers, the
/// base first, are measured in pairs of starts, in the order A B, B A. More than two are an ordered axis, such as versions: it is bisected for
/// the place where the metric changes, and has one load and one metric. Every server has the same loads. With `[exec]` the two
/// run at once, on two sets of GPUs that are swapped from pair to pair. Not with `starts`, `url`, `[sla]` or `[explore]`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CompareTable {
    /// Metrics of the result, judged at every load. Default: `output_throughput`, or those of `fail_on` alone.
    pub metrics: Option<Vec<String>>,
    /// A change below this does not matter, such as `3 %`. Default: what the machine's own noise makes, if other experiments in the folder
    /// of this one show it, else 3 %.
    pub margin: Option<String>,
    /// At most this many server starts, failed ones included. Default: 40.
    #[schemars(range(min = 8, max = 1000))]
    pub max_starts: Option<u32>,
    /// No start begins after this much time in starts and runs, such as `2h`. Default: no limit.
    pub max_time: Option<String>,
    /// Changes that must not happen, such as `p99_ttft_ms:+5%` or `output_throughput:-3%`. `run` and `report` end with exit code 4 if one does, with
    /// 5 if that could not be decided. Two servers only.
    pub fail_on: Option<Vec<String>>,
}
