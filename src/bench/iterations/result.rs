//! The figures of one shape: medians over its measured batches, with what they can and cannot be trusted for.

use super::batch::Timing;
use super::settings::Settings;
use crate::bench::exact_prompts::Phase;
use crate::bench::side::limits::ServerLimits;
use crate::bench::{Job, Measurement};
use crate::metrics::median as middle;
use crate::plan::Params;
use crate::validity::{Code, Doubt};
use serde_json::{Value, json};

/// Above this share of its context that had to be computed again, a batch had no context.
const LOST_CONTEXT: f64 = 0.5;

pub(super) fn measurement(
    job: &Job,
    settings: &Settings,
    facts: &[ServerLimits],
    sequences: usize,
    timings: &[Timing],
) -> Measurement {
    let engines: usize = facts.iter().map(|facts| facts.engines).sum();
    let median = |of: &dyn Fn(&Timing) -> Option<f64>| -> Option<f64> { middle(timings.iter().filter_map(of)) };
    let ms = |of: &dyn Fn(&Timing) -> Option<f64>| median(of).map(|seconds| seconds * 1000.0);
    let mut result = Params::new();
    let mut set = |key: &str, value: Value| drop(result.insert(key.to_owned(), value));
    let model = settings.server.model.as_ref().unwrap_or(&job.model_root);
    set("date", json!(jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string()));
    set("model_id", json!(model));
    set("engines", json!(engines));
    set("global_batch_size", json!(sequences));
    set("completed", json!(sequences * timings.len()));
    set("failed", json!(0));

    let total = |timing: &Timing| Some(timing.total);
    set("total_latency_ms", json!(ms(&total)));
    let totals: Vec<f64> = timings.iter().map(|timing| timing.total * 1000.0).collect();
    set("total_latencies_ms", json!(totals));
    set("min_total_latency_ms", json!(smallest(&totals)));
    set("max_total_latency_ms", json!(largest(&totals)));
    let per_iteration = |timing: &Timing| Some(timing.total / settings.output_len() as f64);
    set("latency_per_iter_ms", json!(ms(&per_iteration)));
    set("first_token_ms", json!(ms(&|timing| largest(&timing.first_tokens))));
    let spread = |timing: &Timing| Some(largest(&timing.first_tokens)? - smallest(&timing.first_tokens)?);
    set("first_token_spread_ms", json!(ms(&spread)));
    let is_decode = settings.mode == Phase::Decode && settings.output_len() > 1;
    if is_decode {
        let step = |timing: &Timing| middle(timing.steps.iter().copied());
        set("step_ms", json!(ms(&step)));
    }
    set("wake_ms", json!(ms(&|timing| Some(timing.wake))));

    let prompt = |timing: &Timing| Some(timing.prompt_tokens as f64);
    let generated = |timing: &Timing| Some(timing.completion_tokens as f64);
    let cached = |timing: &Timing| Some(timing.counts.as_ref()?.cached());
    set("prompt_tokens", whole(median(&prompt)));
    set("completion_tokens", whole(median(&generated)));
    set("cached_tokens", whole(median(&cached)));
    let both = |timing: &Timing| Some((prompt(timing)? + generated(timing)?) / timing.total);
    set("tokens_per_second", json!(median(&both)));
    let new = |timing: &Timing| Some((prompt(timing)? + generated(timing)? - cached(timing)?) / timing.total);
    set("new_tokens_per_second", json!(median(&new)));
    set(
        "cached_tokens_per_second",
        json!(median(&|timing| Some(cached(timing)? / timing.total))),
    );
    set(
        "output_throughput",
        json!(median(&|timing| Some(generated(timing)? / timing.total))),
    );
    let steps = |timing: &Timing| Some(timing.counts.as_ref()?.steps()? / engines as f64);
    set("engine_steps", json!(median(&steps)));
    set(
        "server_prefill_ms",
        json!(median(&|timing| timing
            .counts
            .as_ref()?
            .mean_ms("request_prefill_time_seconds"))),
    );
    if is_decode {
        let each = (settings.output_len() - 1) as f64;
        let step = |timing: &Timing| Some(timing.counts.as_ref()?.mean_ms("request_decode_time_seconds")? / each);
        set("server_step_ms", json!(median(&step)));
    }
    let first = &facts[0];
    for (key, value) in [
        ("tensor_parallel", first.tensor_parallel),
        ("pipeline_parallel", first.pipeline_parallel),
        ("kv_capacity_tokens", first.kv_cache_tokens),
    ] {
        set(key, json!(value));
    }
    let warnings = warnings(settings, sequences, timings);
    if !warnings.is_empty() {
        set("warnings", json!(warnings));
    }
    Measurement {
        result: result.into(),
        doubts: apart(timings).into_iter().chain(stood_still(timings)).collect(),
        ..Measurement::default()
    }
}

