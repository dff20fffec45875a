//! The datasets of prompts. The file of a dataset declares its parameters, and draws the same prompts as `vllm bench serve` for a seed.
//!
//! Datasets return prompts and lengths as data. Module `api` turns them into requests, and `arrival` chooses the due times, except for
//! traces, which have their own.

mod burstgpt;
mod conversations;
mod custom;
mod endless;
mod hf;
mod kind;
mod mix;
mod prefix_repetition;
mod prompt;
mod prompt_params;
mod question_sets;
mod random;
mod random_mm;
mod rerank;
mod sampling;
mod sharegpt;
mod sonnet;
/// Rows of a dataset: from files and from the Hugging Face Hub.
mod source {
    pub(super) mod hub;
    pub(super) mod rows;
    pub(super) mod split;
}
mod timed_trace;
/// Text as tokens: tokenizers, chat templates, and texts with an exact number of tokens.
mod tokens {
    pub(super) mod chat_template;
    pub(super) mod round_trip;
    pub(super) mod tokenizer;
    pub(super) mod vocabulary;
}

pub use burstgpt::BurstGpt;
pub use conversations::{ConversationSource, Conversations, Shares, TurnParams};
pub use custom::{Custom, CustomAudio, CustomImage, OutputLen};
pub use endless::draw_endlessly;
pub use hf::HuggingFace;
pub use kind::{Dataset, Draw, Kind, Material, Traits};
pub use mix::{Class, MOST_CLASSES, Mix};
pub use prefix_repetition::PrefixRepetition;
pub use prompt::{Item, Prompt, PromptSource};
pub use prompt_params::{MOST_PROMPTS, PromptParams};
pub use question_sets::{SpecBench, SpeedBench, Subset};
pub use random::{Random, RangeRatio};
pub use random_mm::{Bucket, Buckets, Images, MostImages, RandomMm};
pub use rerank::Rerank;
pub use sampling::Sampling;
pub use sharegpt::ShareGpt;
pub use sonnet::Sonnet;
pub use timed_trace::{TimedTrace, sort_by_time};
pub use tokens::chat_template::ChatTemplate;
pub use tokens::tokenizer::Tokenizer;
pub use tokens::vocabulary::{COMMON_WORDS, Count, ESTIMATE, MOST_IDS, ServerTokenizer, Vocabulary};

use crate::params::ParamGroup;

/// Every dataset, in the order of help and docs/parameters.md.
pub const KINDS: &[Kind] = &[
    random::KIND,
    random_mm::KIND,
    rerank::KIND,
    prefix_repetition::KIND,
    sharegpt::KIND,
    custom::TEXT,
    custom::IMAGE,
    custom::AUDIO,
    question_sets::SPEC_BENCH,
    question_sets::SPEED_BENCH,
    burstgpt::KIND,
    timed_trace::KIND,
    sonnet::KIND,
    hf::KIND,
];

/// The parameters of each dataset, under its name.
pub fn groups() -> impl Iterator<Item = ParamGroup> + Clone {
    let of = |kind: &'static Kind| kind.params.iter().map(|params| ParamGroup::of(kind.name, params));
    KINDS.iter().flat_map(of)
}
