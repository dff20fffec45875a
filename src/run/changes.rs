//! What an edited plan means for what was measured before: which points stay, which are new and why, which leave the
//! tables.

use crate::ids::{PointId, SearchId, ServerId, sha256_hex};
use crate::journal::State;
use crate::matrix::{Matrix, ServerConfig};
use crate::plan::{Plan, Secrets};
use crate::units::show_count;
use std::collections::{BTreeMap, BTreeSet};

/// The difference between a record and a plan.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Recorded points that are not in the plan and were until now.
    pub dropped: Vec<PointId>,
    /// Recorded points that are in the plan again.
    pub restored: Vec<PointId>,
    /// Points of the plan with a record.
    pub kept: u64,
    /// Points of the plan without one.
    pub new: u64,
    /// Why servers have a new identity, one sentence each.
    pub reasons: Vec<String>,
    /// The searches of the plan.
    pub searches: BTreeSet<SearchId>,
    is_edited: bool,
}

impl Changes {
    /// Compares. An untouched plan has no changes unless the environment or a file it names has changed.
    pub fn between(state: &State, matrix: &Matrix, plan: &Plan) -> Changes {
        let is_first = state.sessions.is_empty();
        let digest = sha256_hex(plan.redacted_text().as_bytes());
        let is_edited = state
            .sessions
            .last()
            .is_some_and(|session| session.plan_sha256 != digest);
        // The environment and local files also decide identities, so recorded points are compared even if the text is
        // the same.
        let recorded: BTreeSet<&PointId> = state.recorded_points();
        let of_server = |server: ServerConfig| matrix.search_ids_of(&server);
        let searches: BTreeSet<SearchId> = match matrix.counts().searches {
            0 => BTreeSet::new(),
            _ => matrix.servers().flat_map(of_server).collect(),
        };
        if is_first || recorded.is_empty() {
            return Changes {
                searches,
                ..Changes::default()
            };
        }
        let mut present: BTreeSet<PointId> = state.probed_points(&searches).cloned().collect();
        let mut changes = Changes {
            is_edited,
            searches,
            ..Changes::default()
        };
        let mut unknown_servers: BTreeMap<ServerId, ServerConfig> = BTreeMap::new();
        for server in matrix.servers() {
            if !state.servers.contains_key(&server.id) {
                unknown_servers.insert(server.id.clone(), server.clone());
            }
            for point in matrix.points_of(&server) {
                match recorded.get(&point.id) {
                    Some(id) => {
                        present.insert((*id).clone());
                    }
                    None => changes.new += 1,
                }
            }
        }
        changes.kept = present.len() as u64;
        for id in recorded {
            match (present.contains(id), state.dropped.contains(id)) {
                (false, false) => changes.dropped.push(id.clone()),
                (true, true) => changes.restored.push(id.clone()),
                _ => {}
            }
        }
        changes.reasons = unknown_servers
            .values()
            .filter_map(|server| reason(server, state, &plan.secrets))
            .collect();
        changes
    }

    /// Whether the record must say that something changed.
    pub fn is_any(&self) -> bool {
        self.is_edited || !self.dropped.is_empty() || !self.restored.is_empty()
    }

    /// What to tell the user; nothing if nothing changed.
    pub fn notes(&self) -> Vec<String> {
        if !self.is_any() {
            return Vec::new();
        }
        let mut notes = vec![format!(
            "the plan changed since the last session: {} of its points are already recorded and kept, {} are not",
            show_count(self.kept),
            show_count(self.new)
        )];
        if !self.dropped.is_empty() {
            notes.push(format!(
                "{} recorded points are no longer in the plan; they leave the tables but stay in the journal",
                show_count(self.dropped.len() as u64)
            ));
        }
        if !self.restored.is_empty() {
            notes.push(format!(
                "{} points recorded earlier are in the plan again and count again",
                show_count(self.restored.len() as u64)
            ));
        }
        notes.extend(self.reasons.iter().cloned());
        notes
    }
}

/// Why a server is new: how it differs from a recorded one of the same name.
fn reason(server: &ServerConfig, state: &State, secrets: &Secrets) -> Option<String> {
    let before = state.servers.values().find(|record| record.name == server.name)?;
    let argv = secrets.redact_argv(&server.argv);
    let env = secrets.redact_env(&server.env);
    let mut differences = Vec::new();
    let removed: Vec<&str> = missing(&before.argv, &argv);
    let added: Vec<&str> = missing(&argv, &before.argv);
    if !removed.is_empty() || !added.is_empty() {
        differences.push(format!("`{}` became `{}`", removed.join(" "), added.join(" ")));
    }
    for name in before.env.keys().chain(env.keys()).collect::<BTreeSet<_>>() {
        if before.env.get(name) != env.get(name) {
            differences.push(format!("environment variable {name} changed"));
        }
    }
    (!differences.is_empty()).then(|| format!("server `{}` is measured again: {}", server.name, differences.join(", ")))
}

fn missing<'a>(from: &'a [String], other: &[String]) -> Vec<&'a str> {
    from.iter()
        .filter(|token| !other.contains(token))
        .map(String::as_str)
        .collect()
}
