//! Pairs the points of the two sides that agree in every setting that either side varies.

use crate::charts::multiples::order;
use crate::findings::variation::{bare_name, settings, varying};
use crate::ordered::Ordered;
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use vsweep_record::table::{Column, ECHOED, Point, PointOutcome, Points, Section};

/// Points of both sides that belong together, and the rest.
pub struct PointMatches<'p> {
    pub pairs: Vec<PointPair<'p>>,
    /// Settings of points without a counterpart.
    pub only_base: Vec<String>,
    pub only_new: Vec<String>,
    /// Settings of points that the other side measured, and that have no valid run on this side.
    pub failed_base: Vec<String>,
    pub failed_new: Vec<String>,
    /// Names of the settings in which points must agree.
    pub keys: BTreeSet<String>,
}

/// One point on both sides.
pub struct PointPair<'p> {
    pub settings: String,
    pub base: &'p Point,
    pub new: &'p Point,
}

/// Pairs the measured points that agree in all keys. If several points of a side have the same keys, none of them has a counterpart,
/// because nothing says which one is meant.
pub fn match_points<'p>(base: &'p Points<'_>, new: &'p Points<'_>) -> PointMatches<'p> {
    // `varying` looks at every run, so it is called once for each side.
    let (in_base, in_new) = (varying(base), varying(new));
    let keys = keys((base, &in_base), (new, &in_new));
    let mut new_by_key = by_key(new, &keys);
    let (failed_in_base, failed_in_new) = (failed(base, &keys), failed(new, &keys));
    let (mut pairs, mut only_base, mut failed_new) = (Vec::new(), Vec::new(), Vec::new());
    // Files of results have loads in the order of their names, such as 16, 4, 64. The load, which is first, changes fastest.
    let (by_base, by_new) = (in_base.iter().rev().copied(), in_new.iter().rev().copied());
    let (by_base, by_new) = (by_base.collect_vec(), by_new.collect_vec());
    let base_by_key = by_key(base, &keys).into_iter();
    let base_by_key = base_by_key.ordered_by(|(_, a), (_, b)| {
        let (a, b) = (a[0].row, b[0].row);
        order(&by_base, a, b).then(a.cmp(&b))
    });
    for (key, points) in base_by_key {
        match (points.as_slice(), new_by_key.get(&key).map(Vec::as_slice)) {
            ([base], Some([new])) => {
                let settings = match in_base.is_empty() {
                    true => settings(&in_new, new.row),
                    false => settings(&in_base, base.row),
                };
                pairs.push(PointPair { settings, base, new });
                new_by_key.remove(&key);
            }
            (points, other) => {
                let has_failed = other.is_none() && failed_in_new.contains(&key);
                let lone = if has_failed { &mut failed_new } else { &mut only_base };
                lone.extend(points.iter().map(|point| settings(&in_base, point.row)));
            }
        }
    }
    let left = new_by_key.into_iter().flat_map(|(key, points)| {
        let has_failed = failed_in_base.contains(&key);
        points.into_iter().map(move |point| (point, has_failed))
    });
    let left = left.ordered_by(|(a, _), (b, _)| order(&by_new, a.row, b.row).then(a.row.cmp(&b.row)));
    let (failed_base, only_new): (Vec<_>, Vec<_>) = left.partition(|(_, has_failed)| *has_failed);
    let named = |points: Vec<(&Point, bool)>| points.iter().map(|(point, _)| settings(&in_new, point.row)).collect();
    PointMatches {
        pairs,
        only_base,
        only_new: named(only_new),
        failed_base: named(failed_base),
        failed_new,
        keys,
    }
}

/// The names of the settings that either side varies. Of settings that change together, one to one, on both sides, only the first is kept.
fn keys(base: (&Points<'_>, &[&Column]), new: (&Points<'_>, &[&Column])) -> BTreeSet<String> {
    let follow = |(points, varied): (&Points<'_>, &[&Column]), names: [&String; 2]| {
        let [one, other] = names.map(|name| varied.iter().find(|column| full_name(column) == *name));
        one.zip(other)
            .is_some_and(|(one, other)| points.is_one_to_one(one, other))
    };
    let mut kept: Vec<String> = Vec::new();
    for name in base.1.iter().chain(new.1).map(|column| full_name(column)) {
        let follows = |earlier: &String| follow(base, [earlier, &name]) && follow(new, [earlier, &name]);
        if !kept.iter().any(follows) {
            kept.push(name);
        }
    }
    kept.into_iter().collect()
}

