//! The result keys that `vllm bench serve` lacks: the reliability of the figures, and further observations.

use crate::bench::members;
use crate::bench::native::settings::NativeSettings;
use crate::bench::result::{Context, cpu_share, failure_reasons, lag, write_metrics, write_stats};
use crate::load::{LoadOutcome, Turns};
use crate::metrics::confidence::{SHARE, interval};
use crate::metrics::{Metric, Nanos, Sample, Samples, Stats, SteadyState, Summary, seconds};
use crate::plan::Params;
use crate::stats::figure_of;
use serde_json::{Map, Value, json};

/// A function that returns the time from the sending of a request to one of its events.
type Latency = fn(&Sample) -> Nanos;

/// Latencies that are measured from the due time of a request, not from its sending.
pub(super) const FROM_DUE: [(&str, Latency); 2] = [("ttft_from_due", Sample::ttft), ("e2el_from_due", Sample::latency)];

/// Writes the keys that `vllm bench serve` lacks, after all others.
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
        write_conversations(settings, turns, outcome, result);
    }
    latencies(settings, samples, result);
    let intervals = intervals(context, result);
    result.insert("confidence_95".to_owned(), intervals);
    if let Some(rule) = settings.steady() {
        let found = SteadyState::find(samples, rule, settings.percentiles());
        if settings.arrival.duration.is_some() {
            let steady_s = found.as_ref().map_or(0.0, |steady| seconds(steady.held));
            result.insert("steady_share".to_owned(), json!(steady_s / summary.duration_s));
        }
        let steady = match found {
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
    if let Some(steps) = context.server.steps().filter(|steps| *steps > 0.0) {
        result.insert("engine_steps".to_owned(), json!(steps as u64));
    }
    if let Some(rate) = context.server.hit_rate() {
        result.insert("prefix_cache_hit_rate".to_owned(), json!(rate));
    }
    if !context.warnings.is_empty() {
        result.insert("warnings".to_owned(), json!(context.warnings));
    }
}

/// Writes the latencies that `vllm bench serve` lacks, or nothing if no request succeeded.
pub(super) fn latencies(settings: &NativeSettings, samples: &Samples, result: &mut Params) {
    if samples.ok().next().is_none() {
        return;
    }
    if settings.is_open_loop() {
        for (name, of) in FROM_DUE {
            let stats = Stats::of_seconds(from_due(samples, of), settings.percentiles());
            write_stats(name, &stats, result);
        }
    }
    if settings.api.backend().generates()
        && settings.api.choices() == 1
        && let Some(stats) = Metric::itl_per_token(samples, settings.percentiles())
    {
        write_stats("itl_per_token", &stats, result);
    }
}

/// Performance of the load generator, for its checks.
pub(in crate::bench) fn generator(outcome: &LoadOutcome) -> Params {
    members(json!({
        "generator_cpu_share": cpu_share(outcome),
        "generator_longest_turn_ms": seconds(outcome.longest_absence) * 1000.0,
        "generator_away_ms": seconds(outcome.total_absence) * 1000.0,
        "generator_kernel_stamped_share": outcome.stamped_share,
        "generator_connecting_share": connecting_share(outcome),
    }))
}

/// Share of the time of all requests in which they waited for a connection.
fn connecting_share(outcome: &LoadOutcome) -> f64 {
    if outcome.connecting == 0 {
        return 0.0;
    }
    let ended = outcome.samples.iter().map(|sample| sample.latency());
    let busy: Nanos = ended.chain(outcome.cut.iter().map(Sample::latency)).sum();
    outcome.connecting as f64 / (outcome.connecting + busy) as f64
}

/// Times from the due time of each request that succeeded to one of its events, in seconds.
pub(super) fn from_due(samples: &Samples, of: Latency) -> Vec<f64> {
    let values = samples.ok().map(|sample| seconds(sample.queue() + of(&sample)));
    values.collect()
}

/// Confidence intervals of rates and percentiles, by their sampling errors alone.
fn intervals(context: &Context<'_>, result: &Params) -> Value {
    let settings = context.settings;
    let rates = ["request_throughput", "output_throughput"].map(str::to_owned);
    let classes = settings.mix.iter().flat_map(|mix| &mix.classes);
    let classes = classes.map(|class| Some(class.name.as_str()));
    let percentiles = settings.metrics().iter().flat_map(|metric| {
        let name = move |percent: &f64| format!("p{percent}_{}_ms", metric.name());
        settings.percentiles().iter().map(name)
    });
    let named = |name: String| {
        let figure = result.get(&name)?.as_f64()?;
        let error = context.errors.get(&name);
        Some((name, json!(error.map(|error| interval(figure, *error)))))
    };
    let names: Vec<String> = rates.into_iter().chain(percentiles).collect();
    let of_class = |class: Option<&str>| {
        let share = class.map(|_| SHARE);
        let names = share.into_iter().chain(names.iter().map(String::as_str));
        names.map(|name| figure_of(class, name)).collect::<Vec<_>>()
    };
    let names = [None].into_iter().chain(classes).flat_map(of_class);
    let intervals = names.filter_map(named);
    Value::Object(intervals.collect::<Map<String, Value>>())
}

fn steady_state(steady: &SteadyState, settings: &NativeSettings, summary: &Summary) -> Value {
    let shortest = settings
        .figures
        .steady_min_window_s
        .unwrap_or((0.1 * summary.duration_s).max(10.0));
    let is_short = steady.duration_s() < shortest;
    let warning = is_short.then(|| {
        format!(
            "{:.1} s is shorter than the {shortest:.1} s needed",
            steady.duration_s()
        )
    });
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
    if settings.api.choices() == 1 {
        write_stats("tpot", &steady.tpot, &mut found);
    }
    found.into()
}

/// Writes counts and durations of the conversations, and the figures of each turn.
fn write_conversations(settings: &NativeSettings, turns: &Turns, outcome: &LoadOutcome, result: &mut Params) {
    let samples: Vec<Sample> = outcome.samples.in_order().collect();
    let conversations = conversations(turns, &samples);
    let (count, planned) = (conversations.len(), samples.len());
    let whole: Vec<&&[Sample]> = conversations
        .iter()
        .filter(|turns| turns.iter().all(Sample::is_ok))
        .collect();
    let answered = samples.iter().filter(|sample| sample.is_ok()).count();
    let longest = conversations.iter().map(|turns| turns.len()).max().unwrap_or(0);
    let duration = |turns: &&&[Sample]| -> f64 {
        let (first, last) = (turns.first(), turns.last());
        first
            .zip(last)
            .map_or(0.0, |(first, last)| seconds(last.end.saturating_sub(first.sent)))
    };
    let mean = |sum: f64, count: usize| (count > 0).then(|| sum / count as f64);
    let each = (0..longest).map(|turn| {
        let samples: Samples = conversations
            .iter()
            .filter_map(|turns| turns.get(turn).cloned())
            .collect();
        of_turn(turn, &samples, seconds(outcome.duration), settings)
    });
    result.extend(members(json!({
        "mode": "multi_turn",
        "num_conversations": count,
        "turns_per_conversation": mean(planned as f64, count),
        "multi_turn_concurrency": settings.concurrency(),
        "inter_turn_delay_ms": settings.turns.delay_ms,
        "conversations_completed": whole.len(),
        "conversations_failed": count - whole.len(),
        "avg_turns_completed": mean(answered as f64, count),
        "avg_conversation_duration_ms": mean(whole.iter().map(duration).sum::<f64>() * 1000.0, whole.len()),
        "per_turn_metrics": each.collect::<Value>(),
    })));
}

/// Returns the samples of each conversation.
fn conversations<'a>(turns: &Turns, samples: &'a [Sample]) -> Vec<&'a [Sample]> {
    let mut conversations = vec![];
    let mut start = 0;
    for (i, turn) in turns.each.iter().enumerate().take(samples.len()) {
        if turn.is_last {
            conversations.push(&samples[start..=i]);
            start = i + 1;
        }
    }
    conversations
}

/// The figures of the turn with this index, over all conversations that have it. Rates are over the whole run.
fn of_turn(turn: usize, samples: &Samples, duration_s: f64, settings: &NativeSettings) -> Value {
    let summary = Summary::of(samples, duration_s, None);
    let mut figures = members(json!({
        "turn_index": turn,
        "num_samples": samples.len(),
        "completed": summary.completed,
        "failed": summary.failed,
        "total_input_tokens": summary.total_input,
        "total_output_tokens": summary.total_output,
        "request_throughput": summary.request_throughput,
        "input_throughput": summary.total_token_throughput - summary.output_throughput,
        "output_throughput": summary.output_throughput,
        "total_token_throughput": summary.total_token_throughput,
    }));
    write_metrics(settings, samples, &mut figures);
    figures.into()
}
