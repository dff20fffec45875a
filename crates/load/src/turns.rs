//! Conversations: sequences of requests. Each request waits for the answer to the previous one, and usually repeats all earlier messages.
//!
//! This module writes the request of each turn. The [`drive`](super::drive) decides when it is sent.

use super::api::body::{Content, user_turn};
use super::api::request::{Request, RequestOptions};
use serde_json::{Map, Value, json};
use vsweep_metrics::Nanos;

/// The turns of a load, one for each of its requests, in order.
#[derive(Debug)]
pub struct Turns {
    /// Options for writing requests.
    pub options: RequestOptions,
    /// Content of each turn.
    pub each: Vec<Turn>,
    /// Time from an answer to the next turn.
    pub pause: Nanos,
    /// True if a turn repeats the earlier turns, false if turns are independent.
    pub with_history: bool,
}

/// Content of one turn.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// Content of the user's message: a text or a list of parts.
    pub prompt: Value,
    /// Prompt tokens with the history, by the dataset's count.
    pub prompt_len: u64,
    /// Number of tokens to generate. The number is also sent as `min_tokens`, unless the run sets `ignore_eos` or `min_tokens`.
    pub output_len: u64,
    /// The request's id, for the `x-request-id` header.
    pub id: String,
    /// The conversation's id, for the `x-session-id` header.
    pub session: String,
    /// The adapter to use instead of the model.
    pub adapter: Option<String>,
    /// True for the last turn of a conversation.
    pub is_last: bool,
}

impl Turns {
    /// Returns the request of the turn `index`, which follows the messages of `history`.
    pub fn request(&self, index: usize, history: &[Value]) -> Result<Request, String> {
        let turn = &self.each[index];
        let mut messages = history.to_vec();
        messages.push(user_turn(&turn.prompt));
        let extra = &self.options.body.extra;
        let is_length_set = self.options.body.ignore_eos || extra.contains_key("min_tokens");
        let mut overrides = Map::new();
        if !is_length_set && turn.output_len > 0 {
            overrides.insert("min_tokens".to_owned(), json!(turn.output_len));
        }
        self.options.request(&Content {
            messages: Some(&Value::Array(messages)),
            overrides: Some(&overrides),
            prompt_len: turn.prompt_len,
            output_len: turn.output_len,
            id: Some(&turn.id),
            session: Some(&turn.session),
            adapter: turn.adapter.as_deref(),
            index,
            ..Content::default()
        })
    }

    /// Adds a turn and its answer to the history, if later turns repeat it.
    pub(super) fn remember(&self, index: usize, answer: &str, history: &mut Vec<Value>) {
        if self.with_history {
            history.push(user_turn(&self.each[index].prompt));
            history.push(json!({"role": "assistant", "content": answer}));
        }
    }

    /// Returns the index of the first turn of the conversation that follows the conversation of the turn `index`.
    pub(super) fn next_conversation(&self, index: usize) -> usize {
        let rest = self.each[index..].iter();
        rest.take_while(|turn| !turn.is_last).count() + index + 1
    }
}
