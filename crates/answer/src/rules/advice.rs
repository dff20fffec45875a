//! Advice that makes an answer surer: more starts of the winner and its ties, and the probability to expect after them.
//!
//! Each draw is a possible truth. For some of these truths, new starts are simulated: each config's figure is measured again with the noise
//! of the new starts, and its draws are moved and narrowed as if they were normal. The probability to expect is the mean, over these
//! truths, of the highest probability of any config (a preposterior analysis: Raiffa and Schlaifer 1961). The simulated starts do not
//! change which targets are met.

use super::super::Random;
use super::super::asked::Goal;
use super::super::document::{Advice, QuestionAnswer};
use super::super::experiment::{Experiment, Scale};
use super::super::fit::{ExperimentFit, SURE, moments, rounded};
use super::super::model::relative_to_angle;
use super::contest::Margin;
use super::entrants::{EntrantFacts, Entrants};
use super::searches::log_moments;

/// Numbers of further starts of each config that are considered.
const STARTS: [u32; 4] = [1, 2, 4, 8];
/// Smallest expected gain of probability for which more starts are advised.
const LEAST_GAIN: f64 = 0.02;
/// Number of draws that are taken for the truth, one after another.
const TRUTHS: usize = 150;
/// Number of draws that are moved for each truth.
const MOVED: usize = 500;

