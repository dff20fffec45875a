//! The table of vLLM's performance dashboard (`compare-json-results.py`) for any results: figures of several sides next to each other with
//! their ratios, and the highest load at which each side is fast enough. Unlike the other formats it has no intervals and no verdicts.

use super::Side;
use super::matching::{full_name, values_of};
use crate::findings::answer::estimate_by_table;
use crate::findings::variation::varying;
use crate::ordered::Ordered;
use crate::texts::markdown::{escape, grid};
use crate::texts::words::{axis_title, show_number};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};
use vsweep_record::journal::State;
use vsweep_record::table::Points;

/// The latency statistic of the table, and the limits up to which a load is fast enough.
#[derive(Debug, Clone)]
pub struct Speed {
    /// `p99` or `median`.
    pub statistic: String,
    /// The longest TTFT that is fast enough.
    pub ttft_ms: f64,
    /// The longest TPOT that is fast enough.
    pub tpot_ms: f64,
}

/// The settings that may be the load, in order of preference.
const LOADS: [&str; 2] = ["bench.max_concurrency", "bench.request_rate"];

/// One load with the throughput, TTFT and TPOT of each side.
struct LoadRow {
    load: String,
    sides: Vec<[Option<f64>; 3]>,
}

/// All throughputs, TTFTs and TPOTs of each side at a load.
type SideFigures = Vec<[Vec<f64>; 3]>;

/// Returns tables in Markdown: for each workload and server, a table for each figure and one of the highest loads.
///
/// # Errors
/// If no side has a figure of the table.
pub fn to_dashboard(sides: &[Side], speed: &Speed) -> Result<String, String> {
    let latency = |quantity: &str| format!("{}_{quantity}_ms", speed.statistic);
    let metrics = ["output_throughput".to_owned(), latency("ttft"), latency("tpot")];
    let named = metrics.each_ref().map(String::as_str);
    let mut points: Vec<Points<'_>> = sides.iter().map(|side| Points::of(&side.table)).collect();
    for (points, side) in points.iter_mut().zip(sides) {
        points.adopt(&estimate_by_table(&State::default(), &side.table, &named));
    }
    let keys: BTreeSet<String> = points.iter().flat_map(varying).map(full_name).collect();
    let load = load_of(&points, &keys);
    let group_by: BTreeSet<String> = keys.into_iter().filter(|key| key != load).collect();
    let groups = gather(&points, &group_by, load, &metrics);
    if groups.is_empty() {
        return Err(format!(
            "no point has one of {}; see the columns with `vsweep plot`, or choose --latency",
            metrics.join(", ")
        ));
    }
    let names: Vec<&str> = sides.iter().map(|side| side.name.as_str()).collect();
    let mut text = format!("## {}\n\n", names.iter().map(|name| escape(name)).join(" | "));
    for (key, rows) in &groups {
        let heading = group_by.iter().zip(key).filter(|(_, value)| !value.is_empty());
        let heading = heading
            .map(|(name, value)| format!("{} {value}", bare(name)))
            .join(", ");
        if !heading.is_empty() {
            text += &format!("### {}\n\n", escape(&heading));
        }
        for (place, metric) in metrics.iter().enumerate() {
            text += &side_by_side(rows, place, metric, &names, load, speed);
        }
        text += &highest_loads(rows, &names, &metrics, load, speed);
    }
    Ok(text)
}

