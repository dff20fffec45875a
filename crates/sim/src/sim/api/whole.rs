//! Answers that are not streamed: written once every token is there.

use super::answer::{Choice, EVENTS_AT_ONCE, PendingAnswer, Style};
use super::error::{ApiError, ENGINE_DEAD};
use crate::sim::driver::EngineEvent;
use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// Token counts as they stand in an answer.
pub fn usage(prompt: usize, completion: usize) -> Value {
    json!({"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion})
}

/// The beginning of an answer or a chunk; `objects` says what that is called of a completion and of a chat.
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
    let choices = choices.map(|(index, of)| choice(answer, index, of)).collect();
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
