//! Chooses the first starts, candidates that together give the most information about all others, and knows which pairs of levels were started.

use super::shape::Shape;
use super::sites::Datum;
use super::space::Space;
use super::surface::{Data, of_shape};
use crate::stats::Random;
use std::collections::HashSet;

/// Maximum number of candidates that are considered for a start.
const CONSIDERED: usize = 120;
/// Maximum number of candidates whose uncertainty counts.
const COUNTED: usize = 80;
/// Assumed standard deviation of the effects on the logarithm of a figure.
const SIGNAL: f64 = 0.3;
/// Assumed variance of the logarithm of a measured figure.
const NOISE: f64 = 4e-4;

/// Returns a function of a candidate: the share of its pairs of levels that none of the `started` ones combines; 0 with less than two axes.
pub(super) fn new_share(space: &Space, started: impl Iterator<Item = usize>) -> impl Fn(usize) -> f64 {
    let combined: HashSet<[usize; 4]> = started.flat_map(|at| pairs(space, at)).collect();
    let all = space.len() * space.len().saturating_sub(1) / 2;
    move |candidate| {
        let new = pairs(space, candidate).filter(|pair| !combined.contains(pair));
        new.count() as f64 / all.max(1) as f64
    }
}

/// Returns the pairs of levels that a candidate combines: two axes, and a level of each.
fn pairs(space: &Space, candidate: usize) -> impl Iterator<Item = [usize; 4]> {
    let level = move |axis| space.level(axis, candidate);
    (0..space.len()).flat_map(move |a| (0..a).map(move |b| [a, b, level(a), level(b)]))
}

/// Returns the candidate whose measurement, after those in `seen`, leaves the least uncertainty about all candidates that work.
/// Candidates that are likely to work are preferred: `likely` has each candidate's probability to work. `None` if all were seen.
pub(super) fn next(space: &Space, likely: &[f64], seen: &[usize]) -> Option<usize> {
    let mut random = Random::of(likely.len() as u64, &["spread"]);
    let mut order: Vec<usize> = (0..likely.len()).collect();
    random.shuffle(&mut order);
    order.sort_by_key(|at| likely[*at] < 0.5);
    let counted: Vec<usize> = order.iter().copied().take(COUNTED).collect();
    let considered = order.iter().copied().filter(|at| !seen.contains(at)).take(CONSIDERED);
    let expected = vec![0.0; likely.len()];
    let uncertainty = |at: usize| {
        let observed = seen.iter().chain([&at]).map(|at| (*at, Datum::Value(0.0, NOISE)));
        let data = Data {
            space,
            level: 0.0,
            expected: &expected,
            constant_slopes: &[],
            expected_factor: (0.0, 0.0),
            signal: SIGNAL,
            observed: observed.collect(),
        };
        let surface = of_shape(&data, Shape::prior(space, SIGNAL));
        let variance = |other: &usize| {
            surface
                .as_ref()
                .map_or(0.0, |surface| surface.belief(&data, *other).variance)
        };
        counted
            .iter()
            .map(|other| likely[*other] * variance(other))
            .sum::<f64>()
            / likely[at].max(0.05).sqrt()
    };
    let scored = considered.map(|at| (at, uncertainty(at)));
    scored.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
}
