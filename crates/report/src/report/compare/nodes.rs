//! Whether two sides were measured on the same nodes. What differs between nodes looks like what differs between the sides.

use super::Side;
use super::matching::PointPair;
use itertools::Itertools;
use std::collections::BTreeSet;
use vsweep_plan::units::show_many;
use vsweep_record::journal::Machine;
use vsweep_record::table::Point;

/// Nodes that are named.
const MOST_NAMED: usize = 4;

/// What is to be said of points whose two sides, or runs of one side, come from several nodes or from one before and after a change;
/// nothing if there are none.
pub fn across(base: &Side, new: &Side, pairs: &[PointPair<'_>]) -> Option<String> {
    let mixed: Vec<BTreeSet<Machine>> = pairs
        .iter()
        .filter_map(|pair| {
            let (base, new) = (machines(base, pair.base), machines(new, pair.new));
            let all = &base | &new;
            (!base.is_empty() && !new.is_empty() && !Machine::are_one(&all)).then_some(all)
        })
        .collect();
    let all: BTreeSet<&Machine> = mixed.iter().flatten().collect();
    let mut names = all.iter().map(|machine| &*machine.node).dedup();
    let named = names.by_ref().take(MOST_NAMED).join(", ");
    let more = match names.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
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
            "{} of {points} compare nodes, too ({named}{more}{how}), so what differs may be the nodes; measure both sides on one node to tell",
            mixed.len()
        )
    })
}

/// Where the judged runs of a point were measured.
fn machines(side: &Side, point: &Point) -> BTreeSet<Machine> {
    let known = point.used.iter().filter_map(|row| side.machines.get(*row)?.as_deref());
    known.unique().cloned().collect()
}
