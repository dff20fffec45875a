//! Builds the optimisation of a plan from its `[optimize]` table: the candidate servers, the levels of their settings, and the rules of the
//! choice.

use itertools::Itertools;
use serde_json::Value;
use std::collections::BTreeMap;
use vsweep_answer::replicas_on;
use vsweep_base::ids::ServerId;
use vsweep_plan::matrix::{Matrix, ServerConfig};
use vsweep_plan::{Optimize, Parallel, Plan, equality_key, number};
use vsweep_record::evidence::{MARGIN, Results, Shares};
use vsweep_record::journal::{Contestant, Objective, Optimization};
use vsweep_record::table::count_gpus;
use vsweep_strategy::selection::optimized::{Axis, Budget, Candidate, Level, Predicted, Rules, Trial, WarmStart};

/// Assumed duration of a start without a prediction, in seconds.
const USUAL_START_S: f64 = 60.0;
/// Assumed duration of a run without a prediction, in seconds.
const USUAL_RUN_S: f64 = 30.0;
/// Assumed number of runs of a search without a prediction.
const USUAL_PROBES: f64 = 8.0;
/// Assumed figure of a server that is predicted to miss the targets, as a fraction of the worst figure that is predicted for one that meets
/// them.
const UNMET: f64 = 0.5;
/// Relative error of a predicted load at which a latency reaches its limit, as a multiple of the relative error of predicted times.
const LOAD_ERROR: f64 = 2.0;

/// Prediction of a server before it starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Seconds until it is ready, if nothing is compiled yet.
    pub start_s: f64,
    /// Key of its compiled graphs, which servers with equal compile settings share, and the seconds until it is ready if these graphs
    /// exist.
    pub warm: Option<(String, f64)>,
    /// Seconds of everything that is measured on one start.
    pub measure_s: f64,
    /// Memory that it needs, as a multiple of the available memory, if it is predicted to run out of it before it is ready.
    pub memory: Option<f64>,
    /// The predicted figure to optimise.
    pub value: Option<Predicted>,
    /// Change of the logarithm of `value` for one standard deviation of each constant of the twin; empty if unknown.
    pub slopes: Vec<f64>,
}

/// Predictions by server.
pub type Predictions = BTreeMap<ServerId, Prediction>;

/// Returns the predicted figures of servers. `foreseen` has, for each server, the results that the twin predicts for its first start, and
/// the relative error of the predicted times.
pub fn predicted_values(plan: &Plan, foreseen: &[(Option<&Results>, f64)]) -> Vec<Option<Predicted>> {
    let shares = Shares::of(foreseen.iter().filter_map(|(results, _)| *results));
    let trials = foreseen
        .iter()
        .map(|(results, error)| (results.and_then(|results| shares.join(results)), *error));
    let trials: Vec<(Option<Trial>, f64)> = trials.collect();
    let values = trials.iter().filter_map(|(trial, _)| trial.as_ref()?.ln_value());
    let worst = values.fold(f64::INFINITY, f64::min);
    let error_factor = if plan.sla.is_some() { LOAD_ERROR } else { 1.0 };
    let predicted = |(trial, error): &(Option<Trial>, f64)| {
        let error = error_factor * error;
        match trial {
            Some(Trial::Measured { ln_value, sd }) => Some(Predicted {
                ln_value: *ln_value,
                sd: sd.hypot(error),
            }),
            Some(Trial::Unmet) if worst.is_finite() => Some(Predicted {
                ln_value: worst + UNMET.ln(),
                sd: error,
            }),
            _ => None,
        }
    };
    trials.iter().map(predicted).collect()
}

