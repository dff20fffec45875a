//! The only room that judges: which server is best at what, how sure that is, and why. It takes points with their runs, what the plan
//! asks, and the user's GPUs ([`Experiment`]), and returns one document ([`Answer`]). Everything that prints an answer reads that document.
//!
//! - [`model`]: one model of noise for every metric, whose draws give every probability and whose intervals accompany every figure.
//! - `plain`: estimates from a point's own runs, which decide which configs meet a target and which wins.
//! - `rules`: which configs compete, win, tie or are ruled out; effects, frontiers, warnings, advice.
//! - [`compare`]: two experiments against each other.
//!
//! An answer does not depend on the order of configs, points and runs, nor on the machine's clock: draws come from the seed.

mod asked;
mod compare;
mod document;
mod estimate;
mod experiment;
mod fit;
mod lookup;
pub mod model;
mod optimization;
mod plain;
mod planned;
mod prior;
mod rules;
mod run_figures;
mod warning;

pub use asked::*;
pub use compare::{ComparedLimit, ComparedPoint, Comparison, ComparisonInput, Limit, compare, verdict};
pub use document::*;
pub use experiment::*;
pub use fit::SURE;
pub use model::{Basis, NoiseEstimate};
pub use optimization::*;
pub use plain::plain;
pub use planned::*;
pub use rules::{Standing, standings};
pub use run_figures::{Figure, RunFigures};
pub use vsweep_strategy::search::Operator;
pub use vsweep_strategy::stats::{Better, Random, RequirementVerdict, Verdict};

use fit::{ExperimentFit, Figures, Fit};
use model::{Noise, Posterior};
use std::borrow::Cow;
use std::collections::BTreeMap;
use vsweep_base::threads;

/// Answers all questions of an experiment.
pub fn answer(experiment: Experiment) -> Answer {
    answer_with(experiment, &|observations, metric| {
        Posterior::fit(observations, &metric.prior)
    })
}

/// Answers all questions if the noise of some metrics is known, as in a simulation. The noise of a metric without an entry is estimated.
pub fn answer_knowing(experiment: Experiment, noise: &BTreeMap<String, Noise>) -> Answer {
    answer_with(experiment, &|observations, metric| match noise.get(&metric.name) {
        Some(noise) => Posterior::known(observations, *noise),
        None => Posterior::fit(observations, &metric.prior),
    })
}

fn answer_with(experiment: Experiment, fit: &Fit<'_>) -> Answer {
    let experiment = experiment.in_order();
    let fitted = ExperimentFit::of(&experiment, fit);
    let settled = settle_all(&fitted);
    let frontiers = threads::map(threads::cores(), &experiment.frontiers, |question| {
        rules::frontier(&fitted, question)
    });
    let together = rules::together(&fitted, &settled);
    let settled = settled.into_iter().map(|settled| (settled.answered, settled.entrants));
    let (questions, entrants): (Vec<QuestionAnswer>, Vec<rules::Entrants>) = settled.unzip();
    let mut answer = Answer {
        version: VERSION,
        margin: experiment.margin,
        gpus: experiment.gpus,
        price_per_gpu_hour: None,
        open: experiment.open,
        comparison: experiment.comparison.clone(),
        configs: experiment.configs.clone(),
        optimization: None,
        together,
        questions,
        frontiers: frontiers.into_iter().flatten().collect(),
        noise: fitted.metrics().iter().map(Figures::noise).collect(),
        estimates: estimates(&fitted),
        remarks: Vec::new(),
    };
    // Only questions whose winners are recommended get advice about more starts.
    let leading = lookup::leading(&answer.questions);
    for at in leading {
        answer.questions[at].advice = rules::advice(&fitted, &answer.questions[at], &entrants[at]);
    }
    answer
}

/// Answers the questions in parallel, and returns the answers in the order of the questions. Questions that refer to the winner of another
/// one are answered last, and left out if it has no winner.
fn settle_all(fitted: &ExperimentFit<'_>) -> Vec<rules::Settled> {
    let all = &fitted.experiment.questions;
    let (referring, others): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(|at| all[*at].load_of.is_some());
    let mut settled: BTreeMap<usize, rules::Settled> = BTreeMap::new();
    for places in [others, referring] {
        let asked = |at: usize| {
            Some((
                at,
                at_its_load(&all[at], settled.range(..at).map(|(_, earlier)| earlier))?,
            ))
        };
        let asked: Vec<(usize, Cow<'_, Question>)> = places.into_iter().filter_map(asked).collect();
        let answer = |(at, question): &(usize, Cow<'_, Question>)| (*at, rules::settle(fitted, question));
        settled.extend(threads::map(threads::cores(), &asked, answer));
    }
    settled.into_values().collect()
}

/// Replaces the reference to another question's winner by that winner's load; `None` without such a winner. A question that refers to
/// no other is returned unchanged.
fn at_its_load<'q, 's>(
    question: &'q Question,
    earlier: impl Iterator<Item = &'s rules::Settled>,
) -> Option<Cow<'q, Question>> {
    let Some(name) = &question.load_of else {
        return Some(Cow::Borrowed(question));
    };
    let mut earlier = earlier.map(|settled| &settled.answered);
    let earlier = earlier.find(|answered| answered.question == *name && answered.workload == question.workload)?;
    let load = earlier.winner.as_ref()?.load.clone();
    Some(Cow::Owned(Question {
        load: Some(load),
        ..question.clone()
    }))
}

fn estimates(fitted: &ExperimentFit<'_>) -> Vec<PointEstimates> {
    let point = |(at, point): (usize, &Point)| PointEstimates {
        point: point.id.clone(),
        config: point.config.clone(),
        workload: point.workload.clone(),
        load: point.load.clone(),
        runs: point.runs.len(),
        disturbed: point.runs.iter().filter(|run| run.disturbed).count(),
        starts: point.starts(),
        figures: fitted.metrics().iter().map(|figures| figures.estimates[at]).collect(),
    };
    fitted.experiment.points.iter().enumerate().map(point).collect()
}
