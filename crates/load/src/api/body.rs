//! The JSON body of a request for each backend, with keys in the order of `vllm bench serve`.

use super::backend::Backend;
use serde_json::{Map, Value, json};

/// Content of one request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Content<'a> {
    /// A text, a list of token ids, a conversation, parts of a message, or a batch.
    pub prompt: Option<&'a Value>,
    /// Images, videos or audio that accompany the prompt: one part of a message or a list of them.
    pub media: Option<&'a Value>,
    /// Messages that replace the prompt in a chat.
    pub messages: Option<&'a Value>,
    /// Keys of this request only. They replace equal keys of the body and of [`BodyOptions::extra`].
    pub overrides: Option<&'a Map<String, Value>>,
    /// Number of inputs in the prompt, if it is a batch.
    pub sequences: Option<u32>,
    /// Prompt tokens by the dataset's count.
    pub prompt_len: u64,
    /// Tokens to generate.
    pub output_len: u64,
    /// The request's id, for the `x-request-id` header.
    pub id: Option<&'a str>,
    /// The conversation's id, for the `x-session-id` header.
    pub session: Option<&'a str>,
    /// The adapter to use instead of the model.
    pub adapter: Option<&'a str>,
    /// Position of the request in the run, from 0.
    pub index: usize,
}

/// Options common to all bodies of a run.
#[derive(Debug, Clone)]
pub struct BodyOptions {
    /// The API.
    pub backend: Backend,
    /// The model's name.
    pub model: String,
    /// True if output continues after an end-of-sequence token.
    pub ignore_eos: bool,
    /// Number of log probabilities to return for each token (completions only).
    pub logprobs: Option<u64>,
    /// Keys that are added to every body. They replace equal keys.
    pub extra: Map<String, Value>,
}

impl BodyOptions {
    /// The fields of the body for one request; [`Backend::Audio`] sends them as a form.
    pub fn fields(&self, content: &Content<'_>) -> Map<String, Value> {
        let prompt = content.prompt.unwrap_or(&Value::Null);
        let mut body = Map::new();
        let mut set = |key: &str, value: Value| body.insert(key.to_owned(), value);
        set("model", json!(content.adapter.unwrap_or(&self.model)));
        let limit = json!(content.output_len);
        match self.backend {
            Backend::Completions => {
                set("prompt", prompt.clone());
                set("repetition_penalty", json!(1.0));
                set("max_tokens", limit);
                set("logprobs", json!(self.logprobs));
            }
            Backend::Chat => {
                set("messages", messages(self.backend, content));
                set("max_completion_tokens", limit);
            }
            Backend::Responses => {
                set("input", prompt.clone());
                set("max_output_tokens", limit);
                set("stream", json!(true));
                set("store", json!(false));
            }
            Backend::Audio => {
                set("max_completion_tokens", limit);
                set("stream", json!(true));
                set("language", json!("en"));
                set("stream_include_usage", json!(true));
                set("stream_continuous_usage_stats", json!(true));
            }
            Backend::Embeddings => {
                set("input", prompt.clone());
                set("truncate_prompt_tokens", json!(-1));
            }
            Backend::EmbeddingsChat | Backend::EmbeddingsClip | Backend::EmbeddingsVlm2vec => {
                set("messages", messages(self.backend, content));
                set("truncate_prompt_tokens", json!(-1));
            }
            Backend::Infinity | Backend::InfinityClip => infinity_input(content, &mut body),
            Backend::Pooling => {
                set("truncate_prompt_tokens", json!(-1));
                match prompt {
                    Value::Object(fields) => body.extend(fields.clone()),
                    prompt => drop(set("input", prompt.clone())),
                }
            }
            Backend::Rerank => {
                let texts = prompt.as_array().map(Vec::as_slice).unwrap_or_default();
                set("query", texts.first().cloned().unwrap_or_default());
                set("documents", texts.get(1..).unwrap_or_default().into());
                set("truncate_prompt_tokens", json!(-1));
                // The other options are ignored, as in `vllm bench serve`.
                return body;
            }
        }
        if matches!(self.backend, Backend::Completions | Backend::Chat) {
            body.insert("stream".to_owned(), json!(true));
            body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
        if self.ignore_eos {
            body.insert("ignore_eos".to_owned(), json!(true));
        }
        body.extend(self.extra.clone());
        body.extend(content.overrides.cloned().unwrap_or_default());
        body
    }
}

/// The messages of a chat: those of `content` if it has any, else the prompt if it is a conversation, else the prompt and its media as one
/// turn of the user.
fn messages(backend: Backend, content: &Content<'_>) -> Value {
    let prompt = content.prompt.unwrap_or(&Value::Null);
    if let Some(messages) = content.messages {
        return messages.clone();
    }
    if is_conversation(prompt) {
        return prompt.clone();
    }
    let media: Vec<Value> = match content.media {
        Some(Value::Array(parts)) => parts.clone(),
        Some(part) => vec![part.clone()],
        None => vec![],
    };
    let text = |text: &Value| vec![json!({"type": "text", "text": text})];
    let parts = match (backend, prompt) {
        (_, Value::Array(parts)) => [parts.clone(), media].concat(),
        (Backend::EmbeddingsClip, _) if !media.is_empty() => [text(&json!("")), media].concat(),
        (Backend::EmbeddingsVlm2vec, _) => {
            let instruction = if content.index.is_multiple_of(2) {
                json!("Represent the given image.")
            } else {
                let prompt = prompt.as_str().unwrap_or_default();
                json!(format!(
                    "Represent the given image with the following question: {prompt}"
                ))
            };
            [media, text(&instruction)].concat()
        }
        _ => [text(prompt), media].concat(),
    };
    json!([{"role": "user", "content": parts}])
}

/// A prompt as one message of the user.
pub(crate) fn user_turn(prompt: &Value) -> Value {
    match prompt {
        Value::Array(parts) => json!({"role": "user", "content": parts}),
        text => json!({"role": "user", "content": [{"type": "text", "text": text}]}),
    }
}

fn is_conversation(prompt: &Value) -> bool {
    let is_turn = |turn: &Value| turn.get("role").is_some() && turn.get("content").is_some();
    prompt
        .as_array()
        .is_some_and(|turns| !turns.is_empty() && turns.iter().all(is_turn))
}

/// Sets `input` to the prompt. If it has media, sets `input` to the address of the first part and `modality` to its kind: `image` for
/// `image_url`.
fn infinity_input(content: &Content<'_>, body: &mut Map<String, Value>) {
    let part = content.media.map(|media| media.get(0).unwrap_or(media));
    let kind = part.and_then(|part| part["type"].as_str());
    match (part, kind) {
        (Some(part), Some(kind)) => {
            let modality = kind.split('_').next().unwrap_or(kind);
            body.insert("input".to_owned(), part[kind]["url"].clone());
            body.insert("modality".to_owned(), json!(modality));
        }
        _ => drop(body.insert("input".to_owned(), content.prompt.cloned().unwrap_or_default())),
    }
}
