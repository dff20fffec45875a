//! The beliefs about all candidates, given the trials.

use super::feasibility::{Feasibility, feasibility};
use super::sites::Datum;
use super::space::{Candidate, Space, Trial};
use super::surface::{Belief, Data, FITTED, SHAPES, Surface, fit};

/// Standard deviation of effects of settings if nothing predicts them, as a logarithm.
const SIGNAL: f64 = 0.3;
/// Least standard deviation of effects that the twin does not predict, as a logarithm.
const LEAST_SIGNAL: f64 = 0.03;
/// The factor of predicted differences: mean and standard deviation.
const EXPECTED_FACTOR: (f64, f64) = (0.9, 0.4);
/// Size of the effects that a prediction misses, as a multiple of its usual error. If the bottleneck is another resource than
/// predicted, the twin may be far off.
const MISSED: f64 = 1.5;
/// Difference of logarithms from the best candidate above which differences are compressed, because the value of a bad candidate says
/// little about good ones.
const CLEARLY_WORSE: f64 = 1.0;
/// Standard error of a single probe, as a logarithm.
const PROBE_SD: f64 = 0.01;
/// Maximum number of multiplications for a fit and all beliefs. Fewer shapes are drawn if they would take more.
const MOST_WORK: f64 = 4e8;
/// Number of surfaces of a second opinion, as a multiple of those of the first.
const AGAIN: usize = 3;

/// The beliefs after some trials.
#[derive(Debug, Clone)]
pub(super) struct View {
    level: f64,
    expected: Vec<f64>,
    constant_slopes: Vec<Vec<f64>>,
    signal: f64,
    /// The highest observed value.
    top: f64,
    observed: Vec<(usize, Datum)>,
    pub surfaces: Vec<Surface>,
    /// The beliefs of each surface about each candidate.
    pub beliefs: Vec<Vec<Belief>>,
    pub feasibility: Vec<Feasibility>,
}

