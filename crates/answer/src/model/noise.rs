//! Sizes of the noise, the grid over which they are integrated, and their sources.

use super::super::experiment::NoisePrior;
use serde::{Deserialize, Serialize};

/// Sizes of the noise, as standard deviations on the metric's scale.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Between runs of a start.
    pub run: f64,
    /// Between starts.
    pub start: f64,
    /// Between nodes.
    pub node: f64,
}

/// Source of a noise level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Repeats in this experiment.
    Measured,
    /// The prior, because there are too few repeats.
    Assumed,
}

/// A noise level with its source.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoiseEstimate {
    /// Standard deviation, the median of its posterior, relative to a typical figure. For a share it is a difference of shares.
    pub deviation: f64,
    /// Its source.
    pub basis: Basis,
    /// Number of repeats, not counting first measurements.
    pub repeats: usize,
}

/// Number of repeats below which a noise level counts as assumed.
pub const FEWEST_REPEATS: usize = 4;

impl NoiseEstimate {
    /// Returns noise with this deviation. The number of repeats decides its source.
    pub fn by(deviation: f64, repeats: usize) -> NoiseEstimate {
        NoiseEstimate {
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

/// A range of levels, relative to a typical figure: of the run noise as logarithms, of the start noise as square roots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub run: (f64, f64),
    pub start: (f64, f64),
}

/// A grid over the noise levels. Each level has the logarithm of its weight, which is the prior density times the width of the cell, up to
/// a constant.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    /// Sizes of the run noise.
    pub runs: Vec<(f64, f64)>,
    /// Sizes of the start noise.
    pub starts: Vec<(f64, f64)>,
    /// Sizes of the node noise.
    pub nodes: Vec<(f64, f64)>,
}

/// The greatest start noise that is considered, relative to a typical figure.
const MOST_START: f64 = 1.0;
/// Largest distance of the run noise from the middle of its prior that is considered, in spreads of the prior.
const FARTHEST: f64 = 5.0;

impl Range {
    /// Returns the range of all levels that are considered under a prior.
    pub fn whole(prior: &NoisePrior) -> Range {
        let (middle, half) = (prior.run.ln(), FARTHEST * prior.run_spread);
        Range {
            run: (middle - half, (middle + half).min(0.0)),
            start: (0.0, MOST_START.sqrt()),
        }
    }

    /// Returns a grid over the range, with `count` levels of run noise and as many of start noise, all multiplied by `size`, the typical
    /// figure. It has several levels of node noise only if there are several nodes.
    pub fn grid(&self, prior: &NoisePrior, size: f64, count: usize, has_nodes: bool) -> Grid {
        let run = |ln: f64| {
            let off = (ln - prior.run.ln()) / prior.run_spread;
            (ln.exp() * size, -off * off / 2.0)
        };
        let start = |root: f64| {
            let part = root * root / prior.start;
            // Equal steps of the root are steps of the deviation whose width is proportional to the root.
            (root * root * size, -part * part / 2.0 + root.ln())
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

    /// Returns the part of the range that contains the `kept` cells of a grid with `count` levels, and one more level on each side.
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

/// Returns the middles of `count` equal parts of a range.
fn middles((low, high): (f64, f64), count: usize) -> impl Iterator<Item = f64> {
    (0..count).map(move |at| low + (high - low) * (at as f64 + 0.5) / count as f64)
}
