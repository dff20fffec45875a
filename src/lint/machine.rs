//! Checks this machine for the needs of a sweep: the plan's programs, the ports of its servers, its GPUs, and the files of its datasets.

use super::addresses::check_ports;
use super::{MOST, datasets, launched};
use crate::agenda::fits_gpus;
use crate::matrix::{Matrix, ServerConfig};
use crate::plan::checks::members;
use crate::plan::{BenchRunner, Diagnostics, Parallel, Plan, Problem, Program, Reset, ServeCommand, Span};
use crate::run::{Node, demand};
use crate::selection::packed::Capacity;
use crate::server::find_program;
use crate::table::count_gpus;
use crate::units::show_many;
use std::collections::{BTreeMap, BTreeSet};

/// Reports everything that this machine lacks, at its place in the plan. All of `servers` must fit on its GPUs.
pub fn check(
    plan: &Plan,
    matrix: &Matrix,
    node: Option<&Node>,
    servers: impl Iterator<Item = ServerConfig>,
    found: &mut Diagnostics,
) {
    let place = |keys: &[&str]| plan.origin.value_span(keys);
    let no_env = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for server in launched(plan, matrix).filter(|server| seen.insert(server.argv.first().cloned())) {
        program(&server.argv, &server.env, place(&["serve", "command"]), found);
    }
    check_ports(plan, matrix, found);
    if let Some(node) = node {
        gpus(plan, servers, node.capacity, found);
    }
    if let Reset::Command(argv) = &plan.serve.reset {
        program(argv, &no_env, place(&["serve", "reset"]), found);
    }
    if let stop @ [_, ..] = plan.serve.protocol.stop_command.as_slice() {
        program(stop, &no_env, place(&["serve", "stop_command"]), found);
    }
    if let Some(hook) = &plan.on_finish {
        program(&hook.command, &no_env, place(&["on_finish", "command"]), found);
    }
    let members = plan.serve.protocol.members.commands.iter();
    for argv in members.filter(|argv| argv[0] != members::COMMAND) {
        program(argv, &no_env, place(&["serve", "members"]), found);
    }
    match &plan.bench.runner {
        BenchRunner::Command(commands) => {
            for argv in commands.iter() {
                program(argv, &plan.bench.env, place(&["bench", "command"]), found);
            }
        }
        BenchRunner::Native => datasets::check(plan, matrix, true, found),
        BenchRunner::Iterations | BenchRunner::Phases | BenchRunner::Offline(_) => {}
    }
}

/// Checks that there are GPUs for servers that run at the same time, and enough for each of them.
fn gpus(plan: &Plan, servers: impl Iterator<Item = ServerConfig>, capacity: Capacity, found: &mut Diagnostics) {
    let place = plan.origin.value_span(&["exec", "parallel"]);
    if plan.exec.parallel == Parallel::Gpus && capacity.gpus == 0 {
        let message = "no GPU was found on this machine";
        let remedy = "see what `nvidia-smi` and CUDA_VISIBLE_DEVICES say, or let a number of servers run at once without GPUs: \
                      parallel = 4";
        found.object(place, message, remedy);
        return;
    }
    let servers = servers.take(MOST);
    let Some(widest) = servers.max_by_key(|server| demand(&plan.exec, capacity, server)) else {
        return;
    };
    let (each, available) = (demand(&plan.exec, capacity, &widest), capacity.gpus);
    if plan.compare.is_some() && 2 * each > available {
        let message = format!("two servers at once need {} GPUs, and there are {available}", 2 * each);
        let remedy = "remove [exec] to measure them in turn on the same GPUs, or set exec.gpus if they need fewer";
        found.object(place, message, remedy);
    } else if each > available {
        let name = plan.secrets.redact(&widest.name);
        let message = format!("the server `{name}` needs {each} GPUs, and there are {available}");
        let remedy = "leave out what does not fit with [[exclude]] or --only, or set exec.gpus if it needs fewer";
        found.object(place, message, remedy);
    }
}

/// Checks that an optimisation has a server that fits on the user's GPUs.
pub fn check_sizes(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let Some(gpus) = plan.report.gpus.filter(|_| plan.optimize.is_some()) else {
        return;
    };
    let mut servers = matrix.servers().peekable();
    if servers.peek().is_some() && !servers.any(|server| fits_gpus(plan, &server)) {
        let key: &[&str] = match plan.origin.has(&["report", "gpus"]) {
            true => &["report", "gpus"],
            false => &["optimize"],
        };
        let message = format!("every server needs more than {}", show_many(u64::from(gpus), "GPU"));
        let remedy = "give smaller parallel sizes, or say how many GPUs there are: [report] gpus = 8";
        found.object(plan.origin.value_span(key), message, remedy);
    }
}

/// Warns of servers whose own file of flags may set their parallel sizes, because that file is not read.
pub(super) fn warn_of_config(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let hides_sizes = |server: ServerConfig| {
        let command = ServeCommand::of(&server.argv);
        let is_known = command.program() != Program::Other;
        is_known && command.has("config") && count_gpus(&server.params, &server.argv).is_none()
    };
    if launched(plan, matrix).any(hides_sizes) {
        let message = "the number of GPUs is not known: the file of --config may set parallel sizes";
        let remedy = "repeat them as parameters, such as tensor_parallel_size = 4, or there are no figures per GPU";
        found.warn(Problem::new(
            plan.origin.value_span(&["serve", "command"]),
            message,
            remedy,
        ));
    }
}

/// Reports a program that cannot be found.
fn program(argv: &[String], env: &BTreeMap<String, String>, place: Span, found: &mut Diagnostics) {
    if let Err(failure) = find_program(argv, env) {
        let remedy = "install it, activate its environment, or correct the name";
        found.object(place, failure.detail, remedy);
    }
}
