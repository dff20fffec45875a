//! Defines an admitted request for text and the contents of its answer. Writes an answer that is not streamed, once all its tokens
//! have come.

use super::App;
use super::error::{ApiError, ENGINE_DEAD};
use crate::driver::EngineEvent;
use crate::engine::token_id;
use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc::UnboundedReceiver;
use vsweep_metrics::rng::{mix, uniform};

/// Maximum number of events of a request that are received at once.
pub const EVENTS_AT_ONCE: usize = 512;
/// Number of tokens that are ranked by log probability at each position of an answer. As in vLLM by default, no request gets more.
pub const RANKS: usize = 20;

/// The requested interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `/v1/completions`.
    Completion,
    /// `/v1/chat/completions`.
    Chat,
}

/// One of the texts that answer a request.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Seed of its tokens.
    pub seed: u64,
    /// Number of its tokens.
    pub len: usize,
    /// Number of tokens that have come so far.
    pub written: usize,
    /// Number of tokens of its prompt.
    pub prompt_len: usize,
    /// `stop` or `length`.
    pub finish_reason: &'static str,
    /// The stop text or stop token that ended it.
    pub stop_reason: Option<String>,
    /// Token ids of its prompt, if they were requested.
    pub prompt_ids: Option<Vec<u32>>,
    /// Text of its prompt, if the answer repeats it.
    pub echo: Option<String>,
}

impl Choice {
    fn is_complete(&self) -> bool {
        self.written >= self.len
    }
}

/// An admitted request: the contents of its answer, and the source of its tokens. The request counts as in flight until this value is
/// dropped.
pub struct PendingAnswer {
    /// `cmpl-…` or `chatcmpl-…`.
    pub id: String,
    /// Number of the request. Clients may give several requests one id.
    pub number: u64,
    /// The interface.
    pub style: Style,
    /// The choices, in order.
    pub choices: Vec<Choice>,
    /// Number of tokens of all prompts.
    pub prompt_tokens: usize,
    /// True if token ids are returned.
    pub token_ids: bool,
    /// Number of alternatives in each token's log probabilities; `None` without log probabilities.
    pub logprobs: Option<usize>,
    /// True if the stream ends with usage.
    pub usage: bool,
    /// True if every chunk carries usage.
    pub continuous_usage: bool,
    /// Effects of simulated faults on the answer.
    pub answer_faults: AnswerFaults,
    /// The name of the model that answers.
    pub model: String,
    /// Seconds since 1970.
    pub created: u64,
    /// The server.
    pub app: Arc<App>,
    /// Events of its sequences.
    pub events: UnboundedReceiver<EngineEvent>,
}

/// Effects of simulated faults on an answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnswerFaults {
    /// True if a stream breaks off once two tokens are written.
    pub cut: bool,
    /// True if `usage` reports more tokens than the answer has.
    pub miscounted: bool,
    /// Share of tokens that are wrong.
    pub wrong: f64,
    /// Share of tokens that repeat the previous one.
    pub repeated: f64,
    /// Largest change of log probabilities that depends on the batch, in nats.
    pub noise: f64,
    /// Seed of the changes in `noise`.
    pub batch: u64,
}

impl PendingAnswer {
    /// Counts the next `count` tokens of a choice as written, and returns their indices.
    pub fn advance(&mut self, index: usize, count: usize) -> Range<usize> {
        let written = &mut self.choices[index].written;
        *written += count;
        *written - count..*written
    }

    /// Number of tokens of all choices that have come so far.
    pub fn written(&self) -> usize {
        self.choices.iter().map(|choice| choice.written).sum()
    }

    /// Returns true if all tokens have come.
    pub fn is_complete(&self) -> bool {
        self.choices.iter().all(Choice::is_complete)
    }

    /// Ends every unfinished choice, and returns the indices of these choices.
    pub fn abort(&mut self) -> Vec<usize> {
        let unfinished = self.choices.iter_mut().enumerate();
        let unfinished = unfinished.filter(|(_, choice)| !choice.is_complete());
        let aborted = unfinished.map(|(index, choice)| {
            (choice.finish_reason, choice.stop_reason) = ("abort", None);
            index
        });
        aborted.collect()
    }

    /// Number of tokens that `usage` reports for `tokens` real ones.
    pub fn counted(&self, tokens: usize) -> usize {
        let more = match self.answer_faults.miscounted {
            true => tokens / 4 + 1,
            false => 0,
        };
        tokens + more
    }

