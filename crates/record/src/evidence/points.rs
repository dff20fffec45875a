//! The points of an experiment with the runs that count, each run's figures with their sampling errors, and the server configs.

use super::Evidence;
use crate::journal::{DuplicateReason, LaunchRecord, Nonce, RunRecord};
use crate::table::{self, Cell, Points, Sampling, Section, Table, Workload, whole_gpus};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use vsweep_answer::{Config, Facts, Figure, Metric, Point, Run, Scale};
use vsweep_base::ids::ServerId;
use vsweep_base::threads;
use vsweep_base::validity::Code;
use vsweep_metrics::median;
use vsweep_strategy::stats::{figure_of, split_class};

/// Upper bound of relative sampling errors: even a poor figure lies within a factor of about ten of the truth.
const LARGEST_ERROR: f64 = 1.0;

/// Returns every point, with its runs that count.
pub(super) fn points(
    evidence: &Evidence<'_>,
    workloads: &[Workload<'_>],
    metrics: &[(&Metric, Sampling)],
) -> Vec<Point> {
    points_by(evidence, workloads, metrics, &|point| Some(&point.used))
}

/// Returns every point that was measured on a start without neighbours, with the runs of that start alone. The point of a probe has the
/// workload of its search, by which questions about loads are asked.
pub(super) fn alone(
    evidence: &Evidence<'_>,
    workloads: &[Workload<'_>],
    metrics: &[(&Metric, Sampling)],
) -> Vec<Point> {
    let mut found = points_by(evidence, workloads, metrics, &|point| {
        Some(&point.alone[..]).filter(|rows| !rows.is_empty())
    });
    let searched = |point: &Point| {
        let mut runs = evidence.runs.iter();
        let probe = runs.find(|run| *run.point.0 == *point.id && run.probe().is_some())?;
        let search = evidence.state.latest_search(probe.search.as_ref()?)?;
        Some(search.started.workload().to_owned())
    };
    for point in &mut found {
        if let Some(workload) = searched(point) {
            point.workload = workload;
        }
    }
    found
}

/// Returns the points, each with the runs of the rows that `rows` selects. A point for which `rows` returns `None` is left out.
fn points_by(
    evidence: &Evidence<'_>,
    workloads: &[Workload<'_>],
    metrics: &[(&Metric, Sampling)],
    rows: &dyn Fn(&table::Point) -> Option<&[usize]>,
) -> Vec<Point> {
    let node = |row: usize| {
        let record = evidence.runs.get(row);
        let machine = record.and_then(|run| evidence.state.measured_at(run));
        machine.map_or_else(String::new, |machine| machine.node)
    };
    let seconds = seconds_on_a_start(evidence);
    // A run whose file was lost did not fail.
    let lost = evidence.runs.iter().filter(|run| run.is_lost());
    let lost = lost.counts_by(|run| run.point.to_string());
    let mut found = Vec::new();
    for workload in workloads {
        let name = evidence.names.workload(workload);
        for at in &workload.points {
            let point = &evidence.points.points[*at];
            let Some(rows) = rows(point) else { continue };
            let rows = latest_version(evidence, rows);
            found.push(Point {
                id: point.id.to_string(),
                config: evidence.config_of(point.row),
                workload: name.clone(),
                load: evidence.names.load(point.row),
                runs: runs(evidence.points.runs, &rows, metrics, &node),
                seconds: seconds.get(&*point.id).copied().unwrap_or(0.0),
                failed: point.failed.saturating_sub(lost.get(&*point.id).copied().unwrap_or(0)) as u32,
                doubts: doubts(point, metrics),
            });
        }
    }
    found
}

/// Returns the rows of a point without those of earlier versions of its server, because a figure of several versions is that of none. A run
/// of unknown version counts.
fn latest_version(evidence: &Evidence<'_>, rows: &[usize]) -> Vec<usize> {
    let version = |row: &usize| {
        let run = evidence.runs.get(*row)?;
        let mut launches = evidence.state.launches_of(&run.server).iter();
        let at = launches.position(|launched| Some(launched.launch) == run.launch)?;
        let ready = evidence.state.launches_of(&run.server)[at].ready.as_ref()?;
        Some((at, ready.version.as_deref()?))
    };
    let latest = rows.iter().filter_map(version).max().map(|(_, version)| version);
    let is_latest = |row: &&usize| version(row).is_none_or(|(_, own)| Some(own) == latest);
    rows.iter().filter(is_latest).copied().collect()
}

/// Returns the time of all runs of each point, with their preparation, for each launch of its server that became ready.
fn seconds_on_a_start<'e>(evidence: &Evidence<'e>) -> HashMap<&'e str, f64> {
    let mut ready: HashMap<&ServerId, usize> = HashMap::new();
    let mut seconds: HashMap<&str, f64> = HashMap::new();
    for run in evidence.runs {
        let ready = *ready.entry(&run.server).or_insert_with(|| {
            let launches = evidence.state.launches_of(&run.server).iter();
            launches.filter_map(LaunchRecord::ready_seconds).count()
        });
        *seconds.entry(&*run.point.0).or_default() += run.seconds_with_preparation() / ready.max(1) as f64;
    }
    seconds
}

/// Returns the names of the doubts about a point, by metric. Disturbances and failed requests are left out: runs and configs have them.
fn doubts(point: &table::Point, metrics: &[(&Metric, Sampling)]) -> BTreeMap<String, Vec<String>> {
    let touching = metrics
        .iter()
        .map(|(metric, _)| (metric.name.clone(), doubts_about(point, &metric.name)));
    touching.filter(|(_, codes)| !codes.is_empty()).collect()
}

/// Returns the names of the doubts about one metric of a point.
pub(super) fn doubts_about(point: &table::Point, metric: &str) -> Vec<String> {
    let is_of_point = |code: &Code| !code.is_disturbance() && *code != Code::RequestErrors;
    let codes = point.doubts_of(metric).into_iter().filter(is_of_point);
    codes.map(|code| code.name().to_owned()).collect()
}

/// Returns the metrics, each with the sampling errors of its figures.
pub(super) fn sampled<'m>(points: &Points<'_>, metrics: &'m [Metric]) -> Vec<(&'m Metric, Sampling)> {
    let samplings = threads::map(threads::cores(), metrics, |metric| points.sampling(&metric.name));
    metrics.iter().zip(samplings).collect()
}

