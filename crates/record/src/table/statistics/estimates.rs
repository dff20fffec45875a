//! The estimates and frontiers of an answer, which take the place of medians in the table of points and in charts.

use crate::table::stack::stacked_point;
use crate::table::{Point, Points, Table};
use itertools::Itertools;
use std::collections::{HashMap, HashSet};
use vsweep_answer::{Answer, Estimate, PointEstimates};

impl Points<'_> {
    /// Replaces the points' figures and intervals by the estimates of an answer. Estimates that were made from other runs of a point are
    /// ignored.
    pub fn adopt(&mut self, answer: &Answer) {
        self.take_figures(answer, &|point| point.into());
        for frontier in &answer.frontiers {
            let on_it = self
                .frontiers
                .entry((frontier.x.clone(), frontier.y.clone()))
                .or_default();
            on_it.extend(frontier.points.iter().map(|on| Box::from(&*on.point)));
        }
    }

    /// Like [`Points::adopt`], for the points of one of several experiments in a table (see [`crate::table::Table::stack`]). The frontier of one
    /// experiment is not that of all, so it is not adopted.
    pub fn adopt_of(&mut self, experiment: &str, answer: &Answer) {
        self.take_figures(answer, &|point| stacked_point(experiment, point).into());
    }

    /// Adds the estimates of an answer. `id` makes the id of a point here from the one there.
    fn take_figures(&mut self, answer: &Answer, id: &dyn Fn(&str) -> Box<str>) {
        let used: HashMap<&str, usize> = self.points.iter().map(|point| (&*point.id, point.used.len())).collect();
        let named = answer.estimates.iter().map(|of_point| (id(&of_point.point), of_point));
        let current: Vec<(Box<str>, &PointEstimates)> = named
            .filter(|(id, of_point)| used.get(&**id) == Some(&of_point.runs))
            .collect();
        for (number, noise) in answer.noise.iter().enumerate() {
            let known = current.iter();
            let known = known.filter_map(|(id, of_point)| Some((id.clone(), of_point.figures[number]?)));
            self.estimates.entry(noise.metric.clone()).or_default().extend(known);
        }
    }

    /// True if the points have the estimates of an answer.
    pub fn has_estimates(&self) -> bool {
        !self.estimates.is_empty()
    }

    /// True if the answer judges a metric.
    pub fn judges(&self, metric: &str) -> bool {
        self.estimates.contains_key(metric)
    }

    /// A figure with the answer's estimate of it, if it has one.
    pub(in crate::table) fn judged(&self, point: &Point, metric: &str, spread: Spread) -> Spread {
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
    pub(in crate::table) fn frontier(&self, x: &str, y: &str) -> Option<&HashSet<Box<str>>> {
        self.frontiers.get(&(x.to_owned(), y.to_owned()))
    }

    /// The estimate of a figure, if the answer has one.
    fn estimate(&self, point: &Point, metric: &str) -> Option<Estimate> {
        self.estimates.get(metric)?.get(&point.id).copied()
    }
}

impl Table {
    /// The planned start that a run belongs to, from 0.
    pub fn slot(&self, row: usize) -> u32 {
        self.runs[row].slot
    }

    /// The launch that a run was measured on, numbered within the table; none where that is not known.
    pub fn launch(&self, row: usize) -> Option<u32> {
        self.runs[row].launch
    }

    /// True if something else than its server and its load had a part in a run.
    pub fn is_disturbed(&self, row: usize) -> bool {
        self.runs[row].marks.iter().any(|mark| mark.code.is_disturbance())
    }

    /// On how many launches some runs were measured; none where that is not known of all of them.
    pub(in crate::table) fn launches(&self, rows: &[usize]) -> Option<usize> {
        let launches: Option<Vec<u32>> = rows.iter().map(|row| self.runs[*row].launch).collect();
        launches
            .map(|launches| launches.into_iter().unique().count())
            .filter(|count| *count > 0)
    }
}

/// One figure of a point over the runs it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The answer's estimate; of a figure that no answer judges the middle value, or the mean of the middle two.
    pub value: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub count: usize,
    /// Its 95 % interval, where an answer judges it.
    pub interval: Option<(f64, f64)>,
}

impl Spread {
    /// The farthest that the figure may lie to either side: its interval, else from the lowest to the highest run.
    pub fn reach(&self) -> (f64, f64) {
        self.interval.unwrap_or((self.min, self.max))
    }
}
