//! Servers that start faster because a recorded server or an earlier one of the plan has compiled their graphs.

use super::Options;
use super::learn::Calibration;
use crate::agenda::Schedule;
use crate::ids::ServerId;
use crate::journal::{ServerRecord, State};
use crate::matrix::ServerConfig;
use std::collections::HashSet;

/// Compiled graphs of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedGraphs {
    /// Key of the graphs, which servers with equal compile settings share.
    pub key: String,
    /// Time that they save a start, in seconds.
    pub saved_s: f64,
    /// True if the first start was predicted with compiled graphs.
    pub is_compiled: bool,
}

/// Returns the servers that were never ready, but whose graphs another server compiles first if servers start in the order of the plan.
pub(super) fn compiled_by_others(
    schedule: &Schedule<'_>,
    done: &State,
    calibration: &Calibration,
    options: &Options,
) -> HashSet<ServerId> {
    let is_ready = |server: &ServerId| done.servers.get(server).is_some_and(ServerRecord::was_ready);
    let graphs = |server: ServerConfig| {
        let modelled = calibration.stand_in(&server, options).ok()?;
        Some((modelled.graphs()?, server.id))
    };
    let (ready, others): (Vec<_>, Vec<_>) = schedule
        .servers()
        .filter_map(graphs)
        .partition(|(_, server)| is_ready(server));
    let mut known: HashSet<String> = ready.into_iter().map(|(graphs, _)| graphs).collect();
    let others = others
        .into_iter()
        .filter_map(|(graphs, server)| (!known.insert(graphs)).then_some(server));
    others.collect()
}