/// Returns the runs of some rows. `node` returns the name of a row's node, empty if unknown.
pub(super) fn runs(
    table: &Table,
    rows: &[usize],
    metrics: &[(&Metric, Sampling)],
    node: &dyn Fn(usize) -> String,
) -> Vec<Run> {
    let names: Vec<Arc<str>> = metrics.iter().map(|(metric, _)| (*metric.name).into()).collect();
    let run = |row: &usize| {
        let figures = metrics.iter().zip(&names);
        let figures = figures
            .filter_map(|((metric, sampling), name)| Some((Arc::clone(name), figure(table, *row, metric, sampling)?)));
        Run {
            // All runs whose launch is unknown count as one launch.
            start: table.launch(*row).map_or_else(String::new, |launch| launch.to_string()),
            node: node(*row),
            disturbed: table.is_disturbed(*row),
            figures: figures.collect(),
        }
    };
    let mut runs: Vec<Run> = rows.iter().map(run).collect();
    for at in 1..runs.len() {
        let (before, own) = runs.split_at_mut(at);
        own[0].figures.share(&before[at - 1].figures);
    }
    for (metric, _) in metrics {
        match metric.scale {
            Scale::Linear => give_zeros_largest_error(&mut runs, &metric.name),
            Scale::Log => share_errors(&mut runs, &metric.name),
            Scale::Count | Scale::Share => {}
        }
    }
    runs
}

/// Gives all runs of a point the median of their sampling errors, because they sent the same requests. A single estimate may be far too
/// small, for example if a median lies in a cluster of latencies. Its run would then outweigh all others.
fn share_errors(runs: &mut [Run], metric: &str) {
    let squares = errors_of(runs, metric).map(|(_, error)| *error * *error);
    let Some(shared) = median(squares).map(f64::sqrt) else {
        return;
    };
    errors_of(runs, metric).for_each(|(_, error)| *error = shared);
}

