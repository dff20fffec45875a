//! What differs between two sides besides their figures: the machine, versions, environments, commands and settings.

use super::matching::constants;
use super::side::{CLOCK, Side, of_server};
use itertools::Itertools;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use vsweep_record::journal::ServerRecord;
use vsweep_record::table::Points;

/// Something that is not equal on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What it is.
    pub name: String,
    /// Its value in the base; empty if it has none.
    pub base: String,
    /// Its value in the new side; empty if it has none.
    pub new: String,
}

/// Facts that differ between any two sweeps and say nothing of their figures.
const OF_THE_SWEEP: [&str; 5] = ["time spent measuring", "GPU-hours", "format", "plan", "vsweep"];

/// The share by which the median clocks of equal sweeps differ.
const SAME_CLOCK: f64 = 0.01;

/// Everything that differs, but for the settings by which points were matched.
pub fn between(base: &Side, new: &Side, keys: &BTreeSet<String>) -> Vec<Change> {
    let facts = |side: &Side| -> BTreeMap<String, BTreeSet<String>> {
        let facts = side
            .facts
            .iter()
            .filter(|(name, _)| !OF_THE_SWEEP.contains(&name.as_str()));
        let facts = facts.map(|(name, value)| (name.clone(), BTreeSet::from([value.clone()])));
        facts.collect()
    };
    let settings = |side: &Side| {
        let mut settings = constants(&Points::of(&side.table), keys);
        for (name, values) in side.servers.iter().filter(|(name, _)| !keys.contains(*name)) {
            settings.entry(name.clone()).or_default().extend(values.clone());
        }
        settings
    };
    let mut changes = differing(&facts(base), &facts(new));
    changes.retain(|change| !is_same_clock(change));
    changes.extend(differing(&settings(base), &settings(new)));
    changes
}

/// What differs between two servers of one experiment, their versions included.
pub fn between_servers(base: &ServerRecord, new: &ServerRecord) -> Vec<Change> {
    let told = |server: &ServerRecord| {
        let mut told = of_server(server);
        let versions = server.starts.iter().filter_map(|start| start.version.clone());
        told.insert("server version".into(), versions.collect());
        told
    };
    differing(&told(base), &told(new))
}

/// Whether a clock differs by less than it wanders from run to run.
fn is_same_clock(change: &Change) -> bool {
    let mhz = |text: &str| text.strip_suffix(" MHz")?.parse::<f64>().ok();
    let clocks = mhz(&change.base).zip(mhz(&change.new));
    change.name.starts_with(CLOCK) && clocks.is_some_and(|(base, new)| (new / base - 1.0).abs() < SAME_CLOCK)
}

fn differing(base: &BTreeMap<String, BTreeSet<String>>, new: &BTreeMap<String, BTreeSet<String>>) -> Vec<Change> {
    let shown = |side: &BTreeMap<String, BTreeSet<String>>, name: &str| {
        side.get(name).map_or(String::new(), |values| values.iter().join(", "))
    };
    let names: BTreeSet<&String> = base.keys().chain(new.keys()).collect();
    let changes = names.into_iter().map(|name| Change {
        name: name.clone(),
        base: shown(base, name),
        new: shown(new, name),
    });
    changes.filter(|change| change.base != change.new).collect()
}
