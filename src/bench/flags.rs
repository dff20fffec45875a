//! The parameters of a native benchmark: one table with the names of `vllm bench serve`, which the plan's checks, the
//! command line and its help all read.

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

const fn flag(name: &'static str, takes: Takes, help: &'static str) -> Flag {
    Flag { name, takes, help }
}

/// Every parameter that the native generator knows.
pub const FLAGS: &[Flag] = &[
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
        "dataset_name",
        Takes::Text,
        "random, random-mm, random-rerank, prefix_repetition, sharegpt, custom, spec_bench, burstgpt, timed_trace, sonnet or hf [random]",
    ),
    flag(
        "dataset_path",
        Takes::Text,
        "File of the dataset, where it has one; for hf also a folder or a name on the Hub",
    ),
    flag("disable_shuffle", Takes::Nothing, "Take rows of a file in their order"),
    flag(
        "no_oversample",
        Takes::Nothing,
        "Send fewer requests where a file has too few rows, instead of using rows twice",
    ),
    flag(
        "skip_chat_template",
        Takes::Nothing,
        "Send texts of a file as they are to completions",
    ),
    flag("chat_template_kwargs", Takes::Json, "Values for the chat template"),
    flag("num_prompts", Takes::Count, "Requests [1000]"),
    flag("seed", Takes::Count, "Seed of prompts and arrivals [0]"),
    flag(
        "input_len",
        Takes::Count,
        "Prompt length, for every dataset that has one",
    ),
    flag(
        "output_len",
        Takes::Count,
        "Output length, for every dataset that has one",
    ),
    flag("random_input_len", Takes::Count, "Mean prompt tokens [1024]"),
    flag("random_output_len", Takes::Count, "Mean output tokens [128]"),
    flag(
        "random_range_ratio",
        Takes::Json,
        "Spread of lengths around their mean, 0 to below 1 [0]",
    ),
    flag("random_prefix_len", Takes::Count, "Tokens that all prompts share [0]"),
    flag(
        "random_batch_size",
        Takes::Count,
        "Inputs a request, for embeddings and reranking [1]",
    ),
    flag(
        "no_reranker",
        Takes::Nothing,
        "The model reads query and documents as separate inputs",
    ),
    flag(
        "random_mm_base_items_per_request",
        Takes::Count,
        "Mean images a request [1]",
    ),
    flag(
        "random_mm_num_mm_items_range_ratio",
        Takes::Number,
        "Spread of the number of images, 0 to 1 [0]",
    ),
    flag(
        "random_mm_limit_mm_per_prompt",
        Takes::Json,
        "Most images a request [{\"image\": 255}]",
    ),
    flag(
        "random_mm_bucket_config",
        Takes::Json,
        "Sizes of images and their shares [{(256, 256, 1): 0.5, (720, 1280, 1): 0.5}]",
    ),
    flag("prefix_repetition_prefix_len", Takes::Count, "Tokens of a prefix [256]"),
    flag("prefix_repetition_suffix_len", Takes::Count, "Tokens of a suffix [256]"),
    flag(
        "prefix_repetition_num_prefixes",
        Takes::Count,
        "Different prefixes [10]",
    ),
    flag("prefix_repetition_output_len", Takes::Count, "Output tokens [128]"),
    flag(
        "sharegpt_output_len",
        Takes::Count,
        "Output tokens [those of the recorded answers]",
    ),
    flag(
        "custom_output_len",
        Takes::Number,
        "Output tokens; -1 takes the column output_tokens [256]",
    ),
    flag("spec_bench_category", Takes::Text, "Only questions of this category"),
    flag("spec_bench_output_len", Takes::Count, "Output tokens [256]"),
    flag("hf_subset", Takes::Text, "Subset of the data set"),
    flag(
        "hf_split",
        Takes::Text,
        "Split of the data set [train, else what there is]",
    ),
    flag(
        "hf_text_column",
        Takes::Text,
        "Column of the prompts [found by its name]",
    ),
    flag(
        "hf_output_len",
        Takes::Count,
        "Output tokens [those of the answers, else 128]",
    ),
    flag(
        "multi_turn",
        Takes::Nothing,
        "Hold conversations: num_prompts of them, from random or sharegpt, each turn after the answer to the one before",
    ),
    flag(
        "multi_turn_num_turns",
        Takes::Count,
        "Turns of a random conversation [3]",
    ),
    flag(
        "multi_turn_min_turns",
        Takes::Count,
        "Fewest turns [multi_turn_num_turns; 2 for sharegpt]",
    ),
    flag(
        "multi_turn_max_turns",
        Takes::Count,
        "Most turns [multi_turn_num_turns; all for sharegpt]",
    ),
    flag(
        "multi_turn_concurrency",
        Takes::Count,
        "Most conversations at once [max_concurrency]",
    ),
    flag(
        "multi_turn_delay_ms",
        Takes::Number,
        "Pause between an answer and the next turn [0]",
    ),
    flag(
        "multi_turn_prefix_global_ratio",
        Takes::Number,
        "Share of a turn that all turns have in common; turns then stand alone [0]",
    ),
    flag(
        "multi_turn_prefix_conversation_ratio",
        Takes::Number,
        "Share of a turn that its conversation has in common; turns then stand alone [0]",
    ),
    flag(
        "per_turn_input_len",
        Takes::Count,
        "Tokens of each turn after the first [random_input_len]",
    ),
    flag("sonnet_input_len", Takes::Count, "Most prompt tokens [550]"),
    flag("sonnet_prefix_len", Takes::Count, "Tokens that all prompts share [200]"),
    flag("sonnet_output_len", Takes::Count, "Output tokens [150]"),
    flag(
        "timed_trace_chunk_hash_size",
        Takes::Count,
        "Tokens that one hash of a trace stands for [16]",
    ),
    flag(
        "timed_trace_sec_multiplier",
        Takes::Number,
        "Seconds in one unit of a trace's timestamps [1]",
    ),
    flag(
        "timed_trace_label_timestamp",
        Takes::Text,
        "Column of the time [timestamp]",
    ),
    flag(
        "timed_trace_label_input_length",
        Takes::Text,
        "Column of the prompt tokens [input_length]",
    ),
    flag(
        "timed_trace_label_output_length",
        Takes::Text,
        "Column of the output tokens [output_length]",
    ),
    flag(
        "timed_trace_label_hash_ids",
        Takes::Text,
        "Column of the chunk hashes [hash_ids]",
    ),
    flag(
        "self_timed",
        Takes::Nothing,
        "Send requests at the trace's own times [on for timed_trace]",
    ),
    flag(
        "no_self_timed",
        Takes::Nothing,
        "Send a trace's requests at request_rate",
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
    ("use_beam_search", "vllm bench serve ignores it too; use extra_body"),
    ("no_stream", "files are read from disk; download them first"),
    ("plot_timeline", "plots are drawn by \"vsweep report\"; use that"),
    (
        "timeline_itl_thresholds",
        "plots are drawn by \"vsweep report\"; use that",
    ),
    ("plot_dataset_stats", "plots are drawn by \"vsweep report\"; use that"),
];

/// The table's entry for a name in either spelling.
pub fn find(name: &str) -> Option<&'static Flag> {
    let name = name.replace('-', "_");
    FLAGS.iter().find(|flag| flag.name == name)
}

/// What to say about a name that the table lacks.
pub fn unknown(name: &str) -> String {
    let wanted = name.replace('-', "_");
    if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == wanted) {
        return format!("the native benchmark has no parameter \"{name}\": {reason}");
    }
    let near = FLAGS
        .iter()
        .map(|flag| (strsim::jaro_winkler(flag.name, &wanted), flag.name))
        .filter(|(likeness, _)| *likeness > 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match near {
        Some((_, near)) => format!("the native benchmark has no parameter \"{name}\"; did you mean \"{near}\"?"),
        None => format!(
            "the native benchmark has no parameter \"{name}\"; remove it, or use a command such as \"vllm bench serve\""
        ),
    }
}