/// Returns the optimisation of a plan in the form that its session records; `None` if the plan asks for none. Servers in `recorded`, the
/// optimisation in the journal, keep their predictions while they are measured in the same way; others take theirs from `predictions`, which
/// then has all servers. Servers that need more GPUs than the user has are left out. `machine_gpus` is the number of GPUs that the machine
/// divides among servers; if it is `None`, the recorded number counts.
pub fn optimization(
    plan: &Plan,
    matrix: &Matrix,
    recorded: Option<&Optimization>,
    predictions: &Predictions,
    machine_gpus: Option<u32>,
) -> Option<Optimization> {
    let optimize = plan.optimize.as_ref()?;
    let machine_gpus = machine_gpus.or_else(|| recorded?.machine_gpus);
    let gpus_of = |server: &ServerConfig| gpus_of(plan, server, machine_gpus);
    let servers: Vec<ServerConfig> = matrix.servers().filter(|server| fits_gpus(plan, server)).collect();
    let settings = Settings::of(&servers);
    let objective = objective(plan, optimize);
    let known: BTreeMap<&ServerId, &Contestant> = recorded
        .into_iter()
        .flat_map(|recorded| &recorded.contestants)
        .map(|own| (&own.server, own))
        .collect();
    let has_objective = recorded.is_some_and(|recorded| recorded.objective == objective);
    // New graphs must not get a number that the record uses.
    let recorded_graphs = known.values().filter_map(|own| Some(own.candidate.warm?.graphs + 1));
    let first_graphs = recorded_graphs.max().unwrap_or(0);
    let graphs = servers
        .iter()
        .filter_map(|server| predictions.get(&server.id)?.warm.as_ref());
    let graphs: Vec<&str> = graphs.map(|(key, _)| &**key).unique().collect();
    let warm = |(key, start_s): &(String, f64)| {
        let graphs = first_graphs + graphs.iter().position(|other| other == key)? as u32;
        let start_s = *start_s;
        Some(WarmStart { graphs, start_s })
    };
    let contestants = servers.iter().enumerate().map(|(at, server)| {
        let points: Vec<_> = matrix.point_ids_from(server, 0).map(|(_, id)| id).collect();
        let searches = matrix.search_ids_of(server);
        let runs = points.len() as f64 * f64::from(plan.runs.least()) + searches.len() as f64 * USUAL_PROBES;
        let predicted = predictions.get(&server.id);
        let candidate = Candidate {
            levels: settings.levels(at),
            changes: settings.changes[at],
            predicted: predicted.and_then(|own| own.value),
            slopes: predicted.map_or_else(Vec::new, |own| own.slopes.clone()),
            memory: predicted.and_then(|own| own.memory),
            most: most(plan, objective.as_ref(), searches.len(), gpus_of(server)),
            start_s: predicted.map_or(USUAL_START_S, |own| own.start_s),
            warm: predicted.and_then(|own| own.warm.as_ref()).and_then(warm),
            measure_s: predicted.map_or(runs * USUAL_RUN_S, |own| own.measure_s),
            gpus: gpus_of(server),
            at_once: at_once(plan, server, machine_gpus),
        };
        Contestant {
            server: server.id.clone(),
            name: plan.secrets.redact(&server.name),
            points,
            searches,
            candidate,
        }
    });
    let mut contestants: Vec<Contestant> = contestants.collect();
    keep_predictions(&mut contestants, &known, has_objective, !predictions.is_empty());
    Some(Optimization {
        objective,
        axes: settings.axes,
        rules: Rules {
            margin: plan.report.margin.unwrap_or(MARGIN).ln_1p(),
            certainty: optimize.certainty,
            budget: budget(optimize),
            defaults: matrix.default_of(&servers),
            best_starts: optimize.best_starts.map(|starts| starts as usize),
        },
        max_starts: optimize.starts.map(|starts| starts as usize),
        gpus: plan.report.gpus,
        machine_gpus,
        runs: plan.runs.least(),
        is_predicted: !predictions.is_empty() || recorded.is_some_and(|recorded| recorded.is_predicted),
        contestants,
    })
}

