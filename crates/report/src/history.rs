//! The history of a machine: the experiments in one folder that were measured on it. They show how much repeated measurements differ there,
//! and the margin of a comparison follows from that.
//!
//! A measurement is repeated if its point has the same id, which covers settings, environment and load, and its server the same version.
//! Two builds may have one id and one version, so the sides of a comparison repeat nothing of each other.
//! This module only reads. A measurement depends on the history only through the margin and the noise that its session records when it
//! begins.

use super::environment::manifest;
use super::rows::read_runs;
use crate::ordered::Ordered;
use itertools::Itertools;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use vsweep_record::journal::{self, Check, Directory, Launch, RunRecord, State};
use vsweep_record::table::Points;
use vsweep_strategy::stats::{Margin, Noise, Start};

/// Most experiments that are read: those that changed last.
pub(super) const MOST: usize = 20;
/// Most runs that are read from all experiments together.
const MOST_RUNS: usize = 4_000;
/// Most bytes in the journals of an experiment that is read.
const MOST_BYTES: u64 = 1 << 27;
/// Starts on each side of the comparison for which a margin holds.
const STARTS: usize = 2;
/// Fewest launches, beyond the first of each server and version, from which a margin is computed.
const FEWEST: f64 = 4.0;
/// Least and greatest margin, in percent: a smaller change never matters, and a larger one always does.
const MARGIN_RANGE: (f64, f64) = (0.5, 5.0);
/// Starts that repeat each other, by their server with its version, and their point.
type Repeats = BTreeMap<(String, Box<str>), Vec<Start>>;

/// Experiments of one machine: the measurements of each metric.
#[derive(Debug, Clone, Default)]
pub struct History(Vec<BTreeMap<String, Repeats>>);

impl History {
    /// The experiments in a folder that were measured on this host, either by the simulator or on real servers. Unreadable ones are left
    /// out. Starts of an experiment that is apart repeat only each other: its difference from others may be the one that is looked for.
    pub fn of(
        folder: &Path,
        host: &str,
        is_simulated: bool,
        metrics: &[String],
        is_apart: &dyn Fn(&Path) -> bool,
    ) -> History {
        let mut runs = 0;
        let mut found = Vec::new();
        for directory in experiments(folder, host).take(MOST) {
            if directory.journal_bytes() > MOST_BYTES {
                continue;
            }
            let Ok(state) = journal::load(&directory, Check::Lengths) else {
                continue;
            };
            let own = state.runs().count();
            if runs + own > MOST_RUNS {
                continue;
            }
            runs += own;
            // A name of the experiment makes its servers differ from those of other experiments.
            let apart = match is_apart(directory.root()) {
                true => format!(" in {}", directory.root().display()),
                false => String::new(),
            };
            found.push(read(&directory, &state, metrics, is_simulated, &apart));
        }
        History(found)
    }

    /// The margin of a metric on this machine, in percent: smaller changes may be noise. `None` if too little was measured more than once.
    fn margin_percent(&self, metric: &str) -> Option<f64> {
        let mut groups: BTreeMap<&(String, Box<str>), Vec<Start>> = BTreeMap::new();
        for (point, starts) in self.0.iter().filter_map(|past| past.get(metric)).flatten() {
            groups.entry(point).or_default().extend_from_slice(starts);
        }
        // All points of one launch share its noise, so a launch is one repeat, however many points it has. The repeats of a server are
        // those of the point with the most launches: perhaps too few, but never too many.
        let repeats = groups
            .iter()
            .map(|((server, _), starts)| (server, starts.len().saturating_sub(1)));
        let repeats = repeats.into_grouping_map().max().into_values().sum::<usize>();
        let groups: Vec<Vec<Start>> = groups.into_values().collect();
        let noise = Noise {
            start_freedom: repeats as f64,
            ..Noise::of(&groups)?
        };
        if noise.start_freedom < FEWEST {
            return None;
        }
        let starts = groups.iter().flatten();
        let runs = starts.clone().map(Start::runs).sum::<usize>() / starts.count().max(1);
        let Margin { log } = noise.margin(STARTS, runs.max(1));
        let percent = 100.0 * log.exp_m1();
        Some((percent.clamp(MARGIN_RANGE.0, MARGIN_RANGE.1) * 10.0).round() / 10.0)
    }

