//! The entrants of a question about loads: each config with the load that its search found, and the search's own posterior.
//!
//! The limit differs from start to start as much as the limiting figure does, divided by the slope of its curve there. How much starts
//! differ is estimated from all searches of the target, as it is for any metric. A search that holds the highest load allowed may hold
//! more: up to the highest that any competitor's replicas may reach together, every load above its own is as likely by its logarithm.

use super::super::Random;
use super::super::asked::Question;
use super::super::experiment::{Experiment, Metric, NoisePrior, Point, Run, Scale, Search};
use super::super::known::{Known, draws_of, estimate_by, moments};
use super::super::model::{Observations, Posterior, shrink};
use super::super::run_figures::Figure;
use super::contest::Contender;
use super::entrants::{Field, Placed, replicas};

/// The least slope that is believed: below it, the search's own interval is as wide as its range.
const FLATTEST: f64 = 0.03;
/// The probability at the upper end of a 95 % interval.
const UPPER_END: f64 = 0.975;
/// The name under which the limits of searches are a metric.
const LIMIT: &str = "limit";

/// The entrants of a question about the load for a target.
pub fn of_searches(known: &Known<'_>, question: &Question, target: &str, unit: f64) -> Field {
    let experiment = known.experiment;
    let is_asked = |search: &&Search| search.workload == question.workload && search.target == target;
    let searches: Vec<&Search> = experiment
        .searches
        .iter()
        .filter(is_asked)
        .filter(|search| !search.starts.is_empty())
        .collect();
    let starts = start_noise(&searches, experiment);
    let rooms = rooms(&searches, experiment);
    let limits: Vec<Vec<f64>> = searches
        .iter()
        .zip(&rooms)
        .map(|(search, room)| limits(search, *room, &starts, experiment.seed))
        .collect();
    let shrunk = shrunk(
        &limits,
        Random::of(experiment.seed, &["shrink", "search", &question.workload, target]),
    );
    let mut field = Field::default();
    for (((search, room), limits), shrunk) in searches.iter().zip(rooms).zip(limits).zip(shrunk) {
        let Some(config) = experiment.configs.iter().position(|config| config.id == search.config) else {
            continue;
        };
        let own = &experiment.configs[config];
        let replicas = replicas(experiment, own);
        if replicas == 0 {
            field.too_large.push(config);
            continue;
        }
        let times = f64::from(replicas);
        let ceiling = search.ceiling.unwrap_or(f64::INFINITY) * room;
        let of_all = |limits: Vec<f64>| {
            limits
                .into_iter()
                .map(|limit| limit.exp().min(ceiling) * times)
                .collect::<Vec<f64>>()
        };
        let draws = of_all(limits);
        let Some(value) = estimate_by(search.load * times, draws.iter().copied()) else {
            continue;
        };
        field.placed.push(Placed {
            contender: Contender {
                plain: Some(value.value),
                located: Some([0.5, UPPER_END].map(|at| located(search, room, at).min(ceiling) * times)),
                draws: of_all(shrunk),
                changes: own.changes,
                other_targets: search.other_targets,
                per_gpu: search.throughput_per_gpu,
                unit: unit * times,
            },
            config,
            point: None,
            load: search.load.to_string(),
            at_ceiling: search.ceiling == Some(search.load),
            replicas,
            value,
            at_point: draws,
        });
    }
    field
}

/// The factors from the highest load allowed on each config's replicas to the highest that those of any competitor may reach.
fn rooms(searches: &[&Search], experiment: &Experiment) -> Vec<f64> {
    let highest = |search: &&Search| {
        let config = experiment.configs.iter().find(|config| config.id == search.config)?;
        Some(search.ceiling? * f64::from(replicas(experiment, config))).filter(|highest| *highest > 0.0)
    };
    let highest: Vec<Option<f64>> = searches.iter().map(highest).collect();
    let of_any = highest.iter().flatten().copied().fold(0.0, f64::max);
    highest.iter().map(|own| own.map_or(1.0, |own| of_any / own)).collect()
}

