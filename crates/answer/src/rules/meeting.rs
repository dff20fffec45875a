//! The targets, and the points that meet them: by plain estimates, and in each draw.

use super::super::asked::{Question, Target, TargetPoint};
use super::super::document::TargetChance;
use super::super::experiment::{Experiment, Point, Scale};
use super::super::fit::{ExperimentFit, draws_of, rounded};

/// The draws in which each point meets each target of a question.
pub struct TargetsMet {
    /// Number of draws.
    draws: usize,
    targets: Vec<Target>,
    /// `[target][point][draw]`; empty for a point that does not compete, or for which the target cannot be judged.
    holds: Vec<Vec<Vec<bool>>>,
}

impl TargetsMet {
    /// Judges the targets of a question in each draw.
    pub fn of(fitted: &ExperimentFit<'_>, question: &Question) -> TargetsMet {
        let asked: Vec<usize> = points_of(fitted, &question.workload, question.load.as_deref())
            .map(|(at, _)| at)
            .collect();
        TargetsMet {
            draws: draws_of(fitted.experiment),
            targets: question.targets.clone(),
            holds: question
                .targets
                .iter()
                .map(|target| holds(fitted, &question.workload, target, &asked))
                .collect(),
        }
    }

    /// Marks the draws in which a point meets all targets.
    pub fn all(&self, at: usize) -> Vec<bool> {
        let mut meets = vec![true; self.draws];
        for holds in self.holds.iter().map(|holds| &holds[at]) {
            match holds.is_empty() {
                true => meets.fill(false),
                false => meets.iter_mut().zip(holds).for_each(|(meets, holds)| *meets &= holds),
            }
        }
        meets
    }

    /// Returns the number of draws in which a point meets all targets.
    pub fn count(&self, at: usize) -> usize {
        match self.holds.is_empty() {
            true => self.draws,
            false => self.all(at).into_iter().filter(|meets| *meets).count(),
        }
    }

    /// Returns each target with the probability that a point meets it. Targets that cannot be judged are left out.
    pub fn each(&self, fitted: &ExperimentFit<'_>, at: usize) -> Vec<TargetChance> {
        let meeting = |(target, holds): (&Target, &Vec<Vec<bool>>)| {
            let estimates = &fitted.figures(&target.metric)?.estimates;
            let judged = judged(fitted.experiment, target, at)?.into_iter();
            let worst = judged.filter_map(|place| estimates[place]).reduce(|one, other| {
                let is_worse = target.bound.holds(one.value, other.value);
                if is_worse { other } else { one }
            })?;
            Some(TargetChance {
                target: target.clone(),
                value: worst,
                is_met: target.bound.holds(worst.value, target.limit),
                probability: rounded(holds[at].iter().filter(|holds| **holds).count() as f64 / self.draws as f64),
            })
        };
        self.targets.iter().zip(&self.holds).filter_map(meeting).collect()
    }
}

/// Marks for each competing point the draws in which it meets a target; empty if the target cannot be judged for it.
fn holds(fitted: &ExperimentFit<'_>, workload: &str, target: &Target, asked: &[usize]) -> Vec<Vec<bool>> {
    let mut found = vec![Vec::new(); fitted.experiment.points.len()];
    let Some(figures) = fitted.figures(&target.metric) else {
        return found;
    };
    let shrunk = figures.shrunk(workload, draws_of(fitted.experiment));
    for at in asked {
        let Some(judged) = judged(fitted.experiment, target, *at) else {
            continue;
        };
        let mut holds = vec![true; draws_of(fitted.experiment)];
        if figures.metric.scale == Scale::Count {
            holds.fill(meets_plainly(fitted, *at, std::slice::from_ref(target)));
            found[*at] = holds;
            continue;
        }
        for draws in judged.iter().map(|place| &shrunk[*place]) {
            match draws.is_empty() {
                true => holds.fill(false),
                false => holds
                    .iter_mut()
                    .zip(draws)
                    .for_each(|(holds, draw)| *holds &= target.bound.holds(*draw, target.limit)),
            }
        }
        found[*at] = holds;
    }
    found
}

/// Returns the points whose figures decide whether a point meets a target: the point itself if the target applies to it, else the points of
/// its config and workload to which the target applies. `None` if one of them was not measured. If there are none and work is left, they may
/// still come.
pub(super) fn judged(experiment: &Experiment, target: &Target, at: usize) -> Option<Vec<usize>> {
    let point = &experiment.points[at];
    let applies = target.about.is_empty() || target.about.iter().any(|about| about.point == point.id);
    if applies {
        return Some(vec![at]);
    }
    let is_related = |about: &&TargetPoint| about.config == point.config && about.workload == point.workload;
    let place = |about: &TargetPoint| experiment.points.iter().position(|other| other.id == about.point);
    let related: Vec<usize> = target
        .about
        .iter()
        .filter(is_related)
        .map(place)
        .collect::<Option<_>>()?;
    (!related.is_empty() || experiment.open == 0).then_some(related)
}

/// Returns the plain estimates that decide whether a point meets a target, each with its point; `None` if one of them is unknown.
fn judged_values(fitted: &ExperimentFit<'_>, target: &Target, at: usize) -> Option<Vec<(usize, f64)>> {
    let figures = fitted.figures(&target.metric)?;
    let judged = judged(fitted.experiment, target, at)?.into_iter();
    judged
        .map(|place| Some((place, figures.estimates[place]?.value)))
        .collect()
}

/// Returns true if a point meets all targets by plain estimates.
pub fn meets_plainly(fitted: &ExperimentFit<'_>, at: usize, targets: &[Target]) -> bool {
    targets.iter().all(|target| {
        let values = judged_values(fitted, target, at);
        values.is_some_and(|values| {
            let mut values = values.iter();
            values.all(|(_, value)| target.bound.holds(*value, target.limit))
        })
    })
}

/// Returns the largest distance of a point from a limit that it breaks, relative to the limit, or to a typical figure if the limit is 0,
/// and the point whose figure breaks it: the point itself, or one that the target applies to. The distance is 0 if the point meets all
/// targets, and infinite if one of them cannot be judged.
pub fn distance(fitted: &ExperimentFit<'_>, at: usize, targets: &[Target]) -> (f64, usize) {
    let farther = |one: (f64, usize), other: (f64, usize)| if other.0 > one.0 { other } else { one };
    let far = |target: &Target| {
        let Some(values) = judged_values(fitted, target, at) else {
            return (f64::INFINITY, at);
        };
        let size = match target.limit.abs() {
            0.0 => fitted
                .figures(&target.metric)
                .map_or(1.0, |figures| figures.posterior.observations.size()),
            limit => limit,
        };
        let over = values
            .into_iter()
            .map(|(place, value)| match target.bound.is_upper_bound() {
                true => ((value - target.limit) / size, place),
                false => ((target.limit - value) / size, place),
            });
        over.fold((0.0, at), farther)
    };
    targets.iter().map(far).fold((0.0, at), farther)
}

/// Returns the points of a workload with their indices; with a load, only those at that load.
pub fn points_of<'a>(
    fitted: &'a ExperimentFit<'_>,
    workload: &'a str,
    load: Option<&'a str>,
) -> impl Iterator<Item = (usize, &'a Point)> {
    let points = fitted.experiment.points.iter().enumerate();
    points.filter(move |(_, point)| point.workload == workload && load.is_none_or(|load| point.load == load))
}