impl View {
    /// Returns the view after some trials.
    pub(super) fn of(space: &Space, candidates: &[Candidate], trials: &[(usize, Trial)]) -> View {
        let values = trials.iter().filter_map(|(_, trial)| trial.ln_value());
        let top = values.fold(f64::NEG_INFINITY, f64::max);
        let observed: Vec<(usize, Datum)> = trials
            .iter()
            .filter_map(|(at, trial)| match *trial {
                Trial::Measured { ln_value, sd } => Some((*at, Datum::Value(compressed(ln_value, top), sd * sd))),
                _ => Some((*at, Datum::Below(compressed(trial.upper()?, top), PROBE_SD * PROBE_SD))),
            })
            .collect();
        let predicted: Vec<_> = candidates.iter().filter_map(|candidate| candidate.predicted).collect();
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
            if count > 0.0 { Some(sum / count) } else { None }
        };
        let highest = predicted.iter().map(|of| of.ln_value).fold(f64::NEG_INFINITY, f64::max);
        let middle = mean(&mut predicted.iter().map(|of| compressed(of.ln_value, highest))).unwrap_or(0.0);
        let expected: Vec<f64> = candidates
            .iter()
            .map(|candidate| {
                candidate
                    .predicted
                    .map_or(0.0, |of| compressed(of.ln_value, highest) - middle)
            })
            .collect();
        let constant_slopes = candidates.iter().map(|candidate| {
            let below = candidate.predicted.map_or(0.0, |of| highest - of.ln_value);
            let slopes = candidate.slopes.iter();
            slopes.map(|slope| slope * steepness(below)).collect()
        });
        let constant_slopes: Vec<Vec<f64>> = constant_slopes.collect();
        let level = mean(&mut observed.iter().filter_map(|(at, observed)| match observed {
            Datum::Value(value, _) => Some(value - EXPECTED_FACTOR.0 * expected[*at]),
            _ => None,
        }));
        let signal = mean(&mut predicted.iter().map(|of| of.sd)).map_or(SIGNAL, |sd| (MISSED * sd).max(LEAST_SIGNAL));
        let mut view = View {
            level: level.unwrap_or(middle),
            expected,
            constant_slopes,
            signal,
            top,
            observed,
            surfaces: Vec::new(),
            beliefs: Vec::new(),
            feasibility: feasibility(space, candidates, trials),
        };
        let seen = view.observed.len() as f64;
        let fitted = seen.min(FITTED as f64);
        let work = seen.powi(2) / 2.0 * (candidates.len() as f64) + 40.0 * fitted.powi(3) + seen.powi(3);
        let most = (MOST_WORK / work.max(1.0)).clamp(2.0, 64.0) as usize;
        view.draw(space, most.min(SHAPES), "shapes");
        view
    }

    /// Returns the view with surfaces that are drawn anew, and more of them.
    pub(super) fn again(&self, space: &Space) -> View {
        let mut view = self.clone();
        view.draw(space, AGAIN * self.surfaces.len(), "again");
        view
    }

    fn draw(&mut self, space: &Space, count: usize, stream: &str) {
        let data = self.data(space);
        let surfaces = fit(&data, count, stream);
        let beliefs = surfaces.iter().map(|surface| {
            let all = (0..self.feasibility.len()).map(|at| surface.belief(&data, at));
            all.collect()
        });
        self.beliefs = beliefs.collect();
        self.surfaces = surfaces;
    }

    pub(super) fn data<'a>(&'a self, space: &'a Space) -> Data<'a> {
        Data {
            space,
            level: self.level,
            expected: &self.expected,
            constant_slopes: &self.constant_slopes,
            expected_factor: EXPECTED_FACTOR,
            signal: self.signal,
            observed: self.observed.clone(),
        }
    }

    /// Returns the beliefs of each surface about the candidates `of`, as if those under way had been measured with their expected values.
    pub(super) fn after(&self, space: &Space, under_way: &[usize], of: &[usize]) -> Vec<Vec<Belief>> {
        let beliefs = |(surface, now): (&Surface, &Vec<Belief>)| -> Vec<Belief> {
            let mut data = self.data(space);
            data.observed.extend(
                under_way
                    .iter()
                    .map(|at| (*at, Datum::Value(now[*at].mean, PROBE_SD * PROBE_SD))),
            );
            match surface.with(&data) {
                Some(surface) => of.iter().map(|at| surface.belief(&data, *at)).collect(),
                None => of.iter().map(|at| now[*at]).collect(),
            }
        };
        self.surfaces.iter().zip(&self.beliefs).map(beliefs).collect()
    }

    /// Returns the logarithm of a value before compression: the inverse of [`compressed`].
    pub(super) fn uncompressed(&self, ln_value: f64) -> f64 {
        let below = self.top - ln_value;
        match below > CLEARLY_WORSE {
            true => self.top - CLEARLY_WORSE * (below / CLEARLY_WORSE - 1.0).exp(),
            false => ln_value,
        }
    }

    /// Returns the logarithm of a value as the surfaces know it: compressed if it is clearly worse than the highest observed one.
    pub(super) fn compressed(&self, ln_value: f64) -> f64 {
        compressed(ln_value, self.top)
    }

    /// Returns the mean and standard deviation of a candidate's value over all surfaces.
    pub(super) fn overall(&self, at: usize) -> (f64, f64) {
        let count = self.beliefs.len().max(1) as f64;
        let beliefs = || self.beliefs.iter().map(|beliefs| beliefs[at]);
        let mean = beliefs().map(|of| of.mean).sum::<f64>() / count;
        let variance = beliefs().map(|of| of.variance + (of.mean - mean).powi(2)).sum::<f64>() / count;
        (mean, variance.sqrt())
    }
}

/// Returns the derivative of a compressed difference with respect to the difference itself.
fn steepness(below: f64) -> f64 {
    CLEARLY_WORSE / below.max(CLEARLY_WORSE)
}

/// Returns the logarithm of a value. If the value is clearly worse than the top, its difference is compressed.
fn compressed(ln_value: f64, top: f64) -> f64 {
    let below = top - ln_value;
    match below > CLEARLY_WORSE {
        true => top - CLEARLY_WORSE * (1.0 + (below / CLEARLY_WORSE).ln()),
        false => ln_value,
    }
}
