//! Compares figures of the winner and its ties: on a start without neighbours, and next to other servers.

use super::super::asked::{Goal, Question};
use super::super::compare::{ComparisonInput, compare};
use super::super::document::{Alone, QuestionAnswer, Warning};
use super::super::experiment::{Experiment, Metric, Point};
use std::collections::BTreeSet;
use vsweep_strategy::stats::Verdict;

/// The figures of the finalists without neighbours, as ratios to those with neighbours, in the metrics that decide the question.
pub fn alone(experiment: &Experiment, question: &Question, answered: &QuestionAnswer) -> Vec<Alone> {
    let finalists: BTreeSet<&str> = answered.finalists().collect();
    let is_asked = |point: &&Point| finalists.contains(&*point.config) && point.workload == question.workload;
    let points: Vec<Point> = experiment.alone.iter().filter(is_asked).cloned().collect();
    if points.is_empty() {
        return Vec::new();
    }
    let pairs = points
        .iter()
        .map(|point| (point.id.clone(), point.id.clone()))
        .collect();
    let metrics = decisive(experiment, question);
    let is_decisive = |metric: &&Metric| metrics.contains(metric.name.as_str());
    let base = Experiment {
        metrics: experiment.metrics.iter().filter(is_decisive).cloned().collect(),
        ..experiment.clone()
    };
    let new = Experiment { points, ..base.clone() };
    let compared = compare(&ComparisonInput {
        base: &base,
        new: &new,
        pairs,
        margin: &|_| experiment.margin,
        limits: Vec::new(),
    });
    let config = |id: &str| {
        new.points
            .iter()
            .find(|point| point.id == id)
            .map(|point| point.config.clone())
    };
    let better = |name: &str| {
        base.metrics
            .iter()
            .find(|metric| metric.name == name)
            .map(|metric| metric.better)
    };
    let figures = compared.points.into_iter().filter_map(|point| {
        Some(Alone {
            config: config(&point.new)?,
            point: point.new,
            better: better(&point.metric)?,
            metric: point.metric,
            ratio: point.ratio,
            verdict: point.verdict,
        })
    });
    figures.collect()
}

/// The metrics of the goal and the targets. The metrics of a load goal are those that its target bounds.
fn decisive<'e>(experiment: &'e Experiment, question: &'e Question) -> BTreeSet<&'e str> {
    let of_targets = question.targets.iter().map(|target| &*target.metric);
    let of_goal: Vec<&str> = match &question.goal {
        Goal::Metric { name, .. } => vec![name],
        Goal::Load { target, .. } => {
            let searches = experiment.searches.iter().filter(|search| search.target == *target);
            searches
                .flat_map(|search| &search.bounded)
                .map(String::as_str)
                .collect()
        }
    };
    of_targets.chain(of_goal).collect()
}

/// The warning about a winner whose figures differ without neighbours.
pub fn warning(alone: &[Alone], winner: &str) -> Option<Warning> {
    let own = alone.iter().filter(|figure| figure.config == winner);
    let differing = own.filter(|figure| matches!(figure.verdict, Verdict::Improved | Verdict::Regressed));
    let figures: Vec<Alone> = differing.cloned().collect();
    (!figures.is_empty()).then_some(Warning::OtherwiseAlone { figures })
}