/// Returns the figures of a metric, each with a mutable reference to its sampling error.
fn errors_of<'r>(runs: &'r mut [Run], metric: &'r str) -> impl Iterator<Item = (f64, &'r mut f64)> {
    let figures = runs.iter_mut().flat_map(|run| run.figures.iter_mut());
    figures.filter_map(move |(name, figure)| match figure {
        Figure::Value { value, error } if name == metric => Some((*value, error)),
        _ => None,
    })
}

/// Gives figures of 0 or less the largest error of the point's runs, because their relative error is unknown. Without it they would
/// outweigh all others.
fn give_zeros_largest_error(runs: &mut [Run], metric: &str) {
    let largest = errors_of(runs, metric).fold(0.0, |largest: f64, (_, error)| largest.max(*error));
    let zeros = errors_of(runs, metric).filter(|(value, _)| *value <= 0.0);
    zeros.for_each(|(_, error)| *error = largest);
}

fn figure(table: &Table, row: usize, metric: &Metric, sampling: &Sampling) -> Option<Figure> {
    let value = table.cell(&metric.name, row).number()?;
    if metric.scale == Scale::Share
        && let Some(of) = requests(table, row, &metric.name).filter(|of| *of > 0.0)
    {
        return Some(Figure::Share { met: value * of, of });
    }
    let error = sampling.error(row).unwrap_or(0.0).min(LARGEST_ERROR);
    // Sampling errors are relative, as the logarithmic scale needs them. Other scales need them in the unit of the figure.
    let size = if metric.scale == Scale::Log { 1.0 } else { value.abs() };
    Some(Figure::Value {
        value,
        error: error * size,
    })
}

/// Returns the number of requests of a run, failed ones included, that a share counts: those of its class.
fn requests(table: &Table, row: usize, share: &str) -> Option<f64> {
    let (class, _) = split_class(share);
    let count = |name: &str| table.cell(&figure_of(class, name), row).number();
    Some(count("completed")? + count("failed").unwrap_or(0.0))
}

// The server configs of an experiment: their settings as far as they differ, their GPUs, the time of a start, and what happened to their
// servers.

/// Returns every config that has a point, in the order of the points.
pub(super) fn configs(evidence: &Evidence<'_>) -> Vec<Config> {
    let rows = evidence.points.points.iter().map(|point| point.row);
    let firsts = rows.map(|row| (evidence.config_of(row), row));
    let firsts = firsts.unique_by(|(id, _)| id.clone()).collect_vec();
    let columns = evidence.points.runs.columns().iter();
    let settings = columns.filter(|column| column.section == Section::Serve && !column.is_combo());
    let differing = settings.filter(|column| !firsts.iter().map(|(_, row)| column.cells.at(*row)).all_equal());
    let differing = differing.collect_vec();
    let duplicates = evidence.state.duplicates().into_iter();
    let retried = duplicates.filter(|duplicate| duplicate.why == DuplicateReason::TriedAgain);
    // A run that was tried several times counts once.
    let retried = retried.unique_by(|spare| (&spare.run.point, spare.run.slot, spare.run.run));
    let retries = retried.map(|spare| &*spare.run.server.0).counts();
    let mut tallies = tallies(evidence);
    let mut sessions: BTreeMap<&str, BTreeSet<Nonce>> = BTreeMap::new();
    for (config, version, session) in versions(evidence) {
        sessions.entry(version).or_default().insert(session);
        let tally = tallies.entry(config.to_string()).or_default();
        tally.versions.insert(version.to_owned());
    }
    let others = |own: &BTreeSet<String>| -> Vec<String> {
        let apart = sessions.iter().filter(|(_, theirs)| {
            let mut own = own.iter().map(|own| &sessions[own.as_str()]);
            own.any(|own| own.is_disjoint(theirs))
        });
        apart.map(|(version, _)| (*version).to_owned()).collect()
    };
    let config = |(id, row): (String, usize)| {
        let tally = tallies.remove(&id).unwrap_or_default();
        let retries = retries.get(id.as_str()).copied().unwrap_or(0);
        let set = differing.iter().filter(|column| column.cells.at(row) != Cell::Missing);
        let settings: BTreeMap<String, String> = set
            .map(|column| (column.name.clone(), column.cells.at(row).to_string()))
            .collect();
        let gpus = evidence.points.runs.cell("gpu_count", row).number();
        let launches = evidence.state.launches_of(&ServerId((*id).into()));
        Config {
            name: evidence.names.config(row),
            changes: settings.len(),
            settings,
            gpus: whole_gpus(gpus),
            seconds_per_start: seconds_per_start(launches, tally.seconds),
            seconds_around_runs: seconds_per_start(launches, 0.0),
            facts: Facts {
                launches: launches.len() as u32,
                deaths: launches.iter().filter(|launch| launch.exit.cause.is_some()).count() as u32,
                retries: retries as u32,
                requests: tally.requests,
                failed_requests: tally.failed_requests,
                simulated: tally.is_simulated,
                other_versions: others(&tally.versions),
                versions: tally.versions.into_iter().collect(),
            },
            id,
        }
    };
    firsts.into_iter().map(config).collect()
}

