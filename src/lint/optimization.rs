//! Checks that an optimisation has figures to choose by: of points or of searches, and of one workload, since another one may have another
//! best server.

use super::loads;
use crate::matrix::Matrix;
use crate::plan::{Diagnostics, Params, Plan, equality_key};
use crate::table::is_of_load;
use itertools::Itertools;

/// Checks that a plan with `[optimize]` measures what it can choose by, for a single workload.
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
    let all = loads(matrix).map(workload).unique().collect_vec();
    let settings = all.iter().flatten();
    let settings = settings.filter(|setting| !all.iter().all(|own| own.contains(setting)));
    let names = settings.map(|(name, _)| name).unique().join(", ");
    if all.len() > 1 {
        let message = format!(
            "[optimize] has one workload, and the plan has {}, which differ in {names}",
            all.len()
        );
        let remedy = "leave one value of each, or write a plan for each workload";
        refuse(message, remedy);
    }
}
