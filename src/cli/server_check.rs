//! What a server's command line says about its address that no server could obey, found before anything starts.

use super::native_check::MOST_POINTS;
use crate::matrix::Matrix;
use crate::plan::{Found, Plan, Problem, Target};
use crate::server::address::Address;
use std::collections::BTreeSet;

/// Checks the addresses of the servers that the plan launches.
pub fn check(plan: &Plan, matrix: &Matrix, found: &mut Found) {
    if let Target::Attach(_) = plan.serve.target {
        return;
    }
    let servers = matrix.servers().take(MOST_POINTS);
    let objections: BTreeSet<String> = servers
        .filter_map(|server| Some(Address::read(&server.argv).err()?.detail))
        .collect();
    let is_param = |name: &&str| plan.origin.has(&["serve", "params", name]);
    let place = match ["port", "uds"].iter().find(|name| is_param(name)) {
        Some(name) => plan.origin.value_span(&["serve", "params", name]),
        None => plan.origin.value_span(&["serve", "command"]),
    };
    for objection in objections {
        let remedy = "correct it, or remove it: vsweep then chooses a free port";
        found.add(Problem::new(place, objection, remedy));
    }
}
