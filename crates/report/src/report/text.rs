//! The answer in the terminal after a sweep: the best points with their settings, and what failed.

use super::align::align;
use super::answer::{Answer, Best, FRONTIER, mark};
use super::charts::explore::in_words;
use super::clients::side_by_side;
use super::compared;
use super::failures::{describe_reasons, group_recorded};
use super::inputs::Inputs;
use super::nodes::apart;
use super::remarks::remarks;
use super::sla;
use super::status::unfinished;
use super::variation::{name_workload, settings, varying_within};
use super::words::{say, show_number, show_range, show_ratio};
use super::yardstick::{Shown, Yardstick};
use itertools::Itertools;
use vsweep_plan::units::{show_count, show_many};
use vsweep_record::table::{Cell, Column, ONE_START, Point, Points, Workload};

/// The unit that the headings of times end in; below the table it is told once.
const MILLISECONDS: &str = " ms";
/// Rows of the table of points.
const MOST_ROWS: usize = 10;
/// Workloads with a table of their own.
const MOST_WORKLOADS: usize = 4;
/// Causes of failures and codes of doubts that are explained.
const MOST_REASONS: usize = 4;

/// At most about 25 lines for one workload: counts, the frontier and the highest throughput, failures by cause with advice.
pub fn summarize(inputs: &Inputs<'_>) -> String {
    let (state, points) = (inputs.state, inputs.points);
    let mut text = counts(points);
    if let Some(how) = unfinished(state) {
        text += &format!("not finished: {how}\n");
    }
    if points.have_one_start() {
        text += &format!("each point has {ONE_START}\n");
    }
    for sentence in compared::in_words(state) {
        text += &format!("{sentence}\n");
    }
    text += &sla::to_text(state);
    for sentence in in_words(state) {
        text += &format!("explored {sentence}\n");
    }
    text += &tables(inputs);
    let clients = side_by_side(points);
    if let Some(clients) = clients.as_ref().filter(|clients| !clients.table.is_empty()) {
        text += &format!("\nclients side by side\n{}", align(&clients.table));
    }
    for remark in remarks(state, points, clients.as_ref()) {
        text += &format!("note: {}\n", remark.text);
    }
    let reasons = group_recorded(state);
    if !reasons.is_empty() {
        text.push('\n');
        text += &describe_reasons(&reasons[..reasons.len().min(MOST_REASONS)]);
    }
    if let more @ 1.. = reasons.len().saturating_sub(MOST_REASONS) {
        text += &format!("and {more} more reasons; see summary.csv\n");
    }
    text
}

