//! Checks that an optimisation has figures to choose by: of points or of searches.

use super::loads;
use crate::matrix::Matrix;
use crate::plan::{Diagnostics, Params, Plan, equality_key};
use crate::table::is_of_load;
use itertools::Itertools;

/// Checks that a plan with `[optimize]` measures what it can choose by.
pub(super) fn check(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    if plan.optimize.is_none() || !found.is_empty() {
        return;
    }
    let mut refuse = |message: String, remedy: &str| {
        found.object(plan.origin.value_span(&["optimize"]), message, remedy);
    };
    if plan.explore.is_some() {
        let message = "[optimize] compares points or the loads of [sla], and [explore] measures curves";
        refuse(message.to_owned(), "list loads in [bench.params], or use [sla]");
    }
    if let Some(offline) = plan.bench.runner.offline() {
        let message = format!(
            "runner {} has no throughput by which servers are chosen",
            offline.name()
        );
        refuse(message, "remove [optimize]: all servers are measured");
    }
    let workload = |params: Params| {
        let own = params.into_iter().filter(|(name, _)| !is_of_load(name));
        own.map(|(name, value)| (name, equality_key(&value))).collect_vec()
    };
    let workloads = loads(matrix).map(workload).unique().count();
    if workloads > 1 && plan.sla.as_ref().is_some_and(|sla| sla.skip_beaten) {
        let message = format!(
            "skip_beaten ends the searches of a server that loses one workload, and [optimize] weighs all {workloads}"
        );
        refuse(message, "remove skip_beaten, or leave one workload");
    }
}
