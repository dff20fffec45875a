//! Prompts in all their forms: text, token ids, lists of either, and chats.

use super::App;
use super::answer::Style;
use super::body::Body;
use super::error::ApiError;
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
        let ids = app
            .tokenizer
            .encode(&text, true)
            .map_err(|error| ApiError::bad_request("prompt", error))?;
        Ok(Prompt { ids, text: Some(text) })
    };
    let of_ids = |list: &[Value]| {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        let ids: Option<Vec<u32>> = list.iter().map(id).collect();
        let ids = ids.ok_or_else(|| ApiError::bad_request("prompt", "token ids must be non-negative integers"))?;
        Ok(Prompt { ids, text: None })
    };
    let prompts: Vec<Prompt> = match style {
        Style::Chat => vec![of_text(chat_text(body.required("messages")?)?)?],
        Style::Completion => match body.required("prompt")? {
            Value::String(text) => vec![of_text(text.clone())?],
            Value::Array(list) if list.iter().all(Value::is_string) => list
                .iter()
                .filter_map(Value::as_str)
                .map(|text| of_text(text.into()))
                .collect::<Result<_, ApiError>>()?,
            Value::Array(list) if list.iter().all(Value::is_array) => list
                .iter()
                .filter_map(Value::as_array)
                .map(|ids| of_ids(ids))
                .collect::<Result<_, ApiError>>()?,
            Value::Array(list) => vec![of_ids(list)?],
            other => {
                return Err(ApiError::invalid(
                    "string_type",
                    "body.prompt",
                    "Input should be a valid string",
                    other,
                ));
            }
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
