//! One page over several experiments: what is best among all of them, which experiment that is of, and charts in which each has curves of
//! its own. It rests on their runs alone; what a plan requires, and its searches, are told by each experiment's own report.

use super::answer;
use super::charts::{Subject, make_charts};
use super::goals::Goals;
use super::html::STYLE;
use super::html::text::{self, safe};
use super::picture::{Form, render};
use super::text::bests;
use super::variation::{name_workload, settings, varying_within};
use super::words::show_number;
use super::yardstick::Yardstick;
use itertools::Itertools;
use minijinja::{Value, context};
use vsweep_plan::plan::ReportOptions;
use vsweep_plan::units::show_many;
use vsweep_record::journal::State;
use vsweep_record::table::{Column, EXPERIMENT, Point, Points, Table};

const PAGE: &str = include_str!("joint.html.jinja");
/// Points of a workload that the page lists, those with the highest throughput.
const MOST_ROWS: usize = 40;

/// The page over a table of several experiments, whose column `experiment` tells them apart, and what could not be drawn.
pub fn joint_page(table: &Table, name: &str, options: &ReportOptions) -> (String, Vec<String>) {
    let points = Points::of(table);
    let of_experiment = |point: &Point| points.param(point, EXPERIMENT).to_string();
    let names = points.points.iter().map(of_experiment).unique().collect_vec();
    let experiments = names.iter().map(|name| {
        let own = points
            .points
            .iter()
            .filter(|point| of_experiment(point) == *name)
            .collect_vec();
        let measured = own.iter().filter(|point| !point.used.is_empty()).count();
        let suspect = own.iter().filter(|point| point.is_suspect()).count();
        [
            name.clone(),
            show_many(own.len() as u64, "point"),
            format!("{measured} measured, {suspect} of them suspect"),
        ]
    });
    let goals = Goals::judge(&[], &State::default(), &points);
    let workloads = points.workloads();
    let sections = workloads.iter().map(|workload| {
        let answer = answer::find_for(&points, &goals, workload);
        // Its settings may tell which experiment a point is of, but a reader need not know.
        let others = varying_within(&points, workload).into_iter();
        let others = others.filter(|column| column.name != EXPERIMENT);
        let params: Vec<&Column> = table.column(EXPERIMENT).into_iter().chain(others).collect();
        let median = |at: &usize, metric: &str| Some(points.spread(&points.points[*at], metric)?.median);
        let yardstick = Yardstick::of(&points, workload);
        let throughput = |at: &usize| median(at, yardstick.throughput.1).unwrap_or(f64::NEG_INFINITY);
        let is_measured = |at: &&usize| !points.points[**at].used.is_empty();
        let own = workload.points.iter().filter(is_measured).copied();
        let own: Vec<usize> = own.sorted_by(|a, b| throughput(b).total_cmp(&throughput(a))).collect();
        let rows = own.iter().take(MOST_ROWS).map(|at| {
            let figures = yardstick
                .shown
                .iter()
                .map(|figure| median(at, figure.metric).map_or("-".into(), show_number));
            let star = if answer.frontier.contains(at) { "* " } else { "" };
            let mark = answer::mark(&points.points[*at]).map_or(String::new(), |mark| format!(" ({mark})"));
            let told = format!("{star}{}{mark}", settings(&params, points.points[*at].row));
            figures.chain([told]).collect::<Vec<String>>()
        });
        context! {
            name => name_workload(&points, workload),
            bests => bests(&points, &answer, &params).lines().map(str::to_owned).collect::<Vec<String>>(),
            heads => yardstick.shown.iter().map(|shown| shown.heading).collect::<Vec<_>>(),
            rows => rows.collect::<Vec<_>>(),
            more => own.len().saturating_sub(MOST_ROWS),
        }
    });
    let subject = Subject {
        experiment: name,
        points: &points,
    };
    let mut charts = make_charts(&subject, options);
    let mut pictures = Vec::new();
    for chart in &charts.charts {
        match render(chart, Form::Svg) {
            Ok(svg) => {
                pictures.push(context! { title => chart.title.clone(), svg => safe(String::from_utf8_lossy(&svg)) })
            }
            Err(error) => charts
                .missing
                .push(format!("the chart {} could not be drawn: {error}", chart.name)),
        }
    }
    let context = context! {
        style => safe(STYLE),
        name,
        counted => format!(
            "{} of {} in {}",
            show_many(table.rows() as u64, "run"),
            show_many(points.points.len() as u64, "point"),
            show_many(names.len() as u64, "experiment")
        ),
        experiments => experiments.collect::<Vec<_>>(),
        sections => sections.collect::<Vec<Value>>(),
        pictures,
    };
    (text::render(PAGE, context), charts.missing)
}
