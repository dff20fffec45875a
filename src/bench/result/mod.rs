//! The result of a native benchmark as JSON: the keys of `vllm bench serve` in its order, then those of `extra_keys`.

mod classes;
pub mod console;
pub(in crate::bench) mod extra_keys;

use crate::bench::native::settings::NativeSettings;
use crate::bench::side::counters::ServerCounters;
use crate::bench::side::endpoint::NoAnswer;
use crate::bench::side::probe::ProbeCounts;
use crate::bench::side::tokenizer::Alignment;
use crate::bench::{date, members};
use crate::dataset::PromptSource;
use crate::load::{LoadOutcome, Turns};
use crate::metrics::confidence::{self, Errors, Flow};
use crate::metrics::{COLUMNS, Histogram, Metric, Nanos, Samples, Stats, Summary, seconds};
use crate::plan::Params;
use crate::search::Cut;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Columns of results with vectors or scores as answers.
const OF_POOLING: [&str; 4] = ["input_lens", "latencies", "queue_times", "errors"];
/// Columns of every result.
const ALWAYS: [&str; 2] = ["latencies", "queue_times"];

/// Origin of the prompts.
#[derive(Debug)]
pub(super) struct PromptOrigin {
    pub tokenizer_id: Option<String>,
    pub source: PromptSource,
    /// Name of what counted the prompts' tokens, such as the tokenizer.
    pub counted_by: &'static str,
    pub alignment: Alignment,
}

/// Content of the result apart from the samples.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub settings: &'a NativeSettings,
    pub model_id: &'a str,
    pub origin: PromptOrigin,
    pub connection_setup: Duration,
    /// Number of requests over which the rate of a ramp grows.
    pub ramp_len: usize,
    /// The turns of conversations, if there are any.
    pub turns: Option<&'a Turns>,
    /// The wall-clock time at which the load began.
    pub began: jiff::Zoned,
    pub probes: ProbeCounts,
    /// Growth of the server's counters during the run.
    pub server: ServerCounters,
    /// Relative sampling errors of the figures.
    pub errors: &'a Errors,
    /// Warnings about the figures.
    pub warnings: Vec<String>,
}

/// Builds the result. Its columns, which have one value for each request, are null. They are filled in from the samples later.
pub(super) fn result(mut context: Context<'_>, outcome: &LoadOutcome) -> Params {
    let settings = context.settings;
    let samples = &outcome.samples;
    let summary = Summary::of(samples, seconds(outcome.duration), settings.figures.goodput().as_ref());
    let mut result = members(json!({
        "date": date(),
        "endpoint_type": settings.api.backend_name,
        "backend": settings.api.backend_name,
        "label": settings.figures.label,
        "model_id": context.model_id,
        "tokenizer_id": context.origin.tokenizer_id,
        "num_prompts": match settings.arrival.duration {
            Some(_) => Some(samples.len() * settings.dataset.prompts_a_request()),
            None => settings.count_of(samples.len()),
        },
    }));
    for (key, value) in &settings.figures.metadata {
        result.insert(key.clone(), json!(value));
    }
    let arrivals = settings.arrival.arrivals();
    result.extend(members(json!({
        "request_rate": finite(arrivals.rate),
        "burstiness": finite(arrivals.burstiness),
        "max_concurrency": settings.concurrency(),
    })));
    if let Some(ramp) = arrivals.ramp {
        result.extend(members(json!({
            "ramp_up_strategy": ramp.shape.name(),
            "ramp_up_start_rps": whole(ramp.start),
            "ramp_up_end_rps": whole(ramp.end),
        })));
    }
    if settings.api.backend().generates() {
        generation(&mut context, &summary, outcome, &mut result);
    } else {
        pooling(settings, &summary, &mut result);
    }
    write_metrics(settings, samples, &mut result);
    result.extend(classes::figures(settings, samples, outcome.duration));
    extra_keys::write(&context, &summary, outcome, &mut result);
    result.insert("histograms".to_owned(), all_histograms(settings, samples));
    result
}

/// Returns the figures that follow from timelines alone: rates, and the distributions that the settings ask for.
pub(super) fn figures(settings: &NativeSettings, samples: &Samples, duration: Nanos) -> Params {
    let summary = Summary::of(samples, seconds(duration), settings.figures.goodput().as_ref());
    let mut figures = rates(&summary);
    write_metrics(settings, samples, &mut figures);
    figures.extend(classes::figures(settings, samples, duration));
    figures.insert("histograms".to_owned(), all_histograms(settings, samples));
    figures
}

/// Returns the sampling errors of all figures that follow from timelines.
pub(super) fn errors(settings: &NativeSettings, samples: &Samples, duration: Nanos) -> Errors {
    let flow = flow(settings, samples);
    let goodput = settings.figures.goodput();
    let percents = settings.percentiles();
    let mut errors = confidence::of_run(samples, flow, duration, settings.metrics(), percents, goodput.as_ref());
    more_errors(settings, samples, flow.wave(), &mut errors);
    errors.extend(classes::errors(settings, samples, duration));
    errors
}

