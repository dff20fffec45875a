//! Checks the addresses of a plan's servers, and reports those that no server can use, or on which another process listens.

use super::launched;
use crate::cause::Failure;
use crate::matrix::Matrix;
use crate::plan::{Diagnostics, Parallel, Plan};
use crate::server::address::Address;
use std::collections::{BTreeSet, HashSet};

/// Checks the addresses on the command lines of the servers that the plan launches.
pub(super) fn check(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let objections = addresses(plan, matrix).filter_map(|address| Some(address.err()?.detail));
    let remedy = "correct it, or remove it: vsweep then chooses a free port";
    add(plan, objections, remedy, found);
    if plan.exec.parallel != Parallel::No {
        check_side_by_side(plan, matrix, found);
    }
}

/// Rejects ports and GPUs that the plan sets for servers that run side by side. Each server gets its own from vsweep, or from the cluster
/// that starts the workers.
pub fn check_side_by_side(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let given = addresses(plan, matrix).flatten().filter_map(|address| address.port);
    let refused = |port| format!("servers that run side by side cannot all listen on port {port}");
    let remedy = "remove it: vsweep then chooses a free port for each";
    add(plan, given.map(refused).take(1), remedy, found);
    if plan.exec.gpus == Some(0) {
        return;
    }
    for name in ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"] {
        if !launched(plan, matrix).any(|server| server.env.contains_key(name)) {
            continue;
        }
        let message = format!("servers that run side by side are given their GPUs, and the plan sets {name}");
        let remedy = "remove it; set it for vsweep itself to say which GPUs it may use";
        let place = match plan.origin.has(&["serve", "env", name]) {
            true => plan.origin.key_span(&["serve", "env", name]),
            false => plan.origin.key_span(&["exec", "parallel"]),
        };
        found.object(place, message, remedy);
    }
}

/// Reports ports of the plan's servers that another process holds and will not release.
pub(super) fn check_ports(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let addresses: HashSet<Address> = addresses(plan, matrix).flatten().collect();
    let taken = addresses.iter().filter_map(Address::taken).filter(|(_, stays)| *stays);
    let remedy = "stop that process, or remove the port: vsweep then chooses a free one";
    add(plan, taken.map(|(failure, _)| failure.detail), remedy, found);
}

/// Returns the address of each server, or the reason why it cannot be used. An offline benchmark has no server that listens.
fn addresses<'a>(plan: &Plan, matrix: &'a Matrix) -> impl Iterator<Item = Result<Address, Failure>> + use<'a> {
    let listens = plan.bench.runner.offline().is_none();
    let servers = launched(plan, matrix).filter(move |_| listens);
    servers.map(|server| Address::read(&server.argv))
}

/// Adds each objection once.
fn add(plan: &Plan, objections: impl Iterator<Item = String>, remedy: &str, found: &mut Diagnostics) {
    let is_param = |name: &&str| plan.origin.has(&["serve", "params", name]);
    let place = match ["port", "uds"].iter().find(|name| is_param(name)) {
        Some(name) => plan.origin.value_span(&["serve", "params", name]),
        None => plan.origin.value_span(&["serve", "command"]),
    };
    for objection in objections.collect::<BTreeSet<String>>() {
        found.object(place, objection, remedy);
    }
}
