//! Doubts about a comparison: simulated sides, suspect runs, failures, servers of other sessions, and different nodes. A difference between
//! nodes looks like a difference between the sides.

use super::Side;
use super::matching::PointPair;
use crate::findings::nodes;
use crate::texts::words::show_some;
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
    let (failed, all) = requests(points, of);
    failed / all.max(1.0)
}

/// Number of failed requests, and of all requests, in the judged runs of some points.
fn requests(points: &Points<'_>, of: &[&Point]) -> (f64, f64) {
    let rows = || of.iter().flat_map(|point| &point.used);
    let sum = |name: &str| -> f64 { rows().filter_map(|row| points.runs.cell(name, *row).number()).sum() };
    let failed = sum("failed");
    (failed, failed + sum("completed"))
}

/// Growth of the share of failed requests that does not matter.
const NEGLIGIBLE: f64 = 0.01;
/// Number of standard errors beyond which a difference of shares is not due to chance.
const BEYOND_CHANCE: f64 = 3.0;

/// Returns true if the share of failed requests is larger on the new side than on the base, by more than a hundredth and by more than
/// chance (z-test of two shares). The latencies of the remaining requests are then those of a smaller load.
pub fn loses_requests(pair: &PointPair<'_>, sides: &(Points<'_>, Points<'_>)) -> bool {
    let (base, of_base) = requests(&sides.0, &[pair.base]);
    let (new, of_new) = requests(&sides.1, &[pair.new]);
    let share = (base + new) / (of_base + of_new).max(1.0);
    let error = (share * (1.0 - share) * (1.0 / of_base.max(1.0) + 1.0 / of_new.max(1.0))).sqrt();
    let growth = new / of_new.max(1.0) - base / of_base.max(1.0);
    growth > NEGLIGIBLE && growth > BEYOND_CHANCE * error
}

/// Names the points at which the new side loses requests; `None` if there are none.
pub fn of_lost_requests(pairs: &[PointPair<'_>], sides: &(Points<'_>, Points<'_>)) -> Option<String> {
    let lost = pairs.iter().filter(|pair| loses_requests(pair, sides));
    let settings = lost.map(|pair| &pair.settings).collect_vec();
    let more = match settings.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = settings.iter().take(MOST_NAMED).format("; ");
    (!settings.is_empty()).then(|| {
        format!(
            "new loses requests that base answers at {named}{more}: every limit is broken there, and the figures cover only the requests \
             answered"
        )
    })
}

/// Describes runs that shared the machine with servers of other sessions; `None` if neither side has any.
pub fn of_neighbours(sides: &(Points<'_>, Points<'_>)) -> Option<String> {
    nodes::shared([(" of base", &sides.0), (" of new", &sides.1)])
}

/// Most nodes, differences or points that a sentence names.
const MOST_NAMED: usize = 4;

/// Describes points whose runs on both sides together come from several nodes, or from one node before and after it was changed; `None` if
/// there are none.
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
    let differences = differences.flatten().unique().take(MOST_NAMED).join("; ");
    let how = match differences.as_str() {
        "" => String::new(),
        how => format!(": {how}"),
    };
    let points = show_many(pairs.len() as u64, "point");
    (!mixed.is_empty()).then(|| {
        format!(
            "{} of {points} were measured on different nodes ({named}{how}), which may be the difference; measure both sides on one node",
            mixed.len()
        )
    })
}

/// Known machines of the judged runs of a point.
fn machines(side: &Side, point: &Point) -> BTreeSet<Machine> {
    let known = point.used.iter().filter_map(|row| side.machines.get(*row)?.as_ref());
    known.unique().cloned().collect()
}
