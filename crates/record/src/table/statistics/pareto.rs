//! Pareto dominance between points with two figures, and the knee of a frontier.

use std::cmp::Ordering;
use vsweep_strategy::stats::Better;

/// Figures that differ by at most this fraction of the larger one count as equal.
const EPSILON: f64 = 1e-9;

/// Returns the points that no other point beats, as indices ordered from the best x to the worst.
///
/// A point is beaten by one that is as good in both figures and better in at least one (relative tolerance 10⁻⁹). So of two points with an
/// equal y only the one with the better x stays; exact duplicates stay together. A point with a figure that is not finite is never on the
/// frontier, and beats no other.
pub fn frontier(points: &[(f64, f64)], better: (Better, Better)) -> Vec<usize> {
    let toward = |value: f64, better| match better {
        Better::Higher => value,
        Better::Lower => -value,
    };
    let finite = points
        .iter()
        .enumerate()
        .filter(|(_, (x, y))| x.is_finite() && y.is_finite());
    let mut ranked: Vec<(usize, f64, f64)> = finite
        .map(|(i, (x, y))| (i, toward(*x, better.0), toward(*y, better.1)))
        .collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.2.total_cmp(&a.2)).then(a.0.cmp(&b.0)));
    let best_y: Vec<f64> = ranked
        .iter()
        .scan(f64::NEG_INFINITY, |best, point| {
            *best = best.max(point.2);
            Some(*best)
        })
        .collect();
    // Returns the best y of the points whose x, compared with this `x`, gives one of the `wanted` orders.
    let best_y_at = |x: f64, wanted: &[Ordering]| {
        let count = ranked.partition_point(|point| wanted.contains(&compare(point.1, x)));
        count.checked_sub(1).map_or(f64::NEG_INFINITY, |last| best_y[last])
    };
    let is_beaten = |x: f64, y: f64| {
        let right = best_y_at(x, &[Ordering::Greater]);
        let here = best_y_at(x, &[Ordering::Greater, Ordering::Equal]);
        compare(right, y) != Ordering::Less || compare(here, y) == Ordering::Greater
    };
    let kept = ranked.iter().filter(|(_, x, y)| !is_beaten(*x, *y));
    kept.map(|(i, _, _)| *i).collect()
}

fn compare(a: f64, b: f64) -> Ordering {
    if a.is_finite() && (a - b).abs() <= EPSILON * a.abs().max(b.abs()) {
        Ordering::Equal
    } else {
        a.total_cmp(&b)
    }
}

/// Figures that differ by at most this fraction of the larger one count as equally good: repetitions differ by more.
const AS_GOOD: f64 = 0.01;

/// Returns the frontier without points that are as good as an earlier one in both figures: the index in `points` of each point that stays,
/// and the number of points that were left out because of it.
pub fn distinct(points: &[(f64, f64)], frontier: &[usize]) -> Vec<(usize, usize)> {
    let near = |a: f64, b: f64| (a - b).abs() <= AS_GOOD * a.abs().max(b.abs());
    let is_as_good = |a: (f64, f64), b: (f64, f64)| near(a.0, b.0) && near(a.1, b.1);
    let mut distinct: Vec<(usize, usize)> = Vec::new();
    for i in frontier {
        let mut kept = distinct.iter_mut();
        match kept.find(|(first, _)| is_as_good(points[*first], points[*i])) {
            Some((_, others)) => *others += 1,
            None => distinct.push((*i, 0)),
        }
    }
    distinct
}

/// A frontier that bends by at most this fraction of its extent has no clear knee.
const LEAST_BEND: f64 = 0.02;

/// Returns the frontier point farthest beyond the straight line between the frontier's ends, in axes scaled to the frontier's extent.
/// There, giving up more of one figure begins to gain little of the other. `None` if no point is clearly beyond the line.
pub fn knee(points: &[(f64, f64)], frontier: &[usize], better: (Better, Better)) -> Option<usize> {
    let (first, last) = (points[*frontier.first()?], points[*frontier.last()?]);
    let (width, height) = (last.0 - first.0, last.1 - first.1);
    if width == 0.0 || height == 0.0 {
        return None;
    }
    let sign = |better| if better == Better::Higher { 1.0 } else { -1.0 };
    // On scaled axes the ends are (0, 0) and (1, 1); the good side of the chord depends on the directions. The first
    // end has the best x, so the good side is the one where y is reached before x is given up.
    let beyond = |i: usize| {
        let x = (points[i].0 - first.0) / width;
        let y = (points[i].1 - first.1) / height;
        (y - x) * sign(better.1) * height.signum()
    };
    let ranked = frontier.iter().copied().map(|i| (i, beyond(i)));
    let farthest = ranked.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    (farthest.1 > LEAST_BEND).then_some(farthest.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UP: (Better, Better) = (Better::Higher, Better::Higher);

    #[test]
    fn a_dominated_tie_is_dropped_and_duplicates_stay() {
        let points = [(10.0, 100.0), (10.0, 100.0), (5.0, 100.0), (12.0, 90.0), (2.0, 130.0)];
        assert_eq!(frontier(&points, UP), [3, 0, 1, 4]);
    }

    #[test]
    fn points_as_good_as_another_are_counted() {
        let points = [(10.0, 100.0), (9.95, 100.5), (5.0, 120.0), (5.0, 121.0), (4.96, 121.5)];
        assert_eq!(distinct(&points, &[0, 1, 2, 3, 4]), [(0, 1), (2, 1), (4, 0)]);
    }

    #[test]
    fn directions_count() {
        let points = [(1.0, 10.0), (2.0, 5.0), (3.0, 20.0), (f64::NAN, 0.0)];
        assert_eq!(frontier(&points, (Better::Higher, Better::Lower)), [2, 1]);
    }

    #[test]
    fn the_knee_is_the_point_farthest_out() {
        let points = [(10.0, 0.0), (9.0, 8.0), (4.0, 9.5), (0.0, 10.0)];
        let front = frontier(&points, UP);
        assert_eq!(knee(&points, &front, UP), Some(1));
        let straight = [(2.0, 0.0), (1.0, 1.0), (0.0, 2.0)];
        assert_eq!(knee(&straight, &frontier(&straight, UP), UP), None);
        assert_eq!(knee(&[(1.0, 1.0)], &[0], UP), None);
        let costs = [(0.0, 0.0), (1.0, 0.5), (2.0, 3.0)];
        let mixed = (Better::Higher, Better::Lower);
        assert_eq!(knee(&costs, &frontier(&costs, mixed), mixed), Some(1));
    }

    proptest! {
        #[test]
        fn the_frontier_is_what_no_point_beats(points in prop::collection::vec((0..8i32, 0..8i32), 0..40)) {
            let points: Vec<(f64, f64)> = points.iter().map(|(x, y)| (f64::from(*x), f64::from(*y))).collect();
            let beaten = |p: &(f64, f64)| {
                points.iter().any(|q| q.0 >= p.0 && q.1 >= p.1 && (q.0 > p.0 || q.1 > p.1))
            };
            let mut front = frontier(&points, UP);
            front.sort_unstable();
            let expected: Vec<usize> = (0..points.len()).filter(|i| !beaten(&points[*i])).collect();
            prop_assert_eq!(front, expected);
        }
    }
}
