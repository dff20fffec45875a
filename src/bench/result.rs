//! The result of a native benchmark as JSON: the keys of `vllm bench serve` in its order, then those of `own`.

use super::aside::Alignment;
use super::counters::ServerCounters;
use super::own;
use super::probe::ProbeCounts;
use super::settings::Settings;
use crate::load::{Outcome, Turns};
use crate::metrics::{Nanos, Sample, Stats, Summary, seconds};
use crate::plan::Params;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the result says beside the samples.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub settings: &'a Settings,
    pub model_id: &'a str,
    pub tokenizer_id: Option<&'a str>,
    pub prompt_source: &'static str,
    pub counted_by: &'static str,
    pub alignment: Alignment,
    pub connection_setup: Duration,
    /// The turns of conversations, where there are any.
    pub turns: Option<&'a Turns>,
    /// The wall clock at t0.
    pub began: jiff::Zoned,
    pub probes: ProbeCounts,
    /// What the server counted during the run.
    pub server: ServerCounters,
}

/// Builds the result.
pub(super) fn result(mut context: Context<'_>, outcome: &Outcome) -> Params {
    let settings = context.settings;
    let samples = &outcome.samples;
    let summary = Summary::of(samples, seconds(outcome.duration), settings.goodput.as_ref());
    let mut result = Params::new();
    let mut set = |key: &str, value: Value| {
        result.insert(key.to_owned(), value);
    };
    set("date", json!(jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string()));
    set("endpoint_type", json!(settings.backend_name));
    set("backend", json!(settings.backend_name));
    set("label", json!(settings.label));
    set("model_id", json!(context.model_id));
    set("tokenizer_id", json!(context.tokenizer_id));
    set("num_prompts", json!(settings.num_prompts));
    for (key, value) in &settings.metadata {
        set(key, json!(value));
    }
    set("request_rate", finite(settings.arrivals.rate));
    set("burstiness", finite(settings.arrivals.burstiness));
    set("max_concurrency", json!(settings.max_concurrency));
    if let Some(ramp) = settings.arrivals.ramp {
        set("ramp_up_strategy", json!(ramp.shape.name()));
        set("ramp_up_start_rps", whole(ramp.start));
        set("ramp_up_end_rps", whole(ramp.end));
    }
    if settings.backend.generates() {
        generation(&mut context, &summary, outcome, &mut set);
    } else {
        pooling(settings, &summary, samples, &mut set);
    }
    for metric in &settings.metrics {
        write_stats(metric.name(), &metric.stats(samples, &settings.percentiles), &mut set);
    }
    own::write(&context, &summary, outcome, &mut set);
    result
}

/// The figures that timelines alone give: rates, and the distributions that the settings ask for.
pub(super) fn figures(settings: &Settings, samples: &[Sample], duration: Nanos) -> Params {
    let summary = Summary::of(samples, seconds(duration), settings.goodput.as_ref());
    let mut figures = Params::new();
    let mut set = |key: &str, value: Value| {
        figures.insert(key.to_owned(), value);
    };
    rates(&summary, &mut set);
    for metric in &settings.metrics {
        write_stats(metric.name(), &metric.stats(samples, &settings.percentiles), &mut set);
    }
    figures
}

/// Counts and rates of what generates tokens.
fn rates(summary: &Summary, set: &mut impl FnMut(&str, Value)) {
    set("duration", json!(summary.duration_s));
    set("completed", json!(summary.completed));
    set("failed", json!(summary.failed));
    set("total_input_tokens", json!(summary.total_input));
    set("total_output_tokens", json!(summary.total_output));
    set("request_throughput", json!(summary.request_throughput));
    set("request_goodput", json!(summary.request_goodput));
    set("output_throughput", json!(summary.output_throughput));
    set("total_token_throughput", json!(summary.total_token_throughput));
}

/// The figures of what generates tokens.
fn generation(context: &mut Context<'_>, summary: &Summary, outcome: &Outcome, set: &mut impl FnMut(&str, Value)) {
    let (settings, samples) = (context.settings, &outcome.samples);
    rates(summary, set);
    each_request(settings.save_detailed, samples, set);
    set("max_output_tokens_per_s", json!(summary.max_output_tokens_per_s));
    set("max_concurrent_requests", json!(summary.max_concurrent_requests));
    set("rtfx", json!(summary.rtfx));
    context.probes.write(set);
    if settings.arrivals.ramp.is_some() {
        set("rps_change_events", rate_changes(context, samples));
    }
    context.server.write(summary.duration_s, set);
}

