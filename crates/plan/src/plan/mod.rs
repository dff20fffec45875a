//! The plan as typed: what the user wrote, read into types without any effect on the world.
//!
//! This room owns the file format (TOML and JSON), its line and column positions, its problems and its JSON Schema.
//! It does not expand anything: turning axes and links into servers and points is the `matrix` room's work.

pub mod commands;
mod compare;
pub mod condition;
mod derived;
mod exec;
mod fields;
mod interpolate;
pub(crate) mod json_text;
mod k8s;
mod load;
mod masked;
pub mod members;
mod memory;
mod merge;
mod node;
mod offline;
mod origin;
mod problem;
mod read;
pub mod reference;
mod requirement;
mod runs;
pub mod schema;
mod secrets;
mod serve_command;
mod short_flags;
mod side;
mod slurm;
mod source;
pub mod spelling;
mod text;
mod ties;
mod toml_text;
mod value;
pub mod vllm;
mod world;

pub use commands::Commands;
pub use compare::{Compare, Limit};
pub use condition::{Condition, Op};
pub use exec::{Exec, Parallel};
pub use k8s::K8s;
pub use load::{Draft, draft, draft_of, load, parse};
pub use members::Members;
pub use memory::needs_as_much;
pub use node::{Entry, Kind, Node};
pub use offline::{Offline, is_of_server};
pub use origin::Origin;
pub use problem::{Found, Problem, Problems, nearest, suggest};
pub use requirement::{Assertion, Required, Requirement, Servers};
pub use runs::Runs;
pub use secrets::{HIDDEN, Piece, Secrets};
pub use serve_command::{Program, ServeCommand};
pub use side::{Link, ParamRef, Side};
pub use slurm::Slurm;
pub use source::{Format, Source, Sources, Span};
pub use spelling::SHORT_FLAGS;
pub use value::{equal, equality_key, number, show};
pub use world::World;

use schemars::JsonSchema;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use vsweep_strategy::search;

/// Parameters in the order the user gave them: names as in the plan (usually snake case) to values.
pub type Params = Map<String, Value>;

/// A whole plan, valid in itself. Everything that needs more than one place to check is checked by the matrix.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of the experiment and of its directory below `results/`.
    pub name: String,
    /// How often each server config is started afresh.
    pub starts: u32,
    /// Whether each node measures the same point before anything else.
    pub sentinel: bool,
    /// Repetitions of every point on each start.
    pub runs: Runs,
    /// Whether a server's first point is measured once more before it is stopped.
    pub repeat_first: bool,
    /// Whether the sweep goes on after a failed run.
    pub on_failure: OnFailure,
    /// The server side.
    pub serve: Serve,
    /// The load side.
    pub bench: Bench,
    /// How many servers run side by side.
    pub exec: Exec,
    /// What is asked of Slurm, if the plan is submitted to it.
    pub slurm: Slurm,
    /// What pods of a Kubernetes cluster are, if the plan says so.
    pub k8s: Option<K8s>,
    /// Parameters that are tied to each other.
    pub link: Link,
    /// Points to leave out.
    pub exclude: Vec<Exclusion>,
    /// The search that the `[sla]` table asks for. Its number of requests is the matrix's to fill in.
    pub sla: Option<search::Settings>,
    /// The exploration that the `[explore]` table asks for. Its number of requests is the matrix's to fill in.
    pub explore: Option<search::ExploreSettings>,
    /// The servers of the plan held against each other, as the `[compare]` table asks.
    pub compare: Option<Compare>,
    /// What the report draws beyond the standard charts.
    pub report: ReportOptions,
    /// The plan's text as it was run, variables never expanded. It may hold secrets: write [`Plan::redacted_text`] instead.
    pub text: String,
    /// The language of the text.
    pub format: Format,
    /// Where the text came from, for messages and for relative paths inside the plan.
    pub path: PathBuf,
    /// The secret values in this plan; everything that is written or shown goes through it.
    pub secrets: Secrets,
    /// Sources and tree, to point at what later stages object to.
    pub origin: Arc<Origin>,
}

impl Plan {
    /// Axes and fixed values of one side.
    pub fn params(&self, side: Side) -> &[(String, Axis)] {
        match side {
            Side::Serve => &self.serve.params,
            Side::Bench => &self.bench.params,
        }
    }

    /// Named combinations of one side.
    pub fn combos(&self, side: Side) -> &[Combo] {
        match side {
            Side::Serve => &self.serve.combos,
            Side::Bench => &self.bench.combos,
        }
    }
}

/// What a failed run does to the rest of the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum OnFailure {
    /// Record it and go on.
    Continue,
    /// Record it and end the sweep.
    Stop,
}

/// The `[serve]` table.
#[derive(Debug, Clone)]
pub struct Serve {
    /// Launch a server, or attach to one.
    pub target: Target,
    /// Environment variables added to vsweep's own.
    pub env: BTreeMap<String, String>,
    /// Measure anew what is behind the URL in each session.
    pub fresh: bool,
    /// Limit from launch to ready.
    pub ready_timeout: Duration,
    /// Time from the polite signal to the deadly one.
    pub stop_grace: Duration,
    /// A server with requests in flight that produces nothing for this long is hung.
    pub hang_timeout: Duration,
    /// What happens to the server's caches between runs.
    pub reset: Reset,
    /// What is to be known of a server that is not vLLM.
    pub manners: Manners,
    /// Ask each start of a server the fixed questions.
    pub answer_check: bool,
    /// Axes and fixed values.
    pub params: Vec<(String, Axis)>,
    /// Named combinations, multiplied with the axes; empty means one empty combination.
    pub combos: Vec<Combo>,
}

/// Where the server comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Launch these command lines.
    Launch(Commands),
    /// Measure a server that is already running at this base URL.
    Attach(String),
}

