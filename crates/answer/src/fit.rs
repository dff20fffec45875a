//! An experiment with its posteriors: for each metric the plain estimate, interval and draws of every point.

use super::Random;
use super::document::{Estimate, MetricNoise};
use super::experiment::{Experiment, Metric, Scale};
use super::model::{Draws, Observations, Posterior, in_unit, shrink};
use super::plain::plain_without;
use std::collections::BTreeMap;
use vsweep_base::threads;

/// Largest and smallest number of draws of the model.
const DRAWS: (usize, usize) = (4000, 400);
/// Largest number of drawn numbers of one metric in memory, unless the smallest number of draws needs more.
const NUMBERS: usize = 4_000_000;
/// Coverage of the intervals.
pub const INTERVAL: f64 = 0.95;

/// Returns the number of draws of the model for an experiment. It is lower for many points, whose draws would fill the memory.
pub fn draws_of(experiment: &Experiment) -> usize {
    (NUMBERS / experiment.points.len().max(1)).clamp(DRAWS.1, DRAWS.0)
}

/// The function that finds the posterior of a metric.
pub type Fit<'f> = dyn Fn(Observations, &Metric) -> Posterior + Sync + 'f;

/// An experiment, with the posterior of each of its metrics.
pub struct ExperimentFit<'e> {
    /// The experiment, in canonical order.
    pub experiment: &'e Experiment,
    metrics: Vec<Figures<'e>>,
}

/// One metric of an experiment: its posterior, and the figure of every point.
pub struct Figures<'e> {
    /// The metric.
    pub metric: &'e Metric,
    /// The posterior.
    pub posterior: Posterior,
    /// The estimate of each point; `None` if the point has no figure.
    pub estimates: Vec<Option<Estimate>>,
    /// The experiment, in canonical order.
    pub experiment: &'e Experiment,
    /// Mean and standard deviation of each point, on the metric's scale.
    moments: Vec<Option<(f64, f64)>>,
}

impl<'e> ExperimentFit<'e> {
    /// Fits every metric of an experiment that is in canonical order. `fit` finds the posterior of a metric.
    pub fn of(experiment: &'e Experiment, fit: &Fit<'_>) -> ExperimentFit<'e> {
        let figures = |metric: &&'e Metric| Figures::of(experiment, metric, fit);
        let metrics: Vec<&'e Metric> = experiment.metrics.iter().collect();
        let metrics = threads::map(threads::cores(), &metrics, figures);
        ExperimentFit { experiment, metrics }
    }

    /// Returns the figures of a metric.
    pub fn figures(&self, metric: &str) -> Option<&Figures<'e>> {
        self.metrics.iter().find(|figures| figures.metric.name == metric)
    }

    /// Returns the figures of all metrics, in order.
    pub fn metrics(&self) -> &[Figures<'e>] {
        &self.metrics
    }
}

