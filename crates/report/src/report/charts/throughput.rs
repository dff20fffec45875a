//! Throughput against load: tokens and requests per second.

use super::Subject;
use super::curves::{Request, draw};
use crate::report::chart::Chart;
use crate::report::effects::Findings;
use crate::report::variation::{swept, varying};
use crate::report::yardstick::Yardstick;
use itertools::Itertools;

/// The throughput chart, or why there is none.
pub fn charts(subject: &Subject<'_>, found: &Findings<'_>) -> Result<Vec<Chart>, String> {
    let points = subject.points;
    let params = varying(points);
    let x = swept(points, &params).ok_or("curves need a numeric parameter with at least two values")?;
    let has = |metric: &&str| points.points.iter().any(|point| points.spread(point, metric).is_some());
    let workloads = points.workloads();
    let judged = workloads
        .iter()
        .map(|workload| Yardstick::of(points, workload).throughput.1);
    let metrics = judged.chain(["request_throughput"]).unique();
    let ys: Vec<String> = metrics.filter(has).map(str::to_owned).collect();
    if ys.is_empty() {
        return Err("no run has a throughput by vLLM's names, such as output_throughput".into());
    }
    let request = Request {
        name: "throughput".into(),
        title: "Throughput".into(),
        x,
        ys: &ys,
        curve_by: params.iter().copied().filter(|column| column.name != x.name).collect(),
        is_asked: false,
    };
    draw(subject, &request, found)
}
