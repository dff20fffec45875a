//! The assertions of a plan as targets of its questions, each with the points that it is about.

use super::Evidence;
use crate::table::{Point, Workload};
use itertools::Itertools;
use vsweep_answer::{About, Target};
use vsweep_plan::{Assertion, Params, Requirement};
use vsweep_strategy::search::Criterion;

/// Every bound of every assertion.
pub(super) fn criteria<'e>(evidence: &Evidence<'e>) -> impl Iterator<Item = &'e Criterion> {
    evidence.requirements.iter().flat_map(Requirement::criteria)
}

/// The assertions as targets, each with the points that it is about.
pub(super) fn targets(evidence: &Evidence<'_>, workloads: &[Workload<'_>]) -> Vec<Target> {
    let of_assertion = |assertion: &Assertion| {
        let about = about(evidence, workloads, assertion);
        let target = |criterion: &Criterion| Target {
            metric: criterion.figure(),
            bound: criterion.operator,
            limit: criterion.limit,
            about: about.clone(),
        };
        assertion.criteria.iter().map(target).collect_vec()
    };
    let assertions = evidence.requirements.iter().filter_map(Requirement::assertion);
    assertions.flat_map(of_assertion).collect()
}

/// The points that an assertion with conditions is about; none listed where it is about all.
fn about(evidence: &Evidence<'_>, workloads: &[Workload<'_>], assertion: &Assertion) -> Vec<About> {
    if assertion.conditions.is_empty() {
        return Vec::new();
    }
    let none = Params::new();
    let is_about = |point: &Point| {
        let Some(run) = evidence.runs.get(point.row) else {
            return false;
        };
        let server = evidence.state.servers.get(&run.server);
        assertion.is_about(server.map_or(&none, |server| &server.params), &run.params)
    };
    let of_workload = |workload: &Workload<'_>| {
        let name = evidence.names.workload(workload);
        let points = workload.points.iter().map(|at| &evidence.points.points[*at]);
        let about = points.filter(|point| is_about(point)).map(|point| About {
            config: evidence.config_of(point.row),
            workload: name.clone(),
            point: point.id.to_string(),
        });
        about.collect_vec()
    };
    let about = workloads.iter().flat_map(of_workload).collect_vec();
    match about.is_empty() {
        // One that is about no point of the plan bounds none.
        true => vec![About {
            config: String::new(),
            workload: String::new(),
            point: String::new(),
        }],
        false => about,
    }
}
