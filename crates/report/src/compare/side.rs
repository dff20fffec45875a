//! One side of a comparison as it is read from disk: its runs, their machines, and its servers. Also finds the differences between two
//! sides other than their figures: the machine, versions, environments, commands and settings.

use super::differences::{Change, differing, of_server};
use super::matching::{PointPair, constants, full_name, values_of};
use crate::environment::{facts, manifest};
use crate::ordered::{Order, Ordered};
use crate::rows::{Runs, load};
use crate::texts::status::unfinished;
use itertools::Itertools;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use vsweep_answer::MetricNoise;
use vsweep_base::error::Result;
use vsweep_base::ids::{Hash256, ServerId};
use vsweep_base::units::show_many;
use vsweep_plan::{ReportOptions, spelling};
use vsweep_record::journal::{Directory, LineId, Machine, RunRecord, State};
use vsweep_record::table::{Filter, Point, Points, Table, search_results};

/// Identifies a run in every copy of its experiment: the line that began it, and the hash of its file if it has one.
type Origin = (LineId, Option<Hash256>);

/// The results of one side, and the known facts about their machine and servers.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// Its name.
    pub name: String,
    /// Its runs.
    pub table: Table,
    /// Machine of each run, if known; empty if no machine is known.
    pub machines: Vec<Option<Machine>>,
    /// The line that began each run, and the hash of its file; empty for results of other programs.
    origins: Vec<Origin>,
    /// Noise of the machine that was known when the sweep began; empty for results of other programs.
    pub noise: Vec<MetricNoise>,
    /// Facts about the machine and the versions, by name.
    pub facts: BTreeMap<String, BTreeSet<String>>,
    /// Programs, environment variables, models and flags of its servers. A flag is named as a setting, such as `serve.dtype`.
    pub servers: BTreeMap<String, BTreeSet<String>>,
    /// The reason why its sweep is not finished, and what is left; `None` if it is finished, or if that is unknown.
    pub unfinished: Option<String>,
    /// The highest load that any of its servers holds for each target; 0 if none holds any.
    pub targets: BTreeMap<String, f64>,
    /// Descriptions of damaged run files.
    pub damaged: Vec<String>,
}

impl Side {
    /// A side of which only the results are known.
    pub fn of(name: String, Runs { table, damaged, .. }: Runs) -> Side {
        Side {
            name,
            table,
            damaged,
            ..Side::default()
        }
    }

    /// Reads a directory that `vsweep run` wrote.
    ///
    /// # Errors
    /// If its journals cannot be read.
    pub fn read(directory: &Directory) -> Result<Side> {
        let name = directory.root().display().to_string();
        let (state, Runs { table, mut damaged, .. }, _) = load(directory, |_| ReportOptions::default())?;
        damaged.extend(state.damage.iter().cloned());
        let machines = state.runs().map(|run| state.measured_at(run)).collect();
        let hash = |run: &RunRecord| run.file.as_ref().map(|file| file.sha256);
        let origins = state.runs().map(|run| (run.rank.line, hash(run)));
        let facts = facts(&manifest(directory), &state)
            .into_iter()
            .chain(clocks(&table))
            .filter(|(name, _)| !OF_THE_SWEEP.contains(&name.as_str()));
        Ok(Side {
            name,
            machines,
            origins: origins.collect(),
            noise: state.known_noise().to_vec(),
            facts: facts.map(|(name, value)| (name, BTreeSet::from([value]))).collect(),
            servers: of_servers(&state),
            unfinished: unfinished(&state),
            targets: targets(&state),
            table,
            damaged,
        })
    }

    /// True if any of its runs was measured on the simulator.
    pub fn is_simulated(&self) -> bool {
        self.has_simulated("true")
    }

    /// True if any of its runs was measured on a real server.
    pub fn is_real(&self) -> bool {
        self.has_simulated("false")
    }

    fn has_simulated(&self, value: &str) -> bool {
        let column = self.table.column("simulated");
        column.is_some_and(|column| column.cells.values().any(|cell| cell.to_string() == value))
    }

