//! Knowledge of vLLM's flags beyond their spelling and short forms: switches without an opposite, and lists.

/// Switches of `vllm serve` and `vllm bench serve` that have no `--no-` form: `false` means that they are absent.
const SWITCHES: &str = "\
    aggregate_engine_logging append_result custom_ensure_client_side_data data_parallel_multi_port_external_lb \
    disable_log_stats disable_shuffle disable_tqdm enable_multimodal_chat grpc headless ignore_eos insecure \
    no_oversample no_reranker no_stream plot_dataset_stats plot_timeline profile save_detailed save_result \
    skip_chat_template skip_tokenizer_init use_beam_search";

/// Flags that take several words: all of them go when the parameter is set anew.
const LISTS: &str = "\
    allowed_media_domains collect_detailed_traces cudagraph_capture_sizes device_ids goodput header ignore_patterns \
    kv_cache_dtype_skip_layers logits_processors lora_modules lora_target_modules metadata numa_bind_cpus \
    numa_bind_nodes offload_params served_model_name sleep_preserve_parameter_names";

/// Returns true if a flag, in canonical spelling, has no `--no-` form.
pub fn is_plain_switch(name: &str) -> bool {
    SWITCHES.split(' ').any(|switch| switch == name)
}

/// Returns true if a flag, in canonical spelling, takes several words.
pub fn is_list(name: &str) -> bool {
    LISTS.split(' ').any(|list| list == name)
}

/// Flags that add to each other when they are given again, of vLLM and of the simulator.
const REPEATED: [&str; 2] = ["middleware", "sim_fault"];

/// Returns true if a flag, in canonical spelling, counts each time it is given.
pub fn is_repeated(name: &str) -> bool {
    REPEATED.contains(&name)
}