fn largest(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

fn smallest(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

/// A count as a whole number; null if it is unknown.
fn whole(count: Option<f64>) -> Value {
    json!(count.map(|count| count.round() as u64))
}

/// Standing still for longer than this shows in the time of a batch, in seconds.
const NOTICED_S: f64 = 0.05;

/// Batches during which the generator stood still. The median hides some of them, but not half.
fn stood_still(timings: &[Timing]) -> Option<Doubt> {
    let longest = timings.iter().map(|timing| timing.away).fold(0.0, f64::max);
    let count = timings.iter().filter(|timing| timing.away > NOTICED_S).count();
    let code = match count {
        0 => return None,
        _ if 2 * count >= timings.len() => Code::GeneratorStopped,
        _ => Code::GeneratorStalled,
    };
    let detail = format!(
        "the generator stood still for up to {:.0} ms in {count} of {} batches: it was stopped, or the machine was too busy",
        longest * 1000.0,
        timings.len()
    );
    Some(Doubt::new(code, detail))
}

/// Batches that did not run as one.
fn apart(timings: &[Timing]) -> Option<Doubt> {
    let apart = timings
        .iter()
        .filter(|timing| timing.extra_steps.is_some_and(|extra| extra > 0.0));
    match apart.count() {
        0 => None,
        apart => Some(Doubt::new(
            Code::LoadNotReached,
            format!(
                "{apart} of {} batches took the engine more steps than one batch does, so their requests did not start \
                 together; raise settle_ms, and keep other load off the server",
                timings.len()
            ),
        )),
    }
}

fn warnings(settings: &Settings, sequences: usize, timings: &[Timing]) -> Vec<String> {
    let context = (settings.batch.context_len * sequences) as f64;
    let cached = timings
        .iter()
        .filter_map(|timing| Some(timing.counts.as_ref()?.cached()));
    let least = cached.min_by(f64::total_cmp);
    let mut warnings = Vec::new();
    match least {
        // Blocks are cached whole, so a context below one block cannot be found again.
        Some(cached) if settings.batch.context_len >= 256 && cached < LOST_CONTEXT * context => warnings.push(format!(
            "only {cached:.0} of {context:.0} context tokens were in the prefix cache; figures include computing the others \
             (is the cache large enough, and prefix caching on?)"
        )),
        Some(cached) if cached > context => warnings.push(format!(
            "{cached:.0} prompt tokens came from the prefix cache, which held {context:.0} context tokens: some of the new \
             ones were known to the server; use another seed"
        )),
        None => warnings.push(
            "the server shows no counters: whether the batch ran as one, and what was cached, is not known".to_owned(),
        ),
        _ => {}
    }
    if timings
        .iter()
        .any(|timing| timing.counts.is_some() && timing.extra_steps.is_none())
    {
        let sentence = "the server does not say max_num_batched_tokens: whether the batch ran as one was not checked";
        warnings.push(sentence.to_owned());
    }
    warnings
}