fn flow(settings: &NativeSettings, samples: &Samples) -> Flow {
    match settings.concurrency() {
        _ if settings.is_open_loop() => {
            // Later turns of a conversation follow no rate.
            let starts = settings.requests_of(samples.len()).unwrap_or(usize::MAX);
            Flow::Scheduled(settings.arrival.span_deviation(starts.min(samples.len())))
        }
        slots => Flow::Closed(slots.unwrap_or(samples.len())),
    }
}

/// Adds the errors of latencies that `vllm bench serve` lacks.
fn more_errors(settings: &NativeSettings, samples: &Samples, wave: usize, errors: &mut Errors) {
    if settings.is_open_loop() {
        for (name, of) in extra_keys::FROM_DUE {
            let values = extra_keys::from_due(samples, of);
            confidence::of_values(name, values, wave, settings.percentiles(), errors);
        }
    }
    let by_token = errors.iter().filter(|(name, _)| name.ends_with("_itl_ms"));
    let by_token: Errors = by_token
        .map(|(name, error)| (name.replace("_itl_ms", "_itl_per_token_ms"), *error))
        .collect();
    errors.extend(by_token);
}

/// The distributions that every result has, and those of each class.
fn all_histograms(settings: &NativeSettings, samples: &Samples) -> Value {
    let mut all = histograms(settings, samples);
    all.extend(classes::histograms(settings, samples));
    json!(all)
}

/// The distributions of some requests. For answers with vectors or scores, there is only the latency; for those of several choices, no gap.
fn histograms(settings: &NativeSettings, samples: &Samples) -> BTreeMap<String, Histogram> {
    let generates = settings.api.backend().generates();
    let all = Histogram::of_samples(samples).into_iter();
    let known = all.filter(|(name, _)| match generates {
        true => settings.api.choices() == 1 || *name != Metric::Itl.name(),
        false => *name == Metric::E2el.name(),
    });
    known.map(|(name, histogram)| (name.to_owned(), histogram)).collect()
}

/// Counts and rates of a run that generates tokens.
fn rates(summary: &Summary) -> Params {
    members(json!({
        "duration": summary.duration_s,
        "completed": summary.completed,
        "failed": summary.failed,
        "total_input_tokens": summary.total_input,
        "total_output_tokens": summary.total_output,
        "request_throughput": summary.request_throughput,
        "request_goodput": summary.request_goodput,
        "output_throughput": summary.output_throughput,
        "total_token_throughput": summary.total_token_throughput,
    }))
}

/// Writes the figures of a run that generates tokens.
fn generation(context: &mut Context<'_>, summary: &Summary, outcome: &LoadOutcome, result: &mut Params) {
    let settings = context.settings;
    result.extend(rates(summary));
    columns(settings.figures.save_detailed, |_| true, result);
    if settings.figures.save_detailed {
        result.extend(classes::column(settings, &outcome.samples));
    }
    result.extend(members(json!({
        "max_output_tokens_per_s": summary.max_output_tokens_per_s,
        "max_concurrent_requests": summary.max_concurrent_requests,
        "rtfx": summary.rtfx,
    })));
    context.probes.write(result);
    if settings.arrival.ramp.is_some() {
        result.insert("rps_change_events".to_owned(), rate_changes(context, &outcome.samples));
    }
    context.server.write(summary.duration_s, result);
}

/// Writes the figures of a run with vectors or scores as answers.
fn pooling(settings: &NativeSettings, summary: &Summary, result: &mut Params) {
    let rate = if summary.duration_s > 0.0 {
        summary.total_input as f64 / summary.duration_s
    } else {
        0.0
    };
    result.extend(members(json!({
        "duration": summary.duration_s,
        "completed": summary.completed,
        "total_input_tokens": summary.total_input,
        "total_input_sequences": summary.total_sequences,
        "request_throughput": summary.request_throughput,
        "input_sequence_throughput": summary.sequence_throughput,
        "total_token_throughput": rate,
    })));
    columns(
        settings.figures.save_detailed,
        |column| OF_POOLING.contains(&column),
        result,
    );
}

