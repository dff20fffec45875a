//! `GET /metrics`: the engines' figures in the Prometheus text format, under vLLM's names, a sample for each engine. Only
//! what the clients of a benchmark read is there; a real server has more.

use super::App;
use super::page::{Labels, Page};
use crate::sim::driver::Snapshot;
use crate::sim::engine::stats::Histogram;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// What a metric is of an engine.
enum Figure {
    Gauge(fn(&Snapshot) -> f64),
    Counter(fn(&Snapshot) -> f64),
    Histogram(for<'s> fn(&'s Snapshot) -> &'s Histogram),
}

/// A metric a line: its kind, its name without `vllm:`, its help, and what it is of an engine.
macro_rules! metrics {
    ($($kind:ident $name:literal $help:literal $of:expr;)*) => {
        const METRICS: &[(&str, &str, Figure)] = &[$(($name, $help, Figure::$kind($of))),*];
    };
}

metrics! {
    Gauge "num_requests_running" "Number of requests in model execution batches." |s| s.running as f64;
    Gauge "num_requests_waiting" "Number of requests waiting to be processed." |s| s.waiting as f64;
    Gauge "kv_cache_usage_perc" "KV-cache usage. 1 means 100 percent usage." |s| s.kv_usage;
    Counter "prefix_cache_queries" "Prefix cache queries, in terms of number of queried tokens."
        |s| s.stats.prefix_queries as f64;
    Counter "prefix_cache_hits" "Prefix cache hits, in terms of number of cached tokens." |s| s.stats.prefix_hits as f64;
    Counter "num_preemptions" "Cumulative number of preemption from the engine." |s| s.stats.preemptions as f64;
    Counter "prompt_tokens" "Number of prefill tokens processed." |s| s.stats.prompt_tokens as f64;
    Counter "prompt_tokens_cached" "Number of cached prompt tokens (local + external)." |s| s.stats.prompt_cached as f64;
    Counter "generation_tokens" "Number of generation tokens processed." |s| s.stats.generation_tokens as f64;
    Histogram "request_prompt_tokens" "Number of prefill tokens processed." |s| &s.stats.request_prompt_tokens;
    Histogram "request_generation_tokens" "Number of generation tokens processed." |s| &s.stats.request_generation_tokens;
    Histogram "iteration_tokens_total" "Histogram of number of tokens per engine_step." |s| &s.stats.iteration_tokens;
    Histogram "time_to_first_token_seconds" "Histogram of time to first token in seconds."
        |s| &s.stats.time_to_first_token;
    Histogram "inter_token_latency_seconds" "Histogram of inter-token latency in seconds."
        |s| &s.stats.inter_token_latency;
    Histogram "request_time_per_output_token_seconds" "Histogram of time_per_output_token_seconds per request."
        |s| &s.stats.time_per_output_token;
    Histogram "e2e_request_latency_seconds" "Histogram of e2e request latency in seconds." |s| &s.stats.e2e;
    Histogram "request_queue_time_seconds" "Histogram of time spent in WAITING phase for request." |s| &s.stats.queue;
    Histogram "request_prefill_time_seconds" "Histogram of time spent in PREFILL phase for request." |s| &s.stats.prefill;
    Histogram "request_decode_time_seconds" "Histogram of time spent in DECODE phase for request." |s| &s.stats.decode;
}

/// The answer; 500 once an engine has ended.
pub async fn metrics(State(app): State<Arc<App>>) -> Response {
    match app.driver.inspect().await {
        Some(states) => {
            let kind = [(header::CONTENT_TYPE, "text/plain; version=1.0.0; charset=utf-8")];
            (kind, text(&app, &states)).into_response()
        }
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn text(app: &App, states: &[Snapshot]) -> String {
    let mut page = Page::new(app.model_name());
    for (name, help, figure) in METRICS {
        let each = states.iter().enumerate();
        match figure {
            Figure::Gauge(of) => page.gauge(name, help, each.map(|(engine, state)| (engine, vec![], of(state)))),
            Figure::Counter(of) => page.counter(name, help, each.map(|(engine, state)| (engine, vec![], of(state)))),
            Figure::Histogram(of) => page.histogram(name, help, each.map(|(engine, state)| (engine, of(state)))),
        }
    }
    let ends = states.iter().enumerate().flat_map(|(engine, Snapshot { stats, .. })| {
        let counts = [
            ("stop", stats.stopped),
            ("length", stats.finished_by_length),
            ("abort", stats.aborted),
        ];
        counts.map(|(reason, count)| (engine, vec![("finished_reason", reason.to_owned())], count as f64))
    });
    page.counter("request_success", "Count of successfully processed requests.", ends);
    let caches = (0..states.len()).map(|engine| (cache_config(app, engine), 1.0));
    page.bare_gauge(
        "vllm:cache_config_info",
        "Information of the LLMEngine CacheConfig",
        caches,
    );
    if let Some(guess) = &app.settings.cost.speculation {
        speculation(&mut page, states, guess.tokens);
    }
    let help = "Start time of the process since unix epoch in seconds.";
    page.bare_gauge("process_start_time_seconds", help, [(vec![], app.started)]);
    page.text()
}

/// vLLM's settings of the cache, as labels.
fn cache_config(app: &App, engine: usize) -> Labels {
    let (settings, limits) = (&app.settings, &app.settings.limits);
    let tokens = limits.num_blocks * limits.block_size;
    let cache_dtype = if settings.cost.kv_bytes < 2.0 { "fp8" } else { "auto" };
    let blocks = settings.num_gpu_blocks_override.map(|blocks| blocks.to_string());
    vec![
        ("block_size", limits.block_size.to_string()),
        ("cache_dtype", cache_dtype.to_owned()),
        ("engine", engine.to_string()),
        (
            "enable_prefix_caching",
            if limits.prefix_caching { "True" } else { "False" }.to_owned(),
        ),
        ("gpu_memory_utilization", settings.gpu_memory_utilization.to_string()),
        (
            "kv_cache_max_concurrency",
            format!("{:?}", tokens as f64 / limits.max_model_len as f64),
        ),
        ("kv_cache_size_tokens", tokens.to_string()),
        ("num_gpu_blocks", limits.num_blocks.to_string()),
        ("num_gpu_blocks_override", blocks.unwrap_or_else(|| "None".to_owned())),
    ]
}

/// What speculative decoding counts: `guesses` tokens are guessed ahead in a step.
fn speculation(page: &mut Page, states: &[Snapshot], guesses: usize) {
    let accepted = |state: &Snapshot| state.stats.accepted.iter().sum::<u64>();
    for (name, help, of) in [
        (
            "spec_decode_num_drafts",
            "Number of spec decoding drafts.",
            (|state| state.stats.drafts) as fn(&Snapshot) -> u64,
        ),
        ("spec_decode_num_draft_tokens", "Number of draft tokens.", |state| {
            state.stats.draft_tokens
        }),
        (
            "spec_decode_num_accepted_tokens",
            "Number of accepted tokens.",
            accepted,
        ),
    ] {
        let samples = states
            .iter()
            .enumerate()
            .map(|(engine, state)| (engine, vec![], of(state) as f64));
        page.counter(name, help, samples);
    }
    let places = states.iter().enumerate().flat_map(|(engine, state)| {
        let place = move |place: usize| {
            let count = state.stats.accepted.get(place).copied().unwrap_or(0);
            (engine, vec![("position", place.to_string())], count as f64)
        };
        (0..guesses).map(place)
    });
    page.counter(
        "spec_decode_num_accepted_tokens_per_pos",
        "Accepted tokens per draft position.",
        places,
    );
}