/// Returns the mean duration of a launch that became ready, in seconds: the time until it was ready, its share of the time of all runs, and
/// the time to stop it. `None` if no launch became ready.
fn seconds_per_start(launches: &[LaunchRecord], measured: f64) -> Option<f64> {
    let around = |launch: &LaunchRecord| Some(launch.ready_seconds()? + launch.exit.seconds.unwrap_or(0.0));
    let ready = launches.iter().filter_map(around).collect_vec();
    let count = ready.len() as f64;
    (count > 0.0).then(|| (ready.iter().sum::<f64>() + measured) / count)
}

/// Sums over the runs of a config.
#[derive(Default)]
struct Tally {
    seconds: f64,
    requests: u64,
    failed_requests: u64,
    is_simulated: bool,
    /// Versions of the server in runs that count.
    versions: BTreeSet<String>,
}

/// Returns the servers, their versions and the sessions that started them, of all runs that count.
fn versions<'a>(evidence: &Evidence<'a>) -> BTreeSet<(&'a ServerId, &'a str, Nonce)> {
    let rows = evidence.points.points.iter().flat_map(|point| &point.used);
    let of_row = |row: &usize| {
        let run: &'a RunRecord = evidence.runs.get(*row)?;
        let launched = evidence.state.launched(run)?;
        let version = launched.ready.as_ref()?.version.as_deref()?;
        Some((&run.server, version, launched.launch.session))
    };
    rows.filter_map(of_row).collect()
}

/// Returns the sums of each config.
fn tallies(evidence: &Evidence<'_>) -> HashMap<String, Tally> {
    let table = evidence.points.runs;
    let mut tallies: HashMap<String, Tally> = HashMap::new();
    for (row, run) in evidence.runs.iter().enumerate() {
        let tally = tallies.entry(run.server.to_string()).or_default();
        tally.seconds += run.seconds_with_preparation();
        tally.is_simulated |= table.cell("simulated", row) == Cell::Bool(true);
    }
    let count = |name: &str, row: usize| table.cell(name, row).number().unwrap_or(0.0) as u64;
    // Failed runs count too, because too many failed requests make a run fail.
    for row in 0..table.rows() {
        let tally = tallies.entry(evidence.config_of(row)).or_default();
        let failed = count("failed", row);
        // Damaged or foreign results may hold any numbers.
        tally.failed_requests = tally.failed_requests.saturating_add(failed);
        tally.requests = tally
            .requests
            .saturating_add(failed)
            .saturating_add(count("completed", row));
    }
    tallies
}

#[cfg(test)]
mod tests {
    use super::super::{MARGIN, Names};
    use super::*;
    use crate::journal::{Event, RunFinished, RunStarted, ServerReady, State};
    use crate::table::Column;
    use vsweep_answer::{Better, NoisePrior};

    struct Unnamed;

