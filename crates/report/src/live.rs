//! The current activity of an experiment, for a page that polls it: counts, the activity of each server, the runs that ended last, and the
//! readings of the last minutes.

use super::progress::run_name;
use super::telemetry;
use super::texts::status::Status;
use super::texts::words::{server_name, short_label};
use crate::ordered::Ordered;
use itertools::Itertools;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use vsweep_base::ids::ServerId;
use vsweep_record::journal::{Directory, RunRecord, ServerRecord, Session, State};

/// Minutes of readings that are shown.
const MINUTES: i64 = 5;
/// Most ended runs whose readings are shown.
const MOST_READ: usize = 40;
/// Most ended runs that are listed.
const MOST_LISTED: usize = 12;
/// Most servers at the same time whose readings are shown.
const MOST_SERVERS: usize = 8;

/// The current activity, as the page reads it.
#[derive(Debug, Clone, Serialize)]
pub struct LiveStatus {
    /// Version of the page that includes everything up to now.
    pub version: u64,
    /// Time of the status, RFC 3339.
    pub at: String,
    /// Progress of the sweep, as a sentence.
    pub count: String,
    /// True if a vsweep process works on the directory.
    pub working: bool,
    /// Activity of each running server: `server`, `what`, and `since`, the time at which the activity began, if known.
    pub doing: Vec<Value>,
    /// The runs that ended last, the latest first: `name`, `outcome`, `at`.
    pub last: Vec<Value>,
    /// Readings of the last minutes; their times are in seconds before now. Servers that run at the same time have an entry each. An entry
    /// has its charts, `read`, and `server`, which is empty if servers run one after the other.
    pub recent: Vec<Value>,
}

impl LiveStatus {
    /// Returns the activity at a moment from the journals and the predicted seconds left. Only servers of sessions that `is_alive` accepts
    /// are active.
    pub fn of(
        directory: &Directory,
        state: &State,
        seconds_left: Option<f64>,
        working: bool,
        is_alive: &dyn Fn(&Session) -> bool,
        at: Timestamp,
    ) -> LiveStatus {
        let mut status = Status::of(&directory.name(), state);
        status.seconds_left = seconds_left;
        let ended = state.runs().filter(|run| !run.finished_at.is_empty());
        let ended: Vec<&RunRecord> = ended.ordered_by(|a, b| b.finished_at.cmp(&a.finished_at)).collect();
        let last = ended.iter().take(MOST_LISTED).map(|run| {
            let name = run_name(&run.server, &run.name, &run.number(), state);
            json!({"name": name, "outcome": run.outcome.to_string(), "at": run.finished_at})
        });
        LiveStatus {
            version: 0,
            count: status.progress(),
            working,
            doing: if working { doing(state, is_alive) } else { Vec::new() },
            last: last.collect(),
            recent: recent(directory, state, &ended, working, at),
            at: at.to_string(),
        }
    }
}

fn doing(state: &State, is_alive: &dyn Fn(&Session) -> bool) -> Vec<Value> {
    let open = state.runs_in_progress();
    let unended = state.sessions().iter().filter(|session| session.ended.is_none());
    let alive = unended.filter(|session| is_alive(session));
    let sessions: Vec<_> = alive.map(|session| session.nonce()).collect();
    let of_server = |server: &ServerRecord| {
        let mut starts = server.launches.iter();
        // A session has one process of a config at a time, so earlier starts without an end are gone.
        let start = starts.rfind(|start| start.exited_at.is_none() && sessions.contains(&start.launch.session))?;
        let run = open.iter().find(|run| run.launch == Some(start.launch));
        let (what, since) = match (&start.ready, run) {
            (None, _) => ("starting".to_owned(), Some(start.started_at.clone())),
            (Some(_), Some(run)) => (format!("running {} #{}", short_label(&run.name), run.number()), None),
            (Some(_), None) => ("ready, between two runs".to_owned(), None),
        };
        let server = match short_label(&server.name) {
            name if name.is_empty() => "server".to_owned(),
            name => name,
        };
        Some(json!({"server": server, "what": what, "since": since}))
    };
    state.servers.values().filter_map(of_server).collect()
}

/// The readings of the runs that are under way, and of those that ended in the last minutes. Their times are in seconds before now. Servers
/// that run at the same time have separate charts; those that run one after the other share them.
fn recent(directory: &Directory, state: &State, ended: &[&RunRecord], working: bool, at: Timestamp) -> Vec<Value> {
    let limit = (MINUTES * 60) as f64;
    let open = if working { state.runs_in_progress() } else { Vec::new() };
    let file = |run: &RunRecord| run.files().telemetry(directory);
    let past = ended.iter().take(MOST_READ).filter_map(|run| {
        let moment: Timestamp = run.finished_at.parse().ok()?;
        let age = (at.as_millisecond() - moment.as_millisecond()) as f64 / 1000.0;
        (0.0..limit)
            .contains(&age)
            .then(|| (&run.server, -age - run.seconds, file(run)))
    });
    // The last reading of a run that goes on is as old as its file.
    let now = open.iter().filter_map(|run| {
        let file = file(run);
        let age = file.metadata().ok()?.modified().ok()?.elapsed().unwrap_or_default();
        Some((&run.server, telemetry::last_second(&file)?, age.as_secs_f64(), file))
    });
    let now = now.map(|(server, last, age, file)| (server, -age - last, file));
    let all: Vec<(&ServerId, f64, PathBuf)> = past.rev().chain(now).collect();
    let read = |name: String, is_theirs: &dyn Fn(&ServerId) -> bool| {
        let theirs = all.iter().filter(|(server, ..)| is_theirs(server));
        let files = theirs.map(|(_, from, path)| (*from, path.clone())).collect_vec();
        let read = telemetry::join(&files, limit);
        (!read.is_null()).then(|| json!({"server": name, "read": read}))
    };
    match open.len() {
        0 | 1 => read(String::new(), &|_| true).into_iter().collect(),
        _ => {
            let own = open.iter().take(MOST_SERVERS);
            own.filter_map(|run| read(server_name(&run.server, state), &|server| *server == run.server))
                .collect()
        }
    }
}
