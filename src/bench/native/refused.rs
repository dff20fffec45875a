//! Flags of `vllm bench serve` and of the Rust client that the native benchmark lacks, each with the reason.

/// A flag a line.
macro_rules! reasons {
    ($($name:ident: $reason:literal,)*) => { &[$((stringify!($name), $reason)),*] };
}

/// Flags of `vllm bench serve` that make no sense here, with the reason.
pub const REFUSED: &[(&str, &str)] = reasons! {
    trust_remote_code: "no Python code is run; give a tokenizer.json",
    tokenizer_mode: "tokenizers are read from tokenizer.json; give one",
    hf_name: "columns are found by their names; name one with hf_text_column",
    blazedit_min_distance: "rows are not chosen by content; give a file of those wanted",
    blazedit_max_distance: "rows are not chosen by content; give a file of those wanted",
    asr_min_audio_len_sec: "sounds are not chosen by length; give a file of those wanted",
    asr_max_audio_len_sec: "sounds are not chosen by length; give a file of those wanted",
    bfcl_categories: "tools are not sent; use extra_body",
    use_beam_search: "vllm bench serve ignores it too; use extra_body",
    no_stream: "files are read from disk; download them first",
    plot_timeline: "\"vsweep report --timeline\" shows the requests of a sweep's run; use that",
    timeline_itl_thresholds: "\"vsweep report --timeline\" shows the requests of a sweep's run; use that",
    plot_dataset_stats: "it is not drawn; save_detailed keeps each length",
    // Parameters of the Rust client.
    prompt_token_ids: "set skip_tokenizer_init, which sends token ids",
    max_model_len: "requests are sent as they are; lower the lengths of prompts and outputs",
    random_cache_hit_fraction: "use prefix_repetition, or random_prefix_len",
    random_cache_ratio: "use prefix_repetition, or random_prefix_len",
    speed_bench_max_input_len: "give a file of the messages wanted",
    dry_run: "\"vsweep plan\" shows what would be sent, and \"vsweep rehearse\" how long it takes",
    num_runs: "write repetitions into a plan; \"vsweep run\" keeps each of them",
    compare: "\"vsweep plot\" and \"vsweep pareto\" compare runs",
    reset_prefix_cache: "\"vsweep run\" resets it between runs",
    sweep_max_concurrency: "write the values into a plan for \"vsweep run\"",
    sweep_request_rate: "write the values into a plan for \"vsweep run\"",
    sweep_num_prompts_factor: "write the values into a plan for \"vsweep run\", and link them",
    sweep_summary_percentiles: "set metric_percentiles in a plan for \"vsweep run\"",
    profile_batch_threshold: "profile covers the whole run",
    profile_duration: "profile covers the whole run",
};

/// Returns the reason why a refused flag has no effect with these values, if that is so: command lines written for `vllm bench serve` have
/// such flags.
pub fn harmless(name: &str, values: &[&str]) -> Option<&'static str> {
    let is_usual = |value: &&str| ["auto", "hf", "slow"].contains(value);
    let is_harmless = match name {
        "trust_remote_code" => true,
        "tokenizer_mode" => values.iter().all(is_usual),
        _ => false,
    };
    let (_, reason) = REFUSED.iter().find(|(refused, _)| *refused == name)?;
    is_harmless.then_some(*reason)
}
