//! What a machine showed before: the experiments in one folder that were measured on it. They say how far two measurements of the same thing
//! differ there, which is the margin of a comparison, and whether the machine became slower or noisier.
//!
//! Equal things are points of one id, which holds settings, environment and load, on one version of the server. Reading only; what is
//! measured next never depends on it, but for a margin that a session records when it begins.

use super::rows::read_runs;
use super::words::show_number;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use vsweep_record::journal::{self, Check, Directory, Launch, RunRecord, State};
use vsweep_record::table::{Better, Points};
use vsweep_strategy::stats::{self, Margin, Noise, Start, Strange};

/// So many experiments are read, the ones changed last, …
const MOST: usize = 20;
/// … and of so many runs together.
const MOST_RUNS: usize = 4_000;
/// A margin is what two measurements of so many starts each differ by.
const STARTS: usize = 2;
/// Starts beyond the first of each config below which nothing is said of noise.
const FEWEST: f64 = 4.0;
/// A margin is never narrower, because no server is chosen by less, nor wider, because more always matters; in percent.
const WITHIN: (f64, f64) = (0.5, 5.0);
/// Figures by which a machine is held against its history.
const JUDGED: [(&str, Better); 2] = [("output_throughput", Better::Higher), ("median_tpot_ms", Better::Lower)];

/// Starts of a point, by metric.
type StartsByMetric = BTreeMap<String, Vec<Start>>;

/// One experiment: its points, by what makes them equal.
#[derive(Debug, Clone, Default)]
struct Past {
    root: PathBuf,
    points: BTreeMap<String, StartsByMetric>,
}

/// Experiments of one machine.
#[derive(Debug, Clone, Default)]
pub struct History(Vec<Past>);

impl History {
    /// The experiments in a folder that were measured on this host, by the simulator or not. What cannot be read is left out.
    pub fn of(folder: &Path, host: &str, is_simulated: bool, metrics: &[String]) -> History {
        let mut runs = 0;
        let mut found = Vec::new();
        for root in experiments(folder, host).into_iter().take(MOST) {
            let directory = Directory::at(&root);
            let Ok(state) = journal::load(&directory, Check::Lengths) else {
                continue;
            };
            runs += state.runs().count();
            if runs > MOST_RUNS {
                break;
            }
            let past = read(&directory, &state, metrics, is_simulated);
            found.extend(Some(past).filter(|past| !past.points.is_empty()));
        }
        History(found)
    }

    /// The change of a metric that means nothing on this machine, in percent; none where too little was measured again.
    fn margin_percent(&self, metric: &str) -> Option<f64> {
        let mut groups: BTreeMap<&String, Vec<Start>> = BTreeMap::new();
        for (point, measured) in self.0.iter().flat_map(|past| &past.points) {
            let starts = measured.get(metric).into_iter().flatten().cloned();
            groups.entry(point).or_default().extend(starts);
        }
        let groups: Vec<Vec<Start>> = groups.into_values().collect();
        let noise = Noise::of(&groups).filter(|noise| noise.start_freedom >= FEWEST)?;
        let starts = groups.iter().flatten();
        let runs = starts.clone().map(Start::runs).sum::<usize>() / starts.count().max(1);
        let Margin { log } = noise.margin(STARTS, runs.max(1));
        let percent = 100.0 * log.exp_m1();
        Some((percent.clamp(WITHIN.0, WITHIN.1) * 10.0).round() / 10.0)
    }

    /// The margins of these metrics, as far as they are known.
    pub fn margins(&self, metrics: &[String]) -> BTreeMap<String, f64> {
        let known = metrics
            .iter()
            .filter_map(|metric| Some((metric.clone(), self.margin_percent(metric)?)));
        known.collect()
    }

    /// By the points that every one of the earlier experiments has of those that share any.
    fn judge(&self, now: &Past, metric: &str, better: Better) -> Vec<(Strange, usize)> {
        let has = |past: &Past, point: &String| {
            past.points
                .get(point)
                .is_some_and(|measured| measured.contains_key(metric))
        };
        let sharing: Vec<&Past> = self
            .0
            .iter()
            .filter(|past| now.points.keys().any(|point| has(past, point)))
            .collect();
        let common: Vec<&String> = now
            .points
            .keys()
            .filter(|point| has(now, point) && sharing.iter().all(|past| has(past, point)))
            .collect();
        let of = |past: &Past| -> Vec<Vec<Start>> {
            common.iter().map(|point| past.points[*point][metric].clone()).collect()
        };
        let history = stats::History {
            experiments: sharing.iter().map(|past| of(past)).collect(),
        };
        let strange = history.judge(&of(now), better).into_iter();
        strange.map(|strange| (strange, sharing.len())).collect()
    }
}