    /// Its results split by tensor and pipeline parallel size, each part as a side of its own. A missing size counts as 1.
    pub fn by_parallelism(&self) -> Vec<Side> {
        let size = |name: &str, row: usize| self.table.cell(name, row).number().map_or(1, |size| size as u64);
        let of_row = |row: &usize| (size("tensor_parallel_size", *row), size("pipeline_parallel_size", *row));
        let rows = (0..self.table.rows()).into_group_map_by(of_row).into_iter().ordered();
        rows.map(|((tp, pp), rows)| Side {
            name: format!("{} TP {tp} PP {pp}", self.name),
            ..self.select(&rows)
        })
        .collect()
    }

    /// The side with only the runs that meet all conditions.
    ///
    /// # Errors
    /// If a condition names no column of these runs, or no run meets it.
    pub fn only(&self, filters: &[Filter]) -> Result<Side, String> {
        let mut rows: Vec<usize> = (0..self.table.rows()).collect();
        for filter in filters {
            rows = filter.keep(&self.table, &rows)?;
            if rows.is_empty() {
                return Err(format!("`{filter}` holds for no run of {}; loosen it", self.name));
            }
        }
        Ok(self.select(&rows))
    }

    fn select(&self, rows: &[usize]) -> Side {
        Side {
            table: self.table.select(rows),
            machines: rows.iter().filter_map(|row| self.machines.get(*row).cloned()).collect(),
            origins: rows.iter().filter_map(|row| self.origins.get(*row).copied()).collect(),
            ..self.clone()
        }
    }
}

/// The sides without the runs that both hold, and a note about these. If an experiment is copied and continued, its runs are no evidence
/// against themselves. They stay on the side that has fewer others.
///
/// # Errors
/// If neither side has other runs.
pub fn set_apart<'s>(base: &'s Side, new: &'s Side) -> Result<([Cow<'s, Side>; 2], Option<String>), String> {
    let [of_base, of_new] = [base, new].map(|side| side.origins.iter().collect::<HashSet<&Origin>>());
    let own = |side: &Side, other: &HashSet<&Origin>| {
        let rows = 0..side.origins.len();
        rows.filter(|row| !other.contains(&side.origins[*row])).collect_vec()
    };
    let (only_base, only_new) = (own(base, &of_new), own(new, &of_base));
    let shared = show_many((new.origins.len() - only_new.len()) as u64, "run");
    let note = |side: &str| Some(format!("the sides share {shared}, which count in {side} alone"));
    if only_new.len() == new.origins.len() {
        return Ok(([Cow::Borrowed(base), Cow::Borrowed(new)], None));
    }
    match (only_base.len(), only_new.len()) {
        (0, 0) => Err(format!(
            "{} and {} hold the same {shared}, so one is a copy of the other; measure one of them anew",
            base.name, new.name
        )),
        (more, fewer) if more > fewer => Ok(([Cow::Owned(base.select(&only_base)), Cow::Borrowed(new)], note("new"))),
        _ => Ok(([Cow::Borrowed(base), Cow::Owned(new.select(&only_new))], note("base"))),
    }
}

fn targets(state: &State) -> BTreeMap<String, f64> {
    let mut held: BTreeMap<String, f64> = BTreeMap::new();
    for result in search_results(state) {
        let most = held.entry(result.target.name.clone()).or_default();
        *most = most.max(result.load().unwrap_or(0.0));
    }
    held
}

/// Facts that differ between any two sweeps and do not affect their figures.
const OF_THE_SWEEP: [&str; 5] = ["time spent measuring", "GPU-hours", "format", "plan", "vsweep"];

/// The median of each clock of the GPUs over all runs, in MHz.
fn clocks(table: &Table) -> impl Iterator<Item = (String, String)> {
    let rows: Vec<usize> = (0..table.rows()).collect();
    let clocks = [("SM", "gpu_sm_clock_mhz_mean"), ("memory", "gpu_memory_clock_mhz_mean")];
    clocks.into_iter().filter_map(move |(name, column)| {
        let spread = table.column(column)?.spread(&rows)?;
        Some((format!("{CLOCK}{name}"), format!("{:.0} MHz", spread.value)))
    })
}

/// Prefix of the names of facts that are clocks.
const CLOCK: &str = "GPU clock, ";

