//! The entrants of a question about loads: each config with the load that its search found, and the search's own posterior.
//!
//! The limit differs from start to start by the noise of the limiting figure, divided by the slope of that figure over the load. The noise
//! of starts and of nodes is estimated from all searches for the target, as for any metric. A server that meets its target at the highest
//! load allowed may hold more. The logarithm of its limit is then assumed to be uniform, up to the highest load that any competitor's
//! replicas may reach together.
//!
//! A search that ended undecided has only its posterior. Its config cannot win, but the winner must still be compared with it.

use super::super::Random;
use super::super::asked::Question;
use super::super::experiment::{Experiment, Metric, NoisePrior, Point, Run, Scale, Search, StartLimit};
use super::super::fit::{ExperimentFit, draws_of, estimate_by, moments};
use super::super::model::{Observations, Posterior, shrink};
use super::super::run_figures::Figure;
use super::contest::Contender;
use super::entrants::{EntrantFacts, Entrants, replicas};
use std::collections::BTreeMap;
use vsweep_strategy::search::is_ceiling;

/// Lower bound of the slope. On flatter curves the search's own interval already spans the range searched, so noise of starts need not
/// widen it.
const FLATTEST: f64 = 0.03;
/// The probability at the upper end of a 95 % interval.
const UPPER_END: f64 = 0.975;
/// The name of the metric that holds the limits of searches.
const LIMIT: &str = "limit";

/// Returns the entrants of a question about the load for a target.
pub fn of_searches(fitted: &ExperimentFit<'_>, question: &Question, target: &str, unit: f64) -> Entrants {
    let experiment = fitted.experiment;
    let is_asked = |search: &&Search| search.workload == question.workload && search.target == target;
    let searches: Vec<&Search> = experiment
        .searches
        .iter()
        .filter(is_asked)
        .filter(|search| !search.starts.is_empty())
        .collect();
    let noise = noise_of_limits(&searches);
    let count = draws_of(experiment);
    let repeated = searches.iter().filter(|search| search.starts.len() > 1);
    let noises = Noises {
        starts: &noise.draw_start_noise(experiment.seed, count),
        steepest: repeated.map(|search| slope(search)).fold(0.0, f64::max),
        nodes: &noise.draw_effects_of_nodes(experiment.seed, count),
    };
    let headrooms = headrooms(&searches, experiment);
    let limits: Vec<Vec<f64>> = searches
        .iter()
        .zip(&headrooms)
        .map(|(search, headroom)| limits(search, *headroom, &noises, experiment.seed))
        .collect();
    let shrunk = shrunk(
        &limits,
        Random::of(experiment.seed, &["shrink", "search", &question.workload, target]),
    );
    let mut entrants = Entrants::default();
    for (((search, headroom), limits), shrunk) in searches.iter().zip(headrooms).zip(limits).zip(shrunk) {
        let Some(config) = experiment.configs.iter().position(|config| config.id == search.config) else {
            continue;
        };
        let own = &experiment.configs[config];
        let replicas = replicas(experiment, own);
        if replicas == 0 {
            entrants.too_large.push(config);
            continue;
        }
        let times = f64::from(replicas);
        let ceiling = search.ceiling.unwrap_or(f64::INFINITY) * headroom;
        let for_replicas = |limits: Vec<f64>| {
            limits
                .into_iter()
                .map(|limit| limit.exp().min(ceiling) * times)
                .collect::<Vec<f64>>()
        };
        let draws = for_replicas(limits);
        let located = [0.5, UPPER_END].map(|at| limit_at(search, headroom, at).min(ceiling) * times);
        let value = search.load.map_or(located[0], |load| load * times);
        let Some(value) = estimate_by(value, draws.iter().copied()) else {
            continue;
        };
        entrants.placed.push(EntrantFacts {
            contender: Contender {
                plain: ranked_load(search).map(|load| load * times),
                located: Some(located),
                draws: for_replicas(shrunk),
                // A search sends loads that are too high on purpose, so failed requests say little.
                has_failed: own.facts.deaths > 0,
                changes: own.changes,
                other_targets: search.other_targets,
                per_gpu: search.throughput_per_gpu,
                unit: unit * times,
            },
            config,
            point: None,
            load: search.load.map_or_else(String::new, |load| load.to_string()),
            // The loads that a search tried are recorded as they are. Only its quantiles are rounded.
            at_ceiling: search.load.is_some() && search.ceiling == search.load,
            replicas,
            value,
            value_draws: draws,
        });
    }
    entrants
}

