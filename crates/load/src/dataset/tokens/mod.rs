//! Text as tokens: tokenizers, chat templates, and text that has exactly so many tokens.

pub(super) mod chat_template;
pub(super) mod round_trip;
pub(super) mod special_tokens;
pub(super) mod tokenizer;
pub(super) mod vocabulary;
