//! Results of several nodes, in words: which nodes they are, and how they differ. A comparison across nodes is never made without saying
//! so.

use crate::texts::words::show_some;
use itertools::Itertools;
use std::collections::BTreeSet;
use vsweep_base::units::show_many;
use vsweep_record::journal::{Machine, State};
use vsweep_record::table::Points;

/// Most nodes, or pairs of different nodes, that are named.
const MOST_NAMED: usize = 8;

/// Returns true if results come from several nodes, or from one that was changed meanwhile.
pub fn has_several_nodes(state: &State) -> bool {
    let machines = state.machines();
    let nodes: BTreeSet<&str> = machines.iter().map(|machine| &*machine.node).collect();
    nodes.len() > 1 || !unlike(&machines).is_empty()
}

/// The nodes with the known facts of each. `None` if all results come from `host`, the node of the manifest, and it was not changed.
pub fn describe(state: &State, host: &str) -> Option<String> {
    let machines = state.machines();
    let is_elsewhere = machines.iter().any(|machine| machine.node != host);
    (is_elsewhere || has_several_nodes(state)).then(|| in_words(&machines))
}

/// The nodes with the known facts of each.
pub fn in_words(machines: &BTreeSet<Machine>) -> String {
    let describe = |machine: &Machine| {
        let driver = machine.gpu_driver.as_ref().map(|driver| format!("driver {driver}"));
        let facts = [Some(machine.describe_gpus()), driver];
        let facts = facts.into_iter().flatten().filter(|fact| !fact.is_empty()).join(", ");
        match facts.as_str() {
            "" => machine.node.clone(),
            facts => format!("{}: {facts}", machine.node),
        }
    };
    machines.iter().map(describe).join("; ")
}

/// Notes for readers of a comparison, one sentence each; empty if all results come from one unchanged node.
pub fn remarks(state: &State) -> Vec<String> {
    let machines = state.machines();
    let unlike = unlike(&machines).into_iter().take(MOST_NAMED).map(|(pair, how)| {
        format!(
            "measured on different nodes, {pair}: {how}; a difference may come from the nodes, see the column `node`"
        )
    });
    let nodes: BTreeSet<&str> = machines.iter().map(|machine| &*machine.node).collect();
    let several = (nodes.len() > 1).then(|| {
        format!(
            "measured on {} ({}); nodes of one kind differ, too; see the column `node`",
            show_many(nodes.len() as u64, "node"),
            show_some(nodes.iter(), MOST_NAMED)
        )
    });
    unlike.chain(several).collect()
}

/// Describes runs that shared the machine with servers of other sessions; `None` if there are none. The name of each side follows its number
/// of runs.
pub fn shared<'s, 'p: 's>(sides: impl IntoIterator<Item = (&'s str, &'s Points<'p>)>) -> Option<String> {
    let affected = sides.into_iter().filter_map(|(side, points)| {
        let others = points.runs.column("other_servers_beside")?.cells.iter();
        let counts = others.filter_map(|cell| cell.number()).filter(|count| *count > 0.0);
        let affected = counts.count() as u64;
        (affected > 0).then(|| show_many(affected, "run") + side)
    });
    let runs = affected.collect_vec().join(" and ");
    let note = "shared the machine with servers of other vsweep sessions; they may be slower than alone";
    (!runs.is_empty()).then(|| format!("{runs} {note}"))
}

/// For each distinct difference between nodes, the first pair that has it, and the difference in words.
fn unlike(machines: &BTreeSet<Machine>) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for [one, other] in machines.iter().array_combinations() {
        let how = one.differences(other).join(", ");
        if !how.is_empty() && found.iter().all(|(_, known)| *known != how) {
            let pair = match one.node == other.node {
                true => format!("{} before and after a change", one.node),
                false => format!("{} and {}", one.node, other.node),
            };
            found.push((pair, how));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_record::journal::GpuKind;

    fn machine(node: &str, gpu: &str) -> Machine {
        Machine {
            node: node.into(),
            gpus: [GpuKind {
                name: gpu.into(),
                ..GpuKind::default()
            }]
            .into(),
            ..Machine::default()
        }
    }

    #[test]
    fn each_difference_between_nodes_is_reported_once() {
        let machines: BTreeSet<Machine> = [("a", "H100"), ("b", "H100"), ("c", "H200"), ("a", "H200")]
            .map(|(node, gpu)| machine(node, gpu))
            .into();
        let differences = unlike(&machines);
        let expected = ("a before and after a change".to_owned(), "GPU H100 and H200".to_owned());
        assert_eq!(differences[0], expected);
        assert_eq!(differences.len(), 2, "{differences:?}");
        assert!(unlike(&[machine("a", "H100"), machine("b", "H100")].into()).is_empty());
    }
}