    fn piece(&self, choice: &Choice, index: usize) -> Cow<'static, str> {
        self.app.tokenizer.piece(self.token(choice, index))
    }

    /// Text of some tokens of a choice. The prompt precedes the first one if `echo` was requested.
    pub fn text(&self, choice: &Choice, tokens: Range<usize>) -> String {
        let echo = choice.echo.clone().filter(|_| tokens.start == 0);
        let pieces = tokens.map(|index| self.piece(choice, index));
        echo.map(Cow::Owned).into_iter().chain(pieces).collect()
    }

    /// Ids of some tokens of a choice, if they were requested.
    pub fn ids(&self, choice: &Choice, tokens: Range<usize>) -> Option<Vec<u32>> {
        let ids = || tokens.map(|index| self.token(choice, index)).collect();
        self.token_ids.then(ids)
    }

    /// Log probabilities of some tokens, if they were requested, in the format of the interface.
    pub fn logprobs_of(&self, choice: &Choice, tokens: Range<usize>) -> Option<Value> {
        let top = self.logprobs?;
        // As in vLLM, the returned token has an entry even if no alternatives are requested.
        let entries = |index| -> Vec<(String, f64)> {
            let ranked = self.ranked(choice, index).into_iter().take(top.max(1));
            let entry = |(id, logprob)| (self.app.tokenizer.piece(id).into_owned(), logprob);
            ranked.map(entry).collect()
        };
        let mut offset: usize = (0..tokens.start).map(|index| self.piece(choice, index).len()).sum();
        let ranked: Vec<Vec<(String, f64)>> = tokens.map(entries).collect();
        Some(match self.style {
            Style::Completion => {
                let likeliest = ranked.iter().map(|ranked| (ranked[0].0.as_str(), ranked[0].1));
                let (texts, logprobs): (Vec<&str>, Vec<f64>) = likeliest.unzip();
                let offset_of = |text: &&str| {
                    offset += text.len();
                    offset - text.len()
                };
                let offsets: Vec<usize> = texts.iter().map(offset_of).collect();
                let top: Vec<Value> = ranked
                    .iter()
                    .map(|ranked| ranked.iter().rev().cloned().collect())
                    .collect();
                json!({"text_offset": offsets, "token_logprobs": logprobs, "tokens": texts, "top_logprobs": top})
            }
            Style::Chat => {
                let entry = |(text, logprob): &(String, f64)| json!({"token": text, "logprob": logprob, "bytes": text.as_bytes()});
                let content = ranked.iter().map(|ranked| {
                    let mut entry_of_token = entry(&ranked[0]);
                    entry_of_token["top_logprobs"] = ranked.iter().take(top).map(entry).collect();
                    entry_of_token
                });
                json!({"content": content.collect::<Vec<_>>()})
            }
        })
    }

    /// Id of a token of a choice.
    pub fn token(&self, choice: &Choice, index: usize) -> u32 {
        let faults = &self.answer_faults;
        match faults.wrong + faults.repeated + faults.noise > 0.0 {
            true => self.ranked(choice, index)[0].0,
            false => token_id(choice.seed, index, self.app.tokenizer.vocabulary()),
        }
    }

    /// The most probable tokens at a position with their log probabilities, the returned one first. The values are made up: before noise,
    /// the first token has a probability of one in ten, and others may be nearly as probable.
    pub fn ranked(&self, choice: &Choice, index: usize) -> [(u32, f64); RANKS] {
        const FIRST: f64 = -std::f64::consts::LN_10;
        let (answer_faults, position) = (self.answer_faults, index as u64);
        let drawn = |salt: u64| uniform(mix(choice.seed ^ salt), position);
        let seed = match drawn(1) < answer_faults.wrong {
            true => mix(choice.seed),
            false => choice.seed,
        };
        let vocabulary = self.app.tokenizer.vocabulary();
        let mut logprob = FIRST;
        let mut ranked = std::array::from_fn(|rank| {
            let seed_of_rank = match rank {
                0 => seed,
                _ => mix(seed ^ (rank as u64) << 40),
            };
            if rank > 0 {
                logprob += drawn(rank as u64 + 2).max(1e-9).ln();
            }
            let moved = answer_faults.noise * (2.0 * uniform(mix(seed_of_rank ^ answer_faults.batch), position) - 1.0);
            (token_id(seed_of_rank, index, vocabulary), logprob + moved)
        });
        if answer_faults.noise > 0.0 {
            ranked.sort_by(|one, other| other.1.total_cmp(&one.1));
        }
        let origin = self.origin(choice, index);
        if origin < index {
            ranked[0].0 = self.token(choice, origin);
        }
        ranked
    }

    /// Returns the position whose token is repeated up to this one: the last one that does not repeat its predecessor.
    fn origin(&self, choice: &Choice, index: usize) -> usize {
        let share = self.answer_faults.repeated;
        if share >= 1.0 {
            return 0;
        }
        let repeats = |at: &usize| uniform(mix(choice.seed ^ 2), *at as u64) < share;
        (1..=index).rev().find(|at| !repeats(at)).unwrap_or(0)
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        self.app.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.is_complete() {
            self.app.driver.abort(self.number);
        }
    }
}

