//! The report in the terminal: the best points with their settings, the failures in full, and last the lines with which `vsweep run` ends.
//! Its text is in `text.txt.jinja`; this file prepares data in addition to the `document`.

use super::align::{align, fitting, terminal_room};
use super::ending;
use super::template::plain;
use super::words::{axis_title, short_name};
use crate::document::points::PointWords;
use crate::findings::answer::{WorkloadAnswer, mark};
use crate::findings::failures::{Group, describe_reasons};
use crate::findings::variation::varying_within;
use crate::inputs::Inputs;
use crate::ordered::Order;
use crate::output::sla;
use itertools::Itertools;
use minijinja::{Value, context};
use vsweep_answer::QuestionAnswer;
use vsweep_record::table::{MetricSet, PER_GPU, TableFigure, Workload};

/// The unit at the end of headings of times, which is shown once below the table.
const MILLISECONDS: &str = " ms";
/// The unit at the end of titles of times.
const IN_MILLISECONDS: &str = " (ms)";
/// Most rows of the table of points.
const MOST_ROWS: usize = 10;
/// Fewest figures of a row, however narrow the terminal is.
const FEWEST_FIGURES: usize = 2;
/// Most letters of the settings in a row.
const MOST_LETTERS: usize = 100;
/// Most causes of failures and codes of doubts that are explained.
const MOST_REASONS: usize = 4;

/// The tables, the remarks, failures by cause with advice, and the ending.
pub fn render(inputs: &Inputs<'_>, document: Value, reasons: &[Group]) -> String {
    let workloads = inputs.points.workloads();
    let answered = workloads.iter().zip(&inputs.answers.workloads);
    let tables = answered.filter_map(|(workload, answer)| table(inputs, workload, answer));
    let parts = context! {
        tables => tables.collect_vec(),
        reasons => describe_reasons(&reasons[..reasons.len().min(MOST_REASONS)]),
        more_reasons => reasons.len().saturating_sub(MOST_REASONS),
        searches => sla::to_text(inputs.state, Some(&inputs.answers.document), terminal_room()),
        ..document.clone()
    };
    plain(include_str!("text.txt.jinja"), parts)
        + &ending::render(inputs, context! { has_reasons => true, ..document }, reasons)
}

/// A heading without its unit, and true if it has this unit.
fn without_unit<'t>(heading: &'t str, unit: &str) -> (&'t str, bool) {
    heading.strip_suffix(unit).map_or((heading, false), |bare| (bare, true))
}

/// The Pareto frontier and every point that won something. Settings are shown by their values alone if lines would break. `None` if there
/// is nothing to show.
fn table(inputs: &Inputs<'_>, workload: &Workload<'_>, answer: &WorkloadAnswer) -> Option<Value> {
    let points = inputs.points;
    let params = varying_within(points, workload);
    let words = PointWords { inputs, params };
    let metric_set = MetricSet::of(points, workload);
    let (_, metric) = metric_set.throughput;
    let throughput = |at: &usize| words.value(*at, metric).unwrap_or(f64::NEG_INFINITY);
    let chosen = answer.frontier.iter().copied().chain(answer.bests());
    let mut chosen: Vec<usize> = chosen.filter(|at| throughput(at).is_finite()).unique().collect();
    chosen.order_by(|a, b| throughput(b).total_cmp(&throughput(a)));
    let remarks = answer.left_out(&inputs.goals.wanted());
    let name = answer.name.as_str();
    if chosen.is_empty() {
        return (!remarks.is_empty()).then(|| context! { name, remarks });
    }
    let listed = &chosen[..chosen.len().min(MOST_ROWS)];
    let figure = |at: usize, metric: &str| words.figure(at, metric).unwrap_or_else(|| "-".into());
    // If every server has one GPU, the column per GPU would repeat the throughput.
    let says_more = |shown: &&TableFigure| {
        shown.metric != PER_GPU || listed.iter().any(|at| figure(*at, shown.metric) != figure(*at, metric))
    };
    let shown: Vec<&TableFigure> = metric_set.shown.iter().filter(says_more).collect();
    let has_goals = !inputs.goals.is_empty();
    let of_classes = inputs
        .goals
        .of_classes()
        .filter(|name| points.runs.column(name).is_some());
    let of_classes = of_classes.map(|name| (axis_title(name), name)).collect_vec();
    let shown = shown
        .iter()
        .map(|shown| (without_unit(shown.heading, MILLISECONDS), shown.metric));
    let of_classes = of_classes.iter();
    let of_classes = of_classes.map(|(title, name)| (without_unit(title, IN_MILLISECONDS), *name));
    let columns = shown.chain(of_classes).collect_vec();
    let table = |most: usize, settings: &dyn Fn(usize) -> String| {
        let columns = &columns[..most];
        let heads = columns.iter().map(|((head, _), _)| *head);
        let heads = heads.chain(has_goals.then_some("meets")).chain(["settings"]);
        let mut rows = vec![heads.map(str::to_owned).collect_vec()];
        for at in listed.iter().copied() {
            let figures = columns.iter().map(|(_, name)| figure(at, name));
            let meets = has_goals.then(|| inputs.goals.met_by(at));
            rows.push(figures.chain(meets).chain([settings(at)]).collect());
        }
        align(&rows)
    };
    let recommended = inputs.answers.recommended();
    let mut asked = inputs.answers.document.questions.iter();
    let has_replicas = |answered: &QuestionAnswer| answered.winner.as_ref().is_some_and(|winner| winner.replicas > 1);
    let is_recommended = |at: &usize| recommended.contains(at);
    // The first line has the headings.
    let mark_of = |row: usize| match row.checked_sub(1).map(|row| &listed[row]) {
        Some(at) if is_recommended(at) => ">",
        Some(at) if answer.frontier.contains(at) => "*",
        _ => " ",
    };
    let whole = |at: usize| {
        let settings: String = words.settings(at).chars().take(MOST_LETTERS).collect();
        settings + &mark(&points.points[at]).map_or(String::new(), |mark| format!(" ({mark})"))
    };
    let brief = |at: usize| {
        let doubt = if points.points[at].is_suspect() {
            " (suspect)"
        } else {
            ""
        };
        words.values(at) + doubt
    };
    // If the settings do not fit with their names, the names are written once below the table. If that does not fit either, the last
    // figures are left out.
    let fewest = columns.len().min(FEWEST_FIGURES);
    let fewer = (fewest..=columns.len())
        .rev()
        .map(|most| (table(most, &brief), most, true));
    let forms = [(table(columns.len(), &whole), columns.len(), false)];
    let forms = forms.into_iter().chain(fewer);
    let (aligned, most, is_brief) = fitting(forms, |(table, ..)| table.lines().collect()).unwrap_or_default();
    let legend = is_brief.then(|| {
        let names = words.params.iter().map(|column| short_name(&column.name));
        format!("settings: {}", names.collect_vec().join("/"))
    });
    let lines = aligned.lines().map(str::to_owned).enumerate();
    Some(context! {
        name,
        remarks,
        is_of_one => asked.any(has_replicas),
        has_recommended => listed.iter().any(is_recommended),
        lines => lines.map(|(row, line)| (mark_of(row), line)).collect_vec(),
        legend,
        has_front => !answer.frontier.is_empty(),
        has_others => listed.iter().any(|at| !is_recommended(at) && !answer.frontier.contains(at)),
        has_times => columns[..most].iter().any(|((_, is_time), _)| *is_time),
        is_rough => aligned.contains('~'),
        more => chosen.len().saturating_sub(MOST_ROWS),
    })
}
