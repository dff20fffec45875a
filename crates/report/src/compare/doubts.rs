//! Doubts about a comparison: simulated and unfinished sides, targets, suspect runs, failures, servers of other sessions, and different
//! nodes. A difference between nodes looks like a difference between the sides.

use super::Side;
use super::matching::PointPair;
use crate::findings::{losses, nodes};
use crate::texts::words::{join_some, show_number, show_some};
use itertools::Itertools;
use std::collections::BTreeSet;
use vsweep_base::units::show_many;
use vsweep_record::journal::Machine;
use vsweep_record::table::{Point, Points};

/// Names the sides with simulated figures; `None` if there are none.
pub fn of_simulation(base: &Side, new: &Side) -> Option<String> {
    let simulated = [(base, "base"), (new, "new")]
        .into_iter()
        .filter(|(side, _)| side.is_simulated());
    let sides = simulated.map(|(_, name)| name).join(" and ");
    (!sides.is_empty()).then(|| format!("{sides}: simulated"))
}

/// Names the sides whose sweep has not finished.
pub fn of_unfinished(base: &Side, new: &Side) -> Vec<String> {
    let sides = [(base, "base"), (new, "new")].into_iter();
    let unfinished = sides.filter_map(|(side, name)| Some((name, side.unfinished.as_ref()?)));
    unfinished
        .map(|(name, why)| format!("{name} is not finished: {why}"))
        .collect()
}

/// Names the loads that both sides hold for each target, because figures of a search are not compared; `None` without a common target.
pub fn of_targets(base: &Side, new: &Side) -> Option<String> {
    let held = targets(base, new)
        .map(|(name, base, new)| format!("{name} {}", both(base, new)))
        .join("; ");
    (!held.is_empty()).then(|| format!("targets are not compared: {held}"))
}

/// The targets for which the new side holds less than the base, with both loads.
pub fn lower_targets(base: &Side, new: &Side) -> Vec<(String, String)> {
    let lower = targets(base, new).filter(|(_, base, new)| new < base);
    lower
        .map(|(name, base, new)| (format!("target {name}"), both(base, new)))
        .collect()
}

/// The targets that both sides searched, with the highest load of each.
fn targets<'s>(base: &'s Side, new: &'s Side) -> impl Iterator<Item = (&'s String, f64, f64)> {
    let base = base.targets.iter();
    base.filter_map(move |(name, held)| Some((name, *held, *new.targets.get(name)?)))
}

fn both(base: f64, new: f64) -> String {
    format!("up to {} in base, {} in new", show_number(base), show_number(new))
}

/// Describes points that rest on suspect runs; `None` if there are none.
pub fn of_runs(pairs: &[PointPair<'_>]) -> Option<String> {
    let is_doubtful = |pair: &&PointPair<'_>| pair.base.is_suspect() || pair.new.is_suspect();
    let doubtful: Vec<&PointPair<'_>> = pairs.iter().filter(is_doubtful).collect();
    let sides = doubtful.iter().flat_map(|pair| [pair.base, pair.new]);
    let codes: BTreeSet<String> = sides
        .flat_map(|point| &point.codes)
        .map(|code| code.in_words())
        .collect();
    (!doubtful.is_empty()).then(|| {
        let (all, codes) = (show_many(pairs.len() as u64, "point"), codes.iter().format(", "));
        let rest = if doubtful.len() == 1 { "rests" } else { "rest" };
        format!("{} of {all} {rest} on suspect runs: {codes}", doubtful.len())
    })
}

/// Describes the failed runs and requests of both sides, at the points that both measured; empty if nothing failed.
pub fn of_failures(pairs: &[PointPair<'_>], sides: &(Points<'_>, Points<'_>)) -> Vec<String> {
    let base: Vec<&Point> = pairs.iter().map(|pair| pair.base).collect();
    let new: Vec<&Point> = pairs.iter().map(|pair| pair.new).collect();
    let runs = |points: &[&Point]| {
        let failed: usize = points.iter().map(|point| point.failed).sum();
        let others: usize = points.iter().map(|point| point.ok + point.suspect).sum();
        (failed > 0, format!("{failed} of {}", failed + others))
    };
    let ((in_base, of_base), (in_new, of_new)) = (runs(&base), runs(&new));
    let runs = (in_base || in_new).then(|| format!("{of_base} runs failed in base, {of_new} in new"));
    let (of_base, of_new) = (failed_share(&sides.0, &base), failed_share(&sides.1, &new));
    let requests = (of_base.max(of_new) > 0.0).then(|| {
        format!(
            "{:.1} % of requests failed in base, {:.1} % in new",
            of_base * 100.0,
            of_new * 100.0
        )
    });
    runs.into_iter().chain(requests).collect()
}

/// The share of requests that failed in the judged runs of some points.
fn failed_share(points: &Points<'_>, of: &[&Point]) -> f64 {
    let (failed, all) = losses::requests(points, of);
    failed / all.max(1.0)
}

/// Names the points at which the new side loses requests; `None` if there are none.
pub fn of_lost_requests(pairs: &[PointPair<'_>], sides: &(Points<'_>, Points<'_>)) -> Option<String> {
    let loses = |pair: &&PointPair<'_>| losses::loses_requests((&sides.0, pair.base), (&sides.1, pair.new));
    let lost = pairs.iter().filter(loses);
    let named = join_some(lost.map(|pair| &pair.settings), MOST_NAMED, "; ");
    (!named.is_empty()).then(|| {
        format!(
            "at {named}, new loses requests that base answers: every limit is broken there, and the figures of new cover only the \
             answered requests"
        )
    })
}

/// Describes runs that shared the machine with servers of other sessions; `None` if neither side has any.
pub fn of_neighbours(sides: &(Points<'_>, Points<'_>)) -> Option<String> {
    nodes::shared([(" of base", &sides.0), (" of new", &sides.1)])
}

/// Most nodes, differences or points that a sentence names.
const MOST_NAMED: usize = 4;

/// Describes points whose runs, taken over both sides, come from several nodes, or from one node before and after a change; `None` if there
/// are none.
pub fn of_nodes(base: &Side, new: &Side, pairs: &[PointPair<'_>]) -> Option<String> {
    let mixed: Vec<BTreeSet<Machine>> = pairs
        .iter()
        .filter_map(|pair| {
            let (base, new) = (machines(base, pair.base), machines(new, pair.new));
            let all = &base | &new;
            (!base.is_empty() && !new.is_empty() && !Machine::are_one_node(&all)).then_some(all)
        })
        .collect();
    let all: BTreeSet<&Machine> = mixed.iter().flatten().collect();
    let named = show_some(all.iter().map(|machine| &*machine.node).dedup(), MOST_NAMED);
    let differences = all
        .iter()
        .array_combinations()
        .map(|[one, other]| one.differences(other));
    let differences = join_some(differences.flatten().unique(), MOST_NAMED, "; ");
    let how = match differences.as_str() {
        "" => String::new(),
        how => format!(": {how}"),
    };
    let points = show_many(pairs.len() as u64, "point");
    let were = if mixed.len() == 1 { "was" } else { "were" };
    (!mixed.is_empty()).then(|| {
        format!(
            "{} of {points} {were} measured on different nodes ({named}{how}), which may be the difference; measure both sides on one \
             node, and give containers on one node the same NODE_NAME",
            mixed.len()
        )
    })
}

/// Known machines of the judged runs of a point.
fn machines(side: &Side, point: &Point) -> BTreeSet<Machine> {
    let known = point.used.iter().filter_map(|row| side.machines.get(*row)?.as_ref());
    known.unique().cloned().collect()
}
