//! The plan as typed: what the user wrote, read into types without any effect on the world.
//!
//! This room owns the file format (TOML and JSON), its line and column positions, its problems and its JSON Schema.
//! `matrix` turns its axes and links into servers, points and command lines, and `import` makes plans from vLLM's command lines.

/// Checks that concern several tables of a plan, or several command lines.
pub mod checks {
    pub(super) mod cross_checks;
    pub mod members;
    pub(super) mod memory;
    pub(super) mod param_conflicts;
}
pub mod commands;
pub mod condition;
pub mod import;
mod load;
pub mod matrix;
mod read;
pub mod reference;
mod secrets;
mod serve_command;
mod side;
pub mod spelling;
/// A plan as text: TOML and JSON with positions, and problems that point to them.
pub mod syntax {
    pub(super) mod interpolate;
    pub(crate) mod json_text;
    pub(super) mod node;
    pub(super) mod origin;
    pub(super) mod problem;
    pub(super) mod source;
    pub(super) mod text;
    pub(super) mod toml_text;
}
/// The tables of a plan, one file each, with their keys, defaults and checks.
mod tables {
    pub(super) mod bench;
    pub(super) mod compare;
    pub(super) mod exec;
    pub(super) mod explore;
    pub(super) mod link;
    pub(super) mod mix;
    pub(super) mod offline;
    pub(super) mod on_finish;
    pub(super) mod optimize;
    pub(super) mod report;
    pub(super) mod requirement;
    pub(super) mod runs;
    pub(super) mod serve;
    pub(super) mod sla;
    pub(super) mod slurm;
}
mod value;
mod written;

pub use checks::members::Members;
pub use checks::memory::needs_as_much;
pub use commands::Commands;
pub use condition::{Condition, Op};
pub use load::{Draft, draft, draft_of, load, parse};
pub use read::{Combo, Derived, check_names, records};
pub(crate) use read::{FromNode, Param, Reader, Table, combos, params, start_of, table};
pub use secrets::{HIDDEN, Piece, Secrets};
pub use serve_command::{Flag, Program, ServeCommand};
pub use side::{ParamRef, Side};
pub use syntax::node::{Entry, Kind, Node};
pub use syntax::origin::Origin;
pub use syntax::problem::{Diagnostics, Problem, Problems, nearest, suggest};
pub use syntax::source::{Format, Source, Sources, Span, World};
pub use tables::bench::{Bench, BenchRunner, FigurePlace, Warmup};
pub use tables::compare::{Compare, Limit};
pub use tables::exec::{Exec, Parallel};
pub use tables::link::Link;
pub use tables::mix::MIX;
pub use tables::offline::{Offline, is_of_server};
pub use tables::on_finish::OnFinish;
pub use tables::optimize::Optimize;
pub use tables::report::{Plot, ReportOptions};
pub use tables::requirement::{Assertion, Requirement, ServerCondition, Servers};
pub use tables::runs::{MOST_RUNS, Runs};
pub use tables::serve::{FlagStyle, Reset, Serve, ServerProtocol, Target};
pub use tables::slurm::Slurm;
pub use value::{equal, equality_key, number, number_or_text, show};

use checks::cross_checks::{exclusions, name, version};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tables::requirement::assertions;
use vsweep_strategy::search;
use written::{Scalar, words};

pub use checks::cross_checks::is_name;

/// Parameters in the order the user gave them: names as in the plan (usually snake case) to values.
pub type Params = Map<String, Value>;