/// How the machine of an experiment differs from what it showed before in the other experiments of its folder, in sentences.
pub fn strange(directory: &Directory, state: &State) -> Vec<String> {
    let (Some(folder), Some(host)) = (parent(directory.root()), host_of(directory.root())) else {
        return Vec::new();
    };
    let is_simulated = state.servers.values().any(|server| server.is_simulated() == Some(true));
    let metrics: Vec<String> = JUDGED.iter().map(|(metric, _)| (*metric).to_owned()).collect();
    let now = read(directory, state, &metrics, is_simulated);
    let mut before = History::of(&folder, &host, is_simulated, &metrics);
    before.0.retain(|past| !is_same(&past.root, directory.root()));
    let judged = JUDGED.iter().flat_map(|(metric, better)| {
        let said = before.judge(&now, metric, *better);
        said.into_iter()
            .map(|(strange, count)| sentence(strange, metric, count, &host))
    });
    judged.collect()
}

fn sentence(strange: Strange, metric: &str, experiments: usize, host: &str) -> String {
    let what = match strange {
        Strange::Slower(ratio) => format!(
            "is slower than it was: {metric} is {:.1} % worse",
            (ratio - 1.0) * 100.0
        ),
        Strange::NoisierStarts(ratio) => format!(
            "is noisier than it was: {metric} scatters {} times as much from start to start",
            show_number(ratio)
        ),
        Strange::NoisierRuns(ratio) => format!(
            "is noisier than it was: {metric} scatters {} times as much from run to run",
            show_number(ratio)
        ),
    };
    format!(
        "{host} {what} at points that {experiments} earlier experiments in this folder measured too; look for other work on it, its clocks, \
         temperatures and driver"
    )
}

/// The experiments in a folder that were measured on this host, the ones changed last first.
fn experiments(folder: &Path, host: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(SystemTime, PathBuf)> = entries
        .map(|entry| entry.path())
        .filter(|root| host_of(root).as_deref() == Some(host))
        .filter_map(|root| {
            Some((
                fs::metadata(Directory::at(&root).manifest()).ok()?.modified().ok()?,
                root,
            ))
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, root)| root).collect()
}

/// The machine that an experiment was measured on, as its manifest says.
pub fn host_of(root: &Path) -> Option<String> {
    let manifest: Value = serde_json::from_slice(&fs::read(Directory::at(root).manifest()).ok()?).ok()?;
    let host = manifest["host"].as_str().filter(|host| !host.is_empty());
    host.map(str::to_owned)
}

/// The folder that holds an experiment.
pub fn parent(root: &Path) -> Option<PathBuf> {
    let whole = std::path::absolute(root).ok()?;
    whole.parent().map(Path::to_path_buf)
}

fn is_same(one: &Path, other: &Path) -> bool {
    let both = fs::canonicalize(one).ok().zip(fs::canonicalize(other).ok());
    both.is_some_and(|(one, other)| one == other)
}

fn read(directory: &Directory, state: &State, metrics: &[String], is_simulated: bool) -> Past {
    let table = read_runs(directory, state).table;
    let runs: Vec<&RunRecord> = state.runs().collect();
    let starts = state.servers.values().flat_map(|server| &server.starts);
    let versions: BTreeMap<Launch, &str> = starts
        .map(|start| (start.launch, start.version.as_deref().unwrap_or_default()))
        .collect();
    let is_of_kind = |run: &RunRecord| {
        let server = state.servers.get(&run.server);
        server.is_some_and(|server| server.is_simulated() == Some(true)) == is_simulated
    };
    let mut points: BTreeMap<String, StartsByMetric> = BTreeMap::new();
    // Valid runs that disagree stay: their scatter is what this measures, and a history without them would be too quiet.
    for point in Points::of(&table).points.iter().filter(|point| point.ok > 0) {
        for metric in metrics {
            let mut of_starts: BTreeMap<Launch, Vec<f64>> = BTreeMap::new();
            for row in point.used.iter().filter(|row| is_of_kind(runs[**row])) {
                let value = table.cell(metric, *row).number();
                if let Some((launch, value)) = state.start_of(runs[*row]).zip(value) {
                    of_starts.entry(launch).or_default().push(value);
                }
            }
            for (launch, values) in of_starts {
                let version = versions.get(&launch).copied().unwrap_or_default();
                let measured = points.entry(format!("{}@{version}", point.id)).or_default();
                measured.entry(metric.clone()).or_default().extend(Start::of(&values));
            }
        }
    }
    Past {
        root: directory.root().to_path_buf(),
        points,
    }
}
