//! The questions of an experiment. A plan with searches asks for the highest load that meets each target. A comparison asks no questions,
//! because its verdicts are the result. Any other plan asks for throughput, also per GPU, for cost and energy, and for latency at the
//! load of the highest throughput.

use super::Evidence;
use super::metrics::{COST, ENERGY};
use crate::journal::Objective;
use crate::table::{Measure, MetricSet, PER_GPU, Workload};
use itertools::Itertools;
use std::iter;
use vsweep_answer::{FrontierQuestion, Goal, Question, Search, Target};
use vsweep_strategy::search::Vary;

/// Returns the questions, in the order of the answer.
pub(super) fn questions(
    evidence: &Evidence<'_>,
    workloads: &[Workload<'_>],
    searches: &[Search],
    targets: &[Target],
) -> Vec<Question> {
    if evidence.state.compared().is_some() {
        return Vec::new();
    }
    if evidence
        .state
        .searches()
        .any(|record| !record.started.targets.is_empty())
    {
        let found = searches.iter().map(|search| (&*search.target, &*search.workload));
        // A target for which every search ended without an answer keeps its question, without entrants.
        let begun = evidence.state.searches().flat_map(|record| {
            let targets = record.started.targets.iter();
            targets.map(|target| (&*target.name, record.started.workload()))
        });
        let is_later = |target: &str| matches!(evidence.objective, Some(Objective::Load(own)) if own != target);
        return found
            .chain(begun)
            .unique()
            .sorted_by_key(|(target, _)| is_later(target))
            .map(|(target, workload)| of_load(evidence, target, workload))
            .collect();
    }
    let is_unknown = |workload: &Workload<'_>| {
        let mut points = workload.points.iter().map(|at| &evidence.points.points[*at]);
        points.all(|point| point.used.is_empty())
    };
    let of_known = |workload: &Workload<'_>| {
        let questions = of_points(evidence, workload, targets);
        match evidence.objective {
            Some(Objective::Metric(metric)) => with_objective(metric, questions),
            _ => questions,
        }
    };
    // A workload in which nothing works gets the questions of the others. Without them, an answer for several workloads would omit it.
    let of_unknown = |workload: &Workload<'_>| {
        let kind = |workload: &Workload<'_>| MetricSet::of(evidence.points, workload);
        let alike = workloads
            .iter()
            .filter(|other| !is_unknown(other) && std::ptr::eq(kind(other), kind(workload)));
        let asked = alike.flat_map(of_known).unique_by(|question| question.name.clone());
        let own = asked.map(|question| Question {
            workload: evidence.names.workload(workload),
            effects: Vec::new(),
            ..question
        });
        own.collect_vec()
    };
    let of_workload = |workload: &Workload<'_>| match is_unknown(workload) {
        true => of_unknown(workload),
        false => of_known(workload),
    };
    workloads.iter().flat_map(of_workload).collect()
}

/// Puts the question for the figure to optimise before the other questions about a workload.
fn with_objective(metric: &str, mut questions: Vec<Question>) -> Vec<Question> {
    let is_of_metric = |question: &Question| matches!(&question.goal, Goal::Metric { name, .. } if name == metric);
    let question = match questions.iter().position(is_of_metric) {
        // Latency is otherwise asked for at the load of the highest throughput. As an objective it is asked for at any load.
        Some(at) => Question {
            load_of: None,
            ..questions.remove(at)
        },
        None => {
            let Some(first) = questions.first() else {
                return questions;
            };
            Question {
                name: format!("Best {metric}"),
                load_of: None,
                goal: Goal::Metric {
                    name: metric.to_owned(),
                    adds_up: ["throughput", "goodput"].iter().any(|end| metric.ends_with(end)),
                },
                ..first.clone()
            }
        }
    };
    let others = question.effects.iter().filter(|effect| *effect != metric).cloned();
    let effects = iter::once(metric.to_owned()).chain(others).collect();
    questions.insert(0, Question { effects, ..question });
    questions
}

fn of_load(evidence: &Evidence<'_>, target: &str, workload: &str) -> Question {
    let vary = evidence
        .state
        .searches()
        .next()
        .map_or(Vary::MaxConcurrency, |record| record.started.vary);
    let goal = Goal::Load {
        target: target.to_owned(),
        parameter: vary.name().to_owned(),
        unit: if vary == Vary::MaxConcurrency { 1.0 } else { 0.0 },
    };
    Question::of(format!("Target {target}"), workload, goal)
}

fn of_points(evidence: &Evidence<'_>, workload: &Workload<'_>, targets: &[Target]) -> Vec<Question> {
    let metric_set = MetricSet::of(evidence.points, workload);
    let is_measured = |metric: &str| {
        let mut used = workload.points.iter().flat_map(|at| &evidence.points.points[*at].used);
        let column = evidence.points.runs.column(metric);
        column.is_some_and(|column| used.any(|row| column.cells.at(*row).number().is_some()))
    };
    let (name, throughput) = metric_set.throughput;
    let latency = MetricSet::measured(evidence.points, workload)[1];
    let effects = [Some(throughput), latency].into_iter().flatten();
    let effects = effects.map(str::to_owned).collect_vec();
    let question = |name: &str, metric: &str, adds_up: bool| {
        let goal = Goal::Metric {
            name: metric.to_owned(),
            adds_up,
        };
        Question {
            targets: targets.to_vec(),
            effects: effects.clone(),
            ..Question::of(name.to_owned(), &evidence.names.workload(workload), goal)
        }
    };
    let per_gpu = question("Most throughput per GPU", PER_GPU, false);
    let asks_per_gpu = metric_set.gives_output && evidence.gpus.is_none() && gpus_differ(evidence, workload);
    let latency = latency.map(|metric| Question {
        load_of: Some(name.to_owned()),
        ..question(metric_set.latency.0, metric, false)
    });
    let asked = [
        is_measured(throughput).then(|| question(name, throughput, true)),
        asks_per_gpu.then_some(per_gpu),
        latency,
        is_measured(COST).then(|| question("Cheapest tokens", COST, false)),
        is_measured(ENERGY).then(|| question("Least energy", ENERGY, false)),
    ];
    asked.into_iter().flatten().collect()
}

/// Returns true if the points have different numbers of GPUs. Otherwise throughput per GPU ranks them like throughput.
fn gpus_differ(evidence: &Evidence<'_>, workload: &Workload<'_>) -> bool {
    let points = workload.points.iter().map(|at| &evidence.points.points[*at]);
    let counts = points.map(|point| evidence.points.param(point, "gpu_count").to_string());
    counts.unique().count() > 1
}

/// Returns a question for the frontier of each workload that gives output.
pub(super) fn frontiers(
    evidence: &Evidence<'_>,
    workloads: &[Workload<'_>],
    targets: &[Target],
) -> Vec<FrontierQuestion> {
    let with_output = workloads
        .iter()
        .filter(|workload| MetricSet::of(evidence.points, workload).gives_output);
    let [x, y] = Measure::of_frontier(evidence.points.runs);
    let frontier = |workload: &Workload<'_>| FrontierQuestion {
        workload: evidence.names.workload(workload),
        x: x.metric.clone(),
        y: y.metric.clone(),
        targets: targets.to_vec(),
    };
    with_output.map(frontier).collect()
}
