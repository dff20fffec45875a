//! The parameters that say what is asked: the dataset, its own settings, and conversations.

use super::{Flag, Takes, flag};

/// Parameters of datasets.
pub(super) const FLAGS: &[Flag] = &[
    flag(
        "dataset_name",
        Takes::Text,
        "random, random-mm, random-rerank, prefix_repetition, sharegpt, custom, custom_image, custom_audio, spec_bench, speed_bench, burstgpt, timed_trace, sonnet or hf [random]",
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
    flag(
        "custom_ensure_client_side_data",
        Takes::Nothing,
        "Send the bytes of custom_image's pictures, not their addresses",
    ),
    flag(
        "enable_multimodal_chat",
        Takes::Nothing,
        "Send media in messages [always so for openai-chat]",
    ),
    flag(
        "speed_bench_dataset_subset",
        Takes::Text,
        "qualitative, or throughput_ with 1k, 2k, 8k, 16k or 32k [qualitative]",
    ),
    flag("speed_bench_category", Takes::Text, "Only messages of this category"),
    flag("speed_bench_output_len", Takes::Count, "Output tokens [4096]"),
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
];