/// The points without a valid run, by their values of the keys. A search that cut every run of a point had its verdict, so the point has not
/// failed.
fn failed(points: &Points<'_>, keys: &BTreeSet<String>) -> HashSet<Vec<String>> {
    let values = values_of(points, keys);
    let is_cut = |point: &&Point| point.outcome == PointOutcome::Cut;
    let failed = points
        .points
        .iter()
        .filter(|point| point.used.is_empty() && !is_cut(point));
    failed.map(values).collect()
}

/// The keys, for a message that explains why nothing matches, and a remark if points of a side share them; may be empty.
pub fn reason(sides: &(Points<'_>, Points<'_>), keys: &BTreeSet<String>) -> String {
    let has_twins = |points: &Points<'_>| by_key(points, keys).values().any(|points| points.len() > 1);
    let agree = (!keys.is_empty()).then(|| format!("points must agree in {}", keys.iter().join(", ")));
    let twins = has_twins(&sides.0) || has_twins(&sides.1);
    let twins = twins.then(|| "several points of a side have these settings".to_owned());
    let reasons = agree.into_iter().chain(twins).join("; ");
    match reasons.is_empty() {
        true => String::new(),
        false => format!(" ({reasons})"),
    }
}

/// Measured points by their values of the keys.
fn by_key<'p>(points: &'p Points<'_>, keys: &BTreeSet<String>) -> HashMap<Vec<String>, Vec<&'p Point>> {
    let values = values_of(points, keys);
    let measured = points.points.iter().filter(|point| !point.used.is_empty());
    measured.into_group_map_by(|point| values(point))
}

/// Returns a function that gives the values of a point in these settings.
pub fn values_of<'p>(points: &'p Points<'_>, keys: &BTreeSet<String>) -> impl Fn(&Point) -> Vec<String> + use<'p> {
    let columns: BTreeMap<String, &Column> = settings_of(points).map(|column| (full_name(column), column)).collect();
    let columns: Vec<Option<&Column>> = keys.iter().map(|key| columns.get(key).copied()).collect();
    move |point| {
        let value = |column: &Option<&Column>| {
            let value = column.map(|column| column.cells.at(point.row).to_string());
            // One side may leave an unlimited rate unset, and the other may set it to `inf`.
            value.filter(|value| value != "inf").unwrap_or_default()
        };
        columns.iter().map(value).collect()
    }
}

/// The settings of a table: parameters, and metrics in which a result repeats a parameter.
fn settings_of<'t>(points: &Points<'t>) -> impl Iterator<Item = &'t Column> {
    let is_echo = |column: &Column| column.section == Section::Metric && ECHOED.contains(&column.name.as_str());
    let columns = points.runs.columns().iter();
    columns.filter(move |column| column.section.is_parameter() || is_echo(column))
}

/// A setting's name with the prefix `serve.` or `bench.`. A table has the prefix only if the name is ambiguous there, so the names in the
/// tables of two sides may differ; this one does not.
pub fn full_name(column: &Column) -> String {
    let side = match column.section {
        Section::Serve => "serve",
        _ => "bench",
    };
    format!("{side}.{}", bare_name(column))
}

/// The values of each setting that is not a key, by its full name. Only `paired` points count, unless there are none.
pub fn constants(
    points: &Points<'_>,
    paired: &[&Point],
    keys: &BTreeSet<String>,
) -> BTreeMap<String, BTreeSet<String>> {
    let all = points.points.iter().filter(|_| paired.is_empty());
    let rows: Vec<usize> = paired.iter().copied().chain(all).map(|point| point.row).collect();
    let values = |column: &Column| {
        let cells = rows.iter().map(|row| column.cells.at(*row));
        cells
            .filter(|cell| !cell.is_missing())
            .map(|cell| cell.to_string())
            .collect()
    };
    settings_of(points)
        .map(|column| (full_name(column), values(column)))
        .filter(|(name, _): &(String, BTreeSet<String>)| !keys.contains(name))
        .collect()
}
