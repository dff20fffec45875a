//! How far the points of a comparison may be believed: which of them rest on runs in doubt, and where such runs are left out.

use super::matching::PointPair;
use itertools::Itertools;
use std::collections::BTreeSet;
use vsweep_plan::units::show_many;
use vsweep_record::table::Point;

/// What is to be said of it, a sentence each; nothing where no run is in doubt.
pub fn of(pairs: &[PointPair<'_>]) -> Vec<String> {
    let all = show_many(pairs.len() as u64, "point");
    let having = |has: fn(&Point) -> bool| pairs.iter().filter(move |pair| has(pair.base) || has(pair.new));
    let left_out = having(|point| point.ok > 0 && point.suspect > 0).count();
    let doubtful: Vec<&PointPair<'_>> = having(Point::is_suspect).collect();
    let sides = doubtful.iter().flat_map(|pair| [pair.base, pair.new]);
    let codes: BTreeSet<&str> = sides.flat_map(|point| &point.codes).map(|code| code.name()).collect();
    let rests = format!(
        "{} of {all} rest on runs in doubt: {}",
        doubtful.len(),
        codes.iter().join(", ")
    );
    let leaves = format!(
        "at {left_out} of {all} runs in doubt are left out, since others are not in doubt; a start with none of those does not count"
    );
    let said = [(doubtful.is_empty(), rests), (left_out == 0, leaves)];
    said.into_iter()
        .filter(|(is_none, _)| !is_none)
        .map(|(_, note)| note)
        .collect()
}
