//! The entrants of a question about points: each config with its best load among those that meet the targets.

use super::super::asked::Question;
use super::super::document::Estimate;
use super::super::experiment::{Config, Experiment, Point, replicas_on};
use super::super::fit::{ExperimentFit, draws_of};
use super::contest::Contender;
use super::meeting::{TargetsMet, meets_plainly, points_of};
use std::collections::HashMap;

/// An entrant, with facts that the contest does not need.
#[derive(Debug, Clone)]
pub struct EntrantFacts {
    /// The point or the search that competes.
    pub contender: Contender,
    /// The index of its config in the experiment.
    pub config: usize,
    /// The index of its recommended point in the experiment; `None` for a search.
    pub point: Option<usize>,
    /// The load of that point, or the load found; empty if a search ended undecided.
    pub load: String,
    /// True for a search that meets its target at the highest load allowed.
    pub at_ceiling: bool,
    /// Number of its servers on the user's GPUs.
    pub replicas: u32,
    /// The figure at that point, of all replicas.
    pub value: Estimate,
    /// The draws of that figure.
    pub value_draws: Vec<f64>,
}

impl EntrantFacts {
    /// Returns true for a search that ended undecided.
    pub fn is_undecided(&self) -> bool {
        self.point.is_none() && self.contender.plain.is_none()
    }

    /// Returns the figure by which it is compared with others. For a search with several starts that is their mean, not the load that it
    /// reports.
    pub fn ranked_value(&self) -> f64 {
        self.contender.plain.unwrap_or(self.value.value)
    }
}

/// The entrants, one for each config, and the indices of configs that need more GPUs than the user has.
#[derive(Debug, Default)]
pub struct Entrants {
    pub placed: Vec<EntrantFacts>,
    pub too_large: Vec<usize>,
}

/// A config whose plain estimates miss the targets competes if one of its points meets them in at least one in this many draws.
const ONE_DRAW_IN: usize = 200;

/// Returns the number of servers of a config that fit on the user's GPUs.
pub fn replicas(experiment: &Experiment, config: &Config) -> u32 {
    replicas_on(experiment.gpus, config.gpus)
}

/// Returns true if the config of a point fits on the user's GPUs.
pub fn fits(fitted: &ExperimentFit<'_>, point: &Point) -> bool {
    let config = fitted
        .experiment
        .configs
        .iter()
        .find(|config| config.id == point.config);
    config.is_some_and(|config| replicas(fitted.experiment, config) > 0)
}

/// Returns the entrants of a question about a metric of points.
pub fn of_points(
    fitted: &ExperimentFit<'_>,
    question: &Question,
    met: &TargetsMet,
    metric: &str,
    adds_up: bool,
) -> Entrants {
    let mut entrants = Entrants::default();
    // The points of each config that is placed.
    let mut competing: Vec<Vec<usize>> = Vec::new();
    // The factor of the replicas of each point.
    let mut factors = vec![1.0; fitted.experiment.points.len()];
    let Some(figures) = fitted.figures(metric) else {
        return entrants;
    };
    let better = figures.metric.better;
    let count = draws_of(fitted.experiment);
    let mut drawn = figures.drawn(&figures.points_of(&question.workload), count);
    let mut measured: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, point) in points_of(fitted, &question.workload, question.load.as_deref()) {
        if figures.estimates[at].is_some() {
            measured.entry(&point.config).or_default().push(at);
        }
    }
    for (config, own) in fitted.experiment.configs.iter().enumerate() {
        let Some(points) = measured.remove(&*own.id) else {
            continue;
        };
        let replicas = replicas(fitted.experiment, own);
        if replicas == 0 {
            entrants.too_large.push(config);
            continue;
        }
        let times = if adds_up { f64::from(replicas) } else { 1.0 };
        points.iter().for_each(|at| factors[*at] = times);
        let value = |at: usize| figures.estimates[at].map_or(better.worst(), |estimate| estimate.value);
        let met_draws: Vec<usize> = points.iter().map(|at| met.count(*at)).collect();
        let meeting: Vec<usize> = points
            .iter()
            .copied()
            .filter(|at| meets_plainly(fitted, *at, &question.targets))
            .collect();
        let best = meeting.iter().copied().reduce(|one, other| {
            if better.prefers(value(other), value(one)) {
                other
            } else {
                one
            }
        });
        let likeliest = || {
            let ranked = points.iter().zip(&met_draws);
            ranked.max_by_key(|(_, met)| **met).map(|(at, _)| *at)
        };
        if best.is_none() && met_draws.iter().all(|met| *met < count / ONE_DRAW_IN) {
            continue;
        }
        let Some(point) = best.or_else(likeliest) else {
            continue;
        };
        let Some(estimate) = figures.estimates[point] else {
            continue;
        };
        let estimate = Estimate {
            value: estimate.value * times,
            low: estimate.low * times,
            high: estimate.high * times,
        };
        entrants.placed.push(EntrantFacts {
            contender: Contender {
                located: None,
                plain: best.map(|_| estimate.value),
                draws: Vec::new(),
                has_failed: own.facts.has_failed(),
                changes: own.changes,
                other_targets: 0,
                per_gpu: None,
                unit: 0.0,
            },
            config,
            point: Some(point),
            load: fitted.experiment.points[point].load.clone(),
            at_ceiling: false,
            replicas,
            value: estimate,
            value_draws: figures
                .values_of(&drawn, point)
                .iter()
                .map(|draw| draw * times)
                .collect(),
        });
        competing.push(points);
    }
    figures.shrink(&question.workload, &mut drawn, |at| factors[at]);
    for (placed, points) in entrants.placed.iter_mut().zip(competing) {
        let mut draws = vec![f64::NAN; count];
        for at in points {
            for ((best, &value), _) in draws
                .iter_mut()
                .zip(&drawn[at])
                .zip(met.all(at))
                .filter(|(_, meets)| *meets)
            {
                if best.is_nan() || better.prefers(value, *best) {
                    *best = value;
                }
            }
        }
        placed.contender.draws = draws;
    }
    entrants
}
