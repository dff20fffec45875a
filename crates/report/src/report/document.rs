//! What the page and the text for a pull request both tell, as their templates take it: counts, remarks, failures, the environment,
//! the plan.

use super::charts::explore::in_words;
use super::clients::{Clients, side_by_side};
use super::compared;
use super::environment::{self, facts};
use super::failures::{Group, Reason};
use super::inputs::Inputs;
use super::remarks::remarks;
use super::status::unfinished;
use super::variation::settings;
use itertools::Itertools;
use minijinja::value::Serde;
use minijinja::{Value, context};
use vsweep_plan::units::{show_count, show_many};
use vsweep_record::table::{Cell, ONE_START, Point, Points};
use vsweep_strategy::stats::Requirement;

/// Points of a failure that are named.
const MOST_ROWS: usize = 20;

/// Everything beside the answer.
pub fn parts(inputs: &Inputs<'_>) -> Value {
    let (state, points) = (inputs.state, inputs.points);
    let clients = side_by_side(points);
    let requirements = inputs
        .requirements
        .iter()
        .map(|judged| context! { is_met => judged.verdict == Requirement::Met, text => judged.to_string() });
    let failures = inputs.failures.iter().zip(&inputs.excerpts);
    let sum = |count: fn(&Point) -> usize| points.points.iter().map(count).sum::<usize>();
    let (suspect, failed) = (sum(|point| point.suspect), sum(|point| point.failed));
    let planned = state.planning_session().map_or(0, |planned| planned.runs) as usize;
    let rest = [
        (failed, "failed"),
        (suspect, "in doubt"),
        (sum(|point| point.cut.len()), "cut short"),
        (planned.saturating_sub(points.runs.rows()), "still to do"),
    ];
    let all = [
        (points.points.len(), "point"),
        (state.servers.len(), "server"),
        (points.runs.rows(), "run"),
    ];
    let all = all.map(|(count, noun)| show_many(count as u64, noun));
    let counts = [
        (points.points.len(), "points"),
        (sum(|point| point.ok), "runs ok"),
        (suspect, "in doubt"),
        (failed, "failed"),
    ];
    context! {
        name => inputs.experiment.as_str(),
        live => inputs.live,
        head => environment::head(&inputs.manifest, state).join(" · "),
        summary => all.into_iter().chain(counted(&rest)).join(" · "),
        counts => counted(&counts).join(", "),
        simulated => simulated(points),
        unfinished => unfinished(state),
        has_goals => !inputs.goals.is_empty(),
        legend => inputs.goals.legend(),
        explored => in_words(state),
        is_cut => points.points.iter().any(|point| !point.cut.is_empty()),
        one_start => points.have_one_start().then_some(ONE_START),
        remarks => Serde(remarks(state, points, clients.as_ref())),
        requirements => requirements.collect_vec(),
        compared => compared::in_words(state),
        clients => clients.map(beside),
        failures => failures.map(|(group, excerpt)| failure(inputs, group, excerpt.as_deref())).collect_vec(),
        environment => facts(&inputs.manifest, state),
        plan => inputs.plan.as_str(),
    }
}

/// Counts with their words, without those of nothing.
fn counted(counts: &[(usize, &str)]) -> Vec<String> {
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    counts
        .map(|(count, word)| format!("{} {word}", show_count(*count as u64)))
        .collect()
}

/// Loads that several clients sent.
fn beside(clients: Clients) -> Value {
    let mut rows = clients.table.into_iter();
    context! { heads => rows.next(), rows => rows.collect_vec(), remark => clients.remark }
}

/// How many of the figures are of the simulator, if any are.
fn simulated(points: &Points<'_>) -> Option<&'static str> {
    let has = |cell: Cell| (0..points.runs.rows()).any(|row| points.runs.cell("simulated", row) == &cell);
    // Runs whose server never came up have no figures, whoever would have made them.
    has(Cell::Bool(true)).then(|| if has(Cell::Bool(false)) { "Some" } else { "All" })
}

/// What went wrong with one cause.
fn failure(inputs: &Inputs<'_>, group: &Group, excerpt: Option<&str>) -> Value {
    let rows = group.rows.iter().take(MOST_ROWS);
    context! {
        verb => group.verb(),
        name => group.reason.name(),
        reason => show_reason(group.reason),
        runs => show_many(group.runs as u64, "run"),
        advice => group.advice.as_str(),
        details => group.details.iter().take(3).map(|detail| (detail.text.clone(), detail.runs)).collect_vec(),
        points => show_many(group.rows.len() as u64, "point"),
        names => rows.map(|row| settings(&inputs.varied, *row)).collect_vec(),
        more => group.rows.len().saturating_sub(MOST_ROWS),
        excerpt,
    }
}

/// `Out of memory` causes and their like in words.
fn show_reason(reason: Reason) -> String {
    let words = reason.name().split('_').map(|word| match word {
        "oom" => "out of memory".to_owned(),
        "kv" | "api" => word.to_uppercase(),
        word => word.to_owned(),
    });
    words.collect_vec().join(" ")
}
