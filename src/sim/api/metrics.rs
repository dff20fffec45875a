//! `GET /metrics`: the engine's counters in the Prometheus text format, under vLLM's names.

use super::App;
use crate::sim::driver::Snapshot;
use crate::sim::engine::stats::Histogram;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The answer; 500 once the engine has ended.
pub async fn metrics(State(app): State<Arc<App>>) -> Response {
    match app.inspect().await {
        Some(snapshot) => {
            let kind = [(header::CONTENT_TYPE, "text/plain; version=1.0.0; charset=utf-8")];
            (kind, text(&app, &snapshot)).into_response()
        }
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// A page in the making. Labels are in alphabetical order, as the Python client writes them.
struct Page {
    text: String,
    model: String,
    created: u64,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}");
    }

    /// One sample; `before` and `after` are labels that sort before and after `model_name`.
    fn sample(&mut self, name: &str, before: &str, after: &str, value: f64) {
        let model = &self.model;
        let _ = writeln!(
            self.text,
            "vllm:{name}{{engine=\"0\",{before}model_name=\"{model}\"{after}}} {value:?}"
        );
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, "gauge", help);
        self.sample(name, "", "", value);
    }

    fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.counters(name, help, &[("", "", value)]);
    }

    /// A counter with labels, and the gauge of when it was made that the Python client adds.
    fn counters(&mut self, name: &str, help: &str, samples: &[(&str, &str, f64)]) {
        let total = format!("{name}_total");
        self.head(&total, "counter", help);
        samples
            .iter()
            .for_each(|(before, after, value)| self.sample(&total, before, after, *value));
        let made = format!("{name}_created");
        self.head(&made, "gauge", help);
        samples
            .iter()
            .for_each(|(before, after, _)| self.sample(&made, before, after, self.created as f64));
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let mut below = 0;
        let bounds = histogram
            .bounds
            .iter()
            .map(|bound| format!("{bound:?}"))
            .chain(["+Inf".to_string()]);
        for (bound, count) in bounds.zip(&histogram.counts) {
            below += count;
            self.sample(&format!("{name}_bucket"), &format!("le=\"{bound}\","), "", below as f64);
        }
        self.sample(&format!("{name}_count"), "", "", below as f64);
        self.sample(&format!("{name}_sum"), "", "", histogram.sum);
        let made = format!("{name}_created");
        self.head(&made, "gauge", help);
        self.sample(&made, "", "", self.created as f64);
    }
}

fn text(app: &App, state: &Snapshot) -> String {
    let model = app.model_name().replace('\\', "\\\\").replace('"', "\\\"");
    let mut page = Page {
        text: String::with_capacity(40_000),
        model,
        created: app.created,
    };
    gauges(&mut page, app, state);
    counters(&mut page, state);
    histograms(&mut page, state);
    page.text
}

fn gauges(page: &mut Page, app: &App, state: &Snapshot) {
    let (running, waiting) = (state.running as f64, state.waiting as f64);
    page.gauge(
        "num_requests_running",
        "Number of requests in model execution batches.",
        running,
    );
    page.gauge(
        "num_requests_waiting",
        "Number of requests waiting to be processed.",
        waiting,
    );
    page.head(
        "num_requests_waiting_by_reason",
        "gauge",
        "Number of waiting requests by reason.",
    );
    for (reason, value) in [("capacity", waiting), ("deferred", 0.0)] {
        page.sample(
            "num_requests_waiting_by_reason",
            "",
            &format!(",reason=\"{reason}\""),
            value,
        );
    }
    page.head("engine_sleep_state", "gauge", "Engine sleep state.");
    let level = app.sleep_level.load(Ordering::Relaxed);
    for (name, at) in [("awake", 0), ("weights_offloaded", 1), ("discard_all", 2)] {
        page.sample(
            "engine_sleep_state",
            "",
            &format!(",sleep_state=\"{name}\""),
            f64::from(u8::from(level == at)),
        );
    }
    page.gauge(
        "kv_cache_usage_perc",
        "KV-cache usage. 1 means 100 percent usage.",
        state.kv_usage,
    );
    let limits = &app.settings.limits;
    let tokens = limits.num_blocks * limits.block_size;
    let python = |on: bool| if on { "True" } else { "False" };
    page.head("cache_config_info", "gauge", "Information of the LLMEngine CacheConfig");
    let _ = writeln!(
        page.text,
        "vllm:cache_config_info{{block_size=\"{}\",cache_dtype=\"auto\",enable_prefix_caching=\"{}\",engine=\"0\",\
         gpu_memory_utilization=\"{}\",kv_cache_max_concurrency=\"{:?}\",kv_cache_size_tokens=\"{tokens}\",\
         num_gpu_blocks=\"{}\"}} 1.0",
        limits.block_size,
        python(limits.prefix_caching),
        app.settings.gpu_memory_utilization,
        tokens as f64 / limits.max_model_len as f64,
        limits.num_blocks,
    );
}