/// Finds the starts that would raise the certainty of an answer; `None` if it is sure, or more starts would not help.
pub fn advice(fitted: &ExperimentFit<'_>, answered: &QuestionAnswer, entrants: &Entrants) -> Option<Advice> {
    let experiment = fitted.experiment;
    let margin = Margin {
        part: experiment.margin,
        better: answered.better,
    };
    let winner = answered.winner.as_ref().filter(|winner| winner.probability < SURE)?;
    let is_asked = |id: &str| id == winner.config || answered.ties.iter().any(|tie| tie == id);
    // An undecided search needs more probes, not another start.
    let asked = |place: &&EntrantFacts| !place.is_undecided() && is_asked(&experiment.configs[place.config].id);
    let (placed, others): (Vec<&EntrantFacts>, Vec<&EntrantFacts>) = entrants.placed.iter().partition(asked);
    // A search that meets its target at the highest load allowed needs a higher bound, not another start.
    if placed.len() < 2 || placed.iter().any(|placed| placed.at_ceiling) {
        return None;
    }
    let noise = |placed: &&EntrantFacts| noise_of_a_start(fitted, answered, placed);
    let noises: Vec<f64> = placed.iter().map(noise).collect();
    let mut best: Option<(u32, f64)> = None;
    for starts in STARTS {
        let noises: Vec<f64> = noises.iter().map(|noise| noise / f64::from(starts).sqrt()).collect();
        let expected = expected((&placed, &others), margin, &noises, experiment.seed);
        if best.is_none_or(|(_, most)| expected > most) {
            best = Some((starts, expected));
        }
        if expected >= SURE {
            break;
        }
    }
    let (starts, expected) = best?;
    if expected < winner.probability + LEAST_GAIN {
        return None;
    }
    let seconds: Option<f64> = placed.iter().map(|placed| seconds_of_a_start(experiment, placed)).sum();
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

/// Returns the duration of a further start of an entrant, in seconds. Only the point by which it competes is measured; a search is repeated
/// as a whole.
fn seconds_of_a_start(experiment: &Experiment, placed: &EntrantFacts) -> Option<f64> {
    let config = &experiment.configs[placed.config];
    match placed.point {
        Some(point) => Some(config.seconds_around_runs? + experiment.points[point].seconds),
        None => config.seconds_per_start,
    }
}

/// Returns the standard deviation of one further start of an entrant, relative to its figure. A further search is assumed to locate the
/// limit as exactly as the searches so far.
fn noise_of_a_start(fitted: &ExperimentFit<'_>, answered: &QuestionAnswer, placed: &EntrantFacts) -> f64 {
    /// Typical noise of a start, for unknown figures; a search is not more exact.
    const TYPICAL: f64 = 0.02;
    let name = match &answered.goal {
        Goal::Metric { name, .. } => name,
        Goal::Load { target, .. } => {
            let experiment = fitted.experiment;
            let config = &experiment.configs[placed.config].id;
            let mut searches = experiment.searches.iter();
            let own = searches
                .find(|own| own.config == *config && own.target == *target && own.workload == answered.workload);
            let starts = own.map_or(1, |own| own.starts.len().max(1));
            return (log_moments(&placed.value_draws).1 * (starts as f64).sqrt()).max(TYPICAL);
        }
    };
    let (Some(figures), Some(point)) = (fitted.figures(name), placed.point) else {
        return TYPICAL;
    };
    let noise = figures.posterior.noise_of_a_start(&fitted.experiment.points[point]);
    // The noise is that of one server, whereas the entrant's own value is that of all its replicas.
    let value = figures.estimates[point].map_or(0.0, |estimate| estimate.value.abs());
    match figures.metric.scale {
        Scale::Log => noise,
        Scale::Linear | Scale::Count => noise / value.max(f64::MIN_POSITIVE),
        Scale::Share => noise * relative_to_angle(value),
    }
    .max(1e-4)
}

/// Returns the expected highest probability of a config to be within the margin of the best, after a further measurement of `placed` with
/// these relative noises. The entrants in `others` keep their draws.
fn expected((placed, others): (&[&EntrantFacts], &[&EntrantFacts]), margin: Margin, noises: &[f64], seed: u64) -> f64 {
    let mut random = Random::of(seed, &["advice"]);
    let count = placed[0].value_draws.len();
    let rows: Vec<usize> = (0..MOVED.min(count)).map(|_| random.below(count)).collect();
    let best_other = |row: &usize| {
        let values = others.iter().map(|other| other.contender.draws[*row]);
        margin.better.best(values.filter(|value| !value.is_nan()))
    };
    let best_others: Vec<Option<f64>> = rows.iter().map(best_other).collect();
    // A draw of a contender is NaN where it misses a target.
    let now = placed.iter().map(|placed| {
        let met = placed.contender.draws.iter().copied().filter(|draw| !draw.is_nan());
        moments(&met.collect::<Vec<f64>>())
    });
    let now: Vec<(f64, f64)> = now.collect();
    let mut sum = 0.0;
    for truth in rows.iter().take(TRUTHS) {
        let see = |(placed, noise): (&&EntrantFacts, &f64)| {
            let own = placed.contender.draws[*truth];
            let own = if own.is_nan() { placed.value_draws[*truth] } else { own };
            own * (1.0 + noise * random.normal())
        };
        let seen: Vec<f64> = placed.iter().zip(noises).map(see).collect();
        let mut within = vec![0usize; placed.len()];
        for (row, best_other) in rows.iter().zip(&best_others) {
            let moved = placed.iter().enumerate().map(|(at, placed)| {
                let (mean, deviation) = now[at];
                let (old, new) = (deviation * deviation, (seen[at] * noises[at]).powi(2));
                let value = placed.contender.draws[*row];
                if old + new <= 0.0 {
                    return value;
                }
                (old * seen[at] + new * mean) / (old + new) + (new / (old + new)).sqrt() * (value - mean)
            });
            let held = within_margin(&moved.collect::<Vec<f64>>(), *best_other, placed, margin);
            within
                .iter_mut()
                .zip(held)
                .for_each(|(count, held)| *count += usize::from(held));
        }
        sum += within.into_iter().max().unwrap_or(0) as f64 / rows.len() as f64;
    }
    sum / rows.len().clamp(1, TRUTHS) as f64
}

/// Marks the values of one draw that are within the margin of the best, which may be another entrant's.
fn within_margin(row: &[f64], best_other: Option<f64>, placed: &[&EntrantFacts], margin: Margin) -> Vec<bool> {
    let values = row.iter().copied().chain(best_other).filter(|value| !value.is_nan());
    // If all values are NaN, none is within the margin, whatever the best is.
    let best = margin.better.best(values).unwrap_or(f64::NAN);
    let pairs = row.iter().zip(placed);
    pairs
        .map(|(value, placed)| !value.is_nan() && margin.holds(*value, best, placed.contender.unit))
        .collect()
}
