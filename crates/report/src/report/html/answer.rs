//! The answer as a page's template takes it: what to run for each workload, a card for each best point, and the frontier.

use super::card::Card;
use super::pictures::{MOST_FRONT, pictures};
use crate::report::answer::{Answer, Best, FRONTIER, KNEE, mark};
use crate::report::configs::Config;
use crate::report::effects::Mattered;
use crate::report::inputs::Inputs;
use crate::report::recommend::recommend;
use crate::report::sla;
use crate::report::variation::{settings, varying_within};
use crate::report::words::{axis_title, show_number};
use crate::report::yardstick::Yardstick;
use itertools::Itertools;
use minijinja::value::Serde;
use minijinja::{Value, context};
use vsweep_record::table::{Column, Workload};

/// Frontier points that are listed.
const MOST_FRONTIER: usize = 12;

/// The answers of all workloads that were measured.
pub fn parts(inputs: &Inputs<'_>, configs: &[Config]) -> Value {
    let points = inputs.points;
    let workloads = points.workloads();
    let pictures = pictures(inputs);
    let told = workloads.iter().zip(&inputs.answers).zip(pictures);
    let measured = told.enumerate().filter(|(_, ((_, answer), _))| answer.is_measured());
    let measured = measured
        .enumerate()
        .map(|(i, (place, ((workload, answer), [families, effects])))| {
            let found = inputs.mattered.of_workload(place);
            let told = varying_within(points, workload);
            let recommended = recommend(points, &inputs.goals, answer, &told);
            context! {
                is_front => i < MOST_FRONT,
                name => answer.workload.as_str(),
                none => answer.none(),
                doubtful => answer.doubtful,
                recommended => Serde(recommended),
                brief => found.first().and_then(Mattered::brief),
                families,
                left_out => answer.left_out(),
                bests => bests(inputs, configs, workload, answer, &told),
                knee => answer.knee.map(|at| Card {
                    title: KNEE,
                    question: &answer.ask(KNEE),
                    told: &told,
                    at,
                    metric: FRONTIER[1],
                    shown: None,
                }.parts(inputs, configs)),
                has_intervals => answer.bests.iter().any(|best| best.standing.is_some()),
                repeated => answer.repeated,
                mattered => found.iter().map(|found| (found.subject(), found.sentences())).collect_vec(),
                effects,
                frontier => frontier(inputs, answer, &told),
            }
        });
    let workloads = measured.collect_vec();
    let has_chart = |workload: &Value| workload.get_attr("families").is_ok_and(|families| families.is_true());
    context! {
        // The chart of the first that has one stands beside what is said of all.
        charted => workloads.iter().take(MOST_FRONT).position(has_chart),
        compete => !workloads.is_empty() && inputs.answers.len() > 1,
        // Searches choose points, which `runs` does not repeat.
        is_searched => sla::varied(inputs.state).is_some(),
        workloads,
    }
}

/// The best points of a workload, and what is tied with each.
fn bests(
    inputs: &Inputs<'_>,
    configs: &[Config],
    workload: &Workload<'_>,
    answer: &Answer,
    told: &[&Column],
) -> Vec<Value> {
    // Of a single point, every card would say the same.
    let is_single = workload.points.len() == 1;
    let most = if is_single { 1 } else { answer.bests.len() };
    let part = |best: &Best| {
        let tied = best.tied.iter();
        let card = Card {
            title: if is_single { "The only point" } else { best.question },
            question: &answer.ask(best.question),
            told,
            at: best.point,
            metric: best.metric,
            shown: None,
        };
        context! {
            card => card.parts(inputs, configs),
            why_tied => best.why_tied(),
            tied => tied.map(|i| settings(told, inputs.points.points[*i].row)).collect_vec(),
        }
    };
    answer.bests.iter().take(most).map(part).collect()
}

fn frontier(inputs: &Inputs<'_>, answer: &Answer, told: &[&Column]) -> Option<Value> {
    if answer.frontier.len() < 2 {
        return None;
    }
    let (points, goals) = (inputs.points, &inputs.goals);
    let (first, _) = answer.distinct[0];
    let judged = Yardstick::of_point(points, &points.points[first]).shown.iter();
    let shown = FRONTIER.into_iter().chain(judged.map(|shown| shown.metric)).unique();
    let shown = shown.filter(|name| points.runs.column(name).is_some()).collect_vec();
    let meets = (!goals.is_empty()).then(|| "Meets".to_owned());
    let titles = shown.iter().map(|name| axis_title(name));
    let row = |(i, others): &(usize, usize)| {
        let point = &points.points[*i];
        let meets = (!goals.is_empty()).then(|| goals.met_by(*i).replace(' ', "\u{a0}"));
        let figures = shown.iter().map(|name| {
            let spread = points.spread(point, name);
            spread.map_or("–".into(), |spread| show_number(spread.median))
        });
        context! {
            settings => settings(told, point.row),
            is_knee => answer.knee == Some(*i),
            others,
            mark => mark(point),
            cells => meets.into_iter().chain(figures).collect_vec(),
        }
    };
    Some(context! {
        points => answer.frontier.len(),
        wanted => (answer.missing > 0).then_some(answer.wanted.as_str()),
        label => match answer.workload.as_str() {
            "" => "Pareto frontier".to_owned(),
            name => format!("Pareto frontier, {name}"),
        },
        heads => ["Settings".to_owned()].into_iter().chain(meets).chain(titles).collect_vec(),
        rows => answer.distinct.iter().take(MOST_FRONTIER).map(row).collect_vec(),
        more => answer.distinct.len().saturating_sub(MOST_FRONTIER),
    })
}
