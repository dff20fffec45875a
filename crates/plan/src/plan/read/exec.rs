//! The `[exec]` table.

use super::Reader;
use super::params::Names;
use crate::plan::node::{Kind, Node};
use crate::plan::problem::Problem;
use crate::plan::{Condition, Exec, Parallel, Side};
use std::time::Duration;

/// Above it, packing stops.
const SLOWDOWN_PERCENT: f64 = 5.0;
const WAIT: Duration = Duration::from_secs(10 * 60);
/// More processes than any machine bears.
const MOST_SERVERS: u32 = 1024;

impl Reader<'_> {
    /// Reads the table, if there is one. `serve` tells whether there is anything to run side by side.
    pub(super) fn exec(&mut self, node: Option<&Node>, serve: Option<&Node>, names: &Names) -> Exec {
        let mut exec = Exec {
            parallel: Parallel::No,
            gpus: None,
            wait: WAIT,
            interference: Some(SLOWDOWN_PERCENT),
            exclusive: None,
        };
        let Some(node) = node else { return exec };
        let Some(mut fields) = self.open::<Exec>(node, "exec") else {
            return exec;
        };
        match fields.entry("parallel") {
            Some(entry) => {
                exec.parallel = self.parallel(&entry.value);
                if let Some(url) = serve.and_then(|serve| serve.entry("url")) {
                    let message = "a server that is already running has its GPUs, so nothing can run beside it";
                    let remedy = "remove [exec], or launch the servers with `command`";
                    let problem = Problem::new(entry.key_span, message, remedy);
                    self.found.add(problem.and(url.key_span, "attached here"));
                }
            }
            None => {
                let remedy = "add parallel = \"gpus\", or the number of servers at once";
                let message = "[exec] does not say what runs side by side";
                self.object(node.span, message, remedy);
            }
        }
        exec.gpus = fields.whole(self, "gpus");
        if let (Some(gpus), Some(0), Parallel::Gpus) = (fields.get("gpus"), exec.gpus, exec.parallel) {
            let message = "servers without GPUs cannot be told apart by GPUs";
            let remedy = "say how many run at once: parallel = 4";
            self.object(gpus.span, message, remedy);
        }
        exec.wait = fields.duration(self, "wait").unwrap_or(WAIT);
        let interference = fields.with("interference", |node, what| match node.kind {
            Kind::Bool(false) => Some(None),
            _ => Some(self.percent(node, what, 0.1..=1000.0)),
        });
        exec.interference = interference.unwrap_or(Some(SLOWDOWN_PERCENT));
        exec.exclusive = fields.get("exclusive").and_then(|node| self.exclusive(node, names));
        fields.close(&mut self.found);
        exec
    }

    fn exclusive(&mut self, node: &Node, names: &Names) -> Option<Vec<Condition>> {
        if let Kind::Bool(is_each) = node.kind {
            return is_each.then(Vec::new);
        }
        let remedy = "write exclusive = true, or exclusive = { tensor_parallel_size = \">=4\" }";
        let conditions = self.conditions(node, "exec.exclusive", remedy, names);
        if let Some(of_load) = conditions.iter().find(|condition| condition.param.side == Side::Bench) {
            let message = format!(
                "`{}` is a parameter of the load, and servers run side by side",
                of_load.param.name
            );
            self.object(node.span, message, "name parameters of the server");
        }
        Some(conditions)
    }

    fn parallel(&mut self, node: &Node) -> Parallel {
        match &node.kind {
            Kind::Text(_) => {
                let choices = [("gpus", Parallel::Gpus)];
                self.choice(node, "exec.parallel", &choices).unwrap_or(Parallel::No)
            }
            Kind::Number(_) => {
                let servers = self.whole(node, "exec.parallel", 1..=MOST_SERVERS);
                servers.map_or(Parallel::No, Parallel::Servers)
            }
            _ => {
                let message = format!(
                    "`exec.parallel` must be \"gpus\" or a number of servers, found {}",
                    node.kind_name()
                );
                let remedy = "write parallel = \"gpus\", or parallel = 4";
                self.object(node.span, message, remedy);
                Parallel::No
            }
        }
    }
}