/// The figures of what answers with vectors or scores.
fn pooling(settings: &Settings, summary: &Summary, samples: &[Sample], set: &mut impl FnMut(&str, Value)) {
    set("duration", json!(summary.duration_s));
    set("completed", json!(summary.completed));
    set("total_input_tokens", json!(summary.total_input));
    set("total_input_sequences", json!(summary.total_sequences));
    set("request_throughput", json!(summary.request_throughput));
    set("input_sequence_throughput", json!(summary.sequence_throughput));
    let rate = if summary.duration_s > 0.0 {
        summary.total_input as f64 / summary.duration_s
    } else {
        0.0
    };
    set("total_token_throughput", json!(rate));
    let detailed = settings.save_detailed;
    if detailed {
        set("input_lens", samples.iter().map(|sample| sample.prompt_len).collect());
    }
    set("latencies", ok_seconds(samples, Sample::latency));
    set("queue_times", queue_times(samples));
    if detailed {
        set("errors", errors(samples));
    }
}

/// When the rate of a ramp reached another whole number, by the wall clock.
fn rate_changes(context: &Context<'_>, samples: &[Sample]) -> Value {
    let arrivals = &context.settings.arrivals;
    let event = |rate: u64, at: Nanos| {
        let moment = &context.began + Duration::from_nanos(at);
        json!({"rps": rate, "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()})
    };
    let mut last = arrivals.ramp.map_or(0, |ramp| ramp.start as u64);
    let mut events = vec![event(last, 0)];
    for (i, sample) in samples.iter().enumerate() {
        let rate = arrivals.rate_at(i, samples.len()) as u64;
        if rate > last {
            events.push(event(rate, sample.sent));
            last = rate;
        }
    }
    events.into()
}

fn ok_seconds(samples: &[Sample], of: fn(&Sample) -> Nanos) -> Value {
    let value = |sample: &Sample| if sample.is_ok() { seconds(of(sample)) } else { 0.0 };
    samples.iter().map(value).collect()
}

fn queue_times(samples: &[Sample]) -> Value {
    samples.iter().map(|sample| seconds(sample.queue())).collect()
}

fn errors(samples: &[Sample]) -> Value {
    samples
        .iter()
        .map(|sample| sample.error.clone().unwrap_or_default())
        .collect()
}

/// The arrays with one entry a request. Failed ones are zeros and empty lists, as `vllm bench serve` has them.
fn each_request(detailed: bool, samples: &[Sample], set: &mut impl FnMut(&str, Value)) {
    if detailed {
        set("input_lens", samples.iter().map(|sample| sample.prompt_len).collect());
        set("output_lens", samples.iter().map(Sample::output_len).collect());
        set("ttfts", ok_seconds(samples, Sample::ttft));
        let gaps = |sample: &Sample| -> Value { sample.gaps().map(seconds).collect() };
        set("itls", samples.iter().map(gaps).collect());
    }
    set("latencies", ok_seconds(samples, Sample::latency));
    if detailed {
        set(
            "start_times",
            samples.iter().map(|sample| seconds(sample.sent)).collect(),
        );
    }
    set("queue_times", queue_times(samples));
    if detailed {
        let text = |sample: &Sample| sample.text.clone().unwrap_or_default();
        set("generated_texts", samples.iter().map(text).collect());
        set("errors", errors(samples));
    }
}

pub(super) fn write_stats(name: &str, stats: &Stats, set: &mut impl FnMut(&str, Value)) {
    set(&format!("mean_{name}_ms"), json!(stats.mean));
    set(&format!("median_{name}_ms"), json!(stats.median));
    set(&format!("std_{name}_ms"), json!(stats.std));
    for (percent, value) in &stats.percentiles {
        set(&format!("p{percent}_{name}_ms"), json!(value));
    }
}

/// The generator's lag over all requests, failed ones too.
pub(super) fn lag(samples: &[Sample], percents: &[f64]) -> Stats {
    Stats::of_seconds(samples.iter().map(|sample| seconds(sample.lag())).collect(), percents)
}

/// CPU time of the generator's thread per second of the run: 1 is a whole core.
pub(super) fn cpu_share(outcome: &Outcome) -> f64 {
    outcome.cpu.as_secs_f64() / seconds(outcome.duration.max(1))
}

/// How often each error occurred.
pub(super) fn failure_reasons(samples: &[Sample]) -> BTreeMap<&str, u64> {
    let mut reasons = BTreeMap::new();
    for error in samples.iter().filter_map(|sample| sample.error.as_deref()) {
        *reasons.entry(error).or_default() += 1;
    }
    reasons
}

/// A number as JSON; infinity, which JSON lacks, as the text `inf`.
fn finite(number: f64) -> Value {
    if number.is_finite() {
        json!(number)
    } else {
        json!("inf")
    }
}

/// A rate as a whole number where it is one.
fn whole(rate: f64) -> Value {
    if rate.fract() == 0.0 {
        json!(rate as u64)
    } else {
        json!(rate)
    }
}
