//! Who meets the targets: by plain estimates, and in each draw.

use super::super::document::Meeting;
use super::super::experiment::{Bound, Point, Target};
use super::super::known::{DRAWS, Known, rounded};

/// How a point meets each target. One whose figure was not measured does not meet it.
pub fn meetings(known: &Known<'_>, at: usize, targets: &[Target]) -> Vec<Meeting> {
    let meeting = |target: &Target| {
        let figures = known.figures(&target.metric)?;
        let value = figures.estimates[at]?;
        let holds = figures.shrunk[at]
            .iter()
            .filter(|draw| target.bound.holds(**draw, target.limit));
        Some(Meeting {
            target: target.clone(),
            value,
            is_met: target.bound.holds(value.value, target.limit),
            probability: rounded(holds.count() as f64 / DRAWS as f64),
        })
    };
    targets.iter().filter_map(meeting).collect()
}

/// Whether the plain estimates of a point meet all targets.
pub fn meets_plainly(known: &Known<'_>, at: usize, targets: &[Target]) -> bool {
    targets.iter().all(|target| {
        let value = known.figures(&target.metric).and_then(|figures| figures.estimates[at]);
        value.is_some_and(|value| target.bound.holds(value.value, target.limit))
    })
}

/// Whether a point meets all targets, draw by draw.
pub fn meets_drawn(known: &Known<'_>, at: usize, targets: &[Target]) -> Vec<bool> {
    let mut meets = vec![true; DRAWS];
    for target in targets {
        match known.figures(&target.metric).map(|figures| &figures.shrunk[at]) {
            Some(draws) if !draws.is_empty() => {
                meets
                    .iter_mut()
                    .zip(draws)
                    .for_each(|(meets, draw)| *meets &= target.bound.holds(*draw, target.limit));
            }
            _ => return vec![false; DRAWS],
        }
    }
    meets
}

/// How far a point is from meeting all targets: the largest relative distance to a limit that it breaks.
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