/// Gives servers that are measured as before the predictions of the record: the durations and the memory, and the figure if it is of the
/// objective. The twin has learnt from the record since, so predictions of then and of now cannot be compared. Those of the other servers
/// are therefore changed by as much as the two differ, on average, for the servers that have both.
fn keep_predictions(
    contestants: &mut [Contestant],
    known: &BTreeMap<&ServerId, &Contestant>,
    has_objective: bool,
    is_predicted: bool,
) {
    let recorded: Vec<Option<&Candidate>> = contestants
        .iter()
        .map(|own| {
            let known = known.get(&own.server)?;
            (known.points == own.points && known.searches == own.searches).then_some(&known.candidate)
        })
        .collect();
    let both = || {
        let pairs = contestants.iter().zip(&recorded).filter(|_| is_predicted);
        pairs.filter_map(|(own, recorded)| Some((&own.candidate, (*recorded)?)))
    };
    let value = |candidate: &Candidate| candidate.predicted.map(|value| value.ln_value);
    let seconds = |candidate: &Candidate| candidate.start_s + candidate.measure_s;
    let differences = both().filter_map(|(own, recorded)| Some(value(recorded)? - value(own)?));
    let differences: Vec<f64> = differences.filter(|_| has_objective).collect();
    let shift = differences.iter().sum::<f64>() / differences.len().max(1) as f64;
    let (now, then) = both().fold((0.0, 0.0), |sum, (own, recorded)| {
        (sum.0 + seconds(own), sum.1 + seconds(recorded))
    });
    let factor = if now > 0.0 { then / now } else { 1.0 };
    for (own, recorded) in contestants.iter_mut().zip(recorded) {
        let own = &mut own.candidate;
        let Some(recorded) = recorded else {
            if let Some(value) = &mut own.predicted {
                value.ln_value += shift;
            }
            own.start_s *= factor;
            own.measure_s *= factor;
            if let Some(warm) = &mut own.warm {
                warm.start_s *= factor;
            }
            continue;
        };
        own.memory = recorded.memory;
        (own.start_s, own.warm, own.measure_s) = (recorded.start_s, recorded.warm, recorded.measure_s);
        if has_objective {
            own.predicted = recorded.predicted;
            own.slopes.clone_from(&recorded.slopes);
        }
    }
}

/// Returns true if the optimisation of a plan needs predictions that the recorded one lacks: it has other servers, measures them in another
/// way, or has another objective.
pub fn needs_predictions(plan: &Plan, matrix: &Matrix, recorded: Option<&Optimization>) -> bool {
    let Some(recorded) = recorded else {
        return plan.optimize.is_some();
    };
    let Some(asked) = optimization(plan, matrix, Some(recorded), &Predictions::new(), None) else {
        return false;
    };
    let is_known = |own: &Contestant| {
        let known = recorded.position(&own.server).map(|at| &recorded.contestants[at]);
        known.is_some_and(|known| known.points == own.points && known.searches == own.searches)
    };
    asked.objective != recorded.objective || !asked.contestants.iter().all(is_known)
}

/// Returns the logarithm of the highest load of a server's replicas that the plan allows. With several workloads a value is a share of the
/// best, which has no such limit. If the GPUs of a server are not known, neither are its replicas.
fn most(plan: &Plan, objective: Option<&Objective>, searches: usize, gpus: u32) -> Option<f64> {
    let (Some(sla), Some(Objective::Load(_)), 1) = (&plan.sla, objective, searches) else {
        return None;
    };
    let replicas = match plan.report.gpus {
        None => 1,
        Some(_) if gpus == 0 => return None,
        all => replicas_on(all, gpus).max(1),
    };
    Some((sla.vary.floor(sla.upper) * f64::from(replicas)).ln())
}

fn objective(plan: &Plan, optimize: &Optimize) -> Option<Objective> {
    let stated = optimize.objective.clone();
    match &plan.sla {
        Some(sla) => stated
            .or_else(|| Some(sla.targets.first()?.name.clone()))
            .map(Objective::Load),
        None => stated.map(Objective::Metric),
    }
}

fn budget(optimize: &Optimize) -> Option<Budget> {
    match optimize.budget {
        Some(time) => Some(Budget::MachineSeconds(time.as_secs_f64())),
        None => optimize.starts.map(|starts| Budget::Starts(starts as usize)),
    }
}

/// Returns the number of GPUs that a server takes: those that it will be given, or else those that its flags ask for; 0 if that is unknown.
fn gpus_of(plan: &Plan, server: &ServerConfig, machine_gpus: Option<u32>) -> u32 {
    let given = plan.exec.gpus.filter(|_| machine_gpus.is_some_and(|gpus| gpus > 0));
    given.unwrap_or_else(|| count_gpus(&server.params, &server.argv).map_or(0, |gpus| gpus.round() as u32))
}

/// Returns true if a server fits on the user's GPUs, or its GPUs or theirs are not known.
pub fn fits_gpus(plan: &Plan, server: &ServerConfig) -> bool {
    plan.report
        .gpus
        .is_none_or(|gpus| gpus_of(plan, server, Some(gpus)) <= gpus)
}

