//! The `[bench]` table: the load side.

use super::mix::{MIX, MixClass, mix};
use crate::written::{Scalar, any_of, words};
use crate::{
    Axis, Combo, Commands, Entry, FromNode, Kind, Node, Offline, Param, Problem, Reader, Side, combos, params, table,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Default time limit of a run.
const TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Default time limit of a run that loads the model itself, perhaps several times.
const OFFLINE_TIMEOUT: Duration = Duration::from_secs(2 * 60 * 60);

table! {
    /// The load.
    #[derive(Debug, Clone)]
    pub struct Bench("BenchTable", "bench.") {
        /// Load generator: `native` (default), `iterations` or `phases`; or a benchmark of vLLM that needs no server: `startup`,
        /// `throughput`, `latency` or `mm_processor` (docs/offline.md). Not together with `command`.
        pub runner: BenchRunner = one_of::<Runner, _>(),
        /// Command line of an external benchmark such as `vllm bench serve`, as a string or a list of words. Parameters, host, port and
        /// result path are added to it, or inserted where the command has `{max_concurrency}`. A table of named command lines is an axis,
        /// `bench.command`.
        command: Option<Commands>,
        /// Where the metrics of a program that vsweep does not know are in its JSON: `mean_ttft_ms = "/ttft/mean"`, or `{ at =
        /// "/ttft/mean_s", times = 1000 }`.
        pub result: BTreeMap<String, FigurePlace> = by::<BTreeMap<String, PlaceValue>, _>(places),
        /// Environment variables for an external benchmark, added to vsweep's own.
        pub env: BTreeMap<String, String> = by::<BTreeMap<String, Scalar>, _>(|reader, node, what| reader.env(node, what)),
        /// Limit for one run, e.g. `20m` (default; `2h` for a benchmark that needs no server, which loads the model itself).
        pub timeout: Duration = key().or(TIMEOUT),
        /// Unmeasured requests before the first run of a load on a fresh server, for at most 60 s. Default: as many as the load holds in
        /// flight. 0: none. Not for `iterations` and `phases`.
        pub warmup as "warmup_prompts": Warmup = whole(0..=1_000_000),
        /// Reads the server's `/metrics`, the GPUs and the host during every run (docs/formats.md). Default: true.
        pub telemetry: bool = key().or(true),
        /// Load settings, names as in `vllm bench serve`, or the flags of the runner (docs/parameters.md). A list or a range is an axis;
        /// axes multiply.
        pub params: Vec<(String, Axis)> = by::<BTreeMap<String, Param>, _>(params),
        /// Classes of requests that are sent as one load. Default: all requests are alike.
        _mix as "mix": () = for_schema_only::<Vec<MixClass>>(),
        /// Path of a JSON file, relative to this one, with combinations in the form of `vllm bench sweep`: a list of
        /// objects, or an object of named objects. Added to `combos`; values are taken as they are.
        _params_file as "params_file": () = for_schema_only::<String>(),
        /// Named combinations of parameters, multiplied with the axes. They override fixed values of the same name.
        _combos as "combos": () = for_schema_only::<Vec<Combo>>(),
    }
    internal {
        /// Named combinations, multiplied with the axes; empty means one empty combination.
        pub combos: Vec<Combo>,
    }
    then Bench::check
}

table! {
    /// Position of a figure that is in another unit.
    #[derive(Debug, Clone, PartialEq)]
    pub struct FigurePlace("PlaceTable", "") {
        /// A JSON pointer such as `/ttft/mean_s`.
        pub at: String = key().required("this figure has no place", "add at = \"/ttft/mean\""),
        /// Factor by which the figure is multiplied, e.g. 1000 for seconds.
        pub times: f64 = by::<f64, _>(factor).or(1.0),
    }
}

fn factor(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<f64> {
    let positive = node
        .number()
        .filter(|times| (f64::MIN_POSITIVE..=f64::MAX).contains(times));
    positive.or_else(|| {
        let message = format!("`{what}` must be a positive number");
        reader.refuse(node.span, message, "write a number such as 1000")
    })
}

any_of! {
    /// Position of a figure.
    PlaceValue {
        /// A JSON pointer.
        String,
        /// A JSON pointer with a factor, for a figure in another unit.
        FigurePlace,
    }
}

words! {
    /// Load generators that need no command.
    enum Runner("Runner") {
        /// vsweep's own load generator.
        Native = "native",
        /// Prefill or decode batches of exactly known shape, as `vsweep bench iterations` measures them.
        Iterations = "iterations",
        /// Prefill or decode throughput over a window of time, as `vsweep bench phases` measures it.
        Phases = "phases",
        /// `vllm bench startup`: how long the engine takes to start, with and without compiled code of an earlier start.
        Startup = "startup",
        /// `vllm bench throughput`: many prompts at once.
        Throughput = "throughput",
        /// `vllm bench latency`: one batch after the other.
        Latency = "latency",
        /// `vllm bench mm-processor`: what the processor of images, video and sound takes.
        MmProcessor = "mm_processor",
    }
}

/// Unmeasured requests before a load, of the same shape as the load's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Warmup {
    /// As many as the load keeps in flight.
    #[default]
    Automatic,
    /// A fixed number.
    Requests(u32),
}

impl From<u32> for Warmup {
    fn from(count: u32) -> Warmup {
        Warmup::Requests(count)
    }
}

/// The source of the load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Runner")]
pub enum BenchRunner {
    /// vsweep's own load generator, in this process.
    #[default]
    Native,
    /// Batches of exactly known shape, each held back in the server's queue until all its requests are there (`vsweep bench iterations`).
    Iterations,
    /// Prefill and decode throughput over a window of time (`vsweep bench phases`).
    Phases,
    /// A benchmark of vLLM that loads the engine itself and needs no server.
    Offline(Offline),
    /// Command lines such as `vllm bench serve …`.
    Command(Commands),
}

impl From<Runner> for BenchRunner {
    fn from(word: Runner) -> BenchRunner {
        match word {
            Runner::Native => BenchRunner::Native,
            Runner::Iterations => BenchRunner::Iterations,
            Runner::Phases => BenchRunner::Phases,
            Runner::Startup => BenchRunner::Offline(Offline::Startup),
            Runner::Throughput => BenchRunner::Offline(Offline::Throughput),
            Runner::Latency => BenchRunner::Offline(Offline::Latency),
            Runner::MmProcessor => BenchRunner::Offline(Offline::MmProcessor),
        }
    }
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

    /// Returns the offline benchmark, which needs no server; `None` for any other runner.
    pub fn offline(&self) -> Option<Offline> {
        match self {
            BenchRunner::Offline(offline) => Some(*offline),
            _ => None,
        }
    }
}

impl Bench {
    fn check(&mut self, reader: &mut Reader<'_>, node: &Node) {
        self.combos = combos(reader, node, Side::Bench);
        if let (Some(command), Some(named)) = (node.entry("command"), node.entry("runner")) {
            let message = "the load comes from a runner of vsweep or from a command";
            let problem = Problem::new(command.key_span, message, "keep `runner` or `command`, not both");
            reader.found.add(problem.and(named.key_span, "a runner here"));
        }
        if let (Some(result), None) = (node.entry("result"), node.entry("command")) {
            let message = "`result` is for the result of a benchmark `command`";
            reader.object(result.key_span, message, "remove it, or give a command");
        }
        if let Some(commands) = self.command.take() {
            self.params.splice(0..0, commands.axis());
            self.runner = BenchRunner::Command(commands);
        }
        let forbids_mix = match &self.runner {
            BenchRunner::Native => None,
            BenchRunner::Command(_) => Some("command"),
            _ => Some("runner"),
        };
        let mix = mix(reader, node, forbids_mix);
        self.params.retain(|(name, _)| name != MIX);
        self.params.extend(mix.map(|mix| (MIX.to_owned(), Axis::Fixed(mix))));
        if self.runner.offline().is_some() && node.child("timeout").is_none() {
            self.timeout = OFFLINE_TIMEOUT;
        }
        reader.names.add(Side::Bench, node, &self.params, &self.combos);
    }
}

fn places(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<BTreeMap<String, FigurePlace>> {
    let entries = reader.table(node, what, &format!("write each figure and its place below [{what}]"))?;
    let place = |entry: &Entry| {
        let what = format!("{what}.{}", entry.key);
        let place = match &entry.value.kind {
            Kind::Table(_) => FigurePlace::from_node(reader, &entry.value, &what)?,
            _ => FigurePlace {
                at: reader.text(&entry.value, &what)?,
                times: 1.0,
            },
        };
        if place.at.starts_with('/') {
            return Some((entry.key.clone(), place));
        }
        let message = format!("`{what}` must be a JSON pointer");
        let remedy = "write the keys and positions that lead to it, each after a slash: /latency/p99";
        reader.refuse(entry.value.span, message, remedy)
    };
    Some(entries.iter().filter_map(place).collect())
}
