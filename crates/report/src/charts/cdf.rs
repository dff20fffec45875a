//! Charts of the distribution of latencies at the points that an answer names: the share of requests that took at most a given time.

use super::{ChartContext, numbered, of_workload};
use crate::chart::{Axis, Chart, Mark, Panel, Scale, Series, Style};
use crate::distributions::{Distributions, LATENCIES};
use crate::findings::answer::WorkloadAnswer;
use crate::findings::variation::{settings, varying_within};
use itertools::Itertools;
use vsweep_record::table::Workload;
use vsweep_strategy::stats::figure_of;

/// Maximum number of curves in a panel.
const MOST_SHOWN: usize = 6;

/// Returns the curves of a chart, at most [`MOST_SHOWN`], each as the index of a point and a class. The points are the best ones and the
/// knee of a workload. A point under a mixed load has a curve for each class; otherwise the class is `None`.
fn curves_of<'a>(answer: &WorkloadAnswer, distributions: &'a Distributions) -> Vec<(usize, Option<&'a str>)> {
    let points = answer.bests().chain(answer.knee).unique();
    let curves = points.flat_map(|at| {
        let classes = distributions.classes(at).map(Some).collect_vec();
        let curves = if classes.is_empty() { vec![None] } else { classes };
        curves.into_iter().map(move |class| (at, class))
    });
    curves.take(MOST_SHOWN).collect()
}

/// Returns a chart for each workload whose benchmark recorded histograms.
pub fn charts(subject: &ChartContext<'_>, answers: &[WorkloadAnswer], distributions: &Distributions) -> Vec<Chart> {
    let workloads = subject.points.workloads();
    let charts = workloads
        .iter()
        .zip(answers)
        .filter_map(|(workload, answer)| draw(subject, workload, answer, distributions));
    numbered("cdf", charts.collect())
}

/// Share of gaps between tokens that are 0 ms. Above it, the note explains why a line begins above 0 %.
const MANY_ZEROS: f64 = 0.1;

fn draw(
    subject: &ChartContext<'_>,
    workload: &Workload<'_>,
    answer: &WorkloadAnswer,
    distributions: &Distributions,
) -> Option<Chart> {
    let points = subject.points;
    let varying = varying_within(points, workload);
    let shown = curves_of(answer, distributions);
    let panel = |(name, title): (&str, &str)| {
        let curve = |(number, (at, class)): (usize, &(usize, Option<&str>))| {
            let histogram = distributions.of(*at, &figure_of(*class, name))?;
            let mark = |(ms, share): (f64, f64)| Mark::at(ms, share * 100.0);
            let all = histogram.cumulative();
            // A line rises from 0 % at the first value, unless that is 0 ms, which a logarithmic axis cannot show.
            let first = all.first().filter(|(ms, _)| *ms > 0.0).map(|(ms, _)| (*ms, 0.0));
            let positive = first.into_iter().chain(all.into_iter().filter(|(ms, _)| *ms > 0.0));
            let settings = settings(&varying, points.points[*at].row);
            let name = match class {
                Some(class) if settings.is_empty() => (*class).to_owned(),
                Some(class) => format!("{class}: {settings}"),
                None => settings,
            };
            Some(Series::new(name, Style::Line(number), positive.map(mark).collect()))
        };
        let series: Vec<Series> = shown.iter().enumerate().filter_map(curve).collect();
        let x = Axis::of(format!("{title} (ms)"), Scale::Log);
        let counted = if name == "itl" { "gaps" } else { "requests" };
        let y = Axis::of(format!("Share of {counted} (%)"), Scale::Linear).covering(0.0, 100.0);
        (!series.is_empty()).then(|| Panel::of(x, y, series))
    };
    let panels: Vec<Panel> = LATENCIES.into_iter().filter_map(panel).collect();
    let title = of_workload("How latencies are distributed", &answer.name);
    let has_zeros = |(at, class): &(usize, Option<&str>)| {
        let histogram = distributions.of(*at, &figure_of(*class, "itl"));
        let first = histogram.and_then(|histogram| histogram.cumulative().into_iter().next());
        first.is_some_and(|(ms, share)| ms <= 0.0 && share > MANY_ZEROS)
    };
    let zeros = match shown.iter().any(has_zeros) {
        true => " A line that begins above 0 %: gaps of 0 ms, of tokens that arrived together.",
        false => "",
    };
    let note = format!(
        "Share of requests (ITL: of gaps between tokens) finished within a given time, at the best points and the knee, over all runs. \
         Further left is better.{zeros}"
    );
    (!panels.is_empty()).then(|| subject.chart(title, note, panels))
}
