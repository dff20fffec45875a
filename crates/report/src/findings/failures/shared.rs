//! The settings that the servers of some runs share, which point at the cause of a failure.

use crate::texts::words::server_name;
use itertools::Itertools;
use std::collections::HashSet;
use vsweep_base::ids::ServerId;
use vsweep_record::journal::State;

/// The settings that all these servers share and some other server of the experiment lacks: `TP 1, KV cache fp8`; empty if there are none.
pub fn settings(servers: &HashSet<&ServerId>, state: &State) -> String {
    let parts = |server: &ServerId| server_name(server, state).split(", ").map(str::to_owned).collect_vec();
    let mut rest = servers.iter().sorted();
    let mut shared = rest.next().map_or_else(Vec::new, |first| parts(first));
    for server in rest {
        let parts = parts(server);
        shared.retain(|part| parts.contains(part));
    }
    let mut usual = shared.clone();
    for other in state.servers.keys().filter(|server| !servers.contains(server)) {
        let parts = parts(other);
        usual.retain(|part| parts.contains(part));
    }
    shared.retain(|part| !usual.contains(part));
    shared.join(", ")
}
