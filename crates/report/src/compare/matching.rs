//! Pairs the points of the two sides that agree in every setting that either side varies, and in the workload that these settings make.

use crate::charts::multiples::order;
use crate::findings::variation::{bare_name, follows_from, length, settings, varies, varying};
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
    let keys = keys([(base, &in_base), (new, &in_new)]);
    let (lone_in_base, lone_in_new) = (with_workload(base, &in_base, &keys), with_workload(new, &in_new, &keys));
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
                lone.extend(points.iter().map(|point| settings(&lone_in_base, point.row)));
            }
        }
    }
    let left = new_by_key.into_iter().flat_map(|(key, points)| {
        let has_failed = failed_in_base.contains(&key);
        points.into_iter().map(move |point| (point, has_failed))
    });
    let left = left.ordered_by(|(a, _), (b, _)| order(&by_new, a.row, b.row).then(a.row.cmp(&b.row)));
    let (failed_base, only_new): (Vec<_>, Vec<_>) = left.partition(|(_, has_failed)| *has_failed);
    let named = |points: Vec<(&Point, bool)>| {
        let named = points.iter().map(|(point, _)| settings(&lone_in_new, point.row));
        named.collect()
    };
    PointMatches {
        pairs,
        only_base,
        only_new: named(only_new),
        failed_base: named(failed_base),
        failed_new,
        keys,
    }
}

/// The points of a side, and the settings that it varies.
type Varied<'p> = (&'p Points<'p>, &'p [&'p Column]);

/// The names of the settings that either side varies. Of settings that change together, one to one, on both sides, only the first is kept.
/// One of the workload must change in one way on both sides, because an edited plan may link other values. A combination of loads may be
/// renamed, so its name is kept only where the other settings leave its points alike.
fn keys(sides: [Varied<'_>; 2]) -> BTreeSet<String> {
    let columns = sides.map(|(points, _)| columns_of(points));
    let follow = |side: usize, names: [&String; 2]| {
        let points = sides[side].0;
        // For a single point, `varying` has its load and its lengths.
        let is_varied =
            |column: &&&Column| points.points.len() == 1 && is_in(sides[side].1, column) || varies(points, column);
        let [one, other] = names.map(|name| columns[side].get(name).filter(is_varied));
        one.zip(other)
            .is_some_and(|(one, other)| points.is_one_to_one(one, other))
    };
    let varied = || sides.iter().flat_map(|(_, varied)| varied.iter().copied());
    let follows = |kept: &[String], name: &String| {
        let mut earlier = kept.iter();
        earlier.any(|earlier| (0..2).all(|side| follow(side, [earlier, name])))
    };
    let is_of_client = |column: &&Column| {
        let is_of_bench = column.section == Section::Bench && !column.is_combo();
        is_of_bench && !is_of_workload(column)
    };
    let mut kept: Vec<String> = Vec::new();
    for name in varied().filter(is_of_client).map(full_name) {
        if !follows(&kept, &name) {
            kept.push(name);
        }
    }
    for name in workload_settings(sides, &columns) {
        if !kept.iter().any(|earlier| are_linked_alike(sides, [earlier, &name])) {
            kept.push(name);
        }
    }
    let is_of_server = |column: &&Column| column.section == Section::Serve;
    for name in varied().filter(is_of_server).map(full_name) {
        if !follows(&kept, &name) {
            kept.push(name);
        }
    }
    let of_load = |column: &&Column| column.section == Section::Bench && column.is_combo();
    for name in varied().filter(of_load).map(full_name) {
        let is_implied = |side: usize| {
            let others = kept.iter().filter_map(|name| columns[side].get(name).copied());
            let others = others.filter(|column| column.section == Section::Bench).collect_vec();
            let combo = columns[side].get(&name);
            combo.is_none_or(|combo| follows_from(sides[side].0, &others, combo))
        };
        if !(0..2).all(is_implied) {
            kept.push(name);
        }
    }
    kept.into_iter().collect()
}

fn is_in(columns: &[&Column], column: &Column) -> bool {
    columns.iter().any(|other| other.name == column.name)
}

/// The names of the settings of the workload that a side varies, and of lengths that differ between the sides. Those that a combination or
/// another setting implies count if both sides record them.
fn workload_settings(sides: [Varied<'_>; 2], columns: &[BTreeMap<String, &Column>; 2]) -> Vec<String> {
    let is_known = |side: usize, name: &String| {
        let mut points = sides[side].0.points.iter();
        let column = columns[side].get(name);
        column.is_some_and(|column| points.any(|point| !column.cells.at(point.row).is_missing()))
    };
    let has_several = |name: &String| values(sides, name).iter().unique().count() > 1;
    let counts = |&(name, column): &(&String, &&Column)| {
        let is_listed = |side: usize| {
            columns[side]
                .get(name)
                .is_some_and(|column| is_in(sides[side].1, column))
        };
        let varies_in = |side: usize| {
            columns[side]
                .get(name)
                .is_some_and(|column| varies(sides[side].0, column))
        };
        let matters = || length(column).is_some() || (0..2).any(varies_in);
        (0..2).any(is_listed) || (0..2).all(|side| is_known(side, name)) && matters() && has_several(name)
    };
    let all = columns.iter().flatten().filter(|(_, column)| is_of_workload(column));
    all.filter(counts).map(|(name, _)| name.clone()).unique().collect()
}

/// Returns true for a setting of the workload, except those that describe the client in a result, such as a label.
fn is_of_workload(column: &Column) -> bool {
    column.is_of_workload() && !ECHOED.contains(&bare_name(column).as_str())
}

/// Returns true if each value of one setting goes with one value of the other, and vice versa, over the points of both sides together.
fn are_linked_alike(sides: [Varied<'_>; 2], names: [&String; 2]) -> bool {
    let [one, other] = names.map(|name| values(sides, name));
    let count = one.iter().zip(&other).unique().count();
    one.iter().unique().count() == count && other.iter().unique().count() == count
}

/// The values of a setting at all points of both sides.
fn values(sides: [Varied<'_>; 2], name: &str) -> Vec<String> {
    let of_side = |(points, _): Varied<'_>| {
        let value = values_of(points, &BTreeSet::from([name.to_owned()]));
        points.points.iter().flat_map(value).collect_vec()
    };
    sides.into_iter().flat_map(of_side).collect()
}

/// The varied settings of a side, and the keys of its workload, which distinguish its points from those of the other side.
fn with_workload<'t>(points: &Points<'t>, varied: &[&'t Column], keys: &BTreeSet<String>) -> Vec<&'t Column> {
    let of_workload = settings_of(points).filter(|column| is_of_workload(column) && keys.contains(&full_name(column)));
    let all = varied.iter().copied().chain(of_workload);
    all.unique_by(|column| full_name(column)).collect()
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
    let columns = columns_of(points);
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

/// The settings of a table by their full names.
fn columns_of<'t>(points: &Points<'t>) -> BTreeMap<String, &'t Column> {
    settings_of(points).map(|column| (full_name(column), column)).collect()
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
