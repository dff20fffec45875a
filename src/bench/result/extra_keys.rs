//! The result keys that `vllm bench serve` lacks: how far the figures can be trusted, and what was seen besides.

use crate::bench::members;
use crate::bench::native::settings::NativeSettings;
use crate::bench::result::conversations;
use crate::bench::result::{Context, cpu_share, failure_reasons, lag, write_stats};
use crate::load::LoadOutcome;
use crate::metrics::confidence::{self, Interval};
use crate::metrics::{Metric, Nanos, Sample, Samples, Stats, SteadyState, Summary, seconds};
use crate::plan::Params;
use serde_json::{Map, Value, json};

/// Metrics with one value a request; values of one request among themselves, such as its ITL, are no independent ones.
const ONE_A_REQUEST: [Metric; 3] = [Metric::Ttft, Metric::Tpot, Metric::E2el];

/// Writes them, after all others.
pub(in crate::bench) fn write(context: &Context<'_>, summary: &Summary, outcome: &LoadOutcome, result: &mut Params) {
    let (settings, samples) = (context.settings, &outcome.samples);
    result.extend(members(json!({
        "failed": summary.failed,
        "prompt_source": context.origin.source,
        "prompt_tokens_counted_by": context.origin.counted_by,
        "prompt_alignment": context.origin.alignment.describe(),
        "peak_concurrent_requests": summary.peak_concurrent_requests,
    })));
    if let Some(turns) = context.turns {
        conversations::write(settings, turns, outcome, result);
    }
    if settings.is_open_loop() {
        from_due("ttft_from_due", samples, settings, Sample::ttft, result);
        from_due("e2el_from_due", samples, settings, Sample::latency, result);
    }
    if settings.api.backend().generates()
        && let Some(stats) = Metric::itl_per_token(samples, settings.percentiles())
    {
        write_stats("itl_per_token", &stats, result);
    }
    result.insert("confidence_95".to_owned(), intervals(settings, outcome));
    if let Some(rule) = settings.steady() {
        let steady = match SteadyState::find(samples, rule, settings.percentiles()) {
            Ok(steady) => steady_state(&steady, settings, summary),
            Err(reason) => reason.into(),
        };
        result.insert("steady_state".to_owned(), steady);
    }
    let lag = lag(samples, &[50.0, 99.0, 100.0]);
    result.extend(members(json!({
        "generator_lag_p50_ms": lag.percentiles[0].1,
        "generator_lag_p99_ms": lag.percentiles[1].1,
        "generator_lag_max_ms": lag.percentiles[2].1,
    })));
    result.extend(generator(outcome));
    result.extend(members(json!({
        "generator_late_connections": outcome.late_connections,
        "connection_setup_ms": context.connection_setup.as_secs_f64() * 1000.0,
    })));
    let reasons = failure_reasons(samples);
    if !reasons.is_empty() {
        result.insert("failure_reasons".to_owned(), json!(reasons));
    }
    if let Some(rate) = context.server.hit_rate() {
        result.insert("prefix_cache_hit_rate".to_owned(), json!(rate));
    }
    if !context.warnings.is_empty() {
        result.insert("warnings".to_owned(), json!(context.warnings));
    }
}

/// How the generator did its part: what its judges look at.
pub(in crate::bench) fn generator(outcome: &LoadOutcome) -> Params {
    members(json!({
        "generator_cpu_share": cpu_share(outcome),
        "generator_longest_turn_ms": seconds(outcome.longest_turn) * 1000.0,
        "generator_away_ms": seconds(outcome.away) * 1000.0,
        "generator_kernel_stamped_share": outcome.stamped_share,
    }))
}

fn from_due(name: &str, samples: &Samples, settings: &NativeSettings, of: fn(&Sample) -> Nanos, result: &mut Params) {
    let values = samples
        .ok()
        .map(|sample| seconds(sample.queue() + of(&sample)))
        .collect();
    write_stats(name, &Stats::of_seconds(values, settings.percentiles()), result);
}

/// What chance alone may have done to rates and percentiles; null where the run is too short to say.
fn intervals(settings: &NativeSettings, outcome: &LoadOutcome) -> Value {
    let samples = &outcome.samples;
    let pair = |interval: Option<Interval>, scale: f64| match interval {
        Some(Interval { low, high }) => json!([low * scale, high * scale]),
        None => Value::Null,
    };
    let mut intervals = Map::new();
    let requests = confidence::request_rate(samples, outcome.duration);
    intervals.insert("request_throughput".to_owned(), pair(requests, 1.0));
    if settings.api.backend().generates() {
        let events = confidence::output_rate(samples, outcome.duration);
        intervals.insert("output_events_per_s".to_owned(), pair(events, 1.0));
    }
    for metric in settings
        .metrics()
        .iter()
        .filter(|metric| ONE_A_REQUEST.contains(metric))
    {
        let mut values = metric.values(samples);
        values.sort_unstable_by(f64::total_cmp);
        for percent in settings.percentiles() {
            let interval = confidence::percentile_interval(&values, *percent);
            intervals.insert(format!("p{percent}_{}_ms", metric.name()), pair(interval, 1000.0));
        }
    }
    intervals.into()
}

fn steady_state(steady: &SteadyState, settings: &NativeSettings, summary: &Summary) -> Value {
    let shortest = settings
        .figures
        .steady_min_window_s
        .unwrap_or((0.1 * summary.duration_s).max(10.0));
    let is_short = steady.duration_s() < shortest;
    let warning = is_short.then(|| format!("{:.1} s are short of {shortest:.1} s", steady.duration_s()));
    let rule = settings.steady();
    let mut found = members(json!({
        "window": {
            "start_s": seconds(steady.start),
            "end_s": seconds(steady.end),
            "duration_s": steady.duration_s(),
            "target_concurrency": rule.map(|rule| rule.target),
            "threshold": rule.map(|rule| rule.threshold),
            "threshold_abs": steady.enough,
            "observed_peak": steady.peak,
            "requests_started_in_window": steady.started,
            "requests_completed_in_window": steady.completed,
            "requests_total": summary.completed,
            "warning": warning,
        },
        "request_throughput": steady.request_throughput,
        "input_throughput": steady.input_throughput,
        "output_throughput": steady.output_throughput,
        "total_token_throughput": steady.input_throughput + steady.output_throughput,
    }));
    write_stats("ttft", &steady.ttft, &mut found);
    write_stats("tpot", &steady.tpot, &mut found);
    found.into()
}
