//! The plan format as documented types: the JSON Schema, the plan reference and the reader's list of known keys are
//! all made from these. Nothing is ever deserialized into them; reading, with its checks, is the `read` module's.

mod json;
mod runs;
mod values;

pub use json::{json_schema, json_text, keys_of};
pub use runs::{RunsTable, RunsValue};
pub use values::{
    AxisItem, Commands, Exclusive, Param, RangeTable, Resource, Scalar, Scale, SideBySide, Slowdown, ValueTable,
    Values, Words,
};

use super::{Compare, Exec, FigurePlace, K8s, Link, OnFailure, Plot, Servers, Slurm};
use schemars::JsonSchema;
use serde_json::Value;
use std::collections::BTreeMap;

/// A vsweep plan: which server settings and which loads to measure.
#[derive(JsonSchema)]
#[schemars(title = "vsweep plan", deny_unknown_fields)]
pub struct PlanFile {
    /// Path of `schema.json`, for editors; vsweep does not look at it.
    #[schemars(rename = "$schema")]
    pub schema: Option<String>,
    /// Version of the plan format. This vsweep reads version 1, which is also the default.
    #[schemars(range(min = 1, max = 1))]
    pub version: Option<u32>,
    /// Name of the experiment and of its directory below `results/`: letters, digits, `.`, `_` and `-`. Default: the
    /// file's name without its extension.
    pub name: Option<String>,
    /// Path of a plan, relative to this one, whose keys hold unless this plan gives its own. Tables are merged key by
    /// key; lists, and the value of each single parameter, are replaced whole.
    pub extends: Option<String>,
    /// How often each server config is started afresh, all configs once before any is started again. Default: 1. From 2 on, intervals
    /// tell how far starts differ, and the best configs are measured on as many fresh starts again before one is called the winner
    /// (docs/verdicts.md). `[sla]` and `[explore]` search anew on each start; an exploration has no final. Not with `url`.
    #[schemars(range(min = 1, max = 100))]
    pub starts: Option<u32>,
    /// Whether each node measures the same point three times before its first server start (default `false`): the first load of the
    /// server that needs the fewest GPUs. The report says how far the nodes differ in it (docs/cluster.md). Not with `url`.
    pub sentinel: Option<bool>,
    /// Repetitions of every point on each start: a number, or a table that repeats until an interval is narrow enough. Default: 3.
    pub runs: Option<RunsValue>,
    /// Whether the first point of each server is measured once more at the end of each start, which shows a server that became slower or
    /// faster under way (`server_drifts`). Default: false. Not with `[sla]` or `[explore]`.
    pub repeat_first: Option<bool>,
    /// What a failed run does to the rest of the sweep: `continue` (default) or `stop`. A server that cannot start fails all
    /// runs of its config, then the sweep stops.
    pub on_failure: Option<OnFailure>,
    /// Further names of variables, headers and parameters that hold secrets, beside those whose names tell (see above).
    pub secrets: Option<Vec<String>>,
    /// The server side: what is launched, and with which settings.
    pub serve: ServeTable,
    /// The load side: what is sent, and by which program.
    pub bench: Option<BenchTable>,
    /// How many servers run side by side. Without this table they run one after the other.
    pub exec: Option<Exec>,
    /// What `vsweep submit --slurm` asks of Slurm for each server start.
    pub slurm: Option<Slurm>,
    /// What the manifest of `vsweep submit --k8s` says of each server start.
    pub k8s: Option<K8s>,
    /// Parameters that are tied to each other.
    pub link: Option<Link>,
    /// Blocks of conditions on parameters; a point for which all conditions of one block hold is left out. A condition
    /// is a value (`"serve.tensor_parallel_size" = 1`) or a comparison (`"bench.max_concurrency" = ">64"`).
    pub exclude: Option<Vec<BTreeMap<String, Scalar>>>,
    /// Targets for latency and throughput, for a search of the load that still meets them.
    pub sla: Option<SlaTable>,
    /// A spread of loads between one request at a time and as many as the server can do, for a whole curve.
    pub explore: Option<ExploreTable>,
    /// The servers of the plan held against each other, start by start: which is better, or where along an axis something changed.
    pub compare: Option<Compare>,
    /// What must hold of the points of the plan; otherwise `run` and `report` end with exit code 4, or 5 if it cannot be
    /// decided.
    pub assert: Option<Vec<AssertTable>>,
    /// What the report draws beyond the standard charts.
    pub report: Option<ReportTable>,
}

