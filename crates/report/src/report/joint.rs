//! One page over several experiments: the best of all of them, with its experiment, and charts in which each experiment has its own curves.
//! It uses only their runs. Requirements and searches are in each experiment's own report.

use super::answer::{Answers, settle_runs};
use super::charts::{ChartContext, make_charts};
use super::document::points::PointWords;
use super::goals::Goals;
use super::html::text::{self, safe};
use super::picture::to_svg;
use super::sentences::{Sentence, sentences};
use super::variation::varying_within;
use crate::report::ordered::Ordered;
use itertools::Itertools;
use minijinja::context;
use vsweep_plan::plan::ReportOptions;
use vsweep_record::journal::State;
use vsweep_record::table::MetricSet;
use vsweep_record::table::{EXPERIMENT, Point, Points, Table};

const PAGE: &str = include_str!("joint.html.jinja");
/// Points of a workload that the page lists, those with the highest throughput.
const MOST_ROWS: usize = 40;

/// The page over a table of several experiments, whose column `experiment` tells them apart, and what could not be drawn.
pub fn joint_page(table: &Table, name: &str, options: &ReportOptions) -> (String, Vec<String>) {
    let mut points = Points::of(table);
    let document = settle_runs(&mut points, options);
    let answers = Answers::of(document, &points, &[], &Goals::default());
    let of_experiment = |point: &Point| points.param(point, EXPERIMENT).to_string();
    let names = points.points.iter().map(of_experiment).unique().collect_vec();
    let experiments = names.iter().map(|name| {
        let own = || points.points.iter().filter(|point| of_experiment(point) == *name);
        context! {
            name,
            points => own().count(),
            measured => own().filter(|point| !point.used.is_empty()).count(),
            suspect => own().filter(|point| point.is_suspect()).count(),
        }
    });
    let goals = Goals::judge(&[], &State::default(), &points);
    let workloads = points.workloads();
    let sections = workloads.iter().zip(&answers.workloads).map(|(workload, answer)| {
        // The settings may identify the experiment of a point, but a reader need not know that.
        let others = varying_within(&points, workload).into_iter();
        let others = others.filter(|column| column.name != EXPERIMENT);
        let words = PointWords {
            points: &points,
            goals: &goals,
            params: table.column(EXPERIMENT).into_iter().chain(others).collect(),
        };
        let metric_set = MetricSet::of(&points, workload);
        let throughput = |at: &usize| words.value(*at, metric_set.throughput.1).unwrap_or(f64::NEG_INFINITY);
        let is_measured = |at: &&usize| !points.points[**at].used.is_empty();
        let own = workload.points.iter().filter(is_measured);
        let own = own
            .ordered_by(|a, b| throughput(b).total_cmp(&throughput(a)))
            .collect_vec();
        let shown = metric_set.shown.iter().map(|shown| shown.metric);
        let rows = own.iter().take(MOST_ROWS).map(|at| {
            context! {
                figures => words.figures(**at, shown.clone()),
                is_front => answer.frontier.contains(at),
                ..words.part(**at)
            }
        });
        context! {
            name => answer.name.as_str(),
            bests => sentences(&answers.document, &answer.name).iter().map(Sentence::text).collect_vec(),
            heads => metric_set.shown.iter().map(|shown| shown.heading).collect_vec(),
            rows => rows.collect_vec(),
            more => own.len().saturating_sub(MOST_ROWS),
        }
    });
    let subject = ChartContext {
        experiment: name,
        points: &points,
    };
    let charts = make_charts(&subject, options);
    let pictures = charts.charts.iter();
    let pictures = pictures.map(|chart| context! { title => chart.title.as_str(), svg => safe(to_svg(chart, None)) });
    let context = context! {
        name,
        runs => table.rows(),
        points => points.points.len(),
        experiments => experiments.collect_vec(),
        sections => sections.collect_vec(),
        pictures => pictures.collect_vec(),
    };
    (text::render(PAGE, context), charts.missing)
}
