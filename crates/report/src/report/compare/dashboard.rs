//! The table of vLLM's performance dashboard (`compare-json-results.py`) for any results: figures of several sides next to each other with
//! their ratios, and the highest load at which each side is fast enough. It has no intervals; verdicts are the other formats' work.

use super::Side;
use super::matching::{plain, values_of};
use crate::report::markdown::{escape, grid};
use crate::report::variation::varying;
use crate::report::words::{axis_title, show_number};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};
use vsweep_record::table::Points;

/// What the table shows of a latency, and how fast is fast enough.
#[derive(Debug, Clone)]
pub struct Speed {
    /// `p99` or `median`.
    pub statistic: String,
    /// The longest TTFT that is fast enough.
    pub ttft_ms: f64,
    /// The longest TPOT that is fast enough.
    pub tpot_ms: f64,
}

/// The settings that are the load, foremost first.
const LOADS: [&str; 2] = ["bench.max_concurrency", "bench.request_rate"];

/// The figures of one load on one side.
type DashboardFigures = [Option<f64>; 3];

/// The sides' figures by load, of everything else that is alike.
type DashboardGroup = BTreeMap<String, Vec<Vec<DashboardFigures>>>;

/// Tables in Markdown, for each workload and server one of each figure and one of the highest loads.
///
/// # Errors
/// If no side has a figure of the table.
pub fn to_dashboard(sides: &[Side], speed: &Speed) -> Result<String, String> {
    let latency = |quantity: &str| format!("{}_{quantity}_ms", speed.statistic);
    let metrics = ["output_throughput".to_owned(), latency("ttft"), latency("tpot")];
    let points: Vec<Points<'_>> = sides.iter().map(|side| Points::of(&side.table)).collect();
    let keys: BTreeSet<String> = points.iter().flat_map(varying).map(plain).collect();
    let load = load_of(&points, &keys);
    let apart: BTreeSet<String> = keys.into_iter().filter(|key| key != load).collect();
    let groups = gather(&points, &apart, load, &metrics);
    if groups.is_empty() {
        return Err(format!(
            "no point has one of {}; see the columns with `vsweep plot`, or choose --latency",
            metrics.join(", ")
        ));
    }
    let names: Vec<&str> = sides.iter().map(|side| side.name.as_str()).collect();
    let mut text = format!("## {}\n\n", names.iter().map(|name| escape(name)).join(" | "));
    for (key, group) in &groups {
        let told = apart.iter().zip(key).filter(|(_, value)| !value.is_empty());
        let told = told.map(|(name, value)| format!("{} {value}", bare(name))).join(", ");
        if !told.is_empty() {
            text += &format!("### {}\n\n", escape(&told));
        }
        for (place, metric) in metrics.iter().enumerate() {
            text += &side_by_side(group, place, metric, &names, load, speed);
        }
        text += &highest_loads(group, &names, &metrics, load, speed);
    }
    Ok(text)
}