fn counters(page: &mut Page, state: &Snapshot) {
    let stats = &state.stats;
    let (prompt, cached) = (stats.prompt_tokens as f64, stats.prefix_hits as f64);
    page.counter(
        "prefix_cache_queries",
        "Prefix cache queries, in terms of number of queried tokens.",
        stats.prefix_queries as f64,
    );
    page.counter(
        "prefix_cache_hits",
        "Prefix cache hits, in terms of number of cached tokens.",
        cached,
    );
    page.counter(
        "num_preemptions",
        "Cumulative number of preemption from the engine.",
        stats.preemptions as f64,
    );
    page.counter("prompt_tokens", "Number of prefill tokens processed.", prompt);
    page.counters(
        "prompt_tokens_by_source",
        "Number of prompt tokens by source.",
        &[
            ("", ",source=\"local_compute\"", (prompt - cached).max(0.0)),
            ("", ",source=\"local_cache_hit\"", cached),
            ("", ",source=\"external_kv_transfer\"", 0.0),
        ],
    );
    page.counter(
        "prompt_tokens_cached",
        "Number of cached prompt tokens (local + external).",
        cached,
    );
    page.counter(
        "generation_tokens",
        "Number of generation tokens processed.",
        stats.generation_tokens as f64,
    );
    page.counters(
        "request_success",
        "Count of successfully processed requests.",
        &[
            ("finished_reason=\"stop\",", "", stats.stopped as f64),
            ("finished_reason=\"length\",", "", stats.finished_by_length as f64),
            ("finished_reason=\"abort\",", "", stats.aborted as f64),
            ("finished_reason=\"error\",", "", 0.0),
            ("finished_reason=\"repetition\",", "", 0.0),
        ],
    );
    page.counter(
        "estimated_flops_per_gpu",
        "Estimated number of floating point operations per GPU.",
        stats.flops,
    );
}

fn histograms(page: &mut Page, state: &Snapshot) {
    let stats = &state.stats;
    let named = [
        (
            "request_prompt_tokens",
            "Number of prefill tokens processed.",
            &stats.request_prompt_tokens,
        ),
        (
            "request_generation_tokens",
            "Number of generation tokens processed.",
            &stats.request_generation_tokens,
        ),
        (
            "iteration_tokens_total",
            "Histogram of number of tokens per engine_step.",
            &stats.iteration_tokens,
        ),
        (
            "time_to_first_token_seconds",
            "Histogram of time to first token in seconds.",
            &stats.time_to_first_token,
        ),
        (
            "inter_token_latency_seconds",
            "Histogram of inter-token latency in seconds.",
            &stats.inter_token_latency,
        ),
        (
            "request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.",
            &stats.time_per_output_token,
        ),
        (
            "e2e_request_latency_seconds",
            "Histogram of e2e request latency in seconds.",
            &stats.e2e,
        ),
        (
            "request_queue_time_seconds",
            "Histogram of time spent in WAITING phase for request.",
            &stats.queue,
        ),
        (
            "request_inference_time_seconds",
            "Histogram of time spent in RUNNING phase for request.",
            &stats.inference,
        ),
        (
            "request_prefill_time_seconds",
            "Histogram of time spent in PREFILL phase for request.",
            &stats.prefill,
        ),
        (
            "request_decode_time_seconds",
            "Histogram of time spent in DECODE phase for request.",
            &stats.decode,
        ),
        (
            "request_num_preemptions",
            "Histogram of the number of times a request was preempted.",
            &stats.request_preemptions,
        ),
        (
            "request_prefill_kv_computed_tokens",
            "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
            &stats.request_prefill_computed,
        ),
    ];
    named
        .into_iter()
        .for_each(|(name, help, histogram)| page.histogram(name, help, histogram));
}