    /// The margins of these metrics, as far as they are known.
    pub fn margins(&self, metrics: &[String]) -> BTreeMap<String, f64> {
        let known = metrics
            .iter()
            .filter_map(|metric| Some((metric.clone(), self.margin_percent(metric)?)));
        known.collect()
    }
}

/// The experiments in a folder that were measured on this host, the ones changed last first. Of an experiment and its copies, which share
/// journals, only the first counts: a copy repeats nothing.
pub(super) fn experiments(folder: &Path, host: &str) -> impl Iterator<Item = Directory> {
    let all = Directory::all_in(folder).into_iter();
    let mut seen: HashSet<OsString> = HashSet::new();
    all.filter(move |directory| host_of(directory.root()).as_deref() == Some(host))
        .filter(move |directory| {
            let journals = directory.journals().unwrap_or_default();
            let names = journals.iter().filter_map(|journal| journal.file_name());
            // All names must be noted, so this counts them. `any` would stop at the first.
            names.filter(|name| !seen.insert((*name).to_owned())).count() == 0
        })
}

/// The machine that an experiment was measured on, as its manifest says.
pub fn host_of(root: &Path) -> Option<String> {
    let manifest = manifest(&Directory::at(root));
    let host = manifest["host"].as_str().filter(|host| !host.is_empty());
    host.map(str::to_owned)
}

/// The folder that holds an experiment.
pub fn parent(root: &Path) -> Option<PathBuf> {
    let whole = std::path::absolute(root).ok()?;
    whole.parent().map(Path::to_path_buf)
}

/// The measurements of an experiment. The names of its servers end in `apart`.
fn read(
    directory: &Directory,
    state: &State,
    metrics: &[String],
    is_simulated: bool,
    apart: &str,
) -> BTreeMap<String, Repeats> {
    let table = read_runs(directory, state).table;
    let runs: Vec<&RunRecord> = state.runs().collect();
    let starts = state.launches();
    let versions: BTreeMap<Launch, &str> = starts
        .filter_map(|start| {
            Some((
                start.launch,
                start.ready.as_ref()?.version.as_deref().unwrap_or_default(),
            ))
        })
        .collect();
    let is_of_kind = |run: &RunRecord| {
        let server = state.servers.get(&run.server);
        server.is_some_and(|server| server.is_simulated() == Some(true)) == is_simulated
    };
    let points = Points::of(&table).points;
    // Valid runs that disagree stay, because their scatter is part of the noise.
    let valid = points.iter().filter(|point| point.ok > 0);
    let mut found: BTreeMap<String, Repeats> = BTreeMap::new();
    for (point, metric) in valid.cartesian_product(metrics) {
        let used = point.used.iter().filter(|row| is_of_kind(runs[**row]));
        let values = used.filter_map(|row| Some((state.launch_of(runs[*row])?, table.cell(metric, *row).number()?)));
        for (launch, values) in values
            .into_group_map()
            .into_iter()
            .ordered_by_key(|(launch, _)| *launch)
        {
            let Some(start) = Start::of(&values) else { continue };
            let version = versions.get(&launch).copied().unwrap_or_default();
            let measured = found.entry(metric.clone()).or_default();
            let server = format!("{}@{version}{apart}", runs[point.row].server);
            measured.entry((server, point.id.clone())).or_default().push(start);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_one_launch_are_one_repeat() {
        let margin = |points: usize, launches: usize| {
            let starts = (0..launches).filter_map(|launch| Start::of(&[100.0 + launch as f64]));
            let starts: Vec<Start> = starts.collect();
            let repeats = (0..points).map(|point| (("s@1".to_owned(), format!("p{point}").into()), starts.clone()));
            let metrics = BTreeMap::from([("m".to_owned(), repeats.collect())]);
            History(vec![metrics]).margin_percent("m")
        };
        assert_eq!(margin(4, 2), None);
        assert_eq!(margin(4, 4), None);
        assert!(margin(4, 5).is_some());
        assert!(margin(1, 5).is_some());
    }
}
