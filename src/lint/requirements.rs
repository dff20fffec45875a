//! Checks that each requirement of points is about some point of the plan.

use crate::matrix::Matrix;
use crate::plan::{Diagnostics, Plan, Required};

/// Points of a plan above which nobody looks at each.
const MOST_POINTS: u64 = 100_000;

/// Refuses conditions that hold for no point, so that a requirement is not undecided after a night.
pub(super) fn check(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    if matrix.finds_its_loads() || matrix.counts().points > MOST_POINTS {
        return;
    }
    let assertions = plan
        .report
        .requirements
        .iter()
        .filter_map(|required| match &required.what {
            Required::Points(assertion) => Some(assertion),
            Required::Target(_) => None,
        });
    for (at, assertion) in assertions.enumerate().filter(|(_, own)| !own.conditions.is_empty()) {
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
