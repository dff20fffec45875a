//! The Pareto frontier of two metrics: a point is on it if no other is at least as good in both plain estimates and better in one. Each
//! point on it has the probability that no other beats it by more than the margin in both.

use super::super::asked::FrontierQuestion;
use super::super::document::{Estimate, Frontier, FrontierPoint};
use super::super::fit::{ExperimentFit, Figures, draws_of, rounded};
use super::entrants::fits;
use super::meeting::{meets_plainly, points_of};
use vsweep_strategy::stats::Better;

/// A frontier's probabilities use one of this many draws of the model. Fewer are used, because a frontier has many
/// points, and nothing is decided by its probabilities.
const ONE_DRAW_IN: usize = 4;

/// Returns the frontier that a question asks for; `None` unless both metrics were measured.
pub fn frontier(fitted: &ExperimentFit<'_>, question: &FrontierQuestion) -> Option<Frontier> {
    let (x, y) = (fitted.figures(&question.x)?, fitted.figures(&question.y)?);
    let all = points_of(fitted, &question.workload, None).filter(|(_, point)| fits(fitted, point));
    let all = all.map(|(at, _)| at);
    let asked = all.filter(|at| meets_plainly(fitted, *at, &question.targets));
    let placed = asked.filter_map(|at| Some((at, x.estimates[at]?, y.estimates[at]?)));
    let placed: Vec<(usize, Estimate, Estimate)> = placed.collect();
    let (of_x, of_y) = (x.metric.better, y.metric.better);
    let beats = |one: &(usize, Estimate, Estimate), other: &(usize, Estimate, Estimate)| {
        let not_worse = !of_x.prefers(other.1.value, one.1.value) && !of_y.prefers(other.2.value, one.2.value);
        not_worse && (of_x.prefers(one.1.value, other.1.value) || of_y.prefers(one.2.value, other.2.value))
    };
    let mut front: Vec<&(usize, Estimate, Estimate)> = placed
        .iter()
        .filter(|one| !placed.iter().any(|other| beats(other, one)))
        .collect();
    front.sort_by(|a, b| {
        let order = a.1.value.total_cmp(&b.1.value).then(b.2.value.total_cmp(&a.2.value));
        if of_x == Better::Higher { order.reverse() } else { order }
    });
    let margin = 1.0 + fitted.experiment.margin;
    let by_more = |better: Better, one: f64, other: f64| match better {
        Better::Higher => one > other * margin,
        Better::Lower => one * margin < other,
    };
    let draws = draws_of(fitted.experiment) / ONE_DRAW_IN;
    let shrunk = |figures: &Figures<'_>| figures.shrunk(&question.workload, draws);
    let (draws_x, draws_y) = (shrunk(x), shrunk(y));
    // If no unbeaten place beats a place by more than the margin, no place at all does.
    let unbeaten: Vec<Vec<(f64, f64)>> = (0..draws)
        .map(|draw| {
            unbeaten(
                placed.iter().map(|(at, ..)| (draws_x[*at][draw], draws_y[*at][draw])),
                of_x,
                of_y,
            )
        })
        .collect();
    let probability = |at: usize| {
        let kept = unbeaten.iter().enumerate().filter(|(draw, others)| {
            let (own_x, own_y) = (draws_x[at][*draw], draws_y[at][*draw]);
            let beats = |(x, y): &(f64, f64)| by_more(of_x, *x, own_x) && by_more(of_y, *y, own_y);
            !others.iter().any(beats)
        });
        rounded(kept.count() as f64 / draws as f64)
    };
    let points = front.into_iter().map(|(at, x, y)| FrontierPoint {
        point: fitted.experiment.points[*at].id.clone(),
        config: fitted.experiment.points[*at].config.clone(),
        x: *x,
        y: *y,
        probability: probability(*at),
    });
    Some(Frontier {
        workload: question.workload.clone(),
        x: question.x.clone(),
        y: question.y.clone(),
        points: points.collect(),
    })
}

/// Returns some of the places. Places with NaN beat nothing and are left out. For every other place that is left out, one that is returned
/// is at least as good in both figures.
fn unbeaten(places: impl Iterator<Item = (f64, f64)>, of_x: Better, of_y: Better) -> Vec<(f64, f64)> {
    let mut places: Vec<(f64, f64)> = places.filter(|(x, y)| !x.is_nan() && !y.is_nan()).collect();
    places.sort_unstable_by(|(one, _), (other, _)| match of_x {
        Better::Higher => other.total_cmp(one),
        Better::Lower => one.total_cmp(other),
    });
    let mut best: Option<f64> = None;
    places.retain(|(_, y)| {
        let is_better = best.is_none_or(|best| of_y.prefers(*y, best));
        if is_better {
            best = Some(*y);
        }
        is_better
    });
    // Few places are left, and the lists of all draws are in memory at once.
    places.shrink_to_fit();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unbeaten_are_better_than_every_other_in_some_figure() {
        let places = [
            (1.0, 5.0),
            (f64::NAN, 9.0),
            (3.0, 3.0),
            (2.0, 2.0),
            (3.0, 4.0),
            (0.5, 5.0),
        ];
        let found = |of_x, of_y| unbeaten(places.into_iter(), of_x, of_y);
        let beats = |of_x: Better, of_y: Better, own: (f64, f64), better: (f64, f64)| {
            of_x.prefers(better.0, own.0) && of_y.prefers(better.1, own.1)
        };
        for of_x in [Better::Higher, Better::Lower] {
            for of_y in [Better::Higher, Better::Lower] {
                let kept = found(of_x, of_y);
                for own in places {
                    let by_all = places.iter().any(|other| beats(of_x, of_y, own, *other));
                    assert_eq!(
                        by_all,
                        kept.iter().any(|other| beats(of_x, of_y, own, *other)),
                        "{own:?}"
                    );
                }
            }
        }
        assert!(found(Better::Higher, Better::Higher).len() < places.len());
    }
}