fn counts(points: &Points<'_>) -> String {
    let sum = |count: fn(&Point) -> usize| points.points.iter().map(count).sum::<usize>();
    let parts = [
        (sum(|point| point.ok), "ok"),
        (sum(|point| point.suspect - point.invalid.len()), "suspect"),
        (sum(|point| point.invalid.len()), "invalid"),
        (sum(|point| point.failed), "failed"),
        (sum(|point| point.cut.len()), "cut"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts = parts.map(|(count, name)| format!("{} {name}", show_count(*count as u64)));
    let mut all = points.points.iter();
    let simulated = all.any(|point| points.param(point, "simulated") == &Cell::Bool(true));
    let origin = if simulated { ", simulated" } else { "" };
    let runs = show_many(points.runs.rows() as u64, "run");
    let count = show_many(points.points.len() as u64, "point");
    format!("{runs} of {count}: {}{origin}\n", parts.format(", "))
}

/// The best points of every workload, below its name where there are several.
fn tables(inputs: &Inputs<'_>) -> String {
    let points = inputs.points;
    let workloads = points.workloads();
    let winners = sla::winners(inputs.state, points);
    let told = workloads.iter().zip(&inputs.answers);
    let named = told.map(|(workload, answer)| (workload, table(inputs, workload, answer, &winners)));
    let named: Vec<_> = named.filter(|(_, table)| !table.is_empty()).collect();
    let mut text = String::new();
    for (workload, table) in named.iter().take(MOST_WORKLOADS) {
        if !workload.is_only() {
            text += &format!("\nworkload: {}", name_workload(points, workload));
        }
        text += &format!("\n{table}");
    }
    if let left_out @ 1.. = named.len().saturating_sub(MOST_WORKLOADS) {
        let left_out = show_many(left_out as u64, "more workload");
        text += &format!("\nand {left_out}; see report.md\n");
    }
    if !text.is_empty() {
        text.extend(inputs.goals.legend().iter().map(|line| format!("{line}\n")));
    }
    text
}

/// The Pareto frontier, the highest throughput, and the winner of each target.
fn table(inputs: &Inputs<'_>, workload: &Workload<'_>, answer: &Answer, winners: &[usize]) -> String {
    let (points, goals) = (inputs.points, &inputs.goals);
    let median = |at: usize, metric: &str| {
        let spread = points.spread(&points.points[at], metric);
        spread.map(|spread| spread.median)
    };
    let yardstick = Yardstick::of(points, workload);
    let (_, metric) = yardstick.throughput;
    let throughput = |at: &usize| median(*at, metric).unwrap_or(f64::NEG_INFINITY);
    let highest = answer.bests.iter().find(|best| best.metric == metric);
    let highest = highest.map(|best| best.point);
    let own = winners.iter().copied().filter(|at| workload.points.contains(at));
    let is_measured = |at: &usize| throughput(at).is_finite();
    let chosen = answer.frontier.iter().copied().chain(highest).chain(own);
    let mut chosen: Vec<usize> = chosen.filter(is_measured).unique().collect();
    chosen.sort_by(|a, b| throughput(b).total_cmp(&throughput(a)));
    let remarks = answer.none().into_iter().chain(answer.left_out());
    let remarks: String = remarks.map(|remark| format!("{remark}\n")).collect();
    if chosen.is_empty() {
        return remarks;
    }
    let params = varying_within(points, workload);
    let told = &chosen[..chosen.len().min(MOST_ROWS)];
    let figure = |at: usize, metric: &str| median(at, metric).map_or("-".into(), show_number);
    // Where every server has one GPU, a column would stand twice.
    let says_more = |shown: &&Shown| {
        shown.metric != FRONTIER[1] || told.iter().any(|at| figure(*at, shown.metric) != figure(*at, metric))
    };
    let shown: Vec<&Shown> = yardstick.shown.iter().filter(says_more).collect();
    let heads = shown
        .iter()
        .map(|shown| shown.heading.trim_end_matches(MILLISECONDS).to_owned());
    let meets = (!goals.is_empty()).then(|| "meets".to_owned());
    let mut rows = vec![heads.chain(meets).chain(["settings".into()]).collect::<Vec<String>>()];
    for at in told.iter().copied() {
        let point = &points.points[at];
        let figures = shown.iter().map(|shown| figure(at, shown.metric));
        let meets = (!goals.is_empty()).then(|| goals.met_by(at));
        let settings: String = settings(&params, point.row).chars().take(100).collect();
        let doubt = mark(point).map_or(String::new(), |mark| format!(" ({mark})"));
        rows.push(figures.chain(meets).chain([settings + &doubt]).collect());
    }
    let is_front = |row: usize| row > 0 && answer.frontier.contains(&told[row - 1]);
    let mut text = String::new();
    for (row, line) in align(&rows).lines().enumerate() {
        let star = if is_front(row) { '*' } else { ' ' };
        text += &format!("{star} {line}\n");
    }
    let keys = [
        (!answer.frontier.is_empty(), "* on the Pareto frontier"),
        (
            shown.iter().any(|shown| shown.heading.ends_with(MILLISECONDS)),
            "times in ms",
        ),
    ];
    let keys = keys.iter().filter(|(is_used, _)| *is_used).map(|(_, key)| key);
    text += &format!("{}\n{remarks}", keys.format("; "));
    if workload.points.len() > 1 {
        text += &bests(points, answer, &params);
    }
    if let more @ 1.. = chosen.len().saturating_sub(MOST_ROWS) {
        text += &format!("and {more} more on the frontier; see points.csv\n");
    }
    text
}

/// What is best at each question, how sure that is, and how far the next server is behind; a line each.
pub(super) fn bests(points: &Points<'_>, answer: &Answer, params: &[&Column]) -> String {
    let name = |at: usize| settings(params, points.points[at].row);
    let line = |best: &Best| {
        let next = best.runner_up.map_or(String::new(), |(other, ratio)| {
            let nodes = apart(points, best.point, other);
            let nodes = nodes.map_or(String::new(), |(own, its)| {
                format!(" (measured on {own}, the other on {its})")
            });
            format!(", {} the next server ({}){nodes}", show_ratio(ratio), name(other))
        });
        let next_is = |at: usize| best.runner_up.is_some_and(|(next, _)| next == at);
        let plain = best.default.filter(|(plain, _)| !next_is(*plain));
        let plain = plain.map_or(String::new(), |(_, ratio)| {
            format!(", {} the default settings", show_ratio(ratio))
        });
        let tied = match best.tied.as_slice() {
            [] => String::new(),
            [other] => format!("; tied with {} {}", name(*other), best.why_tied()),
            [other, more @ ..] => {
                let (other, more) = (name(*other), more.len());
                format!("; tied with {other} and {more} more {}", best.why_tied())
            }
        };
        let figure = say(best.metric, &show_number(best.spread.median)) + &show_range(&best.spread);
        let (question, name) = (best.question, name(best.point));
        format!("{question}: {name}: {figure}{next}{plain}{tied}\n")
    };
    answer.bests.iter().map(line).collect()
}
