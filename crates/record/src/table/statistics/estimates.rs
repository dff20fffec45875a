//! The estimates and frontiers of an answer, which take the place of medians in the table of points and in charts.

use crate::table::stack::stacked_point;
use crate::table::{Point, Points, Table};
use itertools::Itertools;
use std::collections::{HashMap, HashSet};
use vsweep_answer::{Answer, Estimate, PointEstimates};

impl Points<'_> {
    /// Replaces the points' figures and intervals by the estimates of an answer. Estimates from another number of runs of a point are
    /// ignored, and so are frontiers if some runs were left out.
    pub fn adopt(&mut self, answer: &Answer) {
        self.take_figures(answer, &|point| point.into());
        for frontier in answer.frontiers.iter().filter(|_| !self.is_part) {
            let on_it = self
                .frontiers
                .entry((frontier.x.clone(), frontier.y.clone()))
                .or_default();
            on_it.extend(frontier.points.iter().map(|on| Box::from(&*on.point)));
        }
    }

    /// Like [`Points::adopt`], for the points of one of several experiments in a table (see [`crate::table::Table::stack`]). The frontier
    /// of one experiment is not that of all, so it is not adopted.
    pub fn adopt_stacked(&mut self, experiment: &str, answer: &Answer) {
        self.take_figures(answer, &|point| stacked_point(experiment, point).into());
    }

    /// Adds the estimates of an answer. `id` converts the id of a point in the answer to its id in this table.
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

    /// Returns true if the points have the estimates of an answer.
    pub fn has_estimates(&self) -> bool {
        !self.estimates.is_empty()
    }

    /// Returns true if the answer judges a metric.
    pub fn judges(&self, metric: &str) -> bool {
        self.estimates.contains_key(metric)
    }

    /// Returns a figure with the answer's estimate and interval, if there are any.
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

    /// Returns the ids of the points on the answer's frontier of two metrics, if it has that frontier.
    pub(in crate::table) fn frontier(&self, x: &str, y: &str) -> Option<&HashSet<Box<str>>> {
        self.frontiers.get(&(x.to_owned(), y.to_owned()))
    }

    /// Returns the estimate of a figure, if the answer has one.
    fn estimate(&self, point: &Point, metric: &str) -> Option<Estimate> {
        self.estimates.get(metric)?.get(&point.id).copied()
    }
}

impl Table {
    /// Returns the planned start to which a run belongs, from 0.
    pub fn slot(&self, row: usize) -> u32 {
        self.runs[row].slot
    }

    /// Returns the launch on which a run was measured, as its number within the table; `None` if unknown.
    pub fn launch(&self, row: usize) -> Option<u32> {
        self.runs[row].launch
    }

    /// Returns true if something other than its server and its load influenced a run.
    pub fn is_disturbed(&self, row: usize) -> bool {
        self.runs[row].marks.iter().any(|mark| mark.code.is_disturbance())
    }

    /// Returns the number of launches on which some runs were measured; `None` if it is unknown for any of them.
    pub(in crate::table) fn launches(&self, rows: &[usize]) -> Option<usize> {
        let launches: Option<Vec<u32>> = rows.iter().map(|row| self.runs[*row].launch).collect();
        launches
            .map(|launches| launches.into_iter().unique().count())
            .filter(|count| *count > 0)
    }
}

/// One figure of a point over its runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The answer's estimate; for a figure that no answer judges, the median of the runs.
    pub value: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub count: usize,
    /// Its 95 % interval, if an answer judges it.
    pub interval: Option<(f64, f64)>,
}

impl Spread {
    /// Returns the range in which the figure may lie: its interval, else from the lowest to the highest run.
    pub fn reach(&self) -> (f64, f64) {
        self.interval.unwrap_or((self.min, self.max))
    }
}
