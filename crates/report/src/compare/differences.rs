//! Differences between servers, and between the settings and facts of two sides.

use crate::environment::versions;
use itertools::Itertools;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use vsweep_base::ids::ServerId;
use vsweep_plan::matrix::ServeFlags;
use vsweep_plan::spelling;
use vsweep_record::journal::{ServerRecord, State};

/// One difference between the sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Name of the setting or fact.
    pub name: String,
    /// Its value in the base; empty if it has none.
    pub base: String,
    /// Its value in the new side; empty if it has none.
    pub new: String,
}

/// Differences between two servers of one experiment, including the versions that were measured. `None` if one of them is unknown.
pub fn between_servers(state: &State, base: &ServerId, new: &ServerId) -> Option<Vec<Change>> {
    let facts = |id: &ServerId| {
        let mut facts = of_server(state.servers.get(id)?);
        facts.insert(VERSION.into(), BTreeSet::from([versions(state, Some(id))]));
        Some(facts)
    };
    Some(differing(&facts(base)?, &facts(new)?))
}

const VERSION: &str = "server version";
const MODEL: &str = "model";

/// Program, environment variables, models and flags of a server. Its host and port are left out, because they do not affect figures.
pub(super) fn of_server(server: &ServerRecord) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut note = |name: String, value: String| {
        found.entry(name).or_default().insert(value);
    };
    match ServeFlags::of(&server.argv) {
        Some(flags) => {
            note("server program".into(), flags.program.join(" "));
            let flags = flags.flags.iter();
            let flags = flags.map(|(name, values)| show_flag(&spelling::canonical(name), values));
            let flags = flags.filter(|(name, _)| !["host", "port"].contains(&name.as_str()));
            flags.for_each(|(name, value)| note(format!("serve.{name}"), value));
        }
        None => note("server command".into(), server.argv.join(" ")),
    }
    for (name, value) in &server.env {
        note(format!("environment {name}"), value.clone());
    }
    for ready in server.ready().filter(|ready| !ready.model.is_empty()) {
        note(MODEL.into(), ready.model.clone());
    }
    found
}

/// The name and the value of a flag as a setting; `no_x` without a value is `x = false`.
fn show_flag(name: &str, values: &[String]) -> (String, String) {
    match (name.strip_prefix("no_"), values) {
        (Some(name), []) => (name.into(), "false".into()),
        (None, []) => (name.into(), "true".into()),
        (_, values) => (name.into(), values.join(" ")),
    }
}

/// Returns the names whose values differ. If a side lacks only some values of a load's setting, it lacks the points with these values, which
/// are named separately. A version or a model that one side did not report is unknown, and not different.
pub(super) fn differing(
    base: &BTreeMap<String, BTreeSet<String>>,
    new: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<Change> {
    let shown = |side: &BTreeMap<String, BTreeSet<String>>, name: &str| {
        side.get(name).map_or(String::new(), |values| values.iter().join(", "))
    };
    let is_part = |name: &String| {
        let sides = base.get(name).zip(new.get(name));
        name.starts_with("bench.") && sides.is_some_and(|(base, new)| base.is_subset(new) || new.is_subset(base))
    };
    let names: BTreeSet<&String> = base.keys().chain(new.keys()).collect();
    let changes = names.into_iter().filter(|name| !is_part(name)).map(|name| Change {
        name: name.clone(),
        base: shown(base, name),
        new: shown(new, name),
    });
    let is_unknown = |change: &Change| {
        let is_reported = [VERSION, MODEL].contains(&&*change.name);
        is_reported && (change.base.is_empty() || change.new.is_empty())
    };
    changes
        .filter(|change| change.base != change.new && !is_unknown(change))
        .collect()
}
