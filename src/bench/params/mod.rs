//! The parameters of a native benchmark: one table with the names of `vllm bench serve`, which the plan's checks, the
//! command line and its help all read. Those of datasets are in a table of their own.

pub(super) mod as_flags;
mod datasets;
mod headers;
pub(super) mod reader;
pub mod server;

use crate::plan::nearest;

/// What a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A whole number of at least 0.
    Count,
    /// A number; `inf` is one.
    Number,
    /// A text.
    Text,
    /// Several texts.
    Texts,
    /// A JSON value.
    Json,
    /// Nothing: it is there or not.
    Nothing,
}

/// One parameter.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Its name in snake case.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// One line of help.
    pub help: &'static str,
}

pub(super) const fn flag(name: &'static str, takes: Takes, help: &'static str) -> Flag {
    Flag { name, takes, help }
}

/// Every parameter that the native generator knows.
pub fn all() -> impl Iterator<Item = &'static Flag> + Clone {
    FLAGS.iter().chain(datasets::FLAGS)
}

/// Parameters that have nothing to do with datasets.
const FLAGS: &[Flag] = &[
    flag(
        "backend",
        Takes::Text,
        "API to speak: openai or vllm (completions), openai-chat, openai-responses, openai-embeddings, vllm-rerank, … [openai]",
    ),
    flag("base_url", Takes::Text, "Server address; replaces host and port"),
    flag("host", Takes::Text, "Server host [127.0.0.1]"),
    flag("port", Takes::Count, "Server port [8000]"),
    flag("endpoint", Takes::Text, "Path of the API [that of the backend]"),
    flag("header", Takes::Texts, "HTTP headers, each KEY=VALUE"),
    flag("insecure", Takes::Nothing, "Do not check the server's certificate"),
    flag("model", Takes::Text, "Model [the first one the server lists]"),
    flag("served_model_name", Takes::Text, "Model name in requests [the model]"),
    flag(
        "tokenizer",
        Takes::Text,
        "Tokenizer folder, tokenizer.json or cached hub name [the model]",
    ),
    flag(
        "skip_tokenizer_init",
        Takes::Nothing,
        "Use token ids or common words instead of the tokenizer",
    ),
    flag(
        "vocab_size",
        Takes::Count,
        "Token ids below this may be used when there is no tokenizer",
    ),
    flag(
        "request_rate",
        Takes::Number,
        "Mean requests a second [inf: all at once]",
    ),
    flag(
        "burstiness",
        Takes::Number,
        "Shape of the gaps: 1 is Poisson, below is burstier, inf is even [1]",
    ),
    flag("max_concurrency", Takes::Count, "Most requests in flight"),
    flag(
        "ramp_up_strategy",
        Takes::Text,
        "Let the rate grow: linear or exponential",
    ),
    flag("ramp_up_start_rps", Takes::Number, "Rate at the first request"),
    flag("ramp_up_end_rps", Takes::Number, "Rate at the last request"),
    flag(
        "num_warmups",
        Takes::Count,
        "Requests before the measurement, not counted [0]",
    ),
    flag(
        "ready_check_timeout_sec",
        Takes::Number,
        "Seconds to wait for a first request to succeed [0: no check]",
    ),
    flag("profile", Takes::Nothing, "Profile the server during the run"),
    flag(
        "probe_request_rate",
        Takes::Number,
        "Small requests a second beside the load, outside its limits [0]",
    ),
    flag("lora_modules", Takes::Texts, "Adapters to use instead of the model"),
    flag(
        "lora_assignment",
        Takes::Text,
        "How adapters are chosen: random or round-robin [random]",
    ),
    flag(
        "steady_state_threshold",
        Takes::Number,
        "Share of max_concurrency that counts as full [0.95]",
    ),
    flag(
        "steady_state_min_window",
        Takes::Number,
        "Seconds below which a steady state is doubtful [10, or a tenth of the run]",
    ),
    flag("no_steady_state", Takes::Nothing, "Do not look for a steady state"),
    flag(
        "silence_timeout",
        Takes::Number,
        "Seconds without a byte after which a request counts as failed [21600]",
    ),
    flag(
        "request_timeout",
        Takes::Number,
        "Seconds after which a request counts as failed [21600]",
    ),
    flag(
        "request_id_prefix",
        Takes::Text,
        "Start of each x-request-id [bench-RANDOM-]",
    ),
    flag(
        "ignore_eos",
        Takes::Nothing,
        "Generate on after the end-of-sequence token",
    ),
    flag(
        "logprobs",
        Takes::Count,
        "Log probabilities per token (completions only)",
    ),
    flag("extra_body", Takes::Json, "JSON object added to every request body"),
    flag("temperature", Takes::Number, "Sampling temperature"),
    flag("top_p", Takes::Number, "Nucleus sampling"),
    flag("top_k", Takes::Number, "Top-k sampling"),
    flag("min_p", Takes::Number, "Min-p sampling"),
    flag("frequency_penalty", Takes::Number, "Frequency penalty"),
    flag("presence_penalty", Takes::Number, "Presence penalty"),
    flag("repetition_penalty", Takes::Number, "Repetition penalty"),
    flag(
        "percentile_metrics",
        Takes::Text,
        "Metrics in the result: ttft,tpot,itl,e2el,client_queue_time,e2el_including_client_queue",
    ),
    flag(
        "metric_percentiles",
        Takes::Text,
        "Percentiles of each metric, e.g. 50,99",
    ),
    flag("goodput", Takes::Texts, "Targets in ms, each ttft:N, tpot:N or e2el:N"),
    flag("metadata", Takes::Texts, "Pairs for the result, each KEY=VALUE"),
    flag("label", Takes::Text, "Label in the result and its file name"),
    flag("save_result", Takes::Nothing, "Write the result to a JSON file"),
    flag(
        "save_detailed",
        Takes::Nothing,
        "Keep each request's figures in the result",
    ),
    flag("append_result", Takes::Nothing, "Append the result to the file"),
    flag("result_dir", Takes::Text, "Folder of the result file"),
    flag("result_filename", Takes::Text, "Name of the result file"),
    flag("disable_tqdm", Takes::Nothing, "Show no progress"),
];