/// Returns the load by which a search competes: the geometric mean over its starts. Of two starts, a search reports the lower load. By
/// that load, a server with two starts would lose to an equal one with a single start.
fn ranked_load(search: &Search) -> Option<f64> {
    let load = search.load?;
    let loads: Vec<f64> = search.starts.iter().filter_map(|start| start.load).collect();
    match loads.is_empty() {
        true => Some(load),
        false => Some(log_moments(&loads).0.exp()),
    }
}

/// Returns for each search the highest load that any competitor's replicas may reach, divided by the highest load that its own replicas may
/// reach; 1 for a search without a bound.
fn headrooms(searches: &[&Search], experiment: &Experiment) -> Vec<f64> {
    let highest = |search: &&Search| {
        let config = experiment.configs.iter().find(|config| config.id == search.config)?;
        Some(search.ceiling? * f64::from(replicas(experiment, config))).filter(|highest| *highest > 0.0)
    };
    let highest: Vec<Option<f64>> = searches.iter().map(highest).collect();
    let of_any = highest.iter().flatten().copied().fold(0.0, f64::max);
    highest.iter().map(|own| own.map_or(1.0, |own| of_any / own)).collect()
}

/// Draws of the noise in the limiting figure.
struct Noises<'n> {
    /// The standard deviation of starts in each draw.
    starts: &'n [f64],
    /// The steepest curve on which starts were repeated.
    steepest: f64,
    /// The effect of each node in each draw, by its name.
    nodes: &'n BTreeMap<&'n str, Vec<f64>>,
}

/// Draws the logarithm of the limit of one server: the mean over its starts, each drawn from its own posterior, moved by the noise of
/// starts, and freed of its node's effect. A start whose draw is the highest load allowed gets headroom instead.
fn limits(search: &Search, headroom: f64, noises: &Noises<'_>, seed: u64) -> Vec<f64> {
    let mut random = Random::of(seed, &["search", &search.workload, &search.target, &search.config]);
    let draw = |(at, noise): (usize, &f64)| {
        let limits = search.starts.iter().map(|located| {
            let limit = quantile(&located.quantiles, random.uniform());
            let of_node = noises.nodes.get(&*located.node).map_or(0.0, |effects| effects[at]);
            let start = scatter(*noise, slope(search), noises.steepest) * random.normal();
            let moved = limit.ln() + start - of_node / slope(search);
            match (is_at_ceiling(search, limit), headroom > 1.0) {
                (true, true) => limit.ln() + random.uniform() * headroom.ln(),
                // The limit lies somewhere beyond the highest load allowed: up to one e-fold, as in the prior of the search.
                (true, false) => moved + random.uniform(),
                (false, _) => moved,
            }
        });
        limits.sum::<f64>() / search.starts.len() as f64
    };
    noises.starts.iter().enumerate().map(draw).collect()
}

/// Returns the noise of starts in the logarithm of a limit: that of the figure, divided by the slope. Noise beyond the usual was observed
/// only on curves up to `steepest`, so on flatter curves that excess is divided by `steepest`, but never below what usual noise gives.
fn scatter(noise: f64, slope: f64, steepest: f64) -> f64 {
    const USUAL: f64 = 2.0 * NoisePrior::LATENCY.start;
    (noise.min(USUAL) / slope).max(noise / steepest.max(slope))
}

