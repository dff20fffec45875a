//! The targets, and the points that meet them: by plain estimates, and in each draw.

use super::super::document::Meeting;
use super::super::experiment::{Bound, Point, Question, Target};
use super::super::known::{DRAWS, Known, rounded};

/// Which draws of each point meet each target of a question.
pub struct Meetings {
    targets: Vec<Target>,
    /// `[target][point]`; empty for a point that is not asked, or has no such figure.
    holds: Vec<Vec<Vec<bool>>>,
}

impl Meetings {
    /// Those of a question.
    pub fn of(known: &Known<'_>, question: &Question) -> Meetings {
        let asked: Vec<usize> = points_of(known, &question.workload, question.load.as_deref())
            .map(|(at, _)| at)
            .collect();
        Meetings {
            targets: question.targets.clone(),
            holds: question
                .targets
                .iter()
                .map(|target| holds(known, target, &asked))
                .collect(),
        }
    }

    /// True if a point meets all targets, draw by draw.
    pub fn all(&self, at: usize) -> Vec<bool> {
        let mut meets = vec![true; DRAWS];
        for holds in self.holds.iter().map(|holds| &holds[at]) {
            match holds.is_empty() {
                true => meets.fill(false),
                false => meets.iter_mut().zip(holds).for_each(|(meets, holds)| *meets &= holds),
            }
        }
        meets
    }

    /// Each target, and the chance that a point meets it.
    pub fn each(&self, known: &Known<'_>, at: usize) -> Vec<Meeting> {
        let meeting = |(target, holds): (&Target, &Vec<Vec<bool>>)| {
            let value = known.figures(&target.metric)?.estimates[at]?;
            Some(Meeting {
                target: target.clone(),
                value,
                is_met: target.bound.holds(value.value, target.limit),
                probability: rounded(holds[at].iter().filter(|holds| **holds).count() as f64 / DRAWS as f64),
            })
        };
        self.targets.iter().zip(&self.holds).filter_map(meeting).collect()
    }
}

/// Which draws of each asked point keep a limit.
fn holds(known: &Known<'_>, target: &Target, asked: &[usize]) -> Vec<Vec<bool>> {
    let mut found = vec![Vec::new(); known.experiment.points.len()];
    if let Some(figures) = known.figures(&target.metric) {
        let holds = |draw: &f64| target.bound.holds(*draw, target.limit);
        for at in asked {
            found[*at] = figures.shrunk()[*at].iter().map(holds).collect();
        }
    }
    found
}

/// True if the plain estimates of a point meet all targets.
pub fn meets_plainly(known: &Known<'_>, at: usize, targets: &[Target]) -> bool {
    targets.iter().all(|target| {
        let value = known.figures(&target.metric).and_then(|figures| figures.estimates[at]);
        value.is_some_and(|value| target.bound.holds(value.value, target.limit))
    })
}

/// The distance of a point from meeting all targets: the largest relative distance to a limit that it breaks.
pub fn distance(known: &Known<'_>, at: usize, targets: &[Target]) -> f64 {
    let far = |target: &Target| {
        let value = known.figures(&target.metric).and_then(|figures| figures.estimates[at]);
        let Some(value) = value else {
            return f64::INFINITY;
        };
        let size = target.limit.abs().max(f64::MIN_POSITIVE);
        let over = match target.bound {
            Bound::AtMost | Bound::Below => value.value - target.limit,
            Bound::AtLeast | Bound::Above => target.limit - value.value,
        };
        (over / size).max(0.0)
    };
    targets.iter().map(far).fold(0.0, f64::max)
}

/// Points of a workload, at a load if one is asked.
pub fn points_of<'a>(
    known: &'a Known<'_>,
    workload: &'a str,
    load: Option<&'a str>,
) -> impl Iterator<Item = (usize, &'a Point)> {
    let points = known.experiment.points.iter().enumerate();
    points.filter(move |(_, point)| point.workload == workload && load.is_none_or(|load| point.load == load))
}