/// The setting that the rows of a table go by.
fn load_of(points: &[Points<'_>], keys: &BTreeSet<String>) -> &'static str {
    let varies = |load: &&&str| keys.contains(**load);
    let is_set = |load: &&&str| points.iter().any(|points| points.runs.column(load).is_some());
    let found = LOADS.iter().find(varies).or_else(|| LOADS.iter().find(is_set));
    found.unwrap_or(&LOADS[0])
}

/// Points by what they are alike in but for the load, then by the load as a word.
fn gather(
    points: &[Points<'_>],
    apart: &BTreeSet<String>,
    load: &str,
    metrics: &[String; 3],
) -> BTreeMap<Vec<String>, DashboardGroup> {
    let load = BTreeSet::from([load.to_owned()]);
    let mut groups: BTreeMap<Vec<String>, DashboardGroup> = BTreeMap::new();
    for (side, of_side) in points.iter().enumerate() {
        let (apart, load) = (values_of(of_side, apart), values_of(of_side, &load));
        for point in of_side.points.iter().filter(|point| !point.used.is_empty()) {
            let value = |metric: &String| Some(of_side.spread(point, metric)?.median);
            let figures = [0, 1, 2].map(|place| value(&metrics[place]));
            if figures.iter().any(Option::is_some) {
                let group = groups.entry(apart(point)).or_default();
                let row = group
                    .entry(load(point).concat())
                    .or_insert_with(|| vec![Vec::new(); points.len()]);
                row[side].push(figures);
            }
        }
    }
    groups
}

/// A figure of a side at a load. Points that nothing tells apart have a mean, as in vLLM's table.
fn value(cells: &[DashboardFigures], place: usize) -> Option<f64> {
    let values: Vec<f64> = cells.iter().filter_map(|figures| figures[place]).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The loads in their order, each with the figures of every side.
fn rows(group: &DashboardGroup) -> impl Iterator<Item = (&str, &Vec<Vec<DashboardFigures>>)> {
    let rows = group.iter().map(|(load, cells)| (load.as_str(), cells));
    // What is no number comes last.
    let number = |load: &str| load.parse::<f64>().unwrap_or(f64::INFINITY);
    rows.sorted_by(|(a, _), (b, _)| number(a).total_cmp(&number(b)))
}

fn side_by_side(
    group: &DashboardGroup,
    place: usize,
    metric: &str,
    names: &[&str],
    load: &str,
    speed: &Speed,
) -> String {
    let limit = [None, Some(speed.ttft_ms), Some(speed.tpot_ms)][place];
    let mut heads = vec![bare(load).to_owned()];
    for (side, name) in names.iter().enumerate() {
        heads.push(escape(name));
        if side > 0 {
            heads.push(format!("Ratio 1 vs {}", side + 1));
        }
    }
    let row = |(load, cells): (&str, &Vec<Vec<DashboardFigures>>)| {
        let mut row = vec![escape(if load.is_empty() { "unset" } else { load })];
        let base = value(&cells[0], place);
        for (side, cells) in cells.iter().enumerate() {
            let found = value(cells, place);
            let is_within = found.zip(limit).is_some_and(|(found, limit)| found <= limit);
            let shown = found.map_or("-".into(), show_number);
            row.push(if is_within { format!("**{shown}**") } else { shown });
            if side > 0 {
                // Above 1 is better than the first side, of a latency as of a throughput.
                let ratio = base.zip(found).map(|(base, found)| match limit {
                    Some(_) => base / found,
                    None => found / base,
                });
                let ratio = ratio.filter(|ratio| ratio.is_finite());
                row.push(ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")));
            }
        }
        row
    };
    let bold = limit.map_or_else(String::new, |limit| format!(", bold up to {limit} ms"));
    format!("{}{bold}\n\n{}", axis_title(metric), grid(&heads, rows(group).map(row)))
}

/// The highest measured load within each limit, and what is had there.
fn highest_loads(group: &DashboardGroup, names: &[&str], metrics: &[String; 3], load: &str, speed: &Speed) -> String {
    let of_side = |side: usize| -> Vec<[f64; 4]> {
        let row = |(load, cells): (&str, &Vec<Vec<DashboardFigures>>)| {
            let at = |place| value(&cells[side], place);
            Some([load.parse().ok()?, at(1)?, at(2)?, at(0).unwrap_or(f64::NAN)])
        };
        rows(group).filter_map(row).collect()
    };
    let sides: Vec<Vec<[f64; 4]>> = (0..names.len()).map(of_side).collect();
    if sides.iter().all(Vec::is_empty) {
        return String::new();
    }
    let valid: Vec<[Option<f64>; 3]> = sides.iter().map(|rows| valid_loads(rows, speed)).collect();
    let show = |number: Option<f64>| {
        let number = number.filter(|number| number.is_finite());
        number.map_or("-".to_owned(), show_number)
    };
    let line = |label: String, cells: Vec<String>| [vec![label], cells].concat();
    let limits = [("TTFT", speed.ttft_ms), ("TPOT", speed.tpot_ms)];
    let [ttft, tpot] = limits.map(|(quantity, limit)| format!("{quantity} up to {limit} ms"));
    let highest = [ttft, tpot, "both".to_owned()]
        .into_iter()
        .enumerate()
        .map(|(place, label)| {
            let cells = valid.iter().map(|valid| show(valid[place]));
            line(label, cells.collect())
        });
    let at_both = [3, 1, 2].into_iter().zip(metrics).map(|(place, metric)| {
        let cells = sides.iter().zip(&valid).map(|(rows, valid)| {
            let both = rows.iter().find(|row| Some(row[0]) == valid[2]);
            show(both.map(|row| row[place]))
        });
        line(format!("{} at both", axis_title(metric)), cells.collect())
    });
    let heads = line(String::new(), names.iter().map(|name| escape(name)).collect());
    let mut text = format!("Valid {}\n\n", bare(load));
    text += &grid(&heads, highest.chain(at_both));
    for ((name, rows), valid) in names.iter().zip(&sides).zip(&valid) {
        for (place, (quantity, limit)) in limits.iter().enumerate() {
            let broken = rows
                .iter()
                .find(|row| Some(row[0]) < valid[place] && row[1 + place] > *limit);
            if let Some(broken) = broken {
                text += &format!(
                    "{}: {quantity} is already above {limit} ms at {}.\n\n",
                    escape(name),
                    show_number(broken[0])
                );
            }
        }
    }
    text
}

/// For TTFT, TPOT and both: the highest load that is within its limit, whatever a lower one is. Each row is a load, its TTFT and its TPOT
/// in ms, and its throughput.
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

/// A setting without its side.
fn bare(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, bare)| bare)
}
