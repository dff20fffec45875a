//! Sizes of the noise: priors, the grid over which they are integrated, and what is known of them.

use super::super::experiment::NoisePrior;
use serde::{Deserialize, Serialize};

/// Standard deviations on the metric's scale.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Between runs of a start.
    pub run: f64,
    /// Between starts.
    pub start: f64,
    /// Between nodes.
    pub node: f64,
}

/// Source of the size of a noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Repeats in this experiment.
    Measured,
    /// The prior, because there are too few repeats.
    Assumed,
}

/// A size of noise and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoiseKnown {
    /// Standard deviation, the median of what is likely: relative on a logarithmic scale.
    pub deviation: f64,
    /// Its source.
    pub basis: Basis,
    /// The number of repeats beyond the first measurements.
    pub repeats: usize,
}

/// Number of repeats below which a size of noise counts as assumed.
pub const FEWEST_REPEATS: usize = 4;

impl NoiseKnown {
    /// Noise known from a deviation over this many repeats.
    pub fn by(deviation: f64, repeats: usize) -> NoiseKnown {
        NoiseKnown {
            deviation,
            basis: if repeats < FEWEST_REPEATS {
                Basis::Assumed
            } else {
                Basis::Measured
            },
            repeats,
        }
    }
}

/// A rectangle of the grid: the logarithm of the run noise, the square root of the start noise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub run: (f64, f64),
    pub start: (f64, f64),
}

/// A grid over the sizes of noise.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    /// Run noise, with the logarithm of prior times width.
    pub runs: Vec<(f64, f64)>,
    /// Start noise, with the logarithm of prior times width.
    pub starts: Vec<(f64, f64)>,
    /// Node noise, with the logarithm of prior times width.
    pub nodes: Vec<(f64, f64)>,
}

/// The greatest start noise considered.
const MOST_START: f64 = 1.0;
/// Spreads of the prior of run noise that are considered.
const FARTHEST: f64 = 5.0;

impl Range {
    /// All that a prior considers, with sizes relative to `size`.
    pub fn whole(prior: &NoisePrior) -> Range {
        let (middle, half) = (prior.run.ln(), FARTHEST * prior.run_spread);
        Range {
            run: (middle - half, (middle + half).min(0.0)),
            start: (0.0, MOST_START.sqrt()),
        }
    }

    /// The grid over the range, of so many sizes each; several node noises where there are several nodes.
    pub fn grid(&self, prior: &NoisePrior, size: f64, count: usize, has_nodes: bool) -> Grid {
        let run = |ln: f64| {
            let off = (ln - prior.run.ln()) / prior.run_spread;
            (ln.exp() * size, -off * off / 2.0)
        };
        let start = |root: f64| {
            let deviation = root * root;
            // The width of a step grows with the root.
            (deviation * size, half_normal(deviation / prior.start) + root.ln())
        };
        let node = |part: f64| (part * prior.node * size, -part * part / 2.0);
        Grid {
            runs: middles(self.run, count).map(run).collect(),
            starts: middles(self.start, count).map(start).collect(),
            nodes: match has_nodes {
                true => middles((0.0, 2.5), 5).map(node).collect(),
                false => vec![(0.0, 0.0)],
            },
        }
    }

    /// The part of the range that is `kept` at some of `count` sizes, and one more on each side.
    pub fn narrowed(&self, count: usize, kept: &[(usize, usize)]) -> Range {
        let part = |(low, high): (f64, f64), places: &mut dyn Iterator<Item = usize>| {
            let (first, last) = places.fold((count, 0), |(first, last), at| (first.min(at), last.max(at)));
            let step = (high - low) / count as f64;
            let from = low + first.saturating_sub(1) as f64 * step;
            (from, high.min(low + (last + 2) as f64 * step))
        };
        Range {
            run: part(self.run, &mut kept.iter().map(|(run, _)| *run)),
            start: part(self.start, &mut kept.iter().map(|(_, start)| *start)),
        }
    }
}

/// The middles of equal parts of a range.
fn middles((low, high): (f64, f64), count: usize) -> impl Iterator<Item = f64> {
    (0..count).map(move |at| low + (high - low) * (at as f64 + 0.5) / count as f64)
}

/// Logarithm of the density of the size of a normal number, up to a constant.
fn half_normal(part: f64) -> f64 {
    -part * part / 2.0
}
