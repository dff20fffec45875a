//! The report as Markdown for a pull request: the answer, the best points, failures, the environment. Short enough for a
//! comment; the page has the rest. Its text stands in `report.md.jinja`; here is what goes into it beside the `document`.

mod text;

pub(super) use text::{environment, escape, grid};

use super::answer::{Answer, KNEE, mark};
use super::configs::Config;
use super::inputs::Inputs;
use super::recommend::recommend;
use super::sla;
use super::template::fill;
use super::variation::settings;
use super::words::{axis_title, show_number, show_spread};
use super::yardstick::Yardstick;
use itertools::Itertools;
use minijinja::value::{Serde, merge_maps};
use minijinja::{Value, context};

/// Rows of the table of best points.
const MOST_ROWS: usize = 12;
/// Tied points and details that are named.
const MOST_NAMED: usize = 3;

/// The text.
pub fn render(inputs: &Inputs<'_>, configs: &[Config], document: Value) -> String {
    let answers = inputs.answers.iter().enumerate();
    let answers = answers.filter(|(_, answer)| answer.is_measured());
    let own = context! {
        searches => sla::to_text(inputs.state),
        answers => answers.map(|(place, answer)| parts(inputs, place, answer)).collect_vec(),
        configs => configs.iter().map(|config| config.file.clone()).collect_vec(),
    };
    let parts = merge_maps([own, document]);
    fill(&environment(), include_str!("markdown/report.md.jinja"), parts)
}

/// The answer of a workload.
fn parts(inputs: &Inputs<'_>, place: usize, answer: &Answer) -> Value {
    let (points, goals) = (inputs.points, &inputs.goals);
    let settings = |at: usize| settings(&inputs.varied, points.points[at].row);
    let meets = |at: usize| (!goals.is_empty()).then(|| goals.met_by(at));
    let point = |at: usize| context! { settings => settings(at), meets => meets(at), mark => mark(&points.points[at]) };
    let recommended = recommend(points, goals, answer, &inputs.varied);
    let bests = answer.bests.iter().map(|best| {
        let tied = best.tied.iter().take(MOST_NAMED);
        context! {
            question => best.question,
            title => axis_title(best.metric),
            figure => show_spread(&best.spread),
            why_tied => best.why_tied(),
            tied => tied.map(|at| settings(*at)).collect_vec(),
            more => best.tied.len().saturating_sub(MOST_NAMED),
            ..point(best.point)
        }
    });
    let winners = answer.bests.iter().map(|best| (best.point, 0));
    let listed = answer.distinct.iter().copied().chain(winners);
    let listed = listed.unique_by(|(at, _)| *at).collect_vec();
    let judged = listed.first().map_or(&[][..], |(at, _)| {
        Yardstick::of_point(points, &points.points[*at]).shown
    });
    let shown = judged.iter().map(|shown| shown.metric);
    let shown = shown.filter(|name| points.runs.column(name).is_some()).collect_vec();
    let rows = listed.iter().take(MOST_ROWS).map(|(at, others)| {
        let spreads = shown.iter().map(|name| points.spread(&points.points[*at], name));
        let cells = spreads.map(|spread| spread.map_or("–".into(), |spread| show_number(spread.median)));
        context! { others, cells => cells.collect_vec(), ..point(*at) }
    });
    let mattered = inputs.mattered.of_workload(place).iter();
    context! {
        name => answer.workload.as_str(),
        none => answer.none(),
        recommended => Serde(recommended),
        doubtful => answer.doubtful,
        bests => bests.collect_vec(),
        knee => answer.knee.map(|at| context! { title => KNEE, ..point(at) }),
        left_out => answer.left_out(),
        repeated => answer.repeated,
        heads => shown.iter().map(|name| axis_title(name)).collect_vec(),
        rows => rows.collect_vec(),
        more => listed.len().saturating_sub(MOST_ROWS),
        wanted => (answer.missing > 0).then_some(answer.wanted.as_str()),
        mattered => mattered.map(|found| (found.subject(), found.sentences())).collect_vec(),
    }
}
