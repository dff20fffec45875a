//! The offline benchmarks of vLLM, such as `vllm bench startup`, which load the engine themselves and need no server. This file lists them
//! with their flags, and the flags that only a server has. It runs nothing.

use crate::spelling;

/// An offline benchmark of vLLM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offline {
    /// Start time of the engine, with and without compiled code of an earlier start.
    Startup,
    /// Tokens a second of many prompts at once.
    Throughput,
    /// Duration of one batch.
    Latency,
    /// Time that the processor of images, video and sound takes.
    MmProcessor,
}

/// Flags of `vllm serve` (0.32) that concern only the HTTP server, not the engine.
const OF_SERVER: &str = "\
    headless api_server_count grpc lora_modules chat_template chat_template_content_format trust_request_chat_template \
    trust_request_mm_kwargs default_chat_template_kwargs response_role return_tokens_as_token_ids enable_auto_tool_choice \
    exclude_tools_when_tool_choice_none tool_call_parser tool_parser_plugin tool_strict_level tool_server max_log_len \
    enable_prompt_tokens_details enable_per_request_metrics enable_server_load_tracking enable_force_include_usage \
    sse_keep_alive_interval enable_tokenizer_info_endpoint enable_log_outputs enable_log_deltas cohere_is_reasoning_model \
    cohere_format anthropic_disabled_thinking_effort log_error_stack tokens_only enable_scale_out fingerprint_mode \
    fingerprint_value host port grpc_port data_parallel_supervisor_port dp_supervisor_probe_interval_s \
    dp_supervisor_probe_timeout_s dp_supervisor_probe_failure_threshold uds uvicorn_log_level disable_uvicorn_access_log \
    disable_access_log_for_endpoints allow_credentials allowed_origins allowed_methods allowed_headers api_key ssl_keyfile \
    ssl_certfile ssl_ca_certs enable_ssl_refresh ssl_cert_reqs ssl_ciphers root_path middleware enable_request_id_headers \
    disable_fastapi_docs h11_max_incomplete_event_size h11_max_header_count enable_offline_docs \
    enable_flash_late_interaction enable_log_requests";

/// Flags of the dataset that `throughput` and `mm_processor` have in common.
const OF_DATASET: &str = "\
    dataset_name dataset_path hf_split hf_subset no_reranker num_prompts num_warmups output_len random_batch_size \
    random_input_len random_mm_base_items_per_request random_mm_bucket_config random_mm_limit_mm_per_prompt \
    random_mm_num_mm_items_range_ratio random_output_len random_prefix_len random_range_ratio";

impl Offline {
    /// All offline benchmarks.
    pub const ALL: [Offline; 4] = [
        Offline::Startup,
        Offline::Throughput,
        Offline::Latency,
        Offline::MmProcessor,
    ];

    /// Returns the name in a plan.
    pub fn name(self) -> &'static str {
        match self {
            Offline::Startup => "startup",
            Offline::Throughput => "throughput",
            Offline::Latency => "latency",
            Offline::MmProcessor => "mm_processor",
        }
    }

    /// Returns the name after `vllm bench`.
    pub fn subcommand(self) -> &'static str {
        match self {
            Offline::MmProcessor => "mm-processor",
            other => other.name(),
        }
    }

    /// Returns the flags of the benchmark in vLLM 0.32, in canonical spelling, without those of the engine and without `output_json`, which
    /// vsweep sets.
    pub fn own_flags(self) -> impl Iterator<Item = &'static str> {
        let (more, own) = match self {
            Offline::Startup => ("", "num_iters_cold num_iters_warm num_iters_warmup"),
            Offline::Latency => (
                "",
                "batch_size disable_detokenize input_len n num_iters num_iters_warmup output_len profile use_beam_search",
            ),
            Offline::Throughput => (
                OF_DATASET,
                "asr_max_audio_len_sec asr_min_audio_len_sec async_engine backend custom_output_len disable_detokenize \
                 enable_multimodal_chat hf_enable_torch_compile hf_max_batch_size hf_name input_len lora_assignment lora_path \
                 n no_oversample prefix_len prefix_repetition_num_prefixes prefix_repetition_output_len \
                 prefix_repetition_prefix_len prefix_repetition_suffix_len prequeue_requests profile enable_log_requests",
            ),
            Offline::MmProcessor => (OF_DATASET, "disable_tqdm metric_percentiles"),
        };
        more.split_whitespace().chain(own.split_whitespace())
    }
}

/// Returns true if a parameter or a flag, in any spelling, concerns only the HTTP server.
pub fn is_of_server(flag: &str) -> bool {
    let bare = flag.split('=').next().unwrap_or(flag).trim_start_matches('-');
    let name = spelling::parameter(flag).unwrap_or_else(|| spelling::canonical(bare));
    let name = name.split('.').next().unwrap_or(&name);
    let is_named = |known: &str| known == name || name.strip_prefix("no_") == Some(known);
    OF_SERVER.split_whitespace().any(is_named)
}
