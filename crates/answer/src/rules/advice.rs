//! Advice that makes an answer surer: more starts of the winner and its ties, and what to expect of them.
//!
//! The draws are truths that the runs allow. For some of them new starts are imagined: each config's figure is measured again with the
//! noise of so many starts, and its draws are moved and narrowed as normal ones would be. The probability to expect is then that of the
//! config which is best (a preposterior analysis: Raiffa and Schlaifer 1961). Whether targets are met is taken as it is known now.

use super::super::Random;
use super::super::asked::Goal;
use super::super::document::{Advice, Answered};
use super::super::experiment::Scale;
use super::super::known::{Known, moments, rounded};
use super::contest::{Margin, SURE};
use super::entrants::{Field, Placed};

/// Numbers of starts that are considered.
const STARTS: [u32; 4] = [1, 2, 4, 8];
/// More starts are advised only if they are expected to raise the probability by so much.
const LEAST_GAIN: f64 = 0.02;
/// Truths that are imagined, and draws that are moved for each.
const TRUTHS: usize = 150;
const MOVED: usize = 500;

/// Finds the starts that would raise the certainty of an answer; none where it is sure, or nothing can be drawn.
pub fn advice(known: &Known<'_>, answered: &Answered, field: &Field) -> Option<Advice> {
    let experiment = known.experiment;
    let margin = Margin {
        part: experiment.margin,
        better: answered.better,
    };
    let winner = answered.winner.as_ref().filter(|winner| winner.probability < SURE)?;
    let is_asked = |id: &str| id == winner.config || answered.ties.iter().any(|tie| tie == id);
    let asked = |place: &&Placed| is_asked(&experiment.configs[place.config].id);
    let placed: Vec<&Placed> = field.placed.iter().filter(asked).collect();
    // A search that holds the highest load allowed needs a higher one, no further start.
    if placed.len() < 2 || placed.iter().any(|placed| placed.at_ceiling) {
        return None;
    }
    let noise = |placed: &&Placed| noise_of_a_start(known, &answered.goal, placed);
    let noises: Vec<f64> = placed.iter().map(noise).collect();
    let mut best = None;
    for starts in STARTS {
        let noises: Vec<f64> = noises.iter().map(|noise| noise / f64::from(starts).sqrt()).collect();
        let expected = expected(&placed, margin, &noises, experiment.seed);
        best = Some((starts, expected));
        if expected >= SURE {
            break;
        }
    }
    let (starts, expected) = best?;
    if expected < winner.probability + LEAST_GAIN {
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

/// The distance by which one further start of an entrant may be off, relative to its figure.
fn noise_of_a_start(known: &Known<'_>, goal: &Goal, placed: &Placed) -> f64 {
    /// Typical noise where a search decides.
    const TYPICAL: f64 = 0.02;
    let Goal::Metric { name, .. } = goal else {
        return TYPICAL;
    };
    let (Some(figures), Some(point)) = (known.figures(name), placed.point) else {
        return TYPICAL;
    };
    let noise = figures.posterior.noise_of_a_start(&known.experiment.points[point]);
    match figures.metric.scale {
        Scale::Log => noise,
        // On other scales relative to the figure.
        Scale::Linear | Scale::Count | Scale::Share => noise / placed.value.value.abs().max(f64::MIN_POSITIVE),
    }
    .max(1e-4)
}

/// The mean probability, after a further measurement with these relative noises, of the config that is then best.
fn expected(placed: &[&Placed], margin: Margin, noises: &[f64], seed: u64) -> f64 {
    let mut random = Random::of(seed, &["advice"]);
    let count = placed[0].at_point.len();
    let rows: Vec<usize> = (0..MOVED.min(count)).map(|_| random.below(count)).collect();
    let now: Vec<(f64, f64)> = placed.iter().map(|own| moments(&own.at_point)).collect();
    let mut sum = 0.0;
    for truth in rows.iter().take(TRUTHS) {
        let see = |(own, noise): (&&Placed, &f64)| own.at_point[*truth] * (1.0 + noise * random.normal());
        let seen: Vec<f64> = placed.iter().zip(noises).map(see).collect();
        let mut within = vec![0usize; placed.len()];
        for row in &rows {
            let moved = placed.iter().enumerate().map(|(at, own)| {
                let (mean, deviation) = now[at];
                let (old, new) = (deviation * deviation, (seen[at] * noises[at]).powi(2));
                let value = own.at_point[*row];
                if old + new <= 0.0 {
                    return own.contender.draws[*row];
                }
                let moved = (old * seen[at] + new * mean) / (old + new) + (new / (old + new)).sqrt() * (value - mean);
                // At another load, which is the only one that meets the targets, the figure changes by the ratio of the loads.
                moved * (own.contender.draws[*row] / value)
            });
            let held = held(&moved.collect::<Vec<f64>>(), placed, margin);
            within
                .iter_mut()
                .zip(held)
                .for_each(|(count, held)| *count += usize::from(held));
        }
        sum += within.into_iter().max().unwrap_or(0) as f64 / rows.len() as f64;
    }
    sum / rows.len().clamp(1, TRUTHS) as f64
}

/// Marks the values of one draw that are within the margin of the best.
fn held(row: &[f64], placed: &[&Placed], margin: Margin) -> Vec<bool> {
    let values = row.iter().copied().filter(|value| !value.is_nan());
    // Without a value there is none that could be within the margin.
    let best = margin.better.best(values).unwrap_or(f64::NAN);
    let pairs = row.iter().zip(placed);
    pairs
        .map(|(value, own)| !value.is_nan() && margin.holds(*value, best, own.contender.unit))
        .collect()
}