    impl Names for Unnamed {
        fn config(&self, _: usize) -> String {
            String::new()
        }

        fn load(&self, _: usize) -> String {
            String::new()
        }

        fn workload(&self, _: &Workload<'_>) -> String {
            String::new()
        }
    }

    #[test]
    fn runs_of_earlier_versions_do_not_count() {
        let mut state = State::default();
        for (slot, version) in [(0, Some("1")), (1, Some("2")), (2, None), (3, Some("2"))] {
            let (server, launch) = (ServerId("s".into()), slot + 1);
            state.apply_hypothetical(Event::ServerReady(Box::new(ServerReady {
                server: server.clone(),
                launch,
                version: version.map(str::to_owned),
                ..ServerReady::default()
            })));
            let started = state.apply_hypothetical(Event::RunStarted(Box::new(RunStarted {
                server,
                slot,
                launch,
                ..RunStarted::default()
            })));
            state.apply_hypothetical(Event::RunFinished(Box::new(RunFinished {
                started: started.rank.line.seq,
                ..RunFinished::default()
            })));
        }
        let (runs, table) = (state.runs().collect_vec(), Table::default());
        let evidence = Evidence {
            points: &Points::of(&table),
            runs: &runs,
            state: &state,
            starts: u32::MAX,
            requirements: &[],
            margin: MARGIN,
            gpus: None,
            objective: None,
            names: &Unnamed,
        };
        let of = |rows: &[usize]| latest_version(&evidence, rows);
        assert_eq!(of(&[0, 1, 2, 3]), [1, 2, 3]);
        assert_eq!(of(&[0]), [0], "another point has the later version");
        assert_eq!(of(&[2]), [2]);
    }

    /// Runs with these figures of a metric and their sampling errors.
    fn runs(figures: &[(f64, f64)]) -> Vec<Run> {
        let run = |(value, error): &(f64, f64)| Run {
            figures: [(
                "median_tpot_ms".to_owned(),
                Figure::Value {
                    value: *value,
                    error: *error,
                },
            )]
            .into(),
            ..Run::default()
        };
        figures.iter().map(run).collect()
    }

    #[test]
    fn a_share_counts_the_requests_of_its_class() {
        let column = |name: &str, value: f64| Column {
            name: name.to_owned(),
            section: Section::Metric,
            cells: [Cell::Float(value)].into_iter().collect(),
        };
        let share = figure_of(Some("docs"), "attainment");
        let columns = vec![
            column("completed", 400.0),
            column(&figure_of(Some("docs"), "completed"), 18.0),
            column(&figure_of(Some("docs"), "failed"), 1.0),
            column(&share, 0.5),
        ];
        let metric = Metric {
            name: share,
            scale: Scale::Share,
            better: Better::Higher,
            prior: NoisePrior::SHARE,
        };
        let found = figure(&Table::of(columns), 0, &metric, &Sampling::default());
        assert_eq!(found, Some(Figure::Share { met: 9.5, of: 19.0 }));
    }

    fn errors(runs: &[Run]) -> Vec<f64> {
        let errors = runs.iter().map(|run| match run.figures["median_tpot_ms"] {
            Figure::Value { error, .. } => error,
            Figure::Share { .. } => panic!("a value"),
        });
        errors.collect()
    }

    #[test]
    fn a_figure_of_zero_weighs_no_more_than_others() {
        let mut runs = runs(&[(0.0, 0.0), (0.2, 0.05), (0.1, 0.01)]);
        give_zeros_largest_error(&mut runs, "median_tpot_ms");
        assert_eq!(errors(&runs), [0.05, 0.05, 0.01]);
    }

    /// Recorded case: an outlier whose own error was estimated far too small led to a difference of 39 % between a server and itself.
    #[test]
    fn no_run_outweighs_the_others_of_its_point() {
        let mut runs = runs(&[(2.472, 0.0069), (1.708, 0.084), (1.764, 0.15)]);
        share_errors(&mut runs, "median_tpot_ms");
        for error in errors(&runs) {
            assert!((error - 0.084).abs() < 1e-12, "{error}");
        }
    }
}
