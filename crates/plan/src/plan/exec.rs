//! The `[exec]` table: how many servers run at once.

use super::forms::{Exclusive, Resource, SideBySide, Slowdown};
use super::{Condition, FromNode, Kind, Node, Params, Reader, Side, table};
use std::time::Duration;

/// Above it, packing stops.
const SLOWDOWN_PERCENT: f64 = 5.0;
const WAIT: Duration = Duration::from_secs(10 * 60);
/// More processes than any machine bears.
const MOST_SERVERS: u32 = 1024;

table! {
    /// How many servers run side by side, each with its own GPUs, port and, if there are enough, cores. The longest run first, and a
    /// server that needs every GPU runs alone. A server may be slower beside others than alone: see docs/packing.md.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Exec("ExecTable", "exec.") {
        /// `"gpus"`: as many servers at once as fit on the machine's GPUs; or a number: at most this many, also on a machine without
        /// GPUs. vsweep uses the GPUs in its own `CUDA_VISIBLE_DEVICES`.
        pub parallel: Parallel = key().required(
            "[exec] does not say what runs side by side",
            "add parallel = \"gpus\", or the number of servers at once",
        ),
        /// GPUs of each server. Default: tensor × pipeline × data parallel size, from its flags. 0: none.
        pub gpus: Option<u32> = whole(0..=1024),
        /// How long to wait for GPUs that are in use by others, e.g. `10m` (default).
        pub wait: Duration = key().or(WAIT),
        /// How much slower servers may be beside others than alone, e.g. `5 %` (default). It is measured by repeating a sample of runs,
        /// alone and beside others. Above it, servers run one after the other, or do not start during runs. `false`: it is not
        /// measured.
        pub interference: Option<f64> = by::<Slowdown, _>(interference).or(SLOWDOWN_PERCENT),
        /// Servers that never run beside others: `true` for each, or values of parameters such as `{ tensor_parallel_size = ">=4" }`, all
        /// of which must hold. Default: false.
        pub exclusive: Option<Vec<Condition>> = by::<Exclusive, _>(exclusive),
    }
    then Exec::check
}

/// How many servers run at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Parallel {
    /// One after the other.
    #[default]
    No,
    /// As many as the GPUs hold.
    Gpus,
    /// At most so many.
    Servers(u32),
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

    fn check(&mut self, reader: &mut Reader<'_>, node: &Node) {
        if let (Some(gpus), Some(0), Parallel::Gpus) = (node.child("gpus"), self.gpus, self.parallel) {
            let message = "servers without GPUs cannot be told apart by GPUs";
            reader.object(gpus.span, message, "say how many run at once: parallel = 4");
        }
    }
}

impl FromNode for Parallel {
    type Written = SideBySide;

    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Parallel> {
        match &node.kind {
            Kind::Text(_) => reader.word::<Resource>(node, what).map(|_| Parallel::Gpus),
            Kind::Number(_) => reader.whole(node, what, 1..=MOST_SERVERS).map(Parallel::Servers),
            _ => {
                let remedy = "write parallel = \"gpus\", or parallel = 4";
                reader.not_a("\"gpus\" or a number of servers", node, what, remedy)
            }
        }
    }
}

fn interference(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Option<f64>> {
    match node.kind {
        Kind::Bool(false) => Some(None),
        _ => reader.percent(node, what, 0.1..=1000.0).map(Some),
    }
}

fn exclusive(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Option<Vec<Condition>>> {
    if let Kind::Bool(is_each) = node.kind {
        return Some(is_each.then(Vec::new));
    }
    let remedy = "write exclusive = true, or exclusive = { tensor_parallel_size = \">=4\" }";
    let conditions = reader.conditions(node, what, remedy);
    if let Some(of_load) = conditions.iter().find(|condition| condition.param.side == Side::Bench) {
        let name = &of_load.param.name;
        let message = format!("`{name}` is a parameter of the load, and servers run side by side");
        reader.object(node.span, message, "name parameters of the server");
    }
    Some(Some(conditions))
}