/// Returns the number of servers like this one that can run at the same time, according to the plan and the machine's GPUs.
fn at_once(plan: &Plan, server: &ServerConfig, machine_gpus: Option<u32>) -> u32 {
    let exec = &plan.exec;
    let each = gpus_of(plan, server, machine_gpus).max(1);
    let by_gpus = machine_gpus.filter(|gpus| *gpus > 0);
    let by_gpus = by_gpus.map(|gpus| (gpus / each).max(1));
    match exec.parallel {
        _ if exec.is_exclusive(&server.params) => 1,
        Parallel::No => 1,
        Parallel::Gpus => by_gpus.unwrap_or(1),
        Parallel::Servers(servers) => by_gpus.map_or(servers, |most| most.min(servers)),
    }
}

/// The settings in which servers differ, with the level of each server in each setting.
struct Settings {
    axes: Vec<Axis>,
    columns: Vec<Vec<Level>>,
    /// Number of these settings that each server sets.
    changes: Vec<u32>,
}

impl Settings {
    fn of<'s>(servers: &'s [ServerConfig]) -> Settings {
        let mut settings = Settings {
            axes: Vec::new(),
            columns: Vec::new(),
            changes: vec![0; servers.len()],
        };
        let names = servers.iter().flat_map(|server| server.params.keys()).unique();
        for name in names {
            let value = |server: &'s ServerConfig| server.params.get(name).filter(|value| !value.is_null());
            let values: Vec<Option<&Value>> = servers.iter().map(value).collect();
            let keys = values.iter().map(|value| value.map(equality_key));
            if keys.clone().all_equal() {
                continue;
            }
            for (changes, value) in settings.changes.iter_mut().zip(&values) {
                *changes += u32::from(value.is_some());
            }
            // The journal holds finite numbers only, so a setting that may be `inf` has no order.
            let finite = |value: &Value| number(value).filter(|number| number.is_finite());
            let numbers: Vec<Option<f64>> = values.iter().map(|value| value.and_then(finite)).collect();
            let is_ordered = values
                .iter()
                .zip(&numbers)
                .all(|(value, number)| value.is_some() == number.is_some());
            let keys: Vec<Option<String>> = keys.map(|key| key.map(|key| format!("{key:?}"))).collect();
            settings.columns.push(match is_ordered {
                true => ordered(&numbers),
                false => choices(&keys),
            });
            settings.axes.push(Axis { is_ordered });
        }
        // If servers differ only in their command lines or environments, their ids are one more setting.
        let rows = (0..servers.len()).map(|at| format!("{:?}", settings.levels(at)));
        if !rows.clone().all_unique() {
            let texts = servers.iter().map(|server| Some(server.id.to_string()));
            settings.columns.push(choices(&texts.collect::<Vec<_>>()));
            settings.axes.push(Axis { is_ordered: false });
        }
        settings
    }

    fn levels(&self, server: usize) -> Vec<Level> {
        self.columns.iter().map(|column| column[server]).collect()
    }
}

/// Returns numbers as levels: their logarithms if all are positive, so that equal ratios are equally far apart, else the numbers relative
/// to the largest magnitude.
fn ordered(numbers: &[Option<f64>]) -> Vec<Level> {
    let known = || numbers.iter().flatten().copied();
    let is_positive = known().all(|number| number > 0.0);
    let size = known().fold(f64::MIN_POSITIVE, |most, number| most.max(number.abs()));
    let level = |number: &Option<f64>| match number {
        None => Level::Choice(0),
        Some(number) if is_positive => Level::Number(number.ln()),
        Some(number) => Level::Number(number / size),
    };
    numbers.iter().map(level).collect()
}

/// Returns values as levels, numbered from 1 in the order of their first appearance; 0 for a setting that is left out.
fn choices(keys: &[Option<String>]) -> Vec<Level> {
    let distinct: Vec<&String> = keys.iter().flatten().unique().collect();
    let level = |key: &Option<String>| match key {
        None => Level::Choice(0),
        Some(key) => {
            let at = distinct.iter().position(|own| *own == key).unwrap_or(0);
            Level::Choice(at as u32 + 1)
        }
    };
    keys.iter().map(level).collect()
}

#[cfg(test)]
mod tests;
