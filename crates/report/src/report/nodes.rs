//! Results of several nodes, in words: which nodes they are, in what they are unlike, and how far they differ in the same point, the
//! sentinel. A comparison across nodes is never made without saying so.

use super::words::{axis_title, show_number, show_some};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};
use vsweep_plan::units::show_many;
use vsweep_record::journal::{Machine, RunRecord, State};
use vsweep_record::table::Points;

/// Nodes that are named.
const MOST_NAMED: usize = 8;
/// What a sentinel is judged by: the first of each that it has.
const JUDGED: [&[&str]; 2] = [
    &["output_throughput", "total_throughput"],
    &["median_e2el_ms", "mean_e2el_ms", "median_ttft_ms", "mean_ttft_ms"],
];

/// Whether results come from several nodes, or from one that was changed meanwhile.
pub fn are_told_apart(state: &State) -> bool {
    let machines = state.machines();
    let nodes: BTreeSet<&str> = machines.iter().map(|machine| &*machine.node).collect();
    nodes.len() > 1 || !unlike(&machines).is_empty()
}

/// The nodes with what is known of each; nothing where all results come from the one that the manifest is about.
pub fn describe(state: &State, host: &str) -> Option<String> {
    let describe = |machine: &Machine| {
        let driver = machine.gpu_driver.as_ref().map(|driver| format!("driver {driver}"));
        let facts = [Some(machine.describe_gpus()), driver];
        let facts = facts.into_iter().flatten().filter(|fact| !fact.is_empty()).join(", ");
        match facts.as_str() {
            "" => machine.node.clone(),
            facts => format!("{}: {facts}", machine.node),
        }
    };
    let machines = state.machines();
    let is_elsewhere = machines.iter().any(|machine| machine.node != host);
    (is_elsewhere || are_told_apart(state)).then(|| machines.iter().map(describe).join("; "))
}

/// What a reader of a comparison must know, a sentence each; nothing where all results come from one node as it was.
pub fn remarks(state: &State) -> Vec<String> {
    let machines = state.machines();
    let unlike = unlike(&machines);
    let nodes: Vec<&str> = machines.iter().map(|machine| &*machine.node).dedup().collect();
    let mut remarks: Vec<String> = unlike.iter().take(MOST_NAMED).map(|(pair, how)| {
        format!("measured on unlike nodes, {pair}: {how}; what differs between them may be the nodes, see the column `node`")
    }).collect();
    let sentinels = state.sentinels();
    remarks.extend(sentinel(&sentinels));
    if nodes.len() > 1 {
        let missing: Vec<&str> = nodes
            .iter()
            .copied()
            .filter(|node| !sentinels.contains_key(*node))
            .collect();
        if sentinels.is_empty() {
            remarks.push(format!(
                "measured on {} ({}), and nothing says how far these differ: `sentinel = true` in the plan measures the same point on \
                 each",
                show_many(nodes.len() as u64, "node"),
                show_some(nodes.iter(), MOST_NAMED)
            ));
        } else if !missing.is_empty() {
            remarks.push(format!(
                "the sentinel was not measured on {}",
                show_some(missing.iter(), MOST_NAMED)
            ));
        }
    }
    remarks
}

/// On which nodes two points were measured, `n0` and `n1, n2`, unless it was one and the same.
pub fn apart(points: &Points<'_>, one: usize, other: usize) -> Option<(String, String)> {
    let column = points.runs.column("node")?;
    let nodes = |at: usize| -> BTreeSet<String> {
        let used = &points.points[at].used;
        used.iter().map(|row| column.cells[*row].to_string()).collect()
    };
    let (one, other) = (nodes(one), nodes(other));
    let named = |nodes: BTreeSet<String>| nodes.into_iter().join(", ");
    ((&one | &other).len() > 1).then(|| (named(one), named(other)))
}

/// That runs had servers of other sessions beside them, if any had.
pub fn shared(points: &Points<'_>) -> Option<String> {
    let others = points.runs.column("other_servers_beside")?.cells.iter();
    let runs = others
        .filter(|cell| cell.number().is_some_and(|count| count > 0.0))
        .count();
    let had = show_many(runs as u64, "run");
    (runs > 0).then(|| {
        format!(
            "{had} had servers of other vsweep sessions beside them on the machine (column other_servers_beside); what that costs them \
             is not measured"
        )
    })
}

/// The first pair of nodes for each way in which two are unlike.
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

/// How far the nodes differ in the sentinel.
fn sentinel(sentinels: &BTreeMap<String, Vec<&RunRecord>>) -> Vec<String> {
    let mut said = Vec::new();
    for (node, runs) in sentinels {
        if runs.iter().all(|run| run.figures().is_empty()) {
            let why = runs
                .iter()
                .map(|run| run.cause.map_or("no figures", |cause| cause.name()))
                .unique();
            let why = why.format(", ");
            said.push(format!("the sentinel could not be measured on {node}: {why}"));
        }
    }
    let spreads = JUDGED
        .iter()
        .filter_map(|metrics| metrics.iter().find_map(|metric| spread(sentinels, metric)));
    said.extend(spreads);
    said
}

/// `sentinel, output throughput: 812 on n0, 790 on n1; the nodes differ by up to 2.8 %, runs on one node by up to 1.1 %`; none with one
/// node.
fn spread(sentinels: &BTreeMap<String, Vec<&RunRecord>>, metric: &str) -> Option<String> {
    let values = |runs: &Vec<&RunRecord>| -> Vec<f64> {
        let values = runs.iter().filter_map(|run| run.figures().get(metric).copied());
        values.filter(|value| *value > 0.0).collect()
    };
    let nodes: Vec<(&String, Vec<f64>)> = sentinels
        .iter()
        .map(|(node, runs)| (node, values(runs)))
        .filter(|(_, values)| !values.is_empty())
        .collect();
    let mean = |values: &[f64]| (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp();
    let apart = |values: &[f64]| {
        let (least, most) = values
            .iter()
            .copied()
            .minmax_by(f64::total_cmp)
            .into_option()
            .expect("not empty");
        (most / least - 1.0) * 100.0
    };
    if nodes.len() < 2 {
        return None;
    }
    let means: Vec<f64> = nodes.iter().map(|(_, values)| mean(values)).collect();
    let within = nodes.iter().map(|(_, values)| apart(values)).fold(0.0, f64::max);
    let between = apart(&means);
    let shown = nodes.iter().zip(&means);
    let shown = shown.map(|((node, _), mean)| format!("{} on {node}", show_number(*mean)));
    let shown = show_some(shown, MOST_NAMED);
    Some(format!(
        "sentinel, {}: {shown}; the nodes differ by up to {between:.1} %, runs on one node by up to {within:.1} %",
        axis_title(metric)
    ))
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
    fn each_way_to_be_unlike_is_told_once() {
        let machines: BTreeSet<Machine> = [("a", "H100"), ("b", "H100"), ("c", "H200"), ("a", "H200")]
            .map(|(node, gpu)| machine(node, gpu))
            .into();
        let told = unlike(&machines);
        let expected = ("a before and after a change".to_owned(), "GPU H100 and H200".to_owned());
        assert_eq!(told[0], expected);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(unlike(&[machine("a", "H100"), machine("b", "H100")].into()).is_empty());
    }
}
