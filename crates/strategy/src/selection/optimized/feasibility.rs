//! The probability that a candidate works: that it fits into memory, does not fail, and meets the targets.

use super::shape::Shape;
use super::sites::Datum;
use super::space::{Candidate, Space, Trial};
use super::surface::{Data, of_shape};
use statrs::distribution::{ContinuousCDF, Normal};

/// The probabilities that one candidate works.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Feasibility {
    /// Probability that it fits into memory.
    pub fits: f64,
    /// Probability that it works if it fits.
    pub meets: f64,
}

/// Prior mean of an unknown need, relative to the limit, in standard deviations of the need. With this mean, four of five candidates work.
const PRIOR_NEED: f64 = -0.9;
/// Standard deviation of the logarithm of a predicted need of memory.
const NEED_SD: f64 = 0.08;
/// Standard deviation of the factor by which predicted differences between candidates are multiplied.
const STRETCH: f64 = 0.25;
/// Largest distance of a prediction from the limit, in standard deviations. Farther predictions count as this.
const FAR: f64 = 12.0;
/// Variance of an observation, in squared standard deviations of the need.
const CLEAR: f64 = 0.01;
/// Like [`CLEAR`], for a failure without a known reason, which says less.
const VAGUE: f64 = 1.0;

/// Returns the probabilities of all candidates.
pub(super) fn feasibility(space: &Space, candidates: &[Candidate], trials: &[(usize, Trial)]) -> Vec<Feasibility> {
    let fits = trials.iter().filter_map(|(at, trial)| match trial {
        Trial::Measured { .. } | Trial::Beaten { .. } | Trial::Undecided { .. } | Trial::Unmet => {
            Some((*at, Datum::Below(0.0, CLEAR)))
        }
        Trial::DidNotFit => Some((*at, Datum::Above(0.0, CLEAR))),
        Trial::Failed => None,
    });
    let meets = trials.iter().filter_map(|(at, trial)| match trial {
        Trial::Measured { .. } | Trial::Beaten { .. } => Some((*at, Datum::Below(0.0, CLEAR))),
        Trial::Unmet => Some((*at, Datum::Above(0.0, CLEAR))),
        Trial::Failed => Some((*at, Datum::Above(0.0, VAGUE))),
        Trial::Undecided { .. } | Trial::DidNotFit => None,
    });
    let fits = below(space, needs(candidates), distinct(fits));
    let meets = below(space, vec![PRIOR_NEED; candidates.len()], distinct(meets));
    let pairs = fits.into_iter().zip(meets);
    let mut works: Vec<Feasibility> = pairs.map(|(fits, meets)| Feasibility { fits, meets }).collect();
    // Candidates whose starts gave no value are not tried again, so they cannot be the best.
    for (at, trial) in trials {
        match trial {
            Trial::DidNotFit => works[*at].fits = 0.0,
            Trial::Failed | Trial::Unmet => works[*at].meets = 0.0,
            Trial::Measured { .. } | Trial::Beaten { .. } | Trial::Undecided { .. } => {}
        }
    }
    works
}

/// Keeps the first of equal observations of a candidate: another start of it says nothing new.
fn distinct(observed: impl Iterator<Item = (usize, Datum)>) -> Vec<(usize, Datum)> {
    let mut kept: Vec<(usize, Datum)> = Vec::new();
    for own in observed {
        if !kept.contains(&own) {
            kept.push(own);
        }
    }
    kept
}

/// Returns the predicted need of memory of each candidate, relative to the limit and in standard deviations.
fn needs(candidates: &[Candidate]) -> Vec<f64> {
    let need = |candidate: &Candidate| candidate.memory.map(|share| (share.ln() / NEED_SD).clamp(-FAR, FAR));
    candidates
        .iter()
        .map(|candidate| need(candidate).unwrap_or(PRIOR_NEED))
        .collect()
}

/// Returns the probability of each candidate that its need lies below the limit.
fn below(space: &Space, needs: Vec<f64>, observed: Vec<(usize, Datum)>) -> Vec<f64> {
    let normal = Normal::standard();
    let is_one_sided = observed
        .iter()
        .all(|(_, observed)| matches!(observed, Datum::Below(..)));
    let is_predicted = needs.windows(2).any(|pair| pair[0] != pair[1]);
    if is_one_sided && !is_predicted {
        return vec![1.0; needs.len()];
    }
    let level = needs.iter().sum::<f64>() / needs.len().max(1) as f64;
    let expected: Vec<f64> = needs.iter().map(|need| need - level).collect();
    let data = Data {
        space,
        level,
        expected: &expected,
        constant_slopes: &[],
        expected_factor: (1.0, STRETCH),
        signal: 1.0,
        observed,
    };
    let surface = of_shape(&data, Shape::steady(space, data.signal));
    let probability = |at: usize| match &surface {
        None => normal.cdf(-needs[at]),
        Some(surface) => {
            let belief = surface.belief(&data, at);
            normal.cdf(-belief.mean / (belief.variance + CLEAR).sqrt())
        }
    };
    (0..needs.len()).map(probability).collect()
}
