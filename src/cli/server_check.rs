//! What stands against the addresses of a plan's servers, found before anything starts: that no server could obey it, or that
//! somebody else listens there.

use super::native_check::MOST_POINTS;
use crate::cause::Failure;
use crate::matrix::Matrix;
use crate::plan::{Diagnostics, Parallel, Plan, Target};
use crate::server::address::{Address, Taken};
use std::collections::{BTreeSet, HashSet};

/// Checks what the command lines of the servers that the plan launches say about their addresses.
pub fn check(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let objections = addresses(plan, matrix).filter_map(|address| Some(address.err()?.detail));
    let remedy = "correct it, or remove it: vsweep then chooses a free port";
    add(plan, objections.collect(), remedy, found);
    if plan.exec.parallel != Parallel::No {
        check_side_by_side(plan, matrix, found);
    }
}

/// Servers that run side by side on a machine get ports and GPUs from vsweep, or from what started it.
pub fn check_side_by_side(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let given = addresses(plan, matrix).flatten().filter_map(|address| address.port);
    let refused = |port| format!("servers that run side by side cannot all listen on port {port}");
    let remedy = "remove it: vsweep then chooses a free port for each";
    add(plan, given.map(refused).take(1).collect(), remedy, found);
    check_devices(plan, matrix, found);
}

/// Looks whether somebody holds a port of theirs who will not let it go.
pub fn check_ports(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let addresses: HashSet<Address> = addresses(plan, matrix).flatten().collect();
    let taken = addresses.iter().filter_map(Address::taken).filter(Taken::stays);
    let remedy = "stop that process, or remove the port: vsweep then chooses a free one";
    add(plan, taken.map(|taken| taken.failure().detail).collect(), remedy, found);
}

/// Servers that run side by side get their GPUs from vsweep.
fn check_devices(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    if plan.exec.gpus == Some(0) {
        return;
    }
    let names = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"];
    let is_given = |name: &&str| {
        matrix
            .servers()
            .take(MOST_POINTS)
            .any(|server| server.env.contains_key(*name))
    };
    for name in names.into_iter().filter(is_given) {
        let message = format!("servers that run side by side are given their GPUs, and the plan sets {name}");
        let remedy = "remove it; set it for vsweep itself to say which GPUs it may use";
        let place = match plan.origin.has(&["serve", "env", name]) {
            true => plan.origin.key_span(&["serve", "env", name]),
            false => plan.origin.key_span(&["exec", "parallel"]),
        };
        found.object(place, message, remedy);
    }
}

fn addresses<'a>(plan: &Plan, matrix: &'a Matrix) -> impl Iterator<Item = Result<Address, Failure>> + use<'a> {
    let launched = matches!(plan.serve.target, Target::Launch(_)) && plan.bench.runner.offline().is_none();
    let servers = matrix.servers().take(if launched { MOST_POINTS } else { 0 });
    servers.map(|server| Address::read(&server.argv))
}

fn add(plan: &Plan, objections: BTreeSet<String>, remedy: &str, found: &mut Diagnostics) {
    let is_param = |name: &&str| plan.origin.has(&["serve", "params", name]);
    let place = match ["port", "uds"].iter().find(|name| is_param(name)) {
        Some(name) => plan.origin.value_span(&["serve", "params", name]),
        None => plan.origin.value_span(&["serve", "command"]),
    };
    for objection in objections {
        found.object(place, objection, remedy);
    }
}
