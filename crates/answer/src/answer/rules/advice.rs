//! What would make an answer surer: more starts of the winner and its ties, and what to expect of them.
//!
//! The draws are truths that the runs allow. For some of them new starts are imagined: each config's figure is measured again with the
//! noise of so many starts, and its draws are moved and narrowed as normal ones would be. The probability to expect is then that of the
//! config which is best (a preposterior analysis: Raiffa and Schlaifer 1961). Whether targets are met is taken as it is known now.

use super::super::document::{Advice, Answered};
use super::super::experiment::{Better, Experiment};
use super::super::known::{moments, rounded};
use super::super::random::Random;
use super::contest::{Contender, Margin, SURE};
use super::entrants::Field;

/// Numbers of starts that are considered.
const STARTS: [u32; 4] = [1, 2, 4, 8];
/// Truths that are imagined, and draws that are moved for each.
const TRUTHS: usize = 60;
const MOVED: usize = 500;

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
        expected: rounded(expected),
    })
}

/// The mean probability, after a further measurement with a relative noise, of the config that is then best.
fn expected(contenders: &[&Contender], margin: Margin, noise: f64, seed: u64) -> f64 {
    let mut random = Random::of(seed, &["advice"]);
    let draws = contenders[0].draws.len();
    let row = |draw: usize| contenders.iter().map(|own| own.draws[draw]).collect::<Vec<f64>>();
    let rows: Vec<Vec<f64>> = (0..MOVED.min(draws)).map(|_| row(random.below(draws))).collect();
    let now: Vec<(f64, f64)> = (0..contenders.len())
        .map(|own| known(rows.iter().map(|row| row[own])))
        .collect();
    let mut sum = 0.0;
    for truth in rows.iter().take(TRUTHS) {
        let mut within = vec![0usize; contenders.len()];
        let seen: Vec<f64> = truth
            .iter()
            .map(|value| value * (1.0 + noise * random.normal()))
            .collect();
        for row in &rows {
            let moved = row
                .iter()
                .zip(&seen)
                .zip(&now)
                .map(|((value, seen), (mean, deviation))| {
                    let (old, new) = (deviation * deviation, (seen * noise).powi(2));
                    // A config that misses the targets in this truth tells nothing of its figure.
                    match seen.is_nan() || old + new <= 0.0 {
                        true => *value,
                        false => (old * seen + new * mean) / (old + new) + (new / (old + new)).sqrt() * (value - mean),
                    }
                });
            let held = held(&moved.collect::<Vec<f64>>(), contenders, margin);
            within
                .iter_mut()
                .zip(held)
                .for_each(|(count, held)| *count += usize::from(held));
        }
        let best = within.into_iter().max().unwrap_or(0);
        sum += best as f64 / rows.len() as f64;
    }
    sum / rows.len().clamp(1, TRUTHS) as f64
}

/// Mean and standard deviation of the draws in which a config competes.
fn known(values: impl Iterator<Item = f64>) -> (f64, f64) {
    moments(&values.filter(|value| !value.is_nan()).collect::<Vec<f64>>())
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