/// The setting that distinguishes the rows of a table: a load that varies, else one that is set.
fn load_of(points: &[Points<'_>], keys: &BTreeSet<String>) -> &'static str {
    let varies = |load: &&&str| keys.contains(**load);
    let is_set = |load: &&&str| points.iter().any(|points| points.runs.column(load).is_some());
    let found = LOADS.iter().find(varies).or_else(|| LOADS.iter().find(is_set));
    found.unwrap_or(&LOADS[0])
}

/// Groups points by their values of the settings `group_by`, with rows in the order of their loads. Points with equal settings are
/// averaged, as in vLLM's table.
fn gather(
    points: &[Points<'_>],
    group_by: &BTreeSet<String>,
    load: &str,
    metrics: &[String; 3],
) -> BTreeMap<Vec<String>, Vec<LoadRow>> {
    let load = BTreeSet::from([load.to_owned()]);
    let mut groups: BTreeMap<Vec<String>, BTreeMap<String, SideFigures>> = BTreeMap::new();
    for (side, of_side) in points.iter().enumerate() {
        let (key, load) = (values_of(of_side, group_by), values_of(of_side, &load));
        for point in of_side.points.iter().filter(|point| !point.used.is_empty()) {
            let figures = [0, 1, 2].map(|place| of_side.spread(point, &metrics[place]));
            if figures.iter().any(Option::is_some) {
                let loads = groups.entry(key(point)).or_default();
                let row = loads.entry(load(point).concat());
                let row = row.or_insert_with(|| vec![Default::default(); points.len()]);
                for (values, figure) in row[side].iter_mut().zip(figures) {
                    values.extend(figure.map(|spread| spread.value));
                }
            }
        }
    }
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let row = |(load, sides): (String, SideFigures)| {
        let sides = sides.into_iter().map(|figures| figures.map(mean)).collect();
        LoadRow { load, sides }
    };
    // Non-numeric values come last.
    let number = |row: &LoadRow| row.load.parse::<f64>().unwrap_or(f64::INFINITY);
    let in_order = |loads: BTreeMap<String, SideFigures>| {
        let rows = loads.into_iter().map(row);
        rows.ordered_by(|a, b| number(a).total_cmp(&number(b))).collect()
    };
    groups.into_iter().map(|(key, loads)| (key, in_order(loads))).collect()
}

fn side_by_side(rows: &[LoadRow], place: usize, metric: &str, names: &[&str], load: &str, speed: &Speed) -> String {
    let limit = [None, Some(speed.ttft_ms), Some(speed.tpot_ms)][place];
    let mut heads = vec![bare(load).to_owned()];
    for (side, name) in names.iter().enumerate() {
        heads.push(escape(name));
        if side > 0 {
            heads.push(format!("Ratio 1 vs {}", side + 1));
        }
    }
    let cells = |LoadRow { load, sides }: &LoadRow| {
        let mut cells = vec![escape(if load.is_empty() { "unset" } else { load })];
        let base = sides[0][place];
        for (side, figures) in sides.iter().enumerate() {
            let found = figures[place];
            let is_within = found.zip(limit).is_some_and(|(found, limit)| found <= limit);
            let shown = found.map_or("-".into(), show_number);
            cells.push(if is_within { format!("**{shown}**") } else { shown });
            if side > 0 {
                // Above 1 is better than the first side, for latencies and throughputs alike.
                let ratio = base.zip(found).map(|(base, found)| match limit {
                    Some(_) => base / found,
                    None => found / base,
                });
                let ratio = ratio.filter(|ratio| ratio.is_finite());
                cells.push(ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")));
            }
        }
        cells
    };
    let bold = limit.map_or_else(String::new, |limit| format!(", bold up to {limit} ms"));
    format!(
        "{}{bold}\n\n{}",
        axis_title(metric),
        grid(&heads, rows.iter().map(cells))
    )
}

/// A table of the highest measured load within each limit and within both, with the figures at the load within both.
fn highest_loads(rows: &[LoadRow], names: &[&str], metrics: &[String; 3], load: &str, speed: &Speed) -> String {
    let of_side = |side: usize| {
        let rows = rows.iter().filter_map(move |row| {
            let [throughput, ttft, tpot] = row.sides[side];
            Some([row.load.parse().ok()?, ttft?, tpot?, throughput.unwrap_or(f64::NAN)])
        });
        rows.collect_vec()
    };
    let sides: Vec<Vec<[f64; 4]>> = (0..names.len()).map(of_side).collect();
    if sides.iter().all(Vec::is_empty) {
        return String::new();
    }
    let valid = sides.iter().map(|rows| valid_loads(rows, speed)).collect_vec();
    let line = |label: String, figure: &dyn Fn(usize) -> Option<f64>| {
        let figures = (0..names.len()).map(|side| figure(side).filter(|figure| figure.is_finite()));
        let cells = figures.map(|figure| figure.map_or("-".to_owned(), show_number));
        std::iter::once(label).chain(cells).collect_vec()
    };
    let limits = [("TTFT", speed.ttft_ms), ("TPOT", speed.tpot_ms)];
    let [ttft, tpot] = limits.map(|(quantity, limit)| format!("{quantity} up to {limit} ms"));
    let highest = [ttft, tpot, "both".to_owned()].into_iter().enumerate();
    let highest = highest.map(|(place, label)| line(label, &|side| valid[side][place]));
    let at_both = [3, 1, 2].into_iter().zip(metrics).map(|(place, metric)| {
        let at_both = |side: usize| sides[side].iter().find(|row| Some(row[0]) == valid[side][2]);
        line(format!("{} at both", axis_title(metric)), &|side| {
            Some(at_both(side)?[place])
        })
    });
    let heads = std::iter::once(String::new()).chain(names.iter().map(|name| escape(name)));
    let table = grid(&heads.collect_vec(), highest.chain(at_both));
    let mut text = format!("Valid {}\n\n{table}", bare(load));
    for ((name, rows), valid) in names.iter().zip(&sides).zip(&valid) {
        for (place, (quantity, limit)) in limits.iter().enumerate() {
            let is_broken = |row: &&[f64; 4]| Some(row[0]) < valid[place] && row[1 + place] > *limit;
            if let Some([at, ..]) = rows.iter().find(is_broken) {
                let (name, at) = (escape(name), show_number(*at));
                text += &format!("{name}: {quantity} is already above {limit} ms at {at}.\n\n");
            }
        }
    }
    text
}

/// Returns the highest load within the limit of TTFT, of TPOT and of both, even if a lower load exceeds the limit. Each row is a load, its
/// TTFT and its TPOT in ms, and its throughput.
pub fn valid_loads(rows: &[[f64; 4]], speed: &Speed) -> [Option<f64>; 3] {
    let highest = |is_valid: &dyn Fn(&[f64; 4]) -> bool| {
        let valid = rows.iter().filter(|row| is_valid(row)).map(|row| row[0]);
        valid.max_by(f64::total_cmp)
    };
    let is_ttft = |row: &[f64; 4]| row[1] <= speed.ttft_ms;
    let is_tpot = |row: &[f64; 4]| row[2] <= speed.tpot_ms;
    [
        highest(&is_ttft),
        highest(&is_tpot),
        highest(&|row| is_ttft(row) && is_tpot(row)),
    ]
}

/// The name of a setting without the prefix `serve.` or `bench.`.
fn bare(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, bare)| bare)
}
