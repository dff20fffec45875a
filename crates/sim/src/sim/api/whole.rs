//! Answers that are not streamed: written once every token is there.

use super::answer::{Choice, PendingAnswer, Style};
use super::error::{ApiError, ENGINE_DEAD};
use crate::sim::driver::EngineEvent;
use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::fmt;
use std::future::poll_fn;
use std::ops::Range;

/// Token counts as they stand in an answer.
pub struct Usage {
    /// Tokens of the prompts.
    pub prompt: usize,
    /// Tokens of the answers.
    pub completion: usize,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prompt, completion) = (self.prompt, self.completion);
        let total = prompt + completion;
        write!(
            f,
            "{{\"prompt_tokens\":{prompt},\"total_tokens\":{total},\"completion_tokens\":{completion}}}"
        )
    }
}

/// Waits for all tokens and writes the answer.
pub async fn respond(mut answer: PendingAnswer) -> Result<Response, ApiError> {
    let mut events = Vec::new();
    let mut written = vec![0; answer.choices.len()];
    let mut complete = false;
    while !complete {
        if poll_fn(|context| answer.poll_events(context, &mut events)).await == 0 {
            return Err(ApiError::internal(ENGINE_DEAD));
        }
        for event in events.drain(..) {
            match event {
                EngineEvent::Tokens { choice, count, last } => {
                    written[choice as usize] += count as usize;
                    complete |= last && answer.finish_choice();
                }
                EngineEvent::Aborted => {
                    complete = true;
                    for (choice, written) in answer.choices.iter_mut().zip(&written).filter(|(c, w)| **w < c.len) {
                        (choice.len, choice.finish_reason, choice.stop_reason) = (*written, "abort", None);
                    }
                }
                EngineEvent::EngineDead => return Err(ApiError::internal(ENGINE_DEAD)),
            }
        }
    }
    Ok(Json(body(&answer)).into_response())
}

fn body(answer: &PendingAnswer) -> Value {
    let prompt = answer.prompt_tokens;
    let completion = answer.counted(answer.choices.iter().map(|choice| choice.len).sum());
    let usage = json!({
        "prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion,
        "prompt_tokens_details": null, "completion_tokens_details": null,
    });
    let choices: Vec<Value> = answer
        .choices
        .iter()
        .enumerate()
        .map(|(index, c)| choice(answer, index, c))
        .collect();
    let mut body = json!({
        "id": answer.id,
        "object": if answer.style == Style::Chat { "chat.completion" } else { "text_completion" },
        "created": answer.created,
        "model": answer.model,
        "choices": choices,
        "service_tier": null,
        "system_fingerprint": answer.app.fingerprint,
        "usage": usage,
    });
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
    let mut text = choice.echo.clone().unwrap_or_default();
    (0..choice.len).for_each(|place| text.push_str(&answer.piece(choice, place)));
    let ids = answer.token_ids.then(|| {
        (0..choice.len)
            .map(|place| answer.token(choice, place))
            .collect::<Vec<_>>()
    });
    let logprobs = answer.logprobs.map(|_| logprobs(answer, choice, 0..choice.len));
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

/// Log probabilities of some tokens, in the shape of the interface.
pub fn logprobs(answer: &PendingAnswer, choice: &Choice, tokens: Range<usize>) -> Value {
    let top = answer.logprobs.unwrap_or_default();
    let start: usize = (0..tokens.start).map(|place| answer.piece(choice, place).len()).sum();
    // As vLLM does, the token that is told has an entry, however few are asked for.
    let ranked: Vec<Vec<(String, f64)>> = tokens
        .map(|place| {
            let ranked = answer.ranked(choice, place).into_iter().take(top.max(1));
            ranked
                .map(|(id, logprob)| (answer.app.tokenizer.piece(id).into_owned(), logprob))
                .collect()
        })
        .collect();
    match answer.style {
        Style::Completion => {
            let pieces: Vec<&str> = ranked.iter().map(|ranked| ranked[0].0.as_str()).collect();
            let offsets: Vec<usize> = pieces
                .iter()
                .scan(start, |offset, piece| {
                    *offset += piece.len();
                    Some(*offset - piece.len())
                })
                .collect();
            let own: Vec<f64> = ranked.iter().map(|ranked| ranked[0].1).collect();
            let top: Vec<Value> = ranked
                .iter()
                .map(|ranked| {
                    ranked
                        .iter()
                        .rev()
                        .map(|(text, logprob)| (text.clone(), json!(logprob)))
                        .collect()
                })
                .collect();
            json!({"text_offset": offsets, "token_logprobs": own, "tokens": pieces, "top_logprobs": top})
        }
        Style::Chat => {
            let entry =
                |(text, logprob): &(String, f64)| json!({"token": text, "logprob": logprob, "bytes": text.as_bytes()});
            let content = ranked.iter().map(|ranked| {
                let mut entry_of_token = entry(&ranked[0]);
                entry_of_token["top_logprobs"] = ranked.iter().take(top).map(entry).collect();
                entry_of_token
            });
            json!({"content": content.collect::<Vec<_>>()})
        }
    }
}
