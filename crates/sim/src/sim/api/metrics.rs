//! `GET /metrics`: the engines' counters in the Prometheus text format, under vLLM's names. Every metric of a real
//! server is there; what the simulator does not have (external caches, images) is zero.

use super::App;
use super::engines::{Engines, Of, OfHistogram};
use super::machine;
use super::page::{Labels, Page, quoted};
use crate::sim::driver::Snapshot;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A row a line: a metric's name, its help, and what it is of an engine.
macro_rules! rows {
    ($of:ty: $($name:literal $help:literal $read:expr;)*) => { [$(($name, $help, $read as $of)),*] };
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
    let mut engines = Engines {
        page: Page::new(app.created as f64),
        model: quoted(app.model_name()),
        states,
    };
    machine::write(&mut engines.page, app.started);
    engines.gauges(app);
    engines.counters(app);
    engines.histograms();
    engines.cache_config(app);
    engines.speculation(app);
    engines.adapters(app);
    app.traffic.write(&mut engines.page);
    app.sleeps.write(&mut engines.page);
    engines.page.text()
}

impl Engines<'_> {
    fn gauges(&mut self, app: &App) {
        self.gauge(
            "num_requests_running",
            "Number of requests in model execution batches.",
            &[("", "", |state| state.running as f64)],
        );
        self.gauge(
            "num_requests_waiting",
            "Number of requests waiting to be processed.",
            &[("", "", |state| state.waiting as f64)],
        );
        self.gauge(
            "num_requests_waiting_by_reason",
            "Number of waiting requests by reason.",
            &[
                ("", "reason=\"capacity\"", |state| state.waiting as f64),
                ("", "reason=\"deferred\"", |_| 0.0),
            ],
        );
        let on: Of = |_| 1.0;
        let off: Of = |_| 0.0;
        let level = app.sleep_level.load(Ordering::Relaxed);
        let at = |this: u64| if level == this { on } else { off };
        self.gauge(
            "engine_sleep_state",
            "Engine sleep state.",
            &[
                ("", "sleep_state=\"awake\"", at(0)),
                ("", "sleep_state=\"weights_offloaded\"", at(1)),
                ("", "sleep_state=\"discard_all\"", at(2)),
            ],
        );
        self.gauge(
            "kv_cache_usage_perc",
            "KV-cache usage. 1 means 100 percent usage.",
            &[("", "", |state| state.kv_usage)],
        );
    }

    fn counters(&mut self, app: &App) {
        let measured = app.settings.mfu_metrics;
        let estimate = |of: Of| if measured { of } else { |_: &Snapshot| 0.0 };
        self.counter(
            "estimated_flops_per_gpu",
            "Estimated number of floating point operations per GPU.",
            estimate(|state| state.stats.flops),
        );
        self.counter(
            "estimated_read_bytes_per_gpu",
            "Estimated number of bytes read from memory per GPU.",
            estimate(|state| state.stats.read_bytes),
        );
        self.counter(
            "estimated_write_bytes_per_gpu",
            "Estimated number of bytes written to memory per GPU.",
            estimate(|state| state.stats.write_bytes),
        );
        for (name, help, of) in rows! { Of:
            "prefix_cache_queries" "Prefix cache queries, in terms of number of queried tokens."
                |s| s.stats.prefix_queries as f64;
            "prefix_cache_hits" "Prefix cache hits, in terms of number of cached tokens."
                |s| s.stats.prefix_hits as f64;
            "external_prefix_cache_queries" "External prefix cache queries." |_| 0.0;
            "external_prefix_cache_hits" "External prefix cache hits." |_| 0.0;
            "mm_cache_queries" "Multi-modal cache queries." |_| 0.0;
            "mm_cache_hits" "Multi-modal cache hits." |_| 0.0;
            "num_preemptions" "Cumulative number of preemption from the engine." |s| s.stats.preemptions as f64;
            "prompt_tokens" "Number of prefill tokens processed." |s| s.stats.prompt_tokens as f64;
            "prompt_tokens_cached" "Number of cached prompt tokens (local + external)."
                |s| s.stats.prompt_cached as f64;
            "generation_tokens" "Number of generation tokens processed." |s| s.stats.generation_tokens as f64;
        } {
            self.counter(name, help, of);
        }
        self.counter_by(
            "prompt_tokens_by_source",
            "Number of prompt tokens by source.",
            &[
                ("", "source=\"local_compute\"", |state| {
                    (state.stats.prompt_tokens - state.stats.prompt_cached) as f64
                }),
                ("", "source=\"local_cache_hit\"", |state| {
                    state.stats.prompt_cached as f64
                }),
                ("", "source=\"external_kv_transfer\"", |_| 0.0),
            ],
        );
        self.counter_by(
            "prompt_tokens_cached_by_source",
            "Prefix-cache hit tokens by the cache tier that supplied them.",
            &[
                ("", "source=\"device\"", |state| state.stats.prompt_cached as f64),
                ("", "source=\"host\"", |_| 0.0),
                ("", "source=\"p2p\"", |_| 0.0),
                ("", "source=\"disk\"", |_| 0.0),
                ("", "source=\"external_unspecified\"", |_| 0.0),
            ],
        );
        self.counter_by(
            "request_success",
            "Count of successfully processed requests.",
            &[
                ("finished_reason=\"stop\"", "", |state| state.stats.stopped as f64),
                ("finished_reason=\"length\"", "", |state| {
                    state.stats.finished_by_length as f64
                }),
                ("finished_reason=\"abort\"", "", |state| state.stats.aborted as f64),
                ("finished_reason=\"error\"", "", |_| 0.0),
                ("finished_reason=\"repetition\"", "", |_| 0.0),
            ],
        );
        let reasons = ["max_num_queued_reqs", "max_num_queued_tokens"];
        let of_no_engine = |reason: &str| Labels::new("", format!("model_name=\"{}\",reason=\"{reason}\"", self.model));
        let rejections = reasons.map(|reason| (of_no_engine(reason), 0.0));
        self.page.counter(
            "vllm:admission_rejections",
            "Number of admission attempts rejected by a queue limit, by reason.",
            &rejections,
        );
    }

    fn histograms(&mut self) {
        for (name, help, of) in rows! { OfHistogram:
            "request_prompt_tokens" "Number of prefill tokens processed." |s| &s.stats.request_prompt_tokens;
            "request_generation_tokens" "Number of generation tokens processed." |s| &s.stats.request_generation_tokens;
            "iteration_tokens_total" "Histogram of number of tokens per engine_step." |s| &s.stats.iteration_tokens;
            "request_max_num_generation_tokens" "Histogram of maximum number of requested generation tokens."
                |s| &s.request_longest;
            "request_params_n" "Histogram of the n request parameter." |s| &s.request_n;
            "request_params_max_tokens" "Histogram of the max_tokens request parameter."
                |s| &s.stats.request_max_tokens;
            "time_to_first_token_seconds" "Histogram of time to first token in seconds."
                |s| &s.stats.time_to_first_token;
            "inter_token_latency_seconds" "Histogram of inter-token latency in seconds."
                |s| &s.stats.inter_token_latency;
            "request_time_per_output_token_seconds" "Histogram of time_per_output_token_seconds per request."
                |s| &s.stats.time_per_output_token;
            "e2e_request_latency_seconds" "Histogram of e2e request latency in seconds." |s| &s.stats.e2e;
            "request_queue_time_seconds" "Histogram of time spent in WAITING phase for request." |s| &s.stats.queue;
            "request_inference_time_seconds" "Histogram of time spent in RUNNING phase for request."
                |s| &s.stats.inference;
            "request_prefill_time_seconds" "Histogram of time spent in PREFILL phase for request." |s| &s.stats.prefill;
            "request_decode_time_seconds" "Histogram of time spent in DECODE phase for request." |s| &s.stats.decode;
            "request_num_preemptions" "Histogram of the number of times a request was preempted."
                |s| &s.stats.request_preemptions;
            "request_prefill_kv_computed_tokens" "Histogram of new KV tokens computed during prefill (excluding cached tokens)."
                |s| &s.stats.request_prefill_computed;
        } {
            self.histogram(name, help, of);
        }
    }

    /// vLLM's settings of the cache, as labels; what the simulator does not have is vLLM's default.
    fn cache_config(&mut self, app: &App) {
        let (settings, limits) = (&app.settings, &app.settings.limits);
        let tokens = limits.num_blocks * limits.block_size;
        let python = |on: bool| if on { "True" } else { "False" };
        let none = |number: Option<usize>| number.map_or("None".to_string(), |number| number.to_string());
        let before = format!(
            "_block_size_resolved=\"True\",block_size=\"{0}\",cache_dtype=\"{1}\",cache_hit_alignment_tokens=\"None\",\
             effective_attention_block_size=\"{0}\",enable_mamba_shared_prefix_checkpoint=\"False\",\
             enable_prefix_caching=\"{2}\"",
            limits.block_size,
            if settings.cost.kv_bytes < 2.0 { "fp8" } else { "auto" },
            python(limits.prefix_caching),
        );
        let after = format!(
            "gpu_memory_utilization=\"{}\",hash_block_size=\"None\",is_attention_free=\"False\",\
             kv_cache_dtype_skip_layers=\"[]\",kv_cache_layout=\"None\",kv_cache_max_concurrency=\"{:?}\",\
             kv_cache_memory_bytes=\"None\",kv_cache_size_tokens=\"{tokens}\",kv_offloading_backend=\"native\",\
             kv_offloading_size=\"None\",kv_sharing_fast_prefill=\"False\",mamba_block_size=\"None\",\
             mamba_cache_dtype=\"auto\",mamba_cache_mode=\"none\",mamba_page_size_padded=\"None\",\
             mamba_ssm_cache_dtype=\"auto\",num_cpu_blocks=\"None\",num_gpu_blocks=\"{}\",\
             num_gpu_blocks_override=\"{}\",prefix_cache_retention_interval=\"0\",prefix_caching_hash_algo=\"sha256\",\
             prefix_match_unit=\"None\",replayssm_buffer_len=\"16\",skip_page_size_padded=\"None\",\
             sliding_window=\"None\",swa_bounded_replay=\"True\",use_kda_recoverssm=\"False\",use_replayssm=\"False\",\
             user_specified_block_size=\"False\"",
            settings.gpu_memory_utilization,
            tokens as f64 / limits.max_model_len as f64,
            limits.num_blocks,
            none(settings.num_gpu_blocks_override),
        );
        let engines = 0..self.states.len();
        let samples: Vec<(Labels, f64)> = engines
            .map(|engine| (Labels::new(format!("{before},engine=\"{engine}\""), after.clone()), 1.0))
            .collect();
        let help = "Information of the LLMEngine CacheConfig";
        self.page.gauge("vllm:cache_config_info", help, &samples);
    }

    /// There only if tokens are guessed ahead, as in vLLM.
    fn speculation(&mut self, app: &App) {
        let Some(guess) = &app.settings.cost.speculation else {
            return;
        };
        self.counter("spec_decode_num_drafts", "Number of spec decoding drafts.", |state| {
            state.stats.drafts as f64
        });
        self.counter("spec_decode_num_draft_tokens", "Number of draft tokens.", |state| {
            state.stats.draft_tokens as f64
        });
        self.counter(
            "spec_decode_num_accepted_tokens",
            "Number of accepted tokens.",
            |state| state.stats.accepted.iter().sum::<u64>() as f64,
        );
        let states = self.states.iter().enumerate();
        let samples: Vec<(Labels, f64)> = states
            .flat_map(|(engine, state)| {
                let place = |place: usize| {
                    let labels = self.labels(engine, "", &format!("position=\"{place}\""));
                    (labels, state.stats.accepted.get(place).copied().unwrap_or(0) as f64)
                };
                (0..guess.tokens).map(place).collect::<Vec<_>>()
            })
            .collect();
        let help = "Accepted tokens per draft position.";
        self.page
            .counter("vllm:spec_decode_num_accepted_tokens_per_pos", help, &samples);
    }

    /// There only if adapters are served. Which of them run is not followed.
    fn adapters(&mut self, app: &App) {
        if app.settings.adapters.is_empty() {
            return;
        }
        let most = app.settings.adapters.len();
        let labels = format!("max_lora=\"{most}\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"");
        let now = super::unix_seconds();
        self.page.gauge(
            "vllm:lora_requests_info",
            "Running stats on lora requests.",
            &[(Labels::new(labels, ""), now)],
        );
    }
}
