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
    /// Every measured point misses the targets, or has no figure above 0 (or of 0, if lower ones are better), or the config needs more GPUs
    /// than the user has.
    Unmet,
    /// No point of it is valued, and at least one measured point lacks the figure, or the figure of a target.
    Unknown,
}

/// The standing of each measured config in `metric`, by its id. `adds_up` is true if the figures of replicas add up.
pub fn standings(
    experiment: &Experiment,
    question: &Question,
    metric: &str,
    adds_up: bool,
) -> BTreeMap<String, Standing> {
    let mut found: BTreeMap<String, Standing> = BTreeMap::new();
    let metric = experiment.metrics.iter().find(|own| own.name == metric);
    let points = experiment.points.iter().enumerate();
    let measured = points.filter(|(_, point)| point.workload == question.workload && !point.runs.is_empty());
    for (at, point) in measured {
        let Some(config) = experiment.configs.iter().find(|config| config.id == point.config) else {
            continue;
        };
        let replicas = replicas(experiment, config);
        let times = if adds_up { f64::from(replicas) } else { 1.0 };
        let met: Vec<Option<bool>> = question
            .targets
            .iter()
            .flat_map(|target| verdicts(experiment, at, target))
            .collect();
        let figure = metric.and_then(|metric| Some((plain(point, metric)?, metric)));
        let standing = match figure {
            _ if replicas == 0 || met.contains(&Some(false)) => Standing::Unmet,
            Some((value, metric)) if !met.contains(&None) => {
                let has_value = value > 0.0 || (value == 0.0 && metric.better == Better::Lower);
                match has_value {
                    true => Standing::Valued {
                        value: value * times,
                        error: relative_error(point, metric),
                    },
                    false => Standing::Unmet,
                }
            }
            _ => Standing::Unknown,
        };
        let kept = found.entry(point.config.clone()).or_insert(standing);
        let is_better = match (standing, *kept) {
            (Standing::Valued { value, .. }, Standing::Valued { value: best, .. }) => {
                metric.is_some_and(|metric| metric.better.prefers(value, best))
            }
            (Standing::Valued { .. }, _) | (Standing::Unknown, Standing::Unmet) => true,
            _ => false,
        };
        if is_better {
            *kept = standing;
        }
    }
    found
}

/// Returns the verdicts of the plain estimates that decide whether a point meets a target; `None` for a measured point that lacks the
/// target's figure.
fn verdicts(experiment: &Experiment, at: usize, target: &Target) -> Vec<Option<bool>> {
    let metric = experiment.metrics.iter().find(|metric| metric.name == target.metric);
    let verdict = |place: usize| {
        let point = &experiment.points[place];
        match metric.and_then(|metric| plain(point, metric)) {
            Some(value) => Some(target.bound.holds(value, target.limit)),
            None => point.runs.is_empty().then_some(false),
        }
    };
    match judged(experiment, target, at) {
        Some(places) => places.into_iter().map(verdict).collect(),
        None => vec![Some(false)],
    }
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
