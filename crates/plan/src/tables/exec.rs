//! The `[exec]` table: how many servers run at once.

use crate::written::{Scalar, any_of, words};
use crate::{Condition, FromNode, Kind, Node, Params, Plan, Program, Reader, ServeCommand, Side, table};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum of `parallel`, which is more servers than any machine can run.
const MOST_SERVERS: u32 = 1024;

table! {
    /// Runs several servers at the same time, each with its own GPUs, port and, if there are enough, cores (docs/packing.md).
    #[derive(Debug, Clone, PartialEq)]
    pub struct Exec("ExecTable", "exec.") {
        /// `"gpus"`: as many servers at once as fit on the machine's GPUs; or a number: at most this many, also on a machine without GPUs.
        pub parallel: Parallel = key().required(
            "[exec] does not say what runs side by side",
            "add parallel = \"gpus\", or the number of servers at once",
        ),
        /// GPUs of each server. Default: tensor × pipeline × data parallel size, from its flags. 0: none.
        pub gpus: Option<u32> = whole(0..=1024),
        /// Time to wait for GPUs in use by others. Default: the rest of `optimize.budget` or `max_time`, at least `10m`.
        pub wait: Option<Duration>,
        /// Starts no server while another one is measured. Default: true for servers on GPUs; false for the simulator and without GPUs. Not
        /// with a `runner` that loads the engine itself.
        pub starts_apart: Option<bool>,
        /// Servers that always run alone: `true` for each, or values of parameters such as `{ tensor_parallel_size = ">=4" }`, all of which
        /// must hold. Default: false.
        pub exclusive: Option<Vec<Condition>> = by::<Exclusive, _>(exclusive),
    }
    then Exec::check
}

any_of! {
    /// Servers that run alone.
    pub Exclusive {
        /// Each or none.
        bool,
        /// Servers with these parameters.
        BTreeMap<String, Scalar>,
    }
}

any_of! {
    /// Number of servers that run at the same time.
    pub SideBySide {
        /// As many as a resource allows.
        Parallel,
        /// At most so many.
        u32,
    }
}

words! {
    /// Resource that is divided among servers that run at the same time.
    impl Parallel("Resource") {
        /// GPUs.
        "gpus",
    }
}

/// Number of servers that run at the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Parallel {
    /// One after the other.
    #[default]
    No,
    /// As many as fit on the GPUs.
    Gpus,
    /// At most this many.
    Servers(u32),
}

impl Exec {
    /// Shortest time to wait for GPUs that others use, unless the plan says otherwise.
    pub const WAIT: Duration = Duration::from_secs(10 * 60);

    /// Returns true if a server with these parameters always runs alone.
    pub fn is_exclusive(&self, params: &Params) -> bool {
        let conditions = self.exclusive.as_ref();
        conditions.is_some_and(|conditions| conditions.iter().all(|condition| condition.holds(params)))
    }

    /// Returns true if a server with this command line and number of GPUs must not start while another one is measured.
    pub fn starts_apart(&self, argv: &[String], gpus: u32) -> bool {
        let is_heavy = gpus > 0 && ServeCommand::of(argv).program() != Program::Simulator;
        self.starts_apart.unwrap_or(is_heavy)
    }

    fn check(&mut self, reader: &mut Reader<'_>, node: &Node) {
        if let (Some(gpus), Some(0), Parallel::Gpus) = (node.child("gpus"), self.gpus, self.parallel) {
            let message = "servers without GPUs cannot be packed by GPUs";
            reader.object(gpus.span, message, "say how many run at once: parallel = 4");
        }
    }
}

impl Plan {
    /// Returns the longest time to wait for GPUs that others use, if work may take `left` more; `None` if that has no limit.
    pub fn gpu_wait(&self, left: Option<Duration>) -> Duration {
        self.exec.wait.unwrap_or(left.unwrap_or_default().max(Exec::WAIT))
    }
}

impl FromNode for Parallel {
    type Written = SideBySide;

    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Parallel> {
        match &node.kind {
            Kind::Text(_) => reader.word::<Parallel>(node, what).map(|_| Parallel::Gpus),
            Kind::Number(_) => reader.whole(node, what, 1..=MOST_SERVERS).map(Parallel::Servers),
            _ => {
                let remedy = "write parallel = \"gpus\", or parallel = 4";
                reader.not_a("\"gpus\" or a number of servers", node, what, remedy)
            }
        }
    }
}

/// Reads `exclusive`: the conditions, an empty list for every server, or `None` for no server.
fn exclusive(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Option<Vec<Condition>>> {
    if let Kind::Bool(is_all) = node.kind {
        return Some(is_all.then(Vec::new));
    }
    let remedy = "write exclusive = true, or exclusive = { tensor_parallel_size = \">=4\" }";
    if matches!(&node.kind, Kind::Table(conditions) if conditions.is_empty()) {
        return reader.refuse(node.span, format!("`{what}` has no condition"), remedy);
    }
    let conditions = reader.conditions(node, what, remedy);
    if let Some(of_load) = conditions.iter().find(|condition| condition.param.side == Side::Bench) {
        let name = &of_load.param.name;
        let message = format!("`{name}` is a parameter of the load, and servers run side by side");
        reader.object(node.span, message, "name parameters of the server");
    }
    Some(Some(conditions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_of_others_are_waited_for_as_long_as_the_budget_lasts() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        let mut plan = Plan::default();
        assert_eq!(plan.gpu_wait(None), Exec::WAIT);
        assert_eq!(plan.gpu_wait(Some(hours(2))), hours(2));
        assert_eq!(plan.gpu_wait(Some(hours(0))), Exec::WAIT, "the budget is spent");
        plan.exec.wait = Some(hours(1));
        assert_eq!(plan.gpu_wait(Some(hours(5))), hours(1));
    }

    #[test]
    fn starts_of_real_servers_on_gpus_are_kept_apart_unless_the_plan_says_otherwise() {
        let apart = |starts_apart: Option<bool>, line: &str, gpus: u32| {
            let exec = Exec {
                starts_apart,
                ..Exec::default()
            };
            exec.starts_apart(&shell_words::split(line).expect("closed quotes"), gpus)
        };
        for line in ["vllm serve m", "docker run i vllm serve m", "sglang serve m", "./own"] {
            assert!(apart(None, line, 1), "{line}");
            assert!(!apart(None, line, 0), "{line}");
            assert!(!apart(Some(false), line, 8), "{line}");
        }
        assert!(!apart(None, "vsweep sim serve m", 8));
        assert!(apart(Some(true), "vsweep sim serve m", 0));
    }
}
