//! The servers of an experiment that are up now.

use serde::Serialize;
use vsweep_record::journal::{ServerRecord, State};

/// A server that is up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Up {
    /// Its settings, for people.
    pub name: String,
    /// The GPUs that it was given, if any were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<u32>,
}

impl Up {
    /// Those that the last session started and that have not ended.
    pub(super) fn of(state: &State) -> Vec<Up> {
        let session = state.last_session().map(|session| session.nonce());
        let up = |server: &ServerRecord| {
            let start = server.starts.last()?;
            let is_up = start.exited_at.is_none() && Some(start.launch.session) == session;
            is_up.then(|| Up {
                name: server.name.clone(),
                gpus: start.gpus.clone(),
            })
        };
        state.servers.values().filter_map(up).collect()
    }
}