/// How a server differs from vLLM, which the defaults describe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manners {
    /// The route that answers 200 when the server is well.
    pub health: String,
    /// Text on a line of its log without which it is not ready.
    pub ready_pattern: Option<String>,
    /// Whether flags are spelled as parameters are written, and not with dashes.
    pub flags_as_written: bool,
    /// Ends what the command started elsewhere; run whenever the server has to be gone. Empty if there is nothing elsewhere.
    pub stop_command: Vec<String>,
    /// Commands that run beside it, also on other nodes.
    pub members: Members,
}

impl Default for Manners {
    fn default() -> Manners {
        Manners {
            health: "/health".into(),
            ready_pattern: None,
            flags_as_written: false,
            stop_command: Vec::new(),
            members: Members::default(),
        }
    }
}

/// What happens to the server's caches between runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reset {
    /// Reset prefix, multimodal and encoder caches through the server's routes.
    Caches,
    /// Stop the server and start it again.
    Restart,
    /// Nothing: runs may profit from each other's caches.
    Nothing,
    /// Send an empty POST request to this route.
    Route(String),
    /// Run this command line; it must exit with 0.
    Command(Vec<String>),
}

/// The `[bench]` table.
#[derive(Debug, Clone)]
pub struct Bench {
    /// Who drives the load.
    pub runner: BenchRunner,
    /// Environment variables for an external benchmark.
    pub env: BTreeMap<String, String>,
    /// Where an external benchmark's figures stand in its result; empty if they are understood.
    pub result: BTreeMap<String, FigurePlace>,
    /// Limit for one run.
    pub timeout: Duration,
    /// Unmeasured requests before the first run of a load on a fresh server.
    pub warmup: Warmup,
    /// Whether server, GPUs and host are read during every run.
    pub telemetry: bool,
    /// Axes and fixed values, names as in `vllm bench serve`.
    pub params: Vec<(String, Axis)>,
    /// Named combinations, multiplied with the axes; empty means one empty combination.
    pub combos: Vec<Combo>,
}

/// Where a figure in another unit stands.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(rename = "PlaceTable", deny_unknown_fields)]
pub struct FigurePlace {
    /// A JSON pointer such as `/ttft/mean_s`.
    pub at: String,
    /// What it is multiplied by, e.g. 1000 for seconds.
    #[schemars(with = "Option<f64>")]
    pub times: f64,
}

/// Unmeasured requests before a load, of its own shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmup {
    /// As many as the load holds.
    Automatic,
    /// So many.
    Requests(u32),
}

/// Who drives the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BenchRunner {
    /// vsweep's own load generator, in this process.
    Native,
    /// Batches of exactly known shape, held until they are whole (`vsweep iterations`).
    Iterations,
    /// Prefill and decode throughput over a window of time (`vsweep phases`).
    Phases,
    /// A benchmark of vLLM that loads the engine itself: nothing is served.
    Offline(Offline),
    /// Command lines such as `vllm bench serve …`.
    Command(Commands),
}

impl BenchRunner {
    /// Its name in a plan; a command has none.
    pub fn name(&self) -> Option<&'static str> {
        match self {
            BenchRunner::Native => Some("native"),
            BenchRunner::Iterations => Some("iterations"),
            BenchRunner::Phases => Some("phases"),
            BenchRunner::Offline(offline) => Some(offline.name()),
            BenchRunner::Command(_) => None,
        }
    }

    /// The benchmark without a server, if it is one.
    pub fn offline(&self) -> Option<Offline> {
        match self {
            BenchRunner::Offline(offline) => Some(*offline),
            _ => None,
        }
    }
}

/// The values one parameter takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Axis {
    /// One value for all points.
    Fixed(Value),
    /// Several values, from a list or a range, in order.
    Values(Vec<Value>),
    /// Computed from another parameter of the same table: `max(min, per * times)`, capped at `max`.
    Derived(Derived),
}

/// A value that follows another parameter: `per * times`, at least `min`, at most `max`. Counts and lengths are rounded
/// up to whole numbers.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(rename = "DerivedTable", deny_unknown_fields)]
pub struct Derived {
    /// Name of the parameter it follows, in the same table.
    pub per: String,
    /// Factor. Default: 1.
    #[schemars(with = "Option<f64>")]
    pub times: f64,
    /// Lower bound of the result.
    pub min: Option<f64>,
    /// Upper bound of the result.
    pub max: Option<f64>,
}

/// One named combination of parameters.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Combo {
    /// Name shown in tables; records of a params file may have none.
    pub name: Option<String>,
    /// Its parameters, which win over the table's fixed values.
    pub params: Params,
}

/// One `[[exclude]]` block: a point is dropped if all its conditions hold.
#[derive(Debug, Clone)]
pub struct Exclusion {
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// The `[report]` table.
#[derive(Debug, Clone, Default)]
pub struct ReportOptions {
    /// Parameters written beside each point of the Pareto frontier; empty means those that vary.
    pub pareto_label_by: Vec<String>,
    /// Charts asked for.
    pub plots: Vec<Plot>,
    /// What a GPU costs an hour, in dollars.
    pub price_per_gpu_hour: Option<f64>,
    /// What must hold of the results: `[[assert]]`, and targets that are required.
    pub requirements: Vec<Requirement>,
}

/// A line chart.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "PlotTable", deny_unknown_fields)]
pub struct Plot {
    /// Column on the x axis: a parameter or a metric.
    pub x: String,
    /// Column on the y axis.
    pub y: String,
    /// One curve for each combination of these columns' values. What else varies is drawn as its median, in a band from the lowest
    /// to the highest; without it, all that varies makes curves.
    #[schemars(with = "Option<Vec<String>>")]
    pub curve_by: Vec<String>,
}