/// Times at which the rate of a ramp reached another whole number, by the wall clock. Later turns of a conversation follow no rate.
fn rate_changes(context: &Context<'_>, samples: &Samples) -> Value {
    let arrivals = context.settings.arrival.arrivals();
    let event = |rate: u64, at: Nanos| {
        let moment = &context.began + Duration::from_nanos(at);
        json!({"rps": rate, "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()})
    };
    let mut last = arrivals.ramp.map_or(0, |ramp| ramp.start as u64);
    let mut events = vec![event(last, 0)];
    let is_start = |i: usize| context.turns.is_none_or(|turns| i == 0 || turns.each[i - 1].is_last);
    let starts = (0..).zip(samples.in_order()).filter(|(i, _)| is_start(*i));
    for (i, (_, sample)) in starts.enumerate() {
        let rate = arrivals.rate_at(i, context.ramp_len) as u64;
        if rate > last {
            events.push(event(rate, sample.sent));
            last = rate;
        }
    }
    events.into()
}

/// Writes null for each column that the result can have. Most columns are wanted only in a detailed result.
fn columns(detailed: bool, has: impl Fn(&str) -> bool, result: &mut Params) {
    let keys = COLUMNS.iter().map(|(key, _)| *key);
    let wanted = keys.filter(|key| (detailed || ALWAYS.contains(key)) && has(key));
    result.extend(wanted.map(|key| (key.to_owned(), Value::Null)));
}

/// Writes the distributions that the settings ask for, or nothing if no request succeeded: a latency of 0 would meet every target.
fn write_metrics(settings: &NativeSettings, samples: &Samples, result: &mut Params) {
    if samples.ok().next().is_none() {
        return;
    }
    for metric in settings.metrics() {
        write_stats(metric.name(), &metric.stats(samples, settings.percentiles()), result);
    }
}

pub(super) fn write_stats(name: &str, stats: &Stats, result: &mut Params) {
    let percentiles = stats.percentiles.iter();
    let percentiles = percentiles.map(|(percent, value)| (format!("p{percent}"), *value));
    let statistics = [("mean", stats.mean), ("median", stats.median), ("std", stats.std)];
    let statistics = statistics.map(|(statistic, value)| (statistic.to_owned(), value));
    for (statistic, value) in statistics.into_iter().chain(percentiles) {
        result.insert(format!("{statistic}_{name}_ms"), json!(value));
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

/// Number of occurrences of each error.
pub(super) fn failure_reasons(samples: &Samples) -> BTreeMap<String, u64> {
    let mut reasons = BTreeMap::new();
    for error in samples.iter().filter_map(|sample| sample.error) {
        *reasons.entry(error).or_default() += 1;
    }
    reasons
}

/// A number as JSON. Infinity, which JSON lacks, becomes the text `inf`.
fn finite(number: f64) -> Value {
    if number.is_finite() {
        json!(number)
    } else {
        json!("inf")
    }
}

/// A rate as JSON, without a fraction if it is whole.
fn whole(rate: f64) -> Value {
    if rate.fract() == 0.0 {
        json!(rate as u64)
    } else {
        json!(rate)
    }
}

/// Most bytes of a default name before the date. A file system allows 255 for a name.
const MOST_NAME: usize = 200;

/// Returns the default name of a result file: `{label or backend}-{rate}qps{-concurrencyN}-{model}-{date}.json`.
pub fn file_name(settings: &NativeSettings, result: &Params) -> String {
    let text = |key: &str| match result.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let label = settings.figures.label.as_deref().filter(|label| !label.is_empty());
    let label = label.unwrap_or(&settings.api.backend_name);
    let load = match settings.arrival.arrivals().ramp {
        Some(ramp) => format!("ramp-up-{}-{}qps-{}qps", ramp.shape.name(), ramp.start, ramp.end),
        None => format!("{}qps", text("request_rate")),
    };
    let limit = settings
        .concurrency()
        .map(|limit| format!("-concurrency{limit}"))
        .unwrap_or_default();
    let model_id = text("model_id");
    let model = model_id.rsplit('/').next().unwrap_or_default();
    // A label or a model's name may be any text, but a slash would create a folder, and no file's name may hold a NUL.
    let name = format!("{label}-{load}{limit}-{model}").replace(|c: char| c == '/' || c.is_control(), "-");
    format!("{}-{}.json", &name[..name.floor_char_boundary(MOST_NAME)], text("date"))
}

/// Adds the objections to a run to the warnings in its result.
pub(in crate::bench) fn add_objections(result: &mut Params, objections: impl Iterator<Item = String>) {
    let notes = objections.map(|objection| Value::from(format!("read these figures with care: {objection}")));
    let notes: Vec<Value> = notes.collect();
    if notes.is_empty() {
        return;
    }
    let warnings = result.entry("warnings").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(warnings) = warnings {
        warnings.extend(notes);
    }
}

/// Returns the warning for a run that a search ended early.
pub(in crate::bench) fn cut_warning(cut: &Cut) -> String {
    format!("these are the figures of a part of a run: {}", cut.why)
}

/// Returns the warning for a request outside the load that got no answer. `None` if the server refused it, since not every server has such
/// a route.
pub(in crate::bench) fn silence_warning(path: &str, error: &NoAnswer, consequence: &str) -> Option<String> {
    (!error.is_refusal()).then(|| format!("{path} could not be read: {error}; {consequence}"))
}
