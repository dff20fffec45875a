//! The answer of each workload, as data for templates: the sentences, a card for each winner, the frontier, and the effect of each setting.

use super::card;
use super::points::PointWords;
use crate::findings::answer::WorkloadAnswer;
use crate::findings::variation::varying_within;
use crate::inputs::Inputs;
use crate::output::configs::Config;
use crate::sentences::parts::replicas;
use crate::sentences::{findings, sentences};
use crate::texts::words::{axis_title, throughput_in_words};
use itertools::Itertools;
use minijinja::value::Serde;
use minijinja::{Value, context};
use vsweep_answer::Goal;
use vsweep_record::table::{Measure, MetricSet, Workload};

/// The answers of all workloads that were measured or asked about.
pub fn parts(inputs: &Inputs<'_>, configs: &[Config]) -> Vec<Value> {
    let workloads = inputs.points.workloads();
    let answered = workloads.iter().zip(&inputs.answers.workloads).enumerate();
    let questions = &inputs.answers.document.questions;
    let is_asked = |answer: &WorkloadAnswer| questions.iter().any(|question| question.workload == answer.name);
    let known = answered.filter(|(_, (_, answer))| answer.is_measured || is_asked(answer));
    let part = |(place, (workload, answer))| of_workload(inputs, configs, place, workload, answer);
    known.map(part).collect()
}

fn of_workload(
    inputs: &Inputs<'_>,
    configs: &[Config],
    place: usize,
    workload: &Workload<'_>,
    answer: &WorkloadAnswer,
) -> Value {
    let params = varying_within(inputs.points, workload);
    let words = PointWords { inputs, params };
    let document = &inputs.answers.document;
    let card = |(number, at): &(usize, usize)| {
        let answered = &document.questions[*number];
        let Goal::Metric { name, .. } = &answered.goal else {
            return None;
        };
        let title = answered.title();
        let ties = answered.ties.iter().map(|tie| document.name_of(tie).to_owned());
        Some(context! {
            question => answered.question.as_str(),
            title => axis_title(name),
            tied => ties.collect_vec(),
            one_of => replicas(answered),
            ..card::parts(configs, &words, *at, name, &title)
        })
    };
    let leading = answer.winners.first().map(|(number, _)| &document.questions[*number]);
    let found = leading.map(findings).unwrap_or_default();
    context! {
        name => answer.name.as_str(),
        place,
        recommended => Serde(sentences(document, &answer.name)),
        left_out => answer.left_out(&inputs.goals.wanted()),
        bests => answer.winners.iter().filter_map(card).collect_vec(),
        // With a single point, every card would be equal.
        is_single => workload.points.len() == 1,
        mattered => Serde(found),
        ..table(&words, answer)
    }
}

/// The points on the frontier, then the others that are best at something, with the figures that the workload is judged by.
fn table(words: &PointWords<'_>, answer: &WorkloadAnswer) -> Value {
    let points = words.inputs.points;
    let bests = answer.bests().map(|at| (at, 0));
    let listed = answer.distinct.iter().copied().chain(bests);
    let listed = listed.unique_by(|(at, _)| *at).collect_vec();
    let judged = listed.first().map_or(&[][..], |(at, _)| {
        MetricSet::of_point(points, &points.points[*at]).shown
    });
    let figures = judged.iter().map(|shown| shown.metric);
    let figures = figures.chain(MetricSet::of_classes(points.runs));
    let figures = figures
        .filter(|metric| points.runs.column(metric).is_some())
        .collect_vec();
    let mut is_rough = false;
    let row = |(at, others): &(usize, usize)| {
        let figures = figures.iter().map(|metric| words.figure(*at, metric)).collect_vec();
        is_rough |= figures.iter().flatten().any(|figure| figure.starts_with('~'));
        context! {
            others,
            is_knee => answer.knee == Some(*at),
            figures,
            ..words.part(*at)
        }
    };
    let rows = listed.iter().map(row).collect_vec();
    context! {
        is_rough,
        // Number of rows that are on the frontier, and number of all points on it, including those that are as good as a row.
        distinct => answer.distinct.len(),
        on_frontier => answer.frontier.len(),
        throughput => throughput_in_words(&Measure::of_frontier(points.runs)[1].metric),
        heads => figures.iter().map(|metric| axis_title(metric)).collect_vec(),
        rows,
    }
}
