//! The figure of every config for a question, by its own runs alone, without the model of noise. The choice of a winner uses such plain
//! estimates, and so does the choice of the next start.

use super::super::asked::{Question, Target};
use super::super::experiment::{Experiment, Metric, Point, Scale};
use super::super::model::{LEAST_SIZE, PLAIN_RUN, in_unit, relative_to_angle, variance_of_sampling};
use super::super::plain::plain;
use super::entrants::replicas;
use super::meeting::judged;
use std::collections::BTreeMap;
use vsweep_strategy::stats::Better;

/// The standing of a config in a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Standing {
    /// One of its points meets the targets.
    Valued {
        /// The figure of its best point, of all replicas together if they add up.
        value: f64,
        /// Relative standard error of `value` from the noise and the sampling of its runs. The noise of starts is not part of it.
        error: f64,
    },
    /// No measured point of it meets the targets with a figure above 0 (or of 0, if lower ones are better), or the config needs more GPUs
    /// than the user has.
    Unmet,
}

/// The standing of each measured config in `metric`, by its id. `adds_up` is true if the figures of replicas add up.
pub fn standings(
    experiment: &Experiment,
    question: &Question,
    metric: &str,
    adds_up: bool,
) -> BTreeMap<String, Standing> {
    let mut found: BTreeMap<String, Standing> = BTreeMap::new();
    let metrics = experiment.metrics.iter();
    let Some(metric) = metrics.into_iter().find(|own| own.name == metric) else {
        return found;
    };
    let own = experiment.points.iter().enumerate();
    for (at, point) in own.filter(|(_, point)| point.workload == question.workload) {
        let config = experiment.configs.iter().find(|config| config.id == point.config);
        let (Some(config), Some(value)) = (config, plain(point, metric)) else {
            continue;
        };
        let replicas = replicas(experiment, config);
        let times = if adds_up { f64::from(replicas) } else { 1.0 };
        let meets = replicas > 0 && question.targets.iter().all(|target| meets(experiment, at, target));
        let standing = found.entry(point.config.clone()).or_insert(Standing::Unmet);
        let is_better = match standing {
            Standing::Unmet => true,
            Standing::Valued { value: best, .. } => metric.better.prefers(value * times, *best),
        };
        let has_value = value > 0.0 || (value == 0.0 && metric.better == Better::Lower);
        if meets && is_better && has_value {
            *standing = Standing::Valued {
                value: value * times,
                error: relative_error(point, metric),
            };
        }
    }
    found
}

/// True if the plain estimates of a point meet a target.
fn meets(experiment: &Experiment, at: usize, target: &Target) -> bool {
    let metric = experiment.metrics.iter().find(|metric| metric.name == target.metric);
    let judged = judged(experiment, target, at);
    let (Some(metric), Some(judged)) = (metric, judged) else {
        return false;
    };
    let mut values = judged.iter().map(|place| plain(&experiment.points[*place], metric));
    values.all(|value| value.is_some_and(|value| target.bound.holds(value, target.limit)))
}

fn relative_error(point: &Point, metric: &Metric) -> f64 {
    let figures = point.runs.iter();
    let figures = figures.filter_map(|run| Some((run, *run.figures.get(&metric.name)?)));
    if plain(point, metric) == Some(0.0) {
        // No error is relative to 0.
        return PLAIN_RUN / (figures.count() as f64).sqrt();
    }
    let weights = figures.map(|(run, figure)| {
        let size = match metric.scale {
            Scale::Linear | Scale::Count => in_unit(figure).abs().max(LEAST_SIZE),
            Scale::Log | Scale::Share => 1.0,
        };
        let sampling = variance_of_sampling(metric.scale, run.disturbed, figure, size) / size.powi(2);
        1.0 / (PLAIN_RUN.powi(2) + sampling)
    });
    let weights: f64 = weights.sum();
    let error = (1.0 / weights).sqrt();
    match metric.scale {
        Scale::Share => error * relative_to_angle(plain(point, metric).unwrap_or(0.0)),
        Scale::Log | Scale::Linear | Scale::Count => error,
    }
}
