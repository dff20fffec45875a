//! Conversations: requests that wait for the answer to the one before, and repeat what was said so far.
//!
//! Knows what each turn says and writes it; when it may be sent is the [`Drive`](super::drive)'s work.

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
    /// True if a turn repeats the earlier ones, false if it is independent.
    pub with_history: bool,
}

/// Content of one turn.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// The user's text.
    pub prompt: Value,
    /// Prompt tokens with the history, by the dataset's count.
    pub prompt_len: u64,
    /// Tokens to generate; no fewer, unless the run's own settings say so.
    pub output_len: u64,
    /// Goes into the `x-request-id` header.
    pub id: String,
    /// The conversation's id, for the `x-session-id` header.
    pub session: String,
    /// The adapter to use instead of the model.
    pub adapter: Option<String>,
    /// True if the conversation ends with it.
    pub is_last: bool,
}

impl Turns {
    /// The request of a turn after the messages `said`.
    pub fn request(&self, index: usize, said: &[Value]) -> Result<Request, String> {
        let turn = &self.each[index];
        let mut messages = said.to_vec();
        messages.push(user_turn(&turn.prompt));
        let extra = &self.options.body.extra;
        let is_settled = self.options.body.ignore_eos || extra.contains_key("min_tokens");
        let mut overrides = Map::new();
        if !is_settled && turn.output_len > 0 {
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

    /// Adds a turn and its answer to what was said.
    pub(super) fn remember(&self, index: usize, answer: &str, said: &mut Vec<Value>) {
        if self.with_history {
            said.push(user_turn(&self.each[index].prompt));
            said.push(json!({"role": "assistant", "content": answer}));
        }
    }

    /// The first turn of the conversation after that of a turn.
    pub(super) fn next_conversation(&self, index: usize) -> usize {
        let rest = self.each[index..].iter();
        rest.take_while(|turn| !turn.is_last).count() + index + 1
    }
}
