//! The line charts of a report: latency and throughput against load, and those that the plan asks for (`[[report.plot]]`).

use super::ChartContext;
use super::curves::{Lines, draw};
use crate::chart::Chart;
use crate::findings::ranking::Ranking;
use crate::findings::variation::{curves_along, swept, varying};
use crate::texts::words::{name, title};
use itertools::Itertools;
use vsweep_plan::Plot;
use vsweep_record::table::{Column, MetricSet};
use vsweep_strategy::stats::split_class;

/// Draws latency against load: the median and the highest percentile of TTFT, TPOT and E2EL, and the times of single batches if a run has
/// sent such batches.
pub fn latency(subject: &ChartContext<'_>, ranking: &Ranking) -> Result<Vec<Chart>, String> {
    let points = subject.points;
    // Benchmarks without a TPOT measure the gaps between tokens.
    let per_token = match points.runs.column("median_tpot_ms") {
        Some(_) => ("tpot", "Time per output token (TPOT)"),
        None => ("itl", "Inter-token latency (ITL)"),
    };
    let quantities = [
        ("ttft", "Time to first token (TTFT)"),
        per_token,
        ("e2el", "End-to-end latency (E2EL)"),
    ];
    let quantities = quantities.map(|(quantity, title)| {
        let median = format!("median_{quantity}_ms");
        let highest = highest_percentile(subject, quantity);
        let of_classes = highest.iter().flat_map(|name| of_classes(subject, name)).collect_vec();
        let ys = [median].into_iter().chain(highest).chain(of_classes);
        (format!("latency_{quantity}"), title, ys.collect())
    });
    let batches = [
        ("decode", "step", "Decode step", ["step_ms", "server_step_ms"]),
        (
            "prefill",
            "prefill",
            "Prefill of a batch",
            ["first_token_ms", "server_prefill_ms"],
        ),
    ];
    let sends = |mode: &str| {
        let mut points = points.points.iter();
        points.any(|point| subject.points.param(point, "mode").to_string() == mode)
    };
    let batches = batches.into_iter().filter(|(mode, ..)| sends(mode));
    let batches = batches.map(|(_, name, title, ys)| (format!("latency_{name}"), title, ys.map(str::to_owned).into()));
    against_load(subject, ranking, quantities.into_iter().chain(batches))?
        .ok_or("no run has a latency by vLLM's names, such as median_ttft_ms".into())
}

/// Draws throughput against load: tokens and requests per second.
pub fn throughput(subject: &ChartContext<'_>, ranking: &Ranking) -> Result<Vec<Chart>, String> {
    let points = subject.points;
    let workloads = points.workloads();
    let judged = workloads
        .iter()
        .map(|workload| MetricSet::of(points, workload).throughput.1);
    let of_classes = of_classes(subject, "output_throughput");
    let metrics = judged
        .chain(["request_throughput"])
        .unique()
        .map(str::to_owned)
        .chain(of_classes);
    let picture = ("throughput".to_owned(), "Throughput", metrics.collect());
    against_load(subject, ranking, [picture].into_iter())?
        .ok_or("no run has a throughput by vLLM's names, such as output_throughput".into())
}

/// Most classes that have panels of their own. `[[report.plot]]` can draw any class.
const MOST_CLASSES: usize = 4;

/// The columns of a figure for the first `MOST_CLASSES` classes of a mixed load.
fn of_classes(subject: &ChartContext<'_>, figure: &str) -> impl Iterator<Item = String> {
    let columns = subject.points.runs.columns().iter();
    let found = columns.filter(move |column| matches!(split_class(&column.name), (Some(_), base) if base == figure));
    found.map(|column| column.name.clone()).take(MOST_CLASSES)
}

/// The name of the highest percentile of a latency up to p99, such as `p99_ttft_ms`.
fn highest_percentile(subject: &ChartContext<'_>, quantity: &str) -> Option<String> {
    let suffix = format!("_{quantity}_ms");
    let percentile = |name: &str| name.strip_prefix('p')?.strip_suffix(&suffix)?.parse::<f64>().ok();
    let columns = subject.points.runs.columns().iter();
    let named = columns.filter_map(|column| Some((percentile(&column.name)?, &column.name)));
    // Runs seldom have enough requests for a percentile beyond p99.
    let sound = named.filter(|(percentile, _)| *percentile <= 99.0);
    let highest = sound.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(highest.1.clone())
}

/// Draws charts along the load. Each of `pictures` is a name, a title and metrics. Metrics that were not measured are left out; `None` if
/// no chart is left.
///
/// # Errors
/// If no numeric parameter varies.
fn against_load(
    subject: &ChartContext<'_>,
    ranking: &Ranking,
    pictures: impl Iterator<Item = (String, &'static str, Vec<String>)>,
) -> Result<Option<Vec<Chart>>, String> {
    let points = subject.points;
    let params = varying(points);
    let x = swept(points, &params).ok_or("curves need a numeric parameter with at least two values")?;
    let mut charts = Vec::new();
    for (name, title, mut ys) in pictures {
        ys.retain(|metric| points.points.iter().any(|point| points.spread(point, metric).is_some()));
        let lines = Lines {
            name,
            title: title.to_owned(),
            x,
            ys: &ys,
            curve_by: params.iter().copied().filter(|column| column.name != x.name).collect(),
            is_curve_by_chosen: false,
        };
        if !ys.is_empty() {
            charts.extend(draw(subject, &lines, ranking));
        }
    }
    Ok((!charts.is_empty()).then_some(charts))
}

/// The charts of one `[[report.plot]]`, with a curve for each combination of `curve_by`, or of all parameters that vary if `curve_by` is
/// empty.
///
/// # Errors
/// If a column is unknown, or no run has a number for `y`.
pub fn requested(
    subject: &ChartContext<'_>,
    ranking: &Ranking,
    plot: &Plot,
    number: usize,
) -> Result<Vec<Chart>, String> {
    let points = subject.points;
    let column = |name: &str| points.runs.known_column(name);
    let x = column(&plot.x)?;
    let y = column(&plot.y)?;
    let asked = plot.curve_by.iter().map(|name| column(name));
    let asked: Vec<&Column> = asked.collect::<Result<_, _>>()?;
    if !points
        .points
        .iter()
        .any(|point| points.spread(point, &y.name).is_some())
    {
        return Err(format!("no run has a number for {}", y.name));
    }
    let lines = Lines {
        name: format!("plot_{number}"),
        title: format!("{} against {}", title(&y.name), name(&x.name)),
        x,
        ys: std::slice::from_ref(&y.name),
        is_curve_by_chosen: !asked.is_empty(),
        curve_by: match asked.is_empty() {
            true => curves_along(points, x, asked, &[]),
            false => asked,
        },
    };
    Ok(draw(subject, &lines, ranking))
}
