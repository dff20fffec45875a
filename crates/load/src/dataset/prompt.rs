//! Prompts as data: what one request asks, in the forms that the APIs take.

use serde::Serialize;
use serde_json::Value;

/// What one request asks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Prompt {
    /// A text.
    Text(String),
    /// Token ids.
    Ids(Vec<u32>),
    /// Several prompts in one request.
    Batch(Vec<Prompt>),
    /// A conversation, or a list of content parts.
    Parts(Value),
}

impl Prompt {
    /// The prompt as a JSON value.
    pub fn to_value(&self) -> Value {
        match self {
            Prompt::Text(text) => Value::from(text.as_str()),
            Prompt::Ids(ids) => Value::from(ids.as_slice()),
            Prompt::Batch(prompts) => prompts.iter().map(Prompt::to_value).collect(),
            Prompt::Parts(parts) => parts.clone(),
        }
    }
}

/// One request's content.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// What is asked.
    pub prompt: Prompt,
    /// Pictures, films or sounds beside it: one part of a message or a list of them.
    pub media: Option<Value>,
    /// Its length in tokens, as far as it is known here.
    pub prompt_len: u64,
    /// Tokens to generate.
    pub output_len: u64,
    /// Its id, without the run's prefix.
    pub id: Option<String>,
    /// Inputs in the prompt: 1 unless it is a batch.
    pub sequences: u32,
    /// Its place in its conversation; a request with a place above 0 waits for the answer to the one before it.
    pub turn: u32,
    /// When it is due by the dataset's own clock, in seconds.
    pub timestamp: Option<f64>,
}

impl Item {
    /// The `index`-th request of a dataset: one prompt, due when the arrival process says.
    pub fn new(index: usize, prompt: Prompt, prompt_len: u64, output_len: u64) -> Item {
        Item {
            prompt,
            media: None,
            prompt_len,
            output_len,
            id: Some(index.to_string()),
            sequences: 1,
            turn: 0,
            timestamp: None,
        }
    }
}

/// How prompts were made, as the result file says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptSource {
    /// Text of exact length by the model's tokenizer.
    Tokenizer,
    /// Lists of token ids.
    TokenIds,
    /// Text of common words, about one token each.
    Words,
    /// Text of words that are one token each by the server's tokenizer.
    ServerWords,
    /// Text from a file.
    Text,
    /// Text from a file, put into the model's chat template.
    Template,
}

impl PromptSource {
    /// The name in result files.
    pub fn name(self) -> &'static str {
        match self {
            PromptSource::Tokenizer => "tokenizer",
            PromptSource::TokenIds => "token_ids",
            PromptSource::Words => "words",
            PromptSource::ServerWords => "server_words",
            PromptSource::Text => "text",
            PromptSource::Template => "text_in_chat_template",
        }
    }
}
