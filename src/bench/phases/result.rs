//! The figures of one phase at one level, and how far they can be believed.

use super::Shape;
use super::figures::WindowFigures;
use super::settings::Settings;
use crate::bench::exact_prompts::Phase;
use crate::bench::judge;
use crate::bench::result::extra_keys::generator;
use crate::bench::result::{failure_reasons, write_stats};
use crate::bench::side::counters::ServerCounters;
use crate::bench::side::limits::ServerLimits;
use crate::bench::{Job, Measurement, broken};
use crate::cause::Failure;
use crate::load::{LoadOutcome, WindowSeen};
use crate::metrics::confidence::Interval;
use crate::metrics::seconds;
use crate::plan::Params;
use crate::validity::{Code, Doubt};
use serde_json::{Value, json};

pub(super) fn measurement(
    job: &Job,
    settings: &Settings,
    facts: &ServerLimits,
    shape: Shape,
    grown: Option<ServerCounters>,
    outcome: &LoadOutcome,
    seen: &WindowSeen,
) -> Measurement {
    let figures = WindowFigures::of(&outcome.samples, &seen.cut, seen.start..seen.end);
    let mut result = Params::new();
    let mut set = |key: &str, value: Value| drop(result.insert(key.to_owned(), value));
    let model = settings.server.model.as_ref().unwrap_or(&job.model_root);
    set("date", json!(jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string()));
    set("model_id", json!(model));
    set("max_concurrency", json!(settings.concurrency));
    let (input, output) = (shape.input_len, shape.output_len);
    set("input_len", json!(input));
    set("output_len", json!(output));
    set("seq_len", json!(input + output));
    set("kv_capacity_tokens", json!(shape.kv_tokens));
    set("sequence_limit", json!(shape.limit));
    set("kv_cache_dtype", json!(facts.cache_dtype));
    set("prefix_caching", json!(facts.prefix_caching));
    set("tensor_parallel", json!(facts.tensor_parallel));
    set("engines", json!(facts.engines));
    set("warmup_s", json!(seconds(seen.start)));
    set("primed_s", json!(seen.primed.map(seconds)));
    set("window_s", json!(figures.window_s));

    let failed = outcome.samples.failed();
    set("requests_started", json!(figures.started));
    set("completed", json!(figures.completed));
    set("failed", json!(failed));
    set("input_tokens", json!(figures.input_tokens));
    set("output_tokens", json!(figures.output_tokens));
    let (input_rate, output_rate) = (
        figures.per_s(figures.input_tokens),
        figures.per_s(figures.output_tokens),
    );
    set("request_throughput", json!(figures.per_s(figures.completed)));
    set("input_throughput", json!(input_rate));
    set("output_throughput", json!(output_rate));
    set("total_token_throughput", json!(input_rate + output_rate));
    // As if prompts were computed as fast as their outputs end, which holds in the long run.
    let sequence_share = (input + output) as f64 / output as f64;
    set("total_throughput", json!(output_rate * sequence_share));
    // Prompts are done by the step, several at once: spans of time say nothing of how far their rate is by chance.
    if let (Phase::Decode, Some(Interval { low, high })) = (settings.phase, figures.events_per_s) {
        let pair = [low * sequence_share, high * sequence_share];
        set("confidence_95", json!({"total_throughput": pair}));
    }
    for (latency, stats) in [("ttft", &figures.ttft), ("itl", &figures.itl)] {
        if stats.count > 0 {
            write_stats(latency, stats, &mut set);
        }
    }
    generator(outcome, &mut set);
    let reasons = failure_reasons(&outcome.samples);
    if !reasons.is_empty() {
        set("failure_reasons", json!(reasons));
    }
    let mut warnings: Vec<String> = Vec::new();
    if let Some(grown) = &grown {
        let preemptions = grown.get("num_preemptions_total").unwrap_or(0.0);
        set("preemptions", json!(preemptions as u64));
        if let Some(rate) = grown.hit_rate() {
            set("prefix_cache_hit_rate", json!(rate));
            warnings.extend(judge::cached(rate, 0.0).map(|doubt| doubt.detail));
        }
        if preemptions > 0.0 {
            warnings.push(format!(
                "{preemptions} preemptions: the KV cache did not hold {} sequences of {} tokens at once",
                settings.concurrency,
                input + output
            ));
        }
    }
    if let Some(limit) = facts
        .max_num_seqs
        .filter(|limit| settings.concurrency as u64 > *limit * facts.engines as u64)
    {
        warnings.push(format!(
            "max_concurrency {} is above the server's max_num_seqs {limit}: the others wait in its queue",
            settings.concurrency
        ));
    }
    if !warnings.is_empty() {
        set("warnings", json!(warnings));
    }
    let commonest = judge::commonest_error(&outcome.samples);
    let all = outcome.samples.len() + seen.cut.len();
    let (failure, some_failed) = judge::failed_requests(failed as f64, all as f64, commonest.as_deref());
    let doubts = unprimed(settings, outcome, seen).into_iter().chain(some_failed);
    Measurement {
        failure: failure.or_else(|| without_output(&figures)),
        doubts: doubts.chain(judge::of_generator(&result)).collect(),
        result: result.into(),
        ..Measurement::default()
    }
}

/// A window without a single output token has measured no decoding.
fn without_output(figures: &WindowFigures) -> Option<Failure> {
    (figures.output_tokens == 0).then(|| {
        broken(format!(
            "no output token came within the window of {:.1} s; raise duration, or lower max_concurrency",
            figures.window_s
        ))
    })
}

/// Slots that had no output when the window opened.
fn unprimed(settings: &Settings, outcome: &LoadOutcome, seen: &WindowSeen) -> Option<Doubt> {
    if seen.primed.is_some() {
        return None;
    }
    let with_output = seen.cut.iter().filter(|sample| !sample.events.is_empty());
    let ended = outcome.samples.ok().count();
    let detail = format!(
        "not every one of {} slots had output when the window opened (at its end {ended} requests had ended and {} had \
         output)",
        settings.concurrency,
        with_output.count()
    );
    Some(Doubt::new(Code::LoadNotReached, detail))
}