/// Flags of `vllm bench serve` that make no sense here, with the reason.
pub const REFUSED: &[(&str, &str)] = &[
    ("trust_remote_code", "no Python code is run; give a tokenizer.json"),
    ("tokenizer_mode", "tokenizers are read from tokenizer.json; give one"),
    (
        "hf_name",
        "columns are found by their names; name one with hf_text_column",
    ),
    (
        "blazedit_min_distance",
        "rows are not chosen by content; give a file of those wanted",
    ),
    (
        "blazedit_max_distance",
        "rows are not chosen by content; give a file of those wanted",
    ),
    (
        "asr_min_audio_len_sec",
        "sounds are not chosen by length; give a file of those wanted",
    ),
    (
        "asr_max_audio_len_sec",
        "sounds are not chosen by length; give a file of those wanted",
    ),
    ("bfcl_categories", "tools are not sent; use extra_body"),
    ("use_beam_search", "vllm bench serve ignores it too; use extra_body"),
    ("no_stream", "files are read from disk; download them first"),
    (
        "plot_timeline",
        "\"vsweep report --timeline\" shows the requests of a sweep's run; use that",
    ),
    (
        "timeline_itl_thresholds",
        "\"vsweep report --timeline\" shows the requests of a sweep's run; use that",
    ),
    ("plot_dataset_stats", "it is not drawn; save_detailed keeps each length"),
    // Those of the Rust client.
    ("prompt_token_ids", "set skip_tokenizer_init, which sends token ids"),
    (
        "max_model_len",
        "requests are sent as they are; lower the lengths of prompts and outputs",
    ),
    (
        "random_cache_hit_fraction",
        "use prefix_repetition, or random_prefix_len",
    ),
    ("random_cache_ratio", "use prefix_repetition, or random_prefix_len"),
    ("speed_bench_max_input_len", "give a file of the messages wanted"),
    (
        "dry_run",
        "\"vsweep plan\" shows what would be sent, and \"vsweep rehearse\" how long it takes",
    ),
    (
        "num_runs",
        "write repetitions into a plan; \"vsweep run\" keeps each of them",
    ),
    ("compare", "\"vsweep plot\" and \"vsweep pareto\" compare runs"),
    ("reset_prefix_cache", "\"vsweep run\" resets it between runs"),
    (
        "sweep_max_concurrency",
        "write the values into a plan for \"vsweep run\"",
    ),
    ("sweep_request_rate", "write the values into a plan for \"vsweep run\""),
    (
        "sweep_num_prompts_factor",
        "write the values into a plan for \"vsweep run\", and link them",
    ),
    (
        "sweep_summary_percentiles",
        "set metric_percentiles in a plan for \"vsweep run\"",
    ),
    ("profile_batch_threshold", "profile covers the whole run"),
    ("profile_duration", "profile covers the whole run"),
];

/// Why a refused flag changes nothing with these values, if that is so: command lines written for `vllm bench serve` have
/// them.
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

/// The table's entry for a name in either spelling.
pub fn find(name: &str) -> Option<&'static Flag> {
    find_in(all(), name)
}

/// The entry of any table of parameters for a name in either spelling.
pub fn find_in(mut flags: impl Iterator<Item = &'static Flag>, name: &str) -> Option<&'static Flag> {
    let name = name.replace('-', "_");
    flags.find(|flag| flag.name == name)
}

/// What to say about a name that the table lacks.
pub fn unknown(name: &str) -> String {
    let wanted = name.replace('-', "_");
    if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == wanted) {
        return format!("the native benchmark has no parameter \"{name}\": {reason}");
    }
    unknown_in(all(), "the native benchmark", name).unwrap_or_else(|| {
        format!(
            "the native benchmark has no parameter \"{name}\"; remove it, or use a command such as \"vllm bench serve\""
        )
    })
}

/// What to say about a name that `whose` table lacks, if one of the table's is like it.
pub fn unknown_in(flags: impl Iterator<Item = &'static Flag>, whose: &str, name: &str) -> Option<String> {
    let wanted = name.replace('-', "_");
    match nearest(&wanted, flags.map(|flag| flag.name)).as_slice() {
        [] => None,
        near => Some(format!(
            "{whose} has no parameter \"{name}\"; did you mean \"{}\"?",
            near.join("\" or \"")
        )),
    }
}
