//! Latency against load: for each of TTFT, TPOT and E2EL its median and its highest percentile, side by side.

use super::Subject;
use super::curves::{Request, draw};
use crate::report::chart::Chart;
use crate::report::effects::Findings;
use crate::report::variation::{swept, varying};

/// The latency charts, or why there are none.
pub fn charts(subject: &Subject<'_>, found: &Findings<'_>) -> Result<Vec<Chart>, String> {
    let points = subject.points;
    let params = varying(points);
    let x = swept(points, &params).ok_or("curves need a numeric parameter with at least two values")?;
    let is_there = |metric: &String| points.runs.column(metric).is_some();
    // Where whole requests are not timed, the gaps between their tokens are.
    let has_requests = is_there(&"median_tpot_ms".to_owned());
    let quantities = [
        ("ttft", "Time to first token (TTFT)"),
        ("tpot", "Time per output token (TPOT)"),
        ("itl", "Inter-token latency (ITL)"),
        ("e2el", "End-to-end latency (E2EL)"),
    ];
    let quantities = quantities
        .into_iter()
        .filter(|(quantity, _)| *quantity != "itl" || !has_requests)
        .map(|(quantity, title)| {
            let ys = [
                Some(format!("median_{quantity}_ms")),
                highest_percentile(subject, quantity),
            ];
            (quantity, title, ys.into_iter().flatten().collect())
        });
    let batches = [
        ("step", "Decode step", ["step_ms", "server_step_ms"]),
        ("prefill", "Prefill of a batch", ["first_token_ms", "server_prefill_ms"]),
    ];
    let sends = |mode: &str| {
        points
            .points
            .iter()
            .any(|point| points.param(point, "mode").to_string() == mode)
    };
    let batches = batches
        .into_iter()
        .filter(|(kind, ..)| sends(if *kind == "step" { "decode" } else { "prefill" }))
        .map(|(kind, title, ys)| (kind, title, ys.map(str::to_owned).into()));
    let mut charts = Vec::new();
    for (quantity, title, ys) in quantities.chain(batches) {
        let ys: Vec<String> = ys;
        let ys: Vec<String> = ys.into_iter().filter(is_there).collect();
        let request = Request {
            name: format!("latency_{quantity}"),
            title: title.to_owned(),
            x,
            ys: &ys,
            curve_by: params.iter().copied().filter(|column| column.name != x.name).collect(),
            is_asked: false,
        };
        if !ys.is_empty() {
            charts.extend(draw(subject, &request, found)?);
        }
    }
    if charts.is_empty() {
        return Err("no run has a latency by vLLM's names, such as median_ttft_ms".into());
    }
    Ok(charts)
}

/// `p99_ttft_ms`, or whichever percentile was asked for instead.
fn highest_percentile(subject: &Subject<'_>, quantity: &str) -> Option<String> {
    let suffix = format!("_{quantity}_ms");
    let percentile = |name: &str| name.strip_prefix('p')?.strip_suffix(&suffix)?.parse::<f64>().ok();
    let columns = subject.points.runs.columns().iter();
    let named = columns.filter_map(|column| Some((percentile(&column.name)?, &column.name)));
    // Beyond p99 a run seldom has the samples that the figure would need.
    let sound = named.filter(|(percentile, _)| *percentile <= 99.0);
    let highest = sound.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(highest.1.clone())
}