impl<'e> Figures<'e> {
    fn of(experiment: &'e Experiment, metric: &'e Metric, fit: &Fit<'_>) -> Figures<'e> {
        let posterior = fit(Observations::of(experiment, metric), metric);
        let components = posterior.components();
        let nodes = posterior.effects_of_nodes();
        // On a linear scale the model does not know that a latency is never below 0.
        let least = if has_negative(experiment, metric) {
            f64::NEG_INFINITY
        } else {
            0.0
        };
        let estimate = |(at, point)| {
            let held = posterior.observations.node_of(at).and_then(|node| nodes.get(node));
            let value = match held.copied().filter(|effect| *effect != 0.0) {
                Some(held) => {
                    let relative = nodes.iter().map(|(node, effect)| (*node, effect - held));
                    plain_without(&relative.collect(), point, metric)?
                }
                None => plain_without(&nodes, point, metric)?,
            };
            if metric.scale == Scale::Count {
                return Some(Estimate {
                    value,
                    low: value,
                    high: value,
                });
            }
            let (low, high) = components.interval(at, INTERVAL)?;
            Estimate::around(value, metric.scale.value(low).max(least), metric.scale.value(high))
        };
        let points = experiment.points.iter().enumerate();
        let estimates = points.clone().map(estimate).collect();
        let moments = points.map(|(at, _)| components.moments(at)).collect();
        drop((components, nodes));
        Figures {
            metric,
            posterior,
            estimates,
            experiment,
            moments,
        }
    }

    /// Returns the first `kept` draws of some points, on the metric's scale.
    pub fn drawn(&self, points: &[usize], kept: usize) -> Draws {
        let all = draws_of(self.experiment);
        self.posterior.draw(self.experiment.seed, all, kept.min(all), points)
    }

    /// Returns the draws of a point, in the metric's unit; empty if the point was not measured or not drawn.
    pub fn values_of(&self, drawn: &Draws, point: usize) -> Vec<f64> {
        drawn[point].iter().map(|draw| self.metric.scale.value(*draw)).collect()
    }

    /// Returns the first `kept` draws of the points of a workload, shrunk by [`Figures::shrink`].
    pub fn shrunk(&self, workload: &str, kept: usize) -> Draws {
        let mut drawn = self.drawn(&self.points_of(workload), kept);
        self.shrink(workload, &mut drawn, |_| 1.0);
        drawn
    }

    /// Shrinks the draws of a workload's points towards the means of the other configs at the same load, and converts them to the metric's
    /// unit. Only probabilities use the result. `times` is the factor of a point's replicas. On a logarithmic scale the factor is applied
    /// before shrinking, so that servers of different sizes are compared by what they would do on all the user's GPUs; on other scales it
    /// is applied afterwards.
    pub fn shrink(&self, workload: &str, drawn: &mut Draws, times: impl Fn(usize) -> f64) {
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for at in self.points_of(workload) {
            match self.moments[at] {
                _ if drawn[at].is_empty() => {}
                Some(_) => groups.entry(&self.experiment.points[at].load).or_default().push(at),
                // A figure of 0 on a logarithmic scale is infinitely far from all others.
                None => drawn[at]
                    .iter_mut()
                    .for_each(|draw| *draw = times(at) * self.metric.scale.value(*draw)),
            }
        }
        let observations = &self.posterior.observations;
        for members in groups.into_values() {
            let factors = |at: usize| match self.metric.scale {
                Scale::Log => (times(at).ln(), 1.0),
                Scale::Linear | Scale::Count | Scale::Share => (0.0, times(at)),
            };
            let moments = members.iter().filter_map(|at| {
                let (mean, deviation) = self.moments[*at]?;
                Some((mean + factors(*at).0, deviation))
            });
            let moments: Vec<(f64, f64)> = moments.collect();
            let moved = |at: &usize| drawn[*at].iter().map(|draw| draw + factors(*at).0).collect();
            let mut shrunk: Vec<Vec<f64>> = members.iter().map(moved).collect();
            // Seeded by a point's id, because callers may name workloads and loads differently.
            let first = &self.experiment.points[members[0]].id;
            let mut random = Random::of(self.experiment.seed, &["shrink", &observations.metric, first]);
            shrink(&moments, &mut shrunk, observations.size(), &mut random);
            for (at, shrunk) in members.into_iter().zip(shrunk) {
                let values = drawn[at].iter_mut().zip(shrunk);
                let factor = factors(at).1;
                values.for_each(|(value, draw)| *value = factor * self.metric.scale.value(draw));
            }
        }
    }

    /// Returns the indices of a workload's points.
    pub fn points_of(&self, workload: &str) -> Vec<usize> {
        let points = self.experiment.points.iter().enumerate();
        let points = points.filter(|(_, point)| point.workload == workload);
        points.map(|(at, _)| at).collect()
    }

    /// The noise of the metric, as far as it is known.
    pub fn noise(&self) -> MetricNoise {
        let (run, start, node) = self.posterior.noise();
        MetricNoise {
            metric: self.metric.name.clone(),
            run,
            start,
            node,
        }
    }
}

/// Returns true if a figure of a metric is below 0.
fn has_negative(experiment: &Experiment, metric: &Metric) -> bool {
    let runs = experiment.points.iter().flat_map(|point| &point.runs);
    let mut figures = runs.filter_map(|run| run.figures.get(&metric.name));
    figures.any(|figure| in_unit(*figure) < 0.0)
}

/// Returns a value with the 95 % interval of its draws; `None` if there are no draws, or a number is not finite. If the value lies outside
/// the central interval, the interval is shifted to begin or end at the value, and still holds 95 % of the draws.
pub fn estimate_by(value: f64, draws: impl Iterator<Item = f64>) -> Option<Estimate> {
    let mut sorted: Vec<f64> = draws.filter(|draw| !draw.is_nan()).collect();
    if sorted.is_empty() {
        return None;
    }
    let outside = 1.0 - INTERVAL;
    let below = sorted.iter().filter(|draw| **draw < value).count() as f64 / sorted.len() as f64;
    let lower = below
        .min(outside / 2.0)
        .max(outside - (1.0 - below))
        .clamp(0.0, outside);
    let mut at = |part: f64| {
        let rank = ((sorted.len() as f64 * part) as usize).min(sorted.len() - 1);
        *sorted.select_nth_unstable_by(rank, f64::total_cmp).1
    };
    let (low, high) = (at(lower), at(lower + INTERVAL));
    Estimate::around(value, low, high)
}

/// Returns the mean and the standard deviation of draws.
pub fn moments(draws: &[f64]) -> (f64, f64) {
    let count = draws.len() as f64;
    let mean = draws.iter().sum::<f64>() / count;
    let square = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / count;
    (mean, square.sqrt())
}

/// Minimum probability, for a sure answer, that the winner or one of its ties is within the margin of the best.
pub const SURE: f64 = 0.95;

/// Rounds a probability to four digits; further digits are noise of the draws.
pub fn rounded(probability: f64) -> f64 {
    let near = (probability * 1e4).round() / 1e4;
    // What is not sure is not rounded up to it.
    if probability < SURE && near >= SURE {
        near - 1e-4
    } else {
        near
    }
}
