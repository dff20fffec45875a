//! The result of a native benchmark as JSON: the keys of `vllm bench serve` in its order, then those of `own`.

pub mod console;
mod conversations;
pub(in crate::bench) mod extra_keys;
pub mod json_file;
pub mod pytorch;
pub(super) mod warnings;

use crate::bench::native::settings::Settings;
use crate::bench::side::counters::ServerCounters;
use crate::bench::side::probe::ProbeCounts;
use crate::bench::side::tokenizer::Alignment;
use crate::load::{LoadOutcome, Turns};
use crate::metrics::{Column, Histogram, Metric, Nanos, Samples, Stats, Summary, seconds};
use crate::plan::Params;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Columns of what answers with vectors or scores.
const OF_POOLING: [Column; 4] = [Column::InputLens, Column::Latencies, Column::QueueTimes, Column::Errors];

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
    /// Why the figures must be read with care.
    pub warnings: Vec<String>,
}

/// Builds the result; columns are null, to be filled in from the samples.
pub(super) fn result(mut context: Context<'_>, outcome: &LoadOutcome) -> Params {
    let settings = context.settings;
    let samples = &outcome.samples;
    let summary = Summary::of(samples, seconds(outcome.duration), settings.figures.goodput().as_ref());
    let mut result = Params::new();
    let mut set = |key: &str, value: Value| {
        result.insert(key.to_owned(), value);
    };
    set("date", json!(jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string()));
    set("endpoint_type", json!(settings.api.backend_name()));
    set("backend", json!(settings.api.backend_name()));
    set("label", json!(settings.figures.label));
    set("model_id", json!(context.model_id));
    set("tokenizer_id", json!(context.tokenizer_id));
    set("num_prompts", json!(settings.prompts.num_prompts));
    for (key, value) in &settings.figures.metadata {
        set(key, json!(value));
    }
    let arrivals = settings.arrival.arrivals();
    set("request_rate", finite(arrivals.rate));
    set("burstiness", finite(arrivals.burstiness));
    set("max_concurrency", json!(settings.concurrency()));
    if let Some(ramp) = arrivals.ramp {
        set("ramp_up_strategy", json!(ramp.shape.name()));
        set("ramp_up_start_rps", whole(ramp.start));
        set("ramp_up_end_rps", whole(ramp.end));
    }
    if settings.api.backend().generates() {
        generation(&mut context, &summary, outcome, &mut set);
    } else {
        pooling(settings, &summary, &mut set);
    }
    for metric in settings.metrics() {
        write_stats(metric.name(), &metric.stats(samples, settings.percentiles()), &mut set);
    }
    extra_keys::write(&context, &summary, outcome, &mut set);
    set("histograms", histograms(settings, samples));
    result
}

/// The figures that timelines alone give: rates, and the distributions that the settings ask for.
pub(super) fn figures(settings: &Settings, samples: &Samples, duration: Nanos) -> Params {
    let summary = Summary::of(samples, seconds(duration), settings.figures.goodput().as_ref());
    let mut figures = Params::new();
    let mut set = |key: &str, value: Value| {
        figures.insert(key.to_owned(), value);
    };
    rates(&summary, &mut set);
    for metric in settings.metrics() {
        write_stats(metric.name(), &metric.stats(samples, settings.percentiles()), &mut set);
    }
    set("histograms", histograms(settings, samples));
    figures
}

/// The distributions that every result has; what answers with vectors or scores has no tokens to wait for.
fn histograms(settings: &Settings, samples: &Samples) -> Value {
    let mut histograms = Histogram::of_samples(samples);
    let generates = settings.api.backend().generates();
    histograms.retain(|name, _| generates || *name == Metric::E2el.name());
    json!(histograms)
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
fn generation(context: &mut Context<'_>, summary: &Summary, outcome: &LoadOutcome, set: &mut impl FnMut(&str, Value)) {
    let (settings, samples) = (context.settings, &outcome.samples);
    rates(summary, set);
    columns(settings.figures.save_detailed, &Column::ALL, set);
    set("max_output_tokens_per_s", json!(summary.max_output_tokens_per_s));
    set("max_concurrent_requests", json!(summary.max_concurrent_requests));
    set("rtfx", json!(summary.rtfx));
    context.probes.write(set);
    if settings.arrival.ramp.is_some() {
        set("rps_change_events", rate_changes(context, samples));
    }
    context.server.write(summary.duration_s, set);
}

/// The figures of what answers with vectors or scores.
fn pooling(settings: &Settings, summary: &Summary, set: &mut impl FnMut(&str, Value)) {
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
    columns(settings.figures.save_detailed, &OF_POOLING, set);
}

/// When the rate of a ramp reached another whole number, by the wall clock.
fn rate_changes(context: &Context<'_>, samples: &Samples) -> Value {
    let arrivals = context.settings.arrival.arrivals();
    let event = |rate: u64, at: Nanos| {
        let moment = &context.began + Duration::from_nanos(at);
        json!({"rps": rate, "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()})
    };
    let mut last = arrivals.ramp.map_or(0, |ramp| ramp.start as u64);
    let mut events = vec![event(last, 0)];
    for (i, sample) in samples.in_order().enumerate() {
        let rate = arrivals.rate_at(i, samples.len()) as u64;
        if rate > last {
            events.push(event(rate, sample.sent));
            last = rate;
        }
    }
    events.into()
}

/// Leaves their places to the columns of a result; most are wanted only in detail.
fn columns(detailed: bool, columns: &[Column], set: &mut impl FnMut(&str, Value)) {
    let always = [Column::Latencies, Column::QueueTimes];
    let wanted = columns.iter().filter(|column| detailed || always.contains(column));
    wanted.for_each(|column| set(column.name(), Value::Null));
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
pub(super) fn lag(samples: &Samples, percents: &[f64]) -> Stats {
    Stats::of_seconds(samples.iter().map(|sample| seconds(sample.lag())).collect(), percents)
}

/// CPU time of the generator's thread per second of the run: 1 is a whole core.
pub(super) fn cpu_share(outcome: &LoadOutcome) -> f64 {
    outcome.cpu.as_secs_f64() / seconds(outcome.duration.max(1))
}

/// How often each error occurred.
pub(super) fn failure_reasons(samples: &Samples) -> BTreeMap<String, u64> {
    let mut reasons = BTreeMap::new();
    for error in samples.iter().filter_map(|sample| sample.error) {
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
