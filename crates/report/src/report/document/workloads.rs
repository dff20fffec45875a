//! The answer of each workload as templates take it: what to run, the points that are best at something, the frontier, and which
//! setting mattered.

use super::card;
use super::points::PointWords;
use crate::report::answer::{Answer, Best, FRONTIER, KNEE};
use crate::report::configs::Config;
use crate::report::effects::Mattered;
use crate::report::inputs::Inputs;
use crate::report::recommend::recommend;
use crate::report::variation::varying_within;
use crate::report::words::{axis_title, show_spread};
use crate::report::yardstick::Yardstick;
use itertools::Itertools;
use minijinja::value::Serde;
use minijinja::{Value, context};
use vsweep_record::table::Workload;

/// The answers of all workloads that were measured.
pub fn parts(inputs: &Inputs<'_>, configs: &[Config]) -> Vec<Value> {
    let workloads = inputs.points.workloads();
    let answered = workloads.iter().zip(&inputs.answers).enumerate();
    let measured = answered.filter(|(_, (_, answer))| answer.is_measured());
    let part = |(place, (workload, answer))| of_workload(inputs, configs, place, workload, answer);
    measured.map(part).collect()
}

fn of_workload(
    inputs: &Inputs<'_>,
    configs: &[Config],
    place: usize,
    workload: &Workload<'_>,
    answer: &Answer,
) -> Value {
    let words = PointWords {
        points: inputs.points,
        goals: &inputs.goals,
        params: varying_within(inputs.points, workload),
    };
    let card = |at: usize, metric: &str, question: &str| {
        card::parts(inputs, configs, &words, at, metric, &answer.ask(question))
    };
    let best = |best: &Best| {
        context! {
            question => best.question,
            title => axis_title(best.metric),
            figure => show_spread(&best.spread),
            why_tied => best.why_tied(),
            tied => best.tied.iter().map(|at| words.settings(*at)).collect_vec(),
            ..card(best.point, best.metric, best.question)
        }
    };
    let found = inputs.mattered.of_workload(place);
    context! {
        name => answer.workload.as_str(),
        place,
        none => answer.none(),
        doubtful => answer.doubtful,
        recommended => Serde(recommend(inputs.points, &inputs.goals, answer, &words.params)),
        brief => found.first().and_then(Mattered::brief),
        left_out => answer.left_out(),
        bests => answer.bests.iter().map(best).collect_vec(),
        // Of a single point, every card would say the same.
        is_single => workload.points.len() == 1,
        knee => answer.knee.map(|at| context! { question => KNEE, ..card(at, FRONTIER[1], KNEE) }),
        has_intervals => answer.bests.iter().any(|best| best.standing.is_some()),
        repeated => answer.repeated,
        wanted => (answer.missing > 0).then_some(answer.wanted.as_str()),
        mattered => found.iter().map(|found| (found.subject(), found.sentences())).collect_vec(),
        ..table(&words, answer)
    }
}

/// The points on the frontier, then the others that are best at something, with the figures that the workload is judged by.
fn table(words: &PointWords<'_>, answer: &Answer) -> Value {
    let bests = answer.bests.iter().map(|best| (best.point, 0));
    let listed = answer.distinct.iter().copied().chain(bests);
    let listed = listed.unique_by(|(at, _)| *at).collect_vec();
    let judged = listed.first().map_or(&[][..], |(at, _)| {
        Yardstick::of_point(words.points, &words.points.points[*at]).shown
    });
    let figures = judged.iter().map(|shown| shown.metric);
    let figures = figures
        .filter(|metric| words.points.runs.column(metric).is_some())
        .collect_vec();
    let row = |(at, others): &(usize, usize)| {
        context! {
            others,
            is_knee => answer.knee == Some(*at),
            figures => words.medians(*at, figures.iter().copied()),
            ..words.part(*at)
        }
    };
    context! {
        // How many of the rows are on the frontier, and with those that are as good as one of them.
        distinct => answer.distinct.len(),
        on_frontier => answer.frontier.len(),
        heads => figures.iter().map(|metric| axis_title(metric)).collect_vec(),
        rows => listed.iter().map(row).collect_vec(),
    }
}
