//! The estimates and frontiers of an answer, which take the place of medians in the table of points and in charts.

use super::{Point, Points, Spread};
use std::collections::{HashMap, HashSet};
use vsweep_answer::answer::{Answer, Estimate, PointEstimates};

impl Points<'_> {
    /// Replaces the points' figures and intervals by the estimates of an answer. Estimates that were made from other runs of a point are
    /// ignored.
    pub fn adopt(&mut self, answer: &Answer) {
        let used: HashMap<&str, usize> = self.points.iter().map(|point| (&*point.id, point.used.len())).collect();
        let is_current = |of_point: &&PointEstimates| used.get(&*of_point.point) == Some(&of_point.runs);
        let current: Vec<&PointEstimates> = answer.estimates.iter().filter(is_current).collect();
        for (number, noise) in answer.noise.iter().enumerate() {
            let known = current.iter();
            let known = known.filter_map(|of_point| Some((of_point.point.as_str().into(), of_point.figures[number]?)));
            self.estimates.insert(noise.metric.clone(), known.collect());
        }
        for frontier in &answer.frontiers {
            let on_it = self
                .frontiers
                .entry((frontier.x.clone(), frontier.y.clone()))
                .or_default();
            on_it.extend(frontier.points.iter().map(|on| Box::from(&*on.point)));
        }
    }

    /// True if the points have the estimates of an answer.
    pub fn has_estimates(&self) -> bool {
        !self.estimates.is_empty()
    }

    /// A figure with the answer's estimate of it, if it has one.
    pub(super) fn judged(&self, point: &Point, metric: &str, spread: Spread) -> Spread {
        match self.estimate(point, metric) {
            Some(estimate) => Spread {
                value: estimate.value,
                interval: Some((estimate.low, estimate.high)),
                ..spread
            },
            None => spread,
        }
    }

    /// The ids of the points on the answer's frontier of two metrics, if it has that frontier.
    pub(super) fn frontier(&self, x: &str, y: &str) -> Option<&HashSet<Box<str>>> {
        self.frontiers.get(&(x.to_owned(), y.to_owned()))
    }

    /// The estimate of a figure, if the answer has one.
    fn estimate(&self, point: &Point, metric: &str) -> Option<Estimate> {
        self.estimates.get(metric)?.get(&point.id).copied()
    }
}
