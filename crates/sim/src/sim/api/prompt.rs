//! Prompts in all their forms: text, token ids, lists of either, and chats.

use super::App;
use super::answer::Style;
use super::body::{Body, NO_TEXT};
use super::error::ApiError;
use serde::Deserialize;
use serde_json::Value;

/// A prompt as token ids, with its text where it is known.
pub struct Prompt {
    /// Its tokens; at least one.
    pub ids: Vec<u32>,
    /// Its text, if it was given as text.
    pub text: Option<String>,
}

/// The prompts of a request.
pub fn prompts(app: &App, style: Style, body: &Body) -> Result<Vec<Prompt>, ApiError> {
    let of_text = |text: String| {
        let ids = app.tokenizer.encode(&text, true);
        let ids = ids.map_err(|error| ApiError::bad_request("prompt", error))?;
        Ok(Prompt { ids, text: Some(text) })
    };
    let of_value = |value: &Value| match value {
        Value::String(text) => of_text(text.clone()),
        Value::Array(_) => {
            let refusal = |_| ApiError::bad_request("prompt", "token ids must be non-negative integers");
            let ids = Vec::deserialize(value).map_err(refusal)?;
            Ok(Prompt { ids, text: None })
        }
        other => Err(ApiError::invalid(NO_TEXT.0, "body.prompt", NO_TEXT.1, other)),
    };
    let prompts: Vec<Prompt> = match style {
        Style::Chat => vec![of_text(chat_text(body.required("messages")?)?)?],
        Style::Completion => match body.required("prompt")? {
            Value::Array(list) if list.iter().all(Value::is_string) || list.iter().all(Value::is_array) => {
                list.iter().map(of_value).collect::<Result<_, ApiError>>()?
            }
            one => vec![of_value(one)?],
        },
    };
    if prompts.is_empty() || prompts.iter().any(|prompt| prompt.ids.is_empty()) {
        return Err(ApiError::bad_request("prompt", "The decoder prompt cannot be empty"));
    }
    Ok(prompts)
}

/// The toy chat template: one line a message, role first.
fn chat_text(messages: &Value) -> Result<String, ApiError> {
    let wrong = || ApiError::invalid("list_type", "body.messages", "Input should be a valid list", messages);
    let mut text = String::new();
    for message in messages.as_array().ok_or_else(wrong)? {
        let role = message.get("role").and_then(Value::as_str).unwrap_or("user");
        text.push_str(&format!("<|{role}|>\n"));
        match message.get("content") {
            Some(Value::String(content)) => text.push_str(content),
            Some(Value::Array(parts)) => parts
                .iter()
                .filter_map(|part| part.get("text")?.as_str())
                .for_each(|part| text.push_str(part)),
            _ => {}
        }
        text.push('\n');
    }
    text.push_str("<|assistant|>\n");
    Ok(text)
}