/// The `usage` object of an answer.
pub fn usage(prompt: usize, completion: usize) -> Value {
    json!({"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion})
}

/// The first fields of an answer or a chunk. `objects` are the values of `object` for a completion and for a chat.
pub fn head(answer: &PendingAnswer, objects: [&str; 2], choices: Vec<Value>) -> Value {
    let object = match answer.style {
        Style::Completion => objects[0],
        Style::Chat => objects[1],
    };
    json!({
        "id": answer.id, "object": object, "created": answer.created, "model": answer.model, "choices": choices,
    })
}

/// Waits for all tokens and writes the answer.
pub async fn respond(mut answer: PendingAnswer) -> Result<Response, ApiError> {
    let mut events = Vec::new();
    let mut complete = false;
    while !complete {
        if answer.events.recv_many(&mut events, EVENTS_AT_ONCE).await == 0 {
            return Err(ApiError::internal(ENGINE_DEAD));
        }
        for event in events.drain(..) {
            match event {
                EngineEvent::Tokens { choice, count, last } => {
                    answer.advance(choice as usize, count as usize);
                    complete |= last && answer.is_complete();
                }
                EngineEvent::Aborted => {
                    answer.abort();
                    complete = true;
                }
                EngineEvent::EngineDead => return Err(ApiError::internal(ENGINE_DEAD)),
            }
        }
    }
    Ok(Json(body(&answer)).into_response())
}

fn body(answer: &PendingAnswer) -> Value {
    let choices = answer.choices.iter().enumerate();
    let choices = choices.map(|(index, one)| choice(answer, index, one)).collect();
    let mut body = head(answer, ["text_completion", "chat.completion"], choices);
    body["service_tier"] = Value::Null;
    body["system_fingerprint"] = answer.app.fingerprint.as_str().into();
    body["usage"] = usage(answer.prompt_tokens, answer.counted(answer.written()));
    for key in ["prompt_tokens_details", "completion_tokens_details"] {
        body["usage"][key] = Value::Null;
    }
    if answer.style == Style::Chat {
        body["prompt_logprobs"] = Value::Null;
        body["prompt_token_ids"] = json!(answer.choices.first().and_then(|choice| choice.prompt_ids.as_ref()));
        body["prompt_text"] = Value::Null;
    }
    for key in ["kv_transfer_params", "ec_transfer_params", "metrics"] {
        body[key] = Value::Null;
    }
    body
}

fn choice(answer: &PendingAnswer, index: usize, choice: &Choice) -> Value {
    let tokens = 0..choice.written;
    let text = answer.text(choice, tokens.clone());
    let ids = answer.ids(choice, tokens.clone());
    let logprobs = answer.logprobs_of(choice, tokens);
    match answer.style {
        Style::Completion => json!({
            "index": index, "text": text, "logprobs": logprobs, "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason, "token_ids": ids, "prompt_logprobs": null,
            "prompt_token_ids": choice.prompt_ids, "routed_experts": null,
        }),
        Style::Chat => json!({
            "index": index,
            "message": {
                "role": "assistant", "content": text, "refusal": null, "annotations": null, "audio": null,
                "function_call": null, "reasoning": null,
            },
            "logprobs": logprobs, "finish_reason": choice.finish_reason, "stop_reason": choice.stop_reason,
            "token_ids": ids, "routed_experts": null,
        }),
    }
}