/// Draws of the logarithm of the limit of one server: of the mean over its starts, each by its own posterior and
/// moved by the noise of starts. One at the highest load allowed has some room above.
fn limits(search: &Search, room: f64, starts: &[f64], seed: u64) -> Vec<f64> {
    let mut random = Random::of(seed, &["search", &search.workload, &search.target, &search.config]);
    let draw = |start: &f64| {
        let limits = search.starts.iter().map(|located| {
            let limit = quantile(&located.quantiles, random.uniform());
            let moved = limit.ln() + start * random.normal() / slope(search);
            match room > 1.0 && is_open(search, limit) {
                true => limit.ln() + random.uniform() * room.ln(),
                false => moved,
            }
        });
        limits.sum::<f64>() / search.starts.len() as f64
    };
    starts.iter().map(draw).collect()
}

/// The load below which the limit lies with a probability, by the posteriors of a search's starts.
fn located(search: &Search, room: f64, probability: f64) -> f64 {
    let loads = search.starts.iter().map(|located| {
        let load = quantile(&located.quantiles, probability);
        let above = if is_open(search, load) {
            room.powf(probability)
        } else {
            1.0
        };
        (load * above).ln()
    });
    (loads.sum::<f64>() / search.starts.len() as f64).exp()
}

/// True if a limit counts as the highest load allowed, but for rounding.
fn is_open(search: &Search, limit: f64) -> bool {
    search.ceiling.is_some_and(|ceiling| limit >= ceiling * (1.0 - 1e-9))
}

/// The draws with means shrunk towards each other.
fn shrunk(limits: &[Vec<f64>], mut random: Random) -> Vec<Vec<f64>> {
    let moments: Vec<(f64, f64)> = limits.iter().map(|draws| moments(draws)).collect();
    let mut draws = limits.to_vec();
    shrink(&moments, &mut draws, 1.0, &mut random);
    draws
}

fn slope(search: &Search) -> f64 {
    search.slope.max(FLATTEST)
}

/// The load at a probability, linear in the logarithm between the given ones.
fn quantile(loads: &[f64], probability: f64) -> f64 {
    let at = (probability * loads.len() as f64 - 0.5).clamp(0.0, (loads.len() - 1) as f64);
    let (low, part) = (at.floor() as usize, at.fract());
    let high = (low + 1).min(loads.len() - 1);
    (loads[low].ln() * (1.0 - part) + loads[high].ln() * part).exp()
}

/// Draws of the noise of starts in the limiting figure.
fn start_noise(searches: &[&Search], experiment: &Experiment) -> Vec<f64> {
    let metric = Metric {
        name: LIMIT.to_owned(),
        scale: Scale::Log,
        better: vsweep_strategy::stats::Better::Higher,
        prior: NoisePrior {
            // The scatter of runs is part of the search's posterior.
            run: 1e-4,
            run_spread: 0.01,
            ..NoisePrior::LATENCY
        },
    };
    let run = |search: &Search, start: &str, node: &str, quantiles: &[f64]| {
        let logs: Vec<f64> = quantiles.iter().map(|load| load.ln()).collect();
        let (mean, deviation) = moments(&logs);
        // The model takes logarithms itself.
        let value = (mean * slope(search)).exp();
        let error = deviation * slope(search);
        let figures = [(LIMIT.to_owned(), Figure::Value { value, error })].into();
        Run {
            start: start.to_owned(),
            node: node.to_owned(),
            disturbed: false,
            figures,
        }
    };
    let points = searches.iter().map(|search| {
        let runs = search
            .starts
            .iter()
            .map(|own| run(search, &own.start, "", &own.quantiles));
        Point {
            id: search.config.clone(),
            config: search.config.clone(),
            runs: runs.collect(),
            ..Point::default()
        }
    });
    let points: Vec<Point> = points.collect();
    let observations = Observations::among(&points.iter().collect::<Vec<&Point>>(), &metric);
    Posterior::fit(observations, &metric.prior).draw_start_noise(experiment.seed, draws_of(experiment))
}