/// The server side.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ServeTable {
    /// The server's command line, such as `vllm serve MODEL`: a string, split into words as a shell would (no shell is
    /// involved), or a list of words. Parameters are added to it as flags. A table of named command lines is an axis,
    /// `serve.command`: `{ old = "vllm-0.31 serve MODEL", new = "vllm serve MODEL" }`.
    pub command: Option<Commands>,
    /// Base URL of a server that is already running, instead of `command`. Such a server is neither started nor
    /// stopped, so no parameter may have several values and `env` does not reach it.
    pub url: Option<String>,
    /// Measure what is behind `url` anew each time the plan is run (default `false`): earlier results leave the tables. A
    /// sweep that was interrupted is finished first, without measuring again what it has.
    pub fresh: Option<bool>,
    /// Environment variables for the server, added to vsweep's own. A list of values is an axis, `serve.env.NAME`.
    pub env: Option<BTreeMap<String, Values>>,
    /// Limit from launch to ready, e.g. `15m` (default; `30s` for a server that is already running).
    pub ready_timeout: Option<String>,
    /// Time from the polite signal to the deadly one when the server is stopped, e.g. `30s` (default).
    pub stop_grace: Option<String>,
    /// A server with requests in flight that produces nothing for this long is hung and ended, e.g. `2m` (default).
    pub hang_timeout: Option<String>,
    /// What happens between runs: `caches` (default) resets the server's caches through its routes, `restart` starts
    /// it anew, `none` does nothing, `POST /route` asks a route of the server; anything else is a command line that must exit with 0 within 2 minutes, or the
    /// run that follows is marked `suspect` (`caches_not_reset`).
    pub reset: Option<Words>,
    /// The route that answers 200 when the server is well. Default: `/health`.
    pub health: Option<String>,
    /// Text that must stand in the server's log, too, before it counts as ready. Default: none.
    pub ready_pattern: Option<String>,
    /// How flags are spelled: `dashes` (default; `max_num_seqs` becomes `--max-num-seqs`) or `as_written`, for a server whose flags
    /// have underscores.
    pub flag_style: Option<FlagStyle>,
    /// For a server that does not run below its command, as in a container or on another machine: a command line that ends it and
    /// exits with 0. It runs whenever the server has to be gone, also when vsweep was killed. `{name}`, in `command` too, is
    /// a name that no other start has, and `{port}` a free port.
    pub stop_command: Option<Words>,
    /// Nodes of the allocation that each server takes, this one included. Default: 1. See docs/cluster.md.
    #[schemars(range(min = 1, max = 1024))]
    pub nodes: Option<u32>,
    /// Command lines that are started, watched and stopped with the server: if one ends, all are stopped. One with `{node}` or `{rank}` is
    /// started once for each further node, with its name and its number from 1. `{command}`, as a word of its own, is the server's whole
    /// command line, and `{head}`, in `command` and `env` too, the name of the first node.
    pub members: Option<Vec<Words>>,
    /// Whether every start of a server is asked a few fixed questions, so that a config that answers otherwise than the others is
    /// `invalid` (`answers_differ`; docs/verdicts.md). Default: true.
    pub answer_check: Option<bool>,
    /// Flags of the server, dashes or underscores alike. A list or a range is an axis; axes multiply.
    pub params: Option<BTreeMap<String, Param>>,
    /// Path of a JSON file, relative to this one, with combinations in the form of `vllm bench sweep`: a list of
    /// objects, or an object of named objects. Added to `combos`; values are taken as they are.
    pub params_file: Option<String>,
    /// Named combinations of parameters, multiplied with the axes. They win over fixed values of the same name.
    pub combos: Option<Vec<ComboTable>>,
}

/// How a server's flags are spelled.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum FlagStyle {
    /// With dashes, whatever the plan writes.
    Dashes,
    /// As the plan writes them.
    AsWritten,
}

