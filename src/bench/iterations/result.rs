//! The figures of one shape: medians over its measured batches, with doubts and warnings about them.

use super::batch::Timing;
use super::{Bench, IterationSettings, engines};
use crate::bench::side::counters::ServerCounters;
use crate::bench::side::endpoint::ServerLimits;
use crate::bench::{Measurement, date, judge, members};
use crate::metrics::confidence::of_repeats;
use crate::metrics::median as middle;
use crate::units::show_many;
use crate::validity::{Code, Doubt};
use itertools::Itertools;
use serde_json::json;

/// Least share of the context tokens that a batch must find in the prefix cache.
const LEAST_CACHED: f64 = 0.5;

/// A function that computes a figure of one batch.
type Figure<'a> = &'a dyn Fn(&Timing) -> Option<f64>;

pub(super) fn measurement(bench: &Bench, limits: &[ServerLimits], sequences: usize, timings: &[Timing]) -> Measurement {
    let settings = &bench.settings;
    let (engines, outputs) = (engines(limits) as f64, settings.output_len() as f64);
    let median = |of: Figure<'_>| -> Option<f64> { middle(timings.iter().filter_map(of)) };
    let ms = |of: Figure<'_>| median(of).map(|seconds| seconds * 1000.0);
    let per_s = |of: Figure<'_>| median(&|timing| Some(of(timing)? / timing.total));
    let whole = |of: Figure<'_>| median(of).map(|count| count.round() as u64);
    let totals: Vec<f64> = timings.iter().map(|timing| timing.total * 1000.0).collect();
    let spread = |timing: &Timing| Some(largest(&timing.first_tokens)? - smallest(&timing.first_tokens)?);
    let total = |timing: &Timing| Some(timing.total);
    let prompt = |timing: &Timing| Some(timing.prompts.iter().sum::<u64>() as f64);
    let generated = |timing: &Timing| Some(timing.completion_tokens as f64);
    let both = |timing: &Timing| Some(prompt(timing)? + generated(timing)?);
    let cached = |timing: &Timing| Some(timing.counts.as_ref()?.cached());
    let server_ms = |histogram: &'static str| move |timing: &Timing| timing.counts.as_ref()?.mean_ms(histogram);
    let decode_ms = server_ms("request_decode_time_seconds");
    let mut result = members(json!({
        "date": date(),
        "model_id": settings.server.model.as_ref().unwrap_or(&bench.job.model_root),
        "engines": engines as u64,
        "global_batch_size": sequences,
        "completed": sequences * timings.len(),
        "failed": 0,
        "total_latency_ms": ms(&total),
        "total_latencies_ms": totals,
        "min_total_latency_ms": smallest(&totals),
        "max_total_latency_ms": largest(&totals),
        "latency_per_iter_ms": ms(&|timing| Some(timing.total / outputs)),
        "first_token_ms": ms(&|timing| largest(&timing.first_tokens)),
        "first_token_spread_ms": ms(&spread),
        "step_ms": ms(&|timing| middle(timing.steps.iter().copied())),
        "wake_ms": ms(&|timing| Some(timing.wake)),
        "prompt_tokens": whole(&prompt),
        "completion_tokens": whole(&generated),
        "cached_tokens": whole(&cached),
        "tokens_per_second": per_s(&both),
        "new_tokens_per_second": per_s(&|timing| Some(both(timing)? - cached(timing)?)),
        "cached_tokens_per_second": per_s(&cached),
        "output_throughput": per_s(&generated),
        "engine_steps": median(&|timing| Some(timing.counts.as_ref()?.steps()? / engines)),
        "server_prefill_ms": median(&server_ms("request_prefill_time_seconds")),
        "server_step_ms": median(&|timing| Some(decode_ms(timing)? / (outputs - 1.0))),
        "tensor_parallel": limits[0].tensor_parallel,
        "pipeline_parallel": limits[0].pipeline_parallel,
        "kv_capacity_tokens": limits[0].kv_cache_tokens,
        "warnings": warnings(settings, sequences, timings),
    }));
    // A single token, such as that of a prefill, has no steps after it.
    result.retain(|key, value| match key.as_str() {
        "step_ms" | "server_step_ms" => outputs > 1.0,
        "warnings" => *value != json!([]),
        _ => true,
    });
    let errors = [
        ("total_latency_ms", &total as Figure<'_>),
        ("latency_per_iter_ms", &total),
        ("first_token_ms", &|timing| largest(&timing.first_tokens)),
        ("step_ms", &|timing| middle(timing.steps.iter().copied())),
        ("tokens_per_second", &|timing| Some(both(timing)? / timing.total)),
        ("output_throughput", &|timing| Some(generated(timing)? / timing.total)),
    ];
    let error = |(name, of): (&str, Figure<'_>)| {
        let error = of_repeats(timings.iter().filter_map(of).collect())?;
        result.contains_key(name).then(|| (name.to_owned(), error))
    };
    Measurement {
        errors: errors.into_iter().filter_map(error).collect(),
        result: result.into(),
        doubts: apart(timings)
            .into_iter()
            .chain(stood_still(timings))
            .chain(other_prompts(timings, settings.prompt_len() as u64))
            .chain(other_outputs(timings, (sequences * settings.output_len()) as u64))
            .collect(),
        ..Measurement::default()
    }
}

fn largest(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

fn smallest(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

/// Time above which a standstill of the generator affects the time of a batch, in seconds.
const NOTICED_S: f64 = 0.05;

/// Returns a doubt if the generator stood still during some batches. The medians are affected if these are at least half of all batches.
fn stood_still(timings: &[Timing]) -> Option<Doubt> {
    let longest = timings.iter().map(|timing| timing.away).fold(0.0, f64::max);
    let count = timings.iter().filter(|timing| timing.away > NOTICED_S).count();
    let code = match count {
        0 => return None,
        _ if 2 * count >= timings.len() => Code::GeneratorStopped,
        _ => Code::GeneratorStalled,
    };
    let detail = format!(
        "the generator stalled for up to {:.0} ms in {count} of {} batches: it was stopped, or the machine was too busy",
        longest * 1000.0,
        timings.len()
    );
    Some(Doubt::new(code, detail))
}

/// Returns a doubt if some batches did not run as one.
fn apart(timings: &[Timing]) -> Option<Doubt> {
    let apart = timings
        .iter()
        .filter(|timing| timing.extra_steps.is_some_and(|extra| extra > 0.0));
    match apart.count() {
        0 => None,
        apart => Some(Doubt::new(
            Code::LoadNotReached,
            format!(
                "the server split {apart} of {} batches over several steps, so their requests did not start together; raise \
                 settle_ms, and keep other load off the server",
                timings.len()
            ),
        )),
    }
}

/// Returns a doubt if the servers did not read all of the prompts, which have `sent` tokens each.
fn other_prompts(timings: &[Timing], sent: u64) -> Option<Doubt> {
    let counted = timings.iter().flat_map(|timing| &timing.prompts);
    let prompts: Vec<(u64, u64)> = counted.map(|counted| (*counted, sent)).collect();
    judge::prompt_lengths(&prompts, false)
}

/// Returns a doubt if some batches did not generate the `asked` tokens, because the time of an iteration is computed from these.
fn other_outputs(timings: &[Timing], asked: u64) -> Option<Doubt> {
    let others = || {
        timings
            .iter()
            .map(|timing| timing.completion_tokens)
            .filter(move |counted| *counted != asked)
    };
    let most = others().max_by_key(|counted| counted.abs_diff(asked))?;
    let detail = format!(
        "{} of {} batches had other outputs than the {} that were asked for (one had {most}); make the server respect \
         min_tokens, max_tokens and ignore_eos",
        others().count(),
        timings.len(),
        show_many(asked, "token")
    );
    Some(Doubt::new(Code::LoadNotReached, detail))
}

fn warnings(settings: &IterationSettings, sequences: usize, timings: &[Timing]) -> Vec<String> {
    let context = (settings.batch.context_len * sequences) as f64;
    let counts = timings.iter().filter_map(|timing| timing.counts.as_ref());
    let cached = counts.map(ServerCounters::cached);
    let found = match cached.minmax_by(f64::total_cmp).into_option() {
        // Only whole blocks are cached, so a short context may not be found again, and is not checked.
        Some((least, _)) if settings.batch.context_len >= 256 && least < LEAST_CACHED * context => Some(format!(
            "only {least:.0} of {context:.0} context tokens were in the prefix cache; figures include computing the others \
             (is the cache large enough, and prefix caching on?)"
        )),
        Some((_, most)) if most > context => Some(format!(
            "{most:.0} prompt tokens came from the prefix cache, which held {context:.0} context tokens: some of the new \
             ones were already cached; use another seed"
        )),
        Some(_) => None,
        None => Some(
            "the server shows no counters: whether the batch ran as one, and what was cached, is not known".to_owned(),
        ),
    };
    let is_unchecked = |timing: &Timing| timing.counts.is_some() && timing.extra_steps.is_none();
    let unchecked = timings.iter().any(is_unchecked).then(|| {
        "the server does not say max_num_batched_tokens: whether the batch ran as one was not checked".to_owned()
    });
    found.into_iter().chain(unchecked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_stops_early_runs_another_batch() {
        let of = |completion_tokens| Timing {
            completion_tokens,
            ..Timing::default()
        };
        assert_eq!(other_outputs(&[of(128), of(128)], 128), None);
        let doubt = other_outputs(&[of(128), of(32), of(126)], 128).expect("a doubt");
        assert_eq!(doubt.code, Code::LoadNotReached);
        assert!(
            doubt
                .detail
                .starts_with("2 of 3 batches had other outputs than the 128 tokens that were asked for (one had 32);"),
            "{}",
            doubt.detail
        );
    }
}
