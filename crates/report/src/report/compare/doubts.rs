//! Doubts about the points of a comparison: points that rest on suspect runs, points that leave such runs out, and sides that were measured
//! on different nodes. A difference between nodes looks like a difference between the sides.

use super::Side;
use super::matching::PointPair;
use crate::report::words::show_some;
use itertools::Itertools;
use std::collections::BTreeSet;
use vsweep_plan::units::show_many;
use vsweep_record::journal::Machine;
use vsweep_record::table::Point;

/// Describes suspect runs, one sentence each; empty if there are none.
pub fn of_runs(pairs: &[PointPair<'_>]) -> Vec<String> {
    let all = show_many(pairs.len() as u64, "point");
    let having = |has: fn(&Point) -> bool| pairs.iter().filter(move |pair| has(pair.base) || has(pair.new));
    let left_out = having(|point| point.ok > 0 && point.suspect > 0).count();
    let doubtful: Vec<&PointPair<'_>> = having(Point::is_suspect).collect();
    let sides = doubtful.iter().flat_map(|pair| [pair.base, pair.new]);
    let codes: BTreeSet<&str> = sides.flat_map(|point| &point.codes).map(|code| code.name()).collect();
    let rests = (!doubtful.is_empty()).then(|| {
        let codes = codes.iter().format(", ");
        format!("{} of {all} rest on runs in doubt: {codes}", doubtful.len())
    });
    let leaves = (left_out > 0).then(|| {
        format!(
            "at {left_out} of {all} runs in doubt are left out, since others are not in doubt; a start with none of those does not count"
        )
    });
    rests.into_iter().chain(leaves).collect()
}

/// Nodes that are named.
const MOST_NAMED: usize = 4;

/// Describes points whose two sides, or runs of one side, come from several nodes or from one before and after a change. `None` if there
/// are no such points.
pub fn of_nodes(base: &Side, new: &Side, pairs: &[PointPair<'_>]) -> Option<String> {
    let mixed: Vec<BTreeSet<Machine>> = pairs
        .iter()
        .filter_map(|pair| {
            let (base, new) = (machines(base, pair.base), machines(new, pair.new));
            let all = &base | &new;
            (!base.is_empty() && !new.is_empty() && !Machine::are_one(&all)).then_some(all)
        })
        .collect();
    let all: BTreeSet<&Machine> = mixed.iter().flatten().collect();
    let named = show_some(all.iter().map(|machine| &*machine.node).dedup(), MOST_NAMED);
    let differences = all
        .iter()
        .array_combinations()
        .map(|[one, other]| one.differences(other));
    let differences = differences.flatten().unique().take(MOST_NAMED).join("; ");
    let how = match differences.as_str() {
        "" => String::new(),
        how => format!(": {how}"),
    };
    let points = show_many(pairs.len() as u64, "point");
    (!mixed.is_empty()).then(|| {
        format!(
            "{} of {points} compare nodes, too ({named}{how}), so what differs may be the nodes; measure both sides on one node to tell",
            mixed.len()
        )
    })
}

/// Nodes of the judged runs of a point.
fn machines(side: &Side, point: &Point) -> BTreeSet<Machine> {
    let known = point.used.iter().filter_map(|row| side.machines.get(*row)?.as_ref());
    known.unique().cloned().collect()
}
