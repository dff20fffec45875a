//! `GET /metrics`: the engines' figures in the Prometheus text format, under vLLM's names and labels, with a sample for each engine. The
//! page has only the metrics that clients of a benchmark read; a real server has more.

use super::App;
use crate::engine::stats::{self, Stats};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::fmt::Write;
use std::sync::Arc;

/// Kind of a metric, and its source in an engine's statistics.
enum Figure {
    Gauge(fn(&Stats) -> f64),
    Counter(fn(&Stats) -> u64),
    /// A counter for each value of this label.
    Counters(&'static str, fn(&Stats) -> Vec<(String, u64)>),
    Histogram(for<'s> fn(&'s Stats) -> &'s stats::Histogram),
}

use Figure::{Counter, Counters, Gauge, Histogram};

/// Declares a table with one metric on each line: its name (without `vllm:`, and for counters without `_total`), help and source.
macro_rules! metrics {
    ($table:ident: $($name:literal $help:literal $figure:expr;)*) => {
        const $table: &[(&str, &str, Figure)] = &[$(($name, $help, $figure)),*];
    };
}

metrics! { METRICS:
    "num_requests_running" "Number of requests in model execution batches." Gauge(|s| s.running as f64);
    "num_requests_waiting" "Number of requests waiting to be processed." Gauge(|s| s.waiting as f64);
    "kv_cache_usage_perc" "KV-cache usage. 1 means 100 percent usage." Gauge(|s| s.kv_usage);
    "prefix_cache_queries" "Prefix cache queries, in terms of number of queried tokens." Counter(|s| s.prefix_queries);
    "prefix_cache_hits" "Prefix cache hits, in terms of number of cached tokens." Counter(|s| s.prefix_hits);
    "num_preemptions" "Cumulative number of preemption from the engine." Counter(|s| s.preemptions);
    "prompt_tokens" "Number of prefill tokens processed." Counter(|s| s.prompt_tokens);
    "prompt_tokens_cached" "Number of cached prompt tokens (local + external)." Counter(|s| s.prompt_cached);
    "generation_tokens" "Number of generation tokens processed." Counter(|s| s.generation_tokens);
    "request_success" "Count of successfully processed requests." Counters("finished_reason", |s| {
        let counts = [("stop", s.stopped), ("length", s.finished_by_length), ("abort", s.aborted)];
        counts.map(|(reason, count)| (reason.to_owned(), count)).to_vec()
    });
    "request_prompt_tokens" "Number of prefill tokens processed." Histogram(|s| &s.request_prompt_tokens);
    "request_generation_tokens" "Number of generation tokens processed." Histogram(|s| &s.request_generation_tokens);
    "iteration_tokens_total" "Histogram of number of tokens per engine_step." Histogram(|s| &s.iteration_tokens);
    "time_to_first_token_seconds" "Histogram of time to first token in seconds." Histogram(|s| &s.time_to_first_token);
    "inter_token_latency_seconds" "Histogram of inter-token latency in seconds." Histogram(|s| &s.inter_token_latency);
    "request_time_per_output_token_seconds" "Histogram of time_per_output_token_seconds per request."
        Histogram(|s| &s.time_per_output_token);
    "e2e_request_latency_seconds" "Histogram of e2e request latency in seconds." Histogram(|s| &s.e2e);
    "request_queue_time_seconds" "Histogram of time spent in WAITING phase for request." Histogram(|s| &s.queue);
    "request_prefill_time_seconds" "Histogram of time spent in PREFILL phase for request." Histogram(|s| &s.prefill);
    "request_decode_time_seconds" "Histogram of time spent in DECODE phase for request." Histogram(|s| &s.decode);
}

// Only servers with speculative decoding have these.
metrics! { SPECULATION:
    "spec_decode_num_drafts" "Number of spec decoding drafts." Counter(|s| s.drafts);
    "spec_decode_num_draft_tokens" "Number of draft tokens." Counter(|s| s.draft_tokens);
    "spec_decode_num_accepted_tokens" "Number of accepted tokens." Counter(|s| s.accepted.iter().sum());
    "spec_decode_num_accepted_tokens_per_pos" "Accepted tokens per draft position." Counters("position", |s| {
        let counts = s.accepted.iter().enumerate();
        counts.map(|(position, count)| (position.to_string(), *count)).collect()
    });
}

/// `GET /metrics`: 200 with all metrics, or 500 if an engine's thread has ended.
pub async fn metrics(State(app): State<Arc<App>>) -> Response {
    match app.driver.inspect().await {
        Some(states) => {
            let kind = [(header::CONTENT_TYPE, "text/plain; version=1.0.0; charset=utf-8")];
            (kind, text(&app, &states)).into_response()
        }
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn text(app: &App, states: &[Stats]) -> String {
    let mut page = String::with_capacity(16 << 10);
    let speculation = app.settings.cost.speculation.iter().flat_map(|_| SPECULATION);
    for (name, help, figure) in METRICS.iter().chain(speculation) {
        let (name, kind) = match figure {
            Gauge(_) => (format!("vllm:{name}"), "gauge"),
            Counter(_) | Counters(..) => (format!("vllm:{name}_total"), "counter"),
            Histogram(_) => (format!("vllm:{name}"), "histogram"),
        };
        head(&mut page, &name, kind, help);
        for (engine, state) in states.iter().enumerate() {
            let mut add = |suffix: &str, label: Option<(&'static str, String)>, value: f64| {
                let mut labels = vec![
                    ("engine", engine.to_string()),
                    ("model_name", app.model_name().to_owned()),
                ];
                labels.extend(label);
                sample(&mut page, &format!("{name}{suffix}"), labels, value);
            };
            match figure {
                Gauge(of) => add("", None, of(state)),
                Counter(of) => add("", None, of(state) as f64),
                Counters(label, of) => {
                    let counts = of(state).into_iter();
                    counts.for_each(|(value, count)| add("", Some((label, value)), count as f64));
                }
                Histogram(of) => {
                    let (histogram, mut cumulative) = (of(state), 0);
                    let bounds = histogram.bounds.iter().map(|bound| format!("{bound:?}"));
                    for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(&histogram.counts) {
                        cumulative += count;
                        add("_bucket", Some(("le", bound)), cumulative as f64);
                    }
                    add("_count", None, cumulative as f64);
                    add("_sum", None, histogram.sum);
                }
            }
        }
    }
    let name = "vllm:cache_config_info";
    head(&mut page, name, "gauge", "Information of the LLMEngine CacheConfig");
    (0..states.len()).for_each(|engine| sample(&mut page, name, cache_config(app, engine), 1.0));
    let name = "process_start_time_seconds";
    let help = "Start time of the process since unix epoch in seconds.";
    head(&mut page, name, "gauge", help);
    sample(&mut page, name, vec![], app.started);
    page
}

fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Writes one sample, with its labels in alphabetical order as Python's client writes them.
fn sample(page: &mut String, name: &str, mut labels: Vec<(&str, String)>, value: f64) {
    labels.sort_unstable();
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let label = |(key, value): &(&str, String)| format!("{key}=\"{}\"", escaped(value));
    let labels: Vec<String> = labels.iter().map(label).collect();
    let labels = match labels.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", labels.join(",")),
    };
    let _ = writeln!(page, "{name}{labels} {value:?}");
}

/// Settings of an engine's KV cache, as labels.
fn cache_config(app: &App, engine: usize) -> Vec<(&'static str, String)> {
    let (settings, limits) = (&app.settings, &app.settings.limits);
    let tokens = limits.num_blocks * limits.block_size;
    let concurrency = tokens as f64 / limits.max_model_len as f64;
    let cache_dtype = if settings.cost.kv_bytes < 2.0 { "fp8" } else { "auto" };
    let prefix_caching = if limits.prefix_caching { "True" } else { "False" };
    let blocks = limits.num_gpu_blocks_override.map(|blocks| blocks.to_string());
    vec![
        ("block_size", limits.block_size.to_string()),
        ("cache_dtype", cache_dtype.to_owned()),
        ("engine", engine.to_string()),
        ("enable_prefix_caching", prefix_caching.to_owned()),
        ("gpu_memory_utilization", limits.gpu_memory_utilization.to_string()),
        ("kv_cache_max_concurrency", format!("{concurrency:?}")),
        ("kv_cache_size_tokens", tokens.to_string()),
        ("num_gpu_blocks", limits.num_blocks.to_string()),
        ("num_gpu_blocks_override", blocks.unwrap_or_else(|| "None".to_owned())),
    ]
}
