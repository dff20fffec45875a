//! The parts of a page that need no script, beside the answer, as the template takes them: counts, remarks, failures, the environment,
//! the plan.

use super::Page;
use super::text::{escape, safe};
use crate::report::clients::{Clients, side_by_side};
use crate::report::compared;
use crate::report::environment::{self, facts};
use crate::report::failures::{Group, Reason};
use crate::report::remarks::{Remark, UNSTEADY, remarks};
use crate::report::requirements::Verdict;
use crate::report::status::unfinished;
use crate::report::variation::settings;
use minijinja::{Value, context};
use std::iter::repeat;
use vsweep_plan::units::show_count;
use vsweep_record::table::{Cell, Point, Points};

/// Points of a failure that are named.
const MOST_ROWS: usize = 20;

/// Everything beside the answer.
pub fn parts(page: &Page<'_>) -> Value {
    let (inputs, state) = (page.inputs, page.inputs.state);
    let all = remarks(state, inputs.points, None).into_iter();
    let (unsteady, others): (Vec<Remark>, Vec<Remark>) = all.partition(|remark| remark.about == UNSTEADY);
    let told = |remarks: Vec<Remark>| {
        let told = remarks
            .into_iter()
            .map(|Remark { about, text }| context! { about, text => safe(code_words(&escape(&capitalise(&text)))) });
        told.collect::<Vec<Value>>()
    };
    let requirements = inputs
        .requirements
        .iter()
        .map(|judged| context! { is_met => judged.verdict == Verdict::Met, text => capitalise(&judged.to_string()) });
    let excerpts = inputs.excerpts.iter().map(Option::as_deref).chain(repeat(None));
    let failures = inputs.failures.iter().zip(excerpts);
    context! {
        head => environment::head(inputs.manifest, state).join(" · "),
        summary => summary(page),
        simulated => simulated(inputs.points),
        // A live page tells what goes on.
        unfinished => unfinished(state).filter(|_| inputs.live.is_none()).map(|how| capitalise(&how)),
        remarks => told(others),
        unsteady => told(unsteady),
        requirements => requirements.collect::<Vec<Value>>(),
        compared => compared::in_words(state),
        clients => side_by_side(inputs.points).map(clients),
        failures => failures.map(|(group, excerpt)| failure(page, group, excerpt)).collect::<Vec<Value>>(),
        environment => facts(inputs.manifest, state),
        plan => inputs.plan,
    }
}

/// What stands between backticks, as code.
fn code_words(escaped: &str) -> String {
    let parts = escaped.split('`').enumerate();
    let parts = parts.map(|(place, part)| match place % 2 {
        0 => part.to_owned(),
        _ => format!("<code>{part}</code>"),
    });
    parts.collect()
}

/// One line of counts.
fn summary(page: &Page<'_>) -> String {
    let points = page.inputs.points;
    let mut parts = vec![
        count(points.points.len(), "point"),
        count(page.inputs.state.servers.len(), "server"),
        count(points.runs.rows(), "run"),
    ];
    let sum = |count: fn(&Point) -> usize| points.points.iter().map(count).sum::<usize>();
    let (suspect, failed) = (sum(|point| point.suspect), sum(|point| point.failed));
    let cut = sum(|point| point.cut.len());
    let left = page.inputs.state.planned().map_or(0, |planned| planned.runs) as usize;
    let left = left.saturating_sub(points.runs.rows());
    for (count, word) in [
        (failed, "failed"),
        (suspect, "in doubt"),
        (cut, "cut short"),
        (left, "still to do"),
    ] {
        if count > 0 {
            parts.push(format!("{} {word}", show_count(count as u64)));
        }
    }
    parts.join(" · ")
}

/// Loads that several clients sent.
fn clients(mut clients: Clients) -> Value {
    let rows = clients.table.split_off(1);
    context! { heads => clients.table.pop(), rows, remark => capitalise(&clients.remark) }
}

/// How many of the figures are of the simulator, if any are.
fn simulated(points: &Points<'_>) -> Option<&'static str> {
    let has = |cell: Cell| (0..points.runs.rows()).any(|row| points.runs.cell("simulated", row) == &cell);
    // Runs whose server never came up have no figures, whoever would have made them.
    has(Cell::Bool(true)).then(|| if has(Cell::Bool(false)) { "Some" } else { "All" })
}

/// What went wrong with one cause.
fn failure(page: &Page<'_>, group: &Group, excerpt: Option<&str>) -> Value {
    let rows = group.rows.iter().take(MOST_ROWS);
    context! {
        verb => group.reason.verb(),
        reason => show_reason(group.reason),
        runs => count(group.runs, "run"),
        advice => capitalise(&group.advice()),
        details => group.details.iter().take(3).cloned().collect::<Vec<_>>(),
        points => count(group.rows.len(), "point"),
        names => rows.map(|row| settings(&page.varied, *row)).collect::<Vec<String>>(),
        more => group.rows.len().saturating_sub(MOST_ROWS),
        excerpt,
    }
}

/// `1 run`, `2 runs`
fn count(count: usize, one: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {one}{plural}", show_count(count as u64))
}

/// `Out of memory` causes and their like as a heading.
fn show_reason(reason: Reason) -> String {
    let words = reason.name().split('_').map(|word| match word {
        "oom" => "out of memory".to_owned(),
        "kv" | "api" => word.to_uppercase(),
        word => word.to_owned(),
    });
    capitalise(&words.collect::<Vec<String>>().join(" "))
}

fn capitalise(sentence: &str) -> String {
    let mut rest = sentence.chars();
    rest.next()
        .map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}