fn of_servers(state: &State) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // An earlier plan may have had servers of which no run counts.
    let measured: BTreeSet<&ServerId> = state.runs().map(|run| &run.server).collect();
    for server in measured.into_iter().filter_map(|id| state.servers.get(id)) {
        // A swept parameter is a column of the table, which `constants` reads.
        let is_swept = |name: &str| {
            let name = name.strip_prefix("serve.");
            name.is_some_and(|name| spelling::find(&server.params, name).is_some())
        };
        let unswept = of_server(server).into_iter().filter(|(name, _)| !is_swept(name));
        unswept.for_each(|(name, values)| found.entry(name).or_default().extend(values));
    }
    found
}

/// Relative difference of median clocks below which they count as equal, because sweeps of one machine differ by that much.
const SAME_CLOCK: f64 = 0.01;

/// Returns all differences except the settings by which points were matched.
pub fn between(
    (base, new): (&Side, &Side),
    points: (&Points<'_>, &Points<'_>),
    pairs: &[PointPair<'_>],
    keys: &BTreeSet<String>,
) -> Vec<Change> {
    let settings = |side: &Side, points: &Points<'_>, paired: &[&Point]| {
        let mut settings = constants(points, paired, keys);
        for (name, values) in side.servers.iter().filter(|(name, _)| !keys.contains(*name)) {
            settings.entry(name.clone()).or_default().extend(values.clone());
        }
        settings
    };
    let (of_base, of_new): (Vec<&Point>, Vec<&Point>) = pairs.iter().map(|pair| (pair.base, pair.new)).unzip();
    let mut of_settings = differing(&settings(base, points.0, &of_base), &settings(new, points.1, &of_new));
    let mut changes = differing(&base.facts, &new.facts);
    // A fact that a side did not record is unknown, and not changed. So is a setting without a measured pair that no run of a side shows.
    changes.retain(|change| !is_same_clock(change) && has_both(change));
    of_settings.retain(|change| !pairs.is_empty() || has_both(change));
    changes.extend(of_settings);
    let within = changed_within(points, pairs, &changes);
    changes.extend(within);
    // Results of other programs do not show all settings of their servers and loads.
    let is_hidden = |value: &str, side: &Side, other: &Side| {
        value.is_empty() && side.servers.is_empty() && !other.servers.is_empty()
    };
    changes.retain(|change| !is_hidden(&change.base, base, new) && !is_hidden(&change.new, new, base));
    // A short form leaves out the last ones. Another load explains more than another machine.
    changes.order_by_key(|change| !change.name.starts_with("bench."));
    changes
}

fn has_both(change: &Change) -> bool {
    !change.base.is_empty() && !change.new.is_empty()
}

/// The settings that differ within pairs and are not among `known`, each with its values in the first such pair.
fn changed_within((base, new): (&Points<'_>, &Points<'_>), pairs: &[PointPair<'_>], known: &[Change]) -> Vec<Change> {
    let columns = [base, new].into_iter().flat_map(|side| side.runs.columns());
    let params = columns.filter(|column| column.section.is_parameter()).map(full_name);
    let names: BTreeSet<String> = params
        .filter(|name| known.iter().all(|change| change.name != *name))
        .collect();
    let (of_base, of_new) = (values_of(base, &names), values_of(new, &names));
    let values: Vec<_> = pairs
        .iter()
        .map(|pair| (pair, of_base(pair.base), of_new(pair.new)))
        .collect();
    let change = |(at, name): (usize, String)| {
        let mut differing = values.iter().filter(|(_, base, new)| base[at] != new[at]);
        let (pair, base, new) = differing.next()?;
        let name = match differing.count() {
            0 => format!("{name} at {}", pair.settings),
            more => format!(
                "{name} at {} and {}",
                pair.settings,
                show_many(more as u64, "more point")
            ),
        };
        let (base, new) = (base[at].clone(), new[at].clone());
        Some(Change { name, base, new })
    };
    names.into_iter().enumerate().filter_map(change).collect()
}

/// Returns true for a clock that hardly differs between the sides.
fn is_same_clock(change: &Change) -> bool {
    let mhz = |text: &str| text.strip_suffix(" MHz")?.parse::<f64>().ok();
    let clocks = mhz(&change.base).zip(mhz(&change.new));
    change.name.starts_with(CLOCK) && clocks.is_some_and(|(base, new)| (new / base - 1.0).abs() < SAME_CLOCK)
}
