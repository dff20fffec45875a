//! The distribution of latencies at the points that an answer names: the share of requests that took at most this long.

use super::{ChartContext, numbered, of_workload};
use crate::report::answer::WorkloadAnswer;
use crate::report::chart::{Axis, Chart, Mark, Panel, Scale, Series, Style};
use crate::report::distributions::{Distributions, LATENCIES};
use crate::report::variation::{settings, varying_within};
use itertools::Itertools;
use vsweep_record::table::Workload;

/// Points of a chart.
const MOST_POINTS: usize = 6;

/// The points that a chart shows: the best ones and the knee of a workload.
fn of_answer(answer: &WorkloadAnswer) -> Vec<usize> {
    answer.bests().chain(answer.knee).unique().take(MOST_POINTS).collect()
}

/// A chart for each workload whose benchmark recorded histograms.
pub fn charts(subject: &ChartContext<'_>, answers: &[WorkloadAnswer], distributions: &Distributions) -> Vec<Chart> {
    let workloads = subject.points.workloads();
    let charts = workloads
        .iter()
        .zip(answers)
        .filter_map(|(workload, answer)| draw(subject, workload, answer, distributions));
    numbered("cdf", charts.collect())
}

fn draw(
    subject: &ChartContext<'_>,
    workload: &Workload<'_>,
    answer: &WorkloadAnswer,
    distributions: &Distributions,
) -> Option<Chart> {
    let points = subject.points;
    let varying = varying_within(points, workload);
    let shown = of_answer(answer);
    let panel = |(name, title): (&str, &str)| {
        let curve = |(number, at): (usize, &usize)| {
            let histogram = distributions.of(*at, name)?;
            let mark = |(ms, share): (f64, f64)| Mark::at(ms, share * 100.0);
            let positive = histogram.cumulative().into_iter().filter(|(ms, _)| *ms > 0.0);
            let name = settings(&varying, points.points[*at].row);
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
    let note = "The share of requests (of gaps between tokens for ITL) that took at most so long, at the best points and the knee, over \
                all runs. Further left is better.";
    (!panels.is_empty()).then(|| subject.chart(title, note.to_owned(), panels))
}