table! {
    /// A vsweep plan: which server settings and which loads to measure.
    #[derive(Debug, Clone)]
    pub struct Plan("vsweep plan", "") {
        /// Path of `schema.json`, for editors; vsweep ignores it.
        _schema as "$schema": () = for_schema_only::<String>(),
        /// Version of the plan format. This vsweep reads version 1, which is also the default.
        _version as "version": u32 = whole(1..=1).read_by(version),
        /// Name of the experiment and of its directory below `results/`: letters, digits, `.`, `_` and `-`. Default: the
        /// file's name without its extension.
        pub name: String = by::<String, _>(name),
        /// Path of a plan, relative to this one, whose keys apply unless this plan sets its own. Tables are merged key by key; lists,
        /// and the value of each single parameter, are replaced whole.
        _extends as "extends": () = for_schema_only::<String>(),
        /// Number of starts of each server config; all configs are started once before any is started again. Default: 1. From 2 on,
        /// intervals show how far starts differ, and the best configs get as many fresh starts again (docs/answer.md). `[sla]` and
        /// `[explore]` search anew on each start; an exploration has no final. Not with `url`.
        pub starts: u32 = whole(1..=100).or(1u32),
        /// Repetitions of every point on each start: a number, or a table that repeats until an interval is narrow enough. Default: 3.
        pub runs: Runs,
        /// Measures the first point of each server once more at the end of each start, which detects a server that became slower or faster
        /// (`server_drifts`). Default: false. Not with `[sla]` or `[explore]`.
        pub repeat_first: bool,
        /// Nothing more begins after this much time of work, such as `6h`, earlier sessions included; a server that is starting gets one
        /// run. Default: no limit.
        pub max_time: Option<Duration>,
        /// Reaction to a failed run: `continue` (default) goes on with the sweep, `stop` ends it. With `stop`, a server that cannot start
        /// first fails all runs of its config.
        pub on_failure: OnFailure = one_of::<OnFailure, _>(),
        /// Further names of variables, headers and parameters that hold secrets, in addition to those recognised by their names
        /// (docs/plan.md#secrets).
        _secret_names as "secrets": () = for_schema_only::<Vec<String>>(),
        /// The server: what is launched, and with which settings.
        pub serve: Serve,
        /// The load: what is sent, and by which program.
        pub bench: Bench,
        /// Runs several servers at the same time. Without this table they run one after the other.
        pub exec: Exec,
        /// Resources that `vsweep submit --slurm` requests from Slurm for each server start.
        pub slurm: Slurm,
        /// Parameters that are tied to each other.
        pub link: Link,
        /// Blocks of conditions on parameters; a point that meets all conditions of one block is left out. A condition is a value
        /// (`"serve.tensor_parallel_size" = 1`) or a comparison (`"bench.max_concurrency" = ">64"`).
        pub exclude: Vec<Vec<Condition>> = by::<Vec<BTreeMap<String, Scalar>>, _>(exclusions),
        /// Targets for latency and throughput, and the search for the highest load that meets them.
        pub sla: Option<search::Settings>,
        /// Loads from one request at a time up to saturation, for a whole curve.
        pub explore: Option<search::ExploreSettings>,
        /// Compares the servers of the plan, start by start: which is better, or where along an axis something changed.
        pub compare: Option<Compare>,
        /// Chooses which servers of the plan to start, so that the best is known after few starts.
        pub optimize: Option<Optimize>,
        /// Requirements of the plan's points. If one is not met, `run` and `report` end with exit code 4, or 5 if it cannot be decided.
        assertions as "assert": Vec<Requirement> = by::<Vec<Assertion>, _>(assertions),
        /// Options of the report and of the answer.
        pub report: ReportOptions,
        /// A command for the end of the sweep.
        pub on_finish: Option<OnFinish>,
    }
    internal {
        /// The plan's text as it was run. Variables are expanded only in the tables by which results are judged, and in paths of parameter
        /// files that another plan names. It may hold secrets: write [`Plan::redacted_text`] instead.
        pub text: String,
        /// The language of the text.
        pub format: Format,
        /// Path of the text, for messages and for relative paths inside the plan.
        pub path: PathBuf,
        /// The secret values in this plan; everything that is written or shown goes through it.
        pub secrets: Secrets,
        /// Sources and tree, to point at what later stages object to.
        pub origin: Arc<Origin>,
    }
    then Plan::check
}

impl Plan {
    /// Axes and fixed values of one side.
    pub fn params(&self, side: Side) -> &[(String, Axis)] {
        match side {
            Side::Serve => &self.serve.params,
            Side::Bench => &self.bench.params,
        }
    }

    /// A parameter of one side's table, by any of its spellings.
    pub fn param(&self, side: Side, name: &str) -> Option<&(String, Axis)> {
        let mut params = self.params(side).iter();
        params.find(|(typed, _)| spelling::same(typed, name))
    }

    /// Combinations of one side.
    pub fn combos(&self, side: Side) -> &[Combo] {
        match side {
            Side::Serve => &self.serve.combos,
            Side::Bench => &self.bench.combos,
        }
    }
}

words! {
    /// Effect of a failed run on the rest of the sweep.
    pub enum OnFailure("OnFailure") {
        /// Record it and go on.
        Continue = "continue",
        /// Record it and end the sweep.
        Stop = "stop",
    }
    default Continue
}

/// The values that one parameter takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Axis {
    /// One value for all points.
    Fixed(Value),
    /// Several values, from a list or a range, in order.
    Values(Vec<Value>),
    /// Computed from another parameter of the same table: `max(min, per * times)`, capped at `max`.
    Derived(Derived),
}

impl Axis {
    /// Returns the values of the axis itself; none if it is derived.
    pub fn values(&self) -> &[Value] {
        match self {
            Axis::Fixed(value) => std::slice::from_ref(value),
            Axis::Values(values) => values,
            Axis::Derived(_) => &[],
        }
    }
}