/// The load side.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BenchTable {
    /// Who drives the load: `native` (default), `iterations` or `phases`; or a benchmark of vLLM that needs no server: `startup`,
    /// `throughput`, `latency` or `mm_processor` (docs/offline.md). Not together with `command`.
    pub runner: Option<Runner>,
    /// Command line of an external benchmark such as `vllm bench serve`, as a string or a list of words. Parameters are
    /// added to it as flags, or filled in where the command says `{max_concurrency}`; host, port and where to save results are
    /// added when it runs. A table of named command lines is an axis, `bench.command`. Results of `vllm bench serve`,
    /// guidellm and aiperf are understood.
    pub command: Option<Commands>,
    /// Where the figures of another program stand in the JSON that it writes: `mean_ttft_ms = "/ttft/mean"`, or
    /// `{ at = "/ttft/mean_s", times = 1000 }`. All other figures are left out. Results of known clients need none.
    pub result: Option<BTreeMap<String, PlaceValue>>,
    /// Environment variables for an external benchmark, added to vsweep's own.
    pub env: Option<BTreeMap<String, Scalar>>,
    /// Limit for one run, e.g. `20m` (default; `2h` for a benchmark that needs no server, which loads the model itself).
    pub timeout: Option<String>,
    /// Unmeasured requests before the first run of a load on a fresh server, of the load's own shape and for at most 60 s; not for
    /// `iterations` and `phases`, which warm up by themselves. Default: as many as the load holds at once. 0: none.
    #[schemars(range(max = 1_000_000))]
    pub warmup_prompts: Option<u32>,
    /// Whether the server's `/metrics`, the GPUs and the host are read during every run (docs/formats.md). Default: true.
    pub telemetry: Option<bool>,
    /// Load settings, names as in `vllm bench serve`, or the flags of the runner (docs/iterations.md, docs/phases.md, docs/offline.md). A list or a range is an axis; axes multiply.
    pub params: Option<BTreeMap<String, Param>>,
    /// Path of a JSON file, relative to this one, with combinations in the form of `vllm bench sweep`: a list of
    /// objects, or an object of named objects. Added to `combos`; values are taken as they are.
    pub params_file: Option<String>,
    /// Named combinations of parameters, multiplied with the axes. They win over fixed values of the same name.
    pub combos: Option<Vec<ComboTable>>,
}

/// Where a figure stands.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum PlaceValue {
    /// A JSON pointer.
    At(String),
    /// The same of a figure in another unit.
    Scaled(FigurePlace),
}

/// Who drives the load when no command does.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum Runner {
    /// vsweep's own load generator.
    Native,
    /// Prefill or decode batches of exactly known shape, as `vsweep iterations` measures them.
    Iterations,
    /// Prefill or decode throughput over a window of time, as `vsweep phases` measures it.
    Phases,
    /// `vllm bench startup`: how long the engine takes to start, with and without compiled code of an earlier start.
    Startup,
    /// `vllm bench throughput`: many prompts at once.
    Throughput,
    /// `vllm bench latency`: one batch after the other.
    Latency,
    /// `vllm bench mm-processor`: what the processor of images, video and sound takes.
    MmProcessor,
}

/// A named combination of parameters: every key but `name` is a parameter, and every value is taken as it is. In
/// `[[serve.combos]]`, `command` is a whole command line and `env` a table of variables, so a combination can be a server of
/// another kind.
#[derive(JsonSchema)]
pub struct ComboTable {
    /// Name shown in tables.
    pub name: Option<String>,
    /// The parameters.
    #[schemars(flatten)]
    pub params: BTreeMap<String, Value>,
}

/// Targets, and the load parameter that a search varies to find the highest load that meets each. It takes the place of
/// that parameter's axis. Every run sends `num_prompts` requests; where `num_prompts` follows the varied parameter (`per`,
/// `times`, `min`, `max`) it grows with the load, and without it ten for each unit of load, from 200 to 2000, are sent.
/// `runs` does not apply: the search repeats a load where noise demands it.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SlaTable {
    /// The load parameter to vary: `max_concurrency` or `request_rate`.
    pub vary: Vary,
    /// The lowest load to try. Default: 1 for `max_concurrency`, 0.01 for `request_rate`. A rate is never so low that
    /// sending the requests of a run takes more than 80 % of `bench.timeout`.
    pub min: Option<f64>,
    /// The highest load to try. Default: 8192.
    pub max: Option<f64>,
    /// How far the answer may lie below the true limit, as a ratio; an answer that is less sure says so. Default: 0.05.
    pub tolerance: Option<f64>,
    /// At most this many runs asked for by each target, 2 to 1000; the runs of the others tell it something too, so `sla.csv` may count more. From three quarters of them on, a safe answer is taken as it is. Default: 16.
    #[schemars(range(min = 2, max = 1000))]
    pub max_probes: Option<u32>,
    /// Whole runs at the load found, 0 to 100; all runs there together must meet the target. Default: 1.
    #[schemars(range(max = 100))]
    pub confirmations: Option<u32>,
    /// Whether a server config is left as soon as another one is known to hold more than it can, for every target that is
    /// still open: by what was measured on it, by `max`, or because the simulator predicts less than a quarter. Default:
    /// false, every config is searched to its answer.
    pub skip_beaten: Option<bool>,
    /// The targets. They share runs: each run answers every target it can.
    pub target: Vec<TargetTable>,
}

