//! The effects at the winner: each of its settings changed alone, everything else equal.

use super::super::asked::{Goal, Question};
use super::super::compare::verdict;
use super::super::document::{Effect, Estimate};
use super::super::experiment::Config;
use super::super::known::{Figures, Known, estimate_by};
use super::entrants::replicas;

/// The effects of the winner's settings on the metrics that a question asks for, at its point. A figure that adds up is that of all
/// servers which fit on the user's GPUs, as in the question itself.
pub fn effects(known: &Known<'_>, winner: usize, point: usize, question: &Question) -> Vec<Effect> {
    let experiment = known.experiment;
    let at = &experiment.points[point];
    let own = f64::from(replicas(experiment, &experiment.configs[winner]));
    let mut found = Vec::new();
    for metric in &question.effects {
        let adds_up = matches!(&question.goal, Goal::Metric { name, adds_up: true } if name == metric);
        let Some(figures) = known.figures(metric) else {
            continue;
        };
        for other in &experiment.configs {
            let Some(setting) = only_difference(&experiment.configs[winner], other) else {
                continue;
            };
            let same = |place: &usize| {
                let point = &experiment.points[*place];
                point.config == other.id && point.workload == at.workload && point.load == at.load
            };
            let Some(beside) = (0..experiment.points.len()).find(same) else {
                continue;
            };
            let times = match replicas(experiment, other) {
                0 => continue,
                others if adds_up => own / f64::from(others),
                _ => 1.0,
            };
            let Some(ratio) = ratio(figures, point, beside, times) else {
                continue;
            };
            found.push(Effect {
                metric: metric.clone(),
                better: figures.better(),
                setting: setting.to_owned(),
                own: experiment.configs[winner].settings.get(setting).cloned(),
                other: other.settings.get(setting).cloned(),
                config: other.id.clone(),
                ratio,
                verdict: verdict(ratio, experiment.margin, figures.better()),
            });
        }
    }
    found
}

/// The setting in which two configs differ, if it is the only one.
fn only_difference<'c>(one: &'c Config, other: &'c Config) -> Option<&'c str> {
    let names = one.settings.keys().chain(other.settings.keys());
    let mut different = names.filter(|name| one.settings.get(*name) != other.settings.get(*name));
    let first = different.next()?;
    different.all(|name| name == first).then_some(first)
}

/// A point's figure, so many times, as a multiple of another's.
fn ratio(figures: &Figures<'_>, one: usize, other: usize, times: f64) -> Option<Estimate> {
    let value = times * figures.estimates[one]?.value / figures.estimates[other]?.value;
    let (own, beside) = (figures.draws(one), figures.draws(other));
    estimate_by(value, own.iter().zip(&beside).map(|(a, b)| times * a / b))
}
