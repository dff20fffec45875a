//! The effects of settings: the winner compared with each config that differs from it in one setting only.

use super::super::asked::{Goal, Question};
use super::super::compare::verdict;
use super::super::document::{Effect, Estimate};
use super::super::experiment::Config;
use super::super::fit::{ExperimentFit, Figures, draws_of, estimate_by};
use super::super::model::Draws;
use super::entrants::replicas;
use std::collections::HashMap;

/// The effects of the winner's settings on the metrics that a question asks for, at the winner's point. If the metric by which the question
/// compares adds up over replicas, its figures are those of all servers that fit on the user's GPUs, as in the question itself. Other
/// metrics are those of one server.
pub fn effects(fitted: &ExperimentFit<'_>, winner: usize, point: usize, question: &Question) -> Vec<Effect> {
    let experiment = fitted.experiment;
    let own_replicas = f64::from(replicas(experiment, &experiment.configs[winner]));
    let winner_point = &experiment.points[point];
    let alike = experiment.points.iter().enumerate();
    let alike = alike.filter(|(_, other)| other.workload == winner_point.workload && other.load == winner_point.load);
    let mut at_load: HashMap<&str, usize> = HashMap::new();
    alike.for_each(|(place, other)| {
        at_load.entry(&*other.config).or_insert(place);
    });
    let neighbour = |other| {
        let setting = only_difference(&experiment.configs[winner], other)?;
        Some((other, setting, *at_load.get(&*other.id)?, replicas(experiment, other)))
    };
    let others: Vec<(&Config, &str, usize, u32)> = experiment.configs.iter().filter_map(neighbour).collect();
    let drawn: Vec<usize> = others.iter().map(|(_, _, place, _)| *place).chain([point]).collect();
    let mut found = Vec::new();
    for metric in &question.effects {
        let adds_up = matches!(&question.goal, Goal::Metric { name, adds_up: true } if name == metric);
        let Some(figures) = fitted.figures(metric) else {
            continue;
        };
        let drawn = figures.drawn(&drawn, draws_of(experiment));
        for (other, setting, place, replicas) in &others {
            let times = match replicas {
                0 => continue,
                theirs if adds_up => own_replicas / f64::from(*theirs),
                _ => 1.0,
            };
            let Some(ratio) = ratio(figures, &drawn, point, *place, times) else {
                continue;
            };
            found.push(Effect {
                metric: metric.clone(),
                better: figures.metric.better,
                setting: (*setting).to_owned(),
                own: experiment.configs[winner].settings.get(*setting).cloned(),
                other: other.settings.get(*setting).cloned(),
                config: other.id.clone(),
                ratio,
                verdict: verdict(ratio, experiment.margin, figures.metric.better),
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

/// The ratio of one point's figure, multiplied by `times`, to the figure of another point; `None` unless that is above 0.
fn ratio(figures: &Figures<'_>, drawn: &Draws, one: usize, other: usize, times: f64) -> Option<Estimate> {
    let to = figures.estimates[other]?.value;
    if to <= 0.0 {
        return None;
    }
    let value = times * figures.estimates[one]?.value / to;
    let (own, others) = (figures.values_of(drawn, one), figures.values_of(drawn, other));
    estimate_by(value, own.iter().zip(&others).map(|(a, b)| times * a / b))
}
