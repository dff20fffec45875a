//! The `[optimize]` table: chooses, one start after another, which of the plan's servers to start, so that the best is known after few
//! starts.

use crate::{Node, Plan, Reader, Runs, Target, table};
use std::iter;
use std::time::Duration;
use vsweep_strategy::search;

/// Keys about repeated starts. An optimisation does not allow them, because it decides itself what is started again.
pub(crate) const ON_REPEATED_STARTS: [&str; 2] = ["starts", "repeat_first"];
/// Metrics that are computed from those of the result, and may be an objective.
const DERIVED: [&str; 2] = ["tokens_per_gpu", "tokens_per_user"];

table! {
    /// Chooses which of the plan's servers to start, so that the best is known after few starts (docs/optimize.md). Its limits
    /// do not count the starts that measure winners alone (docs/packing.md). Not with `starts`, `repeat_first`, `url`, `[explore]`, `[compare]` or
    /// `runs = { until }`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Optimize("OptimizeTable", "optimize.") {
        /// The figure to optimise: a metric of the result, or with `[sla]` the name of a target, whose load counts. Default: the load of
        /// the first target, else the throughput.
        pub objective: Option<String>,
        /// No server starts after this much time of work with `[optimize]`, such as `6h`. Default: no limit.
        pub budget: Option<Duration>,
        /// At most this many server starts, failed ones included. Default: no limit.
        pub starts: Option<u32> = whole(1..=1_000_000),
        /// Starts of the best server, as far as the budget allows. Default: 1.
        pub best_starts: Option<u32> = whole(1..=100),
        /// Ends when the best server found is within `report.margin` of the best of all with this probability. Default: 0.95.
        pub certainty: f64 = by::<f64, _>(|reader, node, what| reader.ratio(node, what, 0.5..=0.999)).or(0.95),
    }
}

impl Plan {
    /// Rejects settings that do not work with an optimisation, and an objective that nothing measures.
    pub(crate) fn check_optimize(&self, reader: &mut Reader<'_>, root: &Node, optimize: &Node) {
        let mut refuse = |message: &str, remedy: &str| reader.object(optimize.span, message, remedy);
        if let Target::Attach(_) = self.serve.target {
            let message = "[optimize] starts the servers that it chooses, and this plan has a `url`";
            refuse(message, "give `serve.command`");
        }
        if let Runs::Until { .. } = self.runs {
            let message = "[optimize] needs the same number of runs on every start";
            refuse(message, "write a plain number, such as runs = 2");
        }
        let conflicts = ON_REPEATED_STARTS.map(|key| (key, format!("`{key}`")));
        for (key, name) in iter::once(("compare", "[compare]".to_owned())).chain(conflicts) {
            if root.child(key).is_some() {
                let message = format!("[optimize] decides itself what is started, so it does not go with {name}");
                refuse(&message, &format!("remove {name}, or write two plans"));
            }
        }
        let stated = self.optimize.as_ref().and_then(|optimize| optimize.objective.clone());
        // A search that cannot be read may have a target of this name.
        let is_known = self.sla.is_some() || root.child("sla").is_none();
        if let (Some(objective), Some(node)) = (stated.filter(|_| is_known), optimize.child("objective")) {
            check_objective(self.sla.as_ref(), objective, reader, node);
        }
    }
}

fn check_objective(sla: Option<&search::Settings>, objective: String, reader: &mut Reader<'_>, node: &Node) {
    let Some(sla) = sla else {
        if !DERIVED.contains(&objective.as_str()) {
            let _ = reader.known_metric(objective, node.span);
        }
        return;
    };
    let names: Vec<&str> = sla.targets.iter().map(|target| &*target.name).collect();
    if !names.contains(&objective.as_str()) {
        let message = format!("no target of [sla] is called `{objective}`");
        let remedy = format!(
            "write {}, whose highest load is then the objective, or remove [sla]",
            names.join(" or ")
        );
        reader.object(node.span, message, remedy);
    }
}