/// Loads chosen by measuring: first one request at a time and `max_concurrency` in flight, both without a rate limit, then
/// levels between them; each takes the place of an axis over `vary`. The first half of the levels is spaced evenly, each
/// further one splits the longest piece of the curve of latency against throughput, which is where its knee is. Every
/// level is measured `runs` times. `num_prompts` is as for `[sla]`, but from 32. Not together with `[sla]`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ExploreTable {
    /// The load parameter to vary: `max_concurrency` or `request_rate`.
    pub vary: Vary,
    /// Number of loads, both ends among them, 2 to 1000. Default: 10.
    #[schemars(range(min = 2, max = 1000))]
    pub levels: Option<u32>,
    /// Spacing of the first half of the levels: `log` (default) or `linear`.
    pub spacing: Option<Scale>,
    /// Requests in flight at the saturated end, from 2. More than the server's `max_num_seqs` is enough. Default: 1024.
    #[schemars(range(min = 2, max = 1_000_000))]
    pub max_concurrency: Option<u32>,
}

/// The load parameter that a search varies.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum Vary {
    /// Requests in flight at once.
    MaxConcurrency,
    /// Requests a second.
    RequestRate,
}

/// One target, met where all its bounds hold. Every key but `name` is a metric of the result such as `p99_ttft_ms`, every
/// value a bound such as `<=500` (`<=`, `<`, `>=`, `>`). `attainment = ">=99%"` bounds the share of requests that keep
/// within the limits `ttft_ms`, `tpot_ms` and `e2el_ms` given beside it, such as `ttft_ms = "<500"`.
#[derive(JsonSchema)]
pub struct TargetTable {
    /// Name shown in tables.
    pub name: Option<String>,
    /// Whether it must be met, of each load: `true` (by some server) or `"all"` (by every server). If it is not, `run` and `report`
    /// end with exit code 4; if that could not be decided, with 5. Default: false, what is found is an answer.
    pub required: Option<Scalar>,
    /// The bounds.
    #[schemars(flatten)]
    pub criteria: BTreeMap<String, String>,
}

/// A requirement of plain points, judged for each workload by the median of each point's runs: a server meets it if each of its
/// points does. Every further key is a bound as in `[[sla.target]]`, such as `p99_ttft_ms = "<=500"`. An `attainment` with `ttft_ms` or
/// `tpot_ms` needs `save_detailed = true` in `[bench.params]`.
#[derive(JsonSchema)]
pub struct AssertTable {
    /// Name shown where it is judged. Default: what it says.
    pub name: Option<String>,
    /// Which points it is about: values of parameters, or comparisons (`max_concurrency = "<=64"`), all of which must hold.
    /// `serve.` or `bench.` stands before a name that both sides have. Default: every point.
    #[schemars(rename = "where")]
    pub only: Option<BTreeMap<String, Scalar>>,
    /// Who must meet it: `any` (default), one server of the plan, or `all`.
    pub servers: Option<Servers>,
    /// The bounds.
    #[schemars(flatten)]
    pub criteria: BTreeMap<String, String>,
}

/// What the report draws beyond the standard charts.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ReportTable {
    /// Options of the Pareto chart.
    pub pareto: Option<ParetoTable>,
    /// Further line charts.
    pub plot: Option<Vec<Plot>>,
    /// What one GPU costs an hour in dollars, such as `2.5`: the tables, charts and the answer then say what a million tokens cost.
    pub price_per_gpu_hour: Option<f64>,
}

/// Options of the Pareto chart.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ParetoTable {
    /// Parameters written beside each point of the frontier. Default: those that vary.
    pub label_by: Option<Vec<String>>,
}
