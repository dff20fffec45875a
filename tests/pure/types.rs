//! ARCHITECTURE.md lists the types that rooms share, and they are few enough to be learnt.

use super::{circles, layers};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Maximum number of shared types.
const MOST: usize = 70;

#[test]
fn the_types_that_rooms_share_are_listed_and_few() {
    let page = std::fs::read_to_string("ARCHITECTURE.md").expect("readable");
    let (_, section) = page.split_once("\n## Types\n").expect("a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let row = Regex::new(r"(?m)^\| `(\w+::\w+)` \|").expect("valid");
    let listed: BTreeSet<String> = row.captures_iter(section).map(|found| found[1].to_owned()).collect();
    let shared = shared();
    let lacking: Vec<_> = shared.difference(&listed).collect();
    let needless: Vec<_> = listed.difference(&shared).collect();
    assert!(
        lacking.is_empty() && needless.is_empty(),
        "the list of types in ARCHITECTURE.md lacks {lacking:?}, and should not have {needless:?}"
    );
    assert!(
        shared.len() <= MOST,
        "{} types are shared; at most {MOST}",
        shared.len()
    );
}

/// Returns the types that occur in public signatures and fields of at least two other rooms, `cli` not counted, as `room::Type`.
fn shared() -> BTreeSet<String> {
    let signature = Regex::new(r"(?m)^\s*pub (?:async |const )*fn [^{;]*|^\s*pub \w+: .*,$").expect("valid");
    let name = Regex::new(r"\b[A-Z]\w+\b").expect("valid");
    let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (room, path, code) in layers::sources() {
        if matches!(room.as_str(), "cli" | "main" | "lib") {
            continue;
        }
        let foreign: BTreeMap<String, String> = circles::paths(&code)
            .0
            .iter()
            .filter_map(|(_, steps)| Some((steps.last()?.clone(), room_of(&path, steps)?)))
            .filter(|(_, owner)| *owner != room)
            .collect();
        let names = signature
            .find_iter(&code)
            .flat_map(|found| name.find_iter(found.as_str()));
        for name in names {
            if let Some(owner) = foreign.get(name.as_str()) {
                users
                    .entry(format!("{owner}::{}", name.as_str()))
                    .or_default()
                    .insert(room.clone());
            }
        }
    }
    users
        .into_iter()
        .filter(|(_, rooms)| rooms.len() >= 2)
        .map(|(name, _)| name)
        .collect()
}

/// Returns the room from which a path in a file imports; `None` for foreign crates and for neighbours in the same room.
fn room_of(file: &Path, steps: &[String]) -> Option<String> {
    let [first, second, ..] = steps else { return None };
    match first.strip_prefix("vsweep_") {
        Some(name) => Some(layers::room_of(&PathBuf::from("crates").join(name), second)),
        None => (first == "crate").then(|| layers::room_of(file, second)),
    }
}