/// Returns the quantile of a search's limit at a probability: the geometric mean of the quantiles of its starts, with headroom for starts
/// at the highest load allowed.
fn limit_at(search: &Search, headroom: f64, probability: f64) -> f64 {
    let loads = search.starts.iter().map(|located| {
        let load = quantile(&located.quantiles, probability);
        let above = if is_at_ceiling(search, load) {
            headroom.powf(probability)
        } else {
            1.0
        };
        (load * above).ln()
    });
    (loads.sum::<f64>() / search.starts.len() as f64).exp()
}

fn is_at_ceiling(search: &Search, limit: f64) -> bool {
    search.ceiling.is_some_and(|ceiling| is_ceiling(limit, ceiling))
}

/// Returns the draws with means shrunk towards each other.
fn shrunk(limits: &[Vec<f64>], mut random: Random) -> Vec<Vec<f64>> {
    let moments: Vec<(f64, f64)> = limits.iter().map(|draws| moments(draws)).collect();
    let mut draws = limits.to_vec();
    shrink(&moments, &mut draws, 1.0, &mut random);
    draws
}

fn slope(search: &Search) -> f64 {
    search.slope.max(FLATTEST)
}

/// Returns the load at a probability. Between the quantiles in `loads`, its logarithm is linear.
fn quantile(loads: &[f64], probability: f64) -> f64 {
    let at = (probability * loads.len() as f64 - 0.5).clamp(0.0, (loads.len() - 1) as f64);
    let (low, part) = (at.floor() as usize, at.fract());
    let high = (low + 1).min(loads.len() - 1);
    (loads[low].ln() * (1.0 - part) + loads[high].ln() * part).exp()
}

/// Returns mean and standard deviation of the logarithms of loads.
pub fn log_moments(loads: &[f64]) -> (f64, f64) {
    moments(&loads.iter().map(|load| load.ln()).collect::<Vec<f64>>())
}

/// The scatter of starts in the limiting figure, as far as their limits differ by more than their errors; 0 if no search has several
/// starts.
fn seen_scatter(searches: &[&Search]) -> f64 {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for search in searches.iter().filter(|search| search.starts.len() > 1) {
        let starts = search.starts.iter().map(|own| log_moments(&own.quantiles));
        let (means, errors): (Vec<f64>, Vec<f64>) = starts.unzip();
        let (count, (_, spread)) = (means.len() as f64, moments(&means));
        let error = errors.iter().map(|error| error * error).sum::<f64>() / count;
        squares += (spread * spread * count - error * (count - 1.0)) * slope(search).powi(2);
        freedom += count - 1.0;
    }
    (squares / f64::max(freedom, 1.0)).max(0.0).sqrt()
}

/// Returns the posterior of the limiting figure, whose noise is that of starts and nodes.
fn noise_of_limits(searches: &[&Search]) -> Posterior {
    let metric = Metric {
        name: LIMIT.to_owned(),
        scale: Scale::Log,
        better: vsweep_strategy::stats::Better::Higher,
        prior: NoisePrior {
            // The scatter of runs is part of the search's posterior.
            run: 1e-4,
            run_spread: 0.01,
            // On a steep curve, limits that differ a little mean figures that differ by many times the usual noise.
            start: NoisePrior::LATENCY.start.max(seen_scatter(searches)),
            ..NoisePrior::LATENCY
        },
    };
    let run = |search: &Search, located: &StartLimit| {
        let (mean, deviation) = log_moments(&located.quantiles);
        // Converted back to a figure, because the model takes logarithms itself.
        let value = (mean * slope(search)).exp();
        let error = deviation * slope(search);
        let figures = [(LIMIT.to_owned(), Figure::Value { value, error })].into();
        Run {
            start: located.start.clone(),
            node: located.node.clone(),
            disturbed: false,
            figures,
        }
    };
    let points = searches.iter().map(|search| {
        let runs = search.starts.iter().map(|located| run(search, located));
        Point {
            id: search.config.clone(),
            config: search.config.clone(),
            runs: runs.collect(),
            ..Point::default()
        }
    });
    let points: Vec<Point> = points.collect();
    let observations = Observations::among(&points.iter().collect::<Vec<&Point>>(), &metric);
    Posterior::pooled(observations, &metric.prior)
}
