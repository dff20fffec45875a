//! Joint draws of the candidates' values: the probability that the winner is as good as the best, and the expected gain of more starts.

use super::space::Space;
use super::surface::Belief;
use super::view::View;
use crate::stats::Random;
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// Number of draws over all surfaces together.
const DRAWS: usize = 640;
/// Standard deviation of an upper bound that a beaten start showed, as a logarithm.
const BOUND_SD: f64 = 0.02;
/// Maximum number of candidates that are drawn jointly. Others are so much worse that they hardly ever win.
const MOST: usize = 200;

/// Joint draws of the values of some candidates.
#[derive(Debug, Clone)]
pub(super) struct Draws {
    candidates: Vec<usize>,
    /// The value of each candidate in each draw; `None` if it does not work in that draw.
    values: Vec<Vec<Option<f64>>>,
}

impl Draws {
    /// Draws the values of `winner` and of at most `most` candidates with the largest expected improvement over it. A candidate that
    /// `is_known` works in every draw. `bound` returns a candidate's upper bound, if it has one, and `limit` the value that it is known to
    /// have, and the largest that the plan allows it.
    pub(super) fn of(
        view: &View,
        space: &Space,
        winner: usize,
        is_known: impl Fn(usize) -> bool,
        bound: impl Fn(usize) -> Option<f64>,
        limit: impl Fn(usize) -> (Option<f64>, Option<f64>),
        most: usize,
    ) -> Draws {
        let candidates = rivals(view, winner, &is_known, most.min(MOST));
        let mut random = Random::of(view.beliefs.len() as u64, &["draws"]);
        let mut values = Vec::new();
        let data = view.data(space);
        let facts: Vec<_> = candidates
            .iter()
            .map(|at| (view.feasibility[*at], is_known(*at), bound(*at), limit(*at)))
            .collect();
        for surface in &view.surfaces {
            let Some((means, factor)) = surface.joint(&data, &candidates) else {
                continue;
            };
            for _ in 0..DRAWS / view.surfaces.len().max(1) {
                let normals: Vec<f64> = candidates.iter().map(|_| random.normal()).collect();
                let errors = factor.times(&normals);
                let draw = facts.iter().zip(means.iter().zip(errors)).map(
                    |((works, is_known, bound, (reached, most)), (mean, error))| {
                        let works = *is_known || random.uniform() < works.fits * works.meets;
                        let ceiling = bound.map_or(f64::INFINITY, |bound| bound + BOUND_SD * random.normal());
                        let value = (mean + error).min(ceiling).min(most.unwrap_or(f64::INFINITY));
                        works.then_some(reached.unwrap_or(value))
                    },
                );
                values.push(draw.collect());
            }
        }
        Draws { candidates, values }
    }

    /// Returns the share of draws in which a candidate lies within the margin of the best of some rivals.
    pub(super) fn chance(&self, candidate: usize, margin: f64, is_rival: &dyn Fn(usize) -> bool) -> f64 {
        let Some(at) = self.candidates.iter().position(|other| *other == candidate) else {
            return 0.0;
        };
        let rivals: Vec<usize> = (0..self.candidates.len())
            .filter(|i| is_rival(self.candidates[*i]))
            .collect();
        let is_best = |draw: &&Vec<Option<f64>>| {
            let mut others = rivals.iter().filter_map(|i| draw[*i]);
            draw[at].is_some_and(|value| others.all(|other| other <= value + margin))
        };
        self.values.iter().filter(is_best).count() as f64 / self.values.len().max(1) as f64
    }

    /// Returns the mean excess of the best of some candidates over the winner; a draw in which the winner is better counts as 0.
    pub(super) fn gain(&self, winner: usize, among: &[usize]) -> f64 {
        let Some(at) = self.candidates.iter().position(|other| *other == winner) else {
            return 0.0;
        };
        let more = self.values.iter().map(|draw| {
            let others = self
                .candidates
                .iter()
                .zip(draw)
                .filter(|(other, _)| among.contains(other));
            let best = others.filter_map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max);
            draw[at].map_or(0.0, |value| (best - value).max(0.0))
        });
        more.sum::<f64>() / self.values.len().max(1) as f64
    }
}

/// Returns the winner and the candidates with the largest expected improvement over it.
fn rivals(view: &View, winner: usize, is_known: &impl Fn(usize) -> bool, most: usize) -> Vec<usize> {
    let (best, _) = view.overall(winner);
    let mut rivals: Vec<(usize, f64)> = (0..view.feasibility.len())
        .filter(|at| *at != winner)
        .map(|at| {
            let (mean, sd) = view.overall(at);
            let works = view.feasibility[at];
            let works = if is_known(at) { 1.0 } else { works.fits * works.meets };
            (at, improvement(mean, sd, best) * works)
        })
        .filter(|(_, gain)| *gain > 1e-9)
        .collect();
    rivals.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let rivals = rivals.into_iter().take(most).map(|(at, _)| at);
    [winner].into_iter().chain(rivals).collect()
}

/// Returns the expected improvement of a normal variable over `best`: the mean of its excess, where a lower value counts as 0.
pub(super) fn improvement(mean: f64, sd: f64, best: f64) -> f64 {
    if sd <= 0.0 {
        return (mean - best).max(0.0);
    }
    let z = (mean - best) / sd;
    let normal = Normal::standard();
    (sd * (z * normal.cdf(z) + normal.pdf(z))).max(0.0)
}

/// Returns the expected gain in the value of the best candidate from a start of a candidate with this belief. `best_other` is the value of
/// the best other candidate, and `most` the largest value that the plan allows. Without the start, a candidate that is not yet known cannot
/// be chosen, so its whole improvement is a gain.
pub(super) fn gain(belief: Belief, noise: f64, best_other: f64, is_known: bool, most: Option<f64>) -> f64 {
    let sd = belief.variance / (belief.variance + noise).sqrt();
    let without_start = if is_known {
        (belief.mean - best_other).max(0.0)
    } else {
        0.0
    };
    // The part above the largest value adds nothing: E[(min(x, most) - other)+] = E[(x - other)+] - E[(x - most)+].
    let above = most.map_or(0.0, |most| improvement(belief.mean, sd, most.max(best_other)));
    (improvement(belief.mean, sd, best_other) - above - without_start).max(0.0)
}

/// Limits the belief about a candidate to an upper bound. The surface represents the bound only as a normal observation, whose tail reaches
/// beyond it.
pub(super) fn bounded(belief: Belief, bound: Option<f64>) -> Belief {
    bound.map_or(belief, |bound| Belief {
        mean: belief.mean.min(bound),
        variance: belief.variance.min(BOUND_SD * BOUND_SD),
    })
}
