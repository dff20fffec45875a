//! What would make an answer surer: more starts of the winner and its ties, and what to expect of them.
//!
//! The draws are truths that the runs allow. For some of them new starts are imagined: each config's figure is measured again with the
//! noise of so many starts. The probability to expect is that of the draws, weighed by how well they explain such a measurement, at the
//! config that is then best (a preposterior analysis, Raiffa and Schlaifer 1961).

use super::super::document::{Advice, Answered};
use super::super::experiment::{Better, Experiment};
use super::super::random::Random;
use super::contest::{Contender, Margin, SURE};
use super::entrants::Field;

/// Numbers of starts that are considered.
const STARTS: [u32; 4] = [1, 2, 4, 8];
/// Truths that are imagined, and draws that are weighed for each.
const TRUTHS: usize = 60;
const WEIGHED: usize = 500;

/// What would raise the certainty of an answer; none where it is sure, or nothing can be drawn. `noise` is that of one start on the
/// logarithmic scale.
pub fn advice(
    experiment: &Experiment,
    answered: &Answered,
    field: &Field,
    margin: Margin,
    noise: f64,
) -> Option<Advice> {
    let winner = answered.winner.as_ref().filter(|winner| winner.probability < SURE)?;
    let is_asked = |id: &str| id == winner.config || answered.ties.iter().any(|tie| tie == id);
    let asked = |place: &&super::entrants::Placed| is_asked(&experiment.configs[place.config].id);
    let placed: Vec<_> = field.placed.iter().filter(asked).collect();
    if placed.len() < 2 {
        return None;
    }
    let contenders: Vec<&Contender> = placed.iter().map(|placed| &placed.contender).collect();
    let mut best = None;
    for starts in STARTS {
        let expected = expected(&contenders, margin, noise / f64::from(starts).sqrt(), experiment.seed);
        best = Some((starts, expected));
        if expected >= SURE {
            break;
        }
    }
    let (starts, expected) = best?;
    if expected <= winner.probability {
        return None;
    }
    let seconds = placed
        .iter()
        .map(|placed| experiment.configs[placed.config].seconds_per_start);
    let seconds: Option<f64> = seconds.sum();
    Some(Advice {
        configs: placed
            .iter()
            .map(|placed| experiment.configs[placed.config].id.clone())
            .collect(),
        starts,
        seconds: seconds.map(|seconds| seconds * f64::from(starts)),
        expected: super::super::known::rounded(expected),
    })
}

/// The mean probability, after a further measurement with a noise, of the config that is then best.
fn expected(contenders: &[&Contender], margin: Margin, noise: f64, seed: u64) -> f64 {
    let mut random = Random::of(seed, &["advice"]);
    let draws = contenders[0].draws.len();
    let rows: Vec<Vec<f64>> = (0..WEIGHED.min(draws))
        .map(|_| random.below(draws))
        .map(|draw| contenders.iter().map(|own| own.draws[draw]).collect())
        .collect();
    let within: Vec<Vec<bool>> = rows.iter().map(|row| held(row, contenders, margin)).collect();
    let size = |value: f64| value.abs().max(f64::MIN_POSITIVE);
    let mut sum = 0.0;
    for truth in rows.iter().take(TRUTHS) {
        let seen: Vec<f64> = truth
            .iter()
            .map(|value| value + size(*value) * noise * random.normal())
            .collect();
        let weight = |row: &Vec<f64>| -> f64 {
            let off = row
                .iter()
                .zip(&seen)
                .filter(|(value, seen)| !value.is_nan() && !seen.is_nan());
            let off = off.map(|(value, seen)| ((seen - value) / (size(*seen) * noise)).powi(2));
            (-off.sum::<f64>() / 2.0).exp()
        };
        let weights: Vec<f64> = rows.iter().map(weight).collect();
        let total: f64 = weights.iter().sum();
        let chance = |own: usize| {
            let good = weights.iter().zip(&within).filter(|(_, within)| within[own]);
            good.map(|(weight, _)| weight).sum::<f64>() / total
        };
        sum += (0..contenders.len()).map(chance).fold(0.0, f64::max);
    }
    sum / rows.len().clamp(1, TRUTHS) as f64
}

/// Which of one draw's values are within the margin of the best.
fn held(row: &[f64], contenders: &[&Contender], margin: Margin) -> Vec<bool> {
    let values = row.iter().copied().filter(|value| !value.is_nan());
    let best = values.reduce(|one, other| if margin.better.prefers(other, one) { other } else { one });
    let best = best.unwrap_or(match margin.better {
        Better::Higher => f64::INFINITY,
        Better::Lower => f64::NEG_INFINITY,
    });
    let pairs = row.iter().zip(contenders);
    pairs
        .map(|(value, own)| !value.is_nan() && margin.holds(*value, best, own.unit))
        .collect()
}
