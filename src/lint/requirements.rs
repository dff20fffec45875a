//! Checks that each requirement of points applies to some point of the plan, and that an optimisation has figures to choose by.

use super::loads;
use crate::matrix::{Matrix, ServerConfig};
use crate::plan::{Diagnostics, Params, Plan, Requirement, equality_key};
use crate::table::is_of_load;
use crate::units::show_many;
use itertools::Itertools;

/// Largest number of points of a plan whose conditions are checked.
const MOST_POINTS: u64 = 100_000;

/// Rejects conditions that hold for no point, because the requirement would turn out to be undecided after the whole sweep.
pub(super) fn check(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    if matrix.finds_its_loads() || matrix.counts().points > MOST_POINTS {
        return;
    }
    let required = plan.report.requirements.iter();
    let assertions = required.filter_map(Requirement::assertion);
    for (at, assertion) in assertions.enumerate().filter(|(_, it)| !it.conditions.is_empty()) {
        let mut servers = matrix.servers();
        let is_about = servers.any(|server| {
            let mut points = matrix.points_of(&server);
            points.any(|point| assertion.is_about(&server.params, &point.params))
        });
        if !is_about {
            let span = plan.origin.key_span(&["assert", &at.to_string(), "where"]);
            let message = "no point of the plan has these parameters";
            found.object(span, message, "write values that the plan has, or remove `where`");
        }
    }
}

/// Checks that a plan with `[optimize]` measures figures by which it can choose.
pub(super) fn check_choice(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
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
    let counts = matrix.counts();
    let is_cut = counts.removed.iter().any(|removed| removed.pairs > 0);
    if workloads > 1 && is_cut && counts.points + counts.searches <= MOST_POINTS {
        let of_server = |server: ServerConfig| {
            let points = matrix.points_of(&server).map(|point| point.params);
            let searches = matrix.searches_of(&server).map(|search| search.params);
            points.chain(searches).map(workload).unique().collect_vec()
        };
        let by_server = matrix.servers().map(of_server).collect_vec();
        let all = by_server.iter().flatten().unique().count();
        let lacking = by_server.iter().filter(|own| own.len() < all).count();
        if lacking > 0 {
            let lack = show_many(lacking as u64, "server");
            let message = format!(
                "[optimize] ranks servers by all {all} workloads together, and links or exclusions leave {lack} without one of them"
            );
            refuse(message, "let every server keep each workload, or leave one workload");
        }
    }
    if workloads > 1 && plan.sla.as_ref().is_some_and(|sla| sla.skip_beaten) {
        let message = format!(
            "skip_beaten ends the searches of a server that loses one workload, and [optimize] weighs all {workloads}"
        );
        refuse(message, "remove skip_beaten, or leave one workload");
    }
}
