//! Parses a request for text: the fields of its JSON body, with pydantic's errors; its prompts in all their forms (text, token ids, lists
//! of either, chats); the limit of its answer, and the conditions that end an answer earlier.

use super::App;
use super::answer::Style;
use super::error::ApiError;
use crate::engine::token_id;
use serde::Deserialize;
use serde_json::{Map, Value};
use vsweep_metrics::rng::uniform;

/// A body that is a JSON object.
pub struct Body(Map<String, Value>);

impl Body {
    /// Reads the bytes of a request.
    pub fn read(bytes: &[u8]) -> Result<Body, ApiError> {
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => Ok(Body(fields)),
            Ok(other) => Err(ApiError::invalid(
                "model_attributes_type",
                "body",
                "Input should be a valid dictionary or object to extract fields from",
                &other,
            )),
            Err(error) => {
                let lines = bytes.split_inclusive(|byte| *byte == b'\n');
                let before: usize = lines.take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
                Err(ApiError::not_json((before + error.column()).saturating_sub(1)))
            }
        }
    }

    /// Returns a field; `None` if it is missing or null.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Returns a field, or an error if it is missing or null.
    pub fn required(&self, name: &str) -> Result<&Value, ApiError> {
        let input = || Value::Object(self.0.clone());
        self.get(name)
            .ok_or_else(|| ApiError::invalid("missing", &format!("body.{name}"), "Field required", &input()))
    }

    /// Returns a field as `read` parses it, or pydantic's error of this kind and message if `read` returns `None`.
    fn field<'b, T>(
        &'b self,
        name: &str,
        read: impl FnOnce(&'b Value) -> Option<T>,
        (kind, message): (&str, &str),
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let refusal = || ApiError::invalid(kind, &format!("body.{name}"), message, value);
        read(value).map(Some).ok_or_else(refusal)
    }

    /// Returns an integer, which may also be given as a string, as in pydantic's lax mode.
    pub fn int(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let (kind, why) = match self.get(name) {
            Some(Value::Number(_)) => ("int_from_float", ", got a number with a fractional part"),
            Some(Value::String(_)) => ("int_parsing", ", unable to parse string as an integer"),
            _ => ("int_type", ""),
        };
        let read = |value: &Value| match value {
            Value::String(text) => text.trim().parse().ok(),
            other => {
                let whole = other.as_f64().filter(|number| number.fract() == 0.0);
                other.as_i64().or(whole.map(|number| number as i64))
            }
        };
        self.field(name, read, (kind, &format!("Input should be a valid integer{why}")))
    }

    /// Returns a boolean; false if it is missing.
    pub fn flag(&self, name: &str) -> Result<bool, ApiError> {
        let refusal = (
            "bool_parsing",
            "Input should be a valid boolean, unable to interpret input",
        );
        Ok(self.field(name, Value::as_bool, refusal)?.unwrap_or(false))
    }

    /// Returns a string.
    pub fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        self.field(name, Value::as_str, NO_TEXT)
    }

    /// Returns a string or a list of strings as a list; empty if it is missing.
    pub fn texts(&self, name: &str) -> Result<Vec<String>, ApiError> {
        let read = |value: &Value| match value {
            Value::String(text) => Some(vec![text.clone()]),
            list => Vec::deserialize(list).ok(),
        };
        Ok(self.field(name, read, NO_TEXT)?.unwrap_or_default())
    }
}

/// Pydantic's error for a value that is not a string.
pub const NO_TEXT: (&str, &str) = ("string_type", "Input should be a valid string");

/// A prompt as token ids, with its text if that is known.
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

/// Applies a made-up chat template: for each message a line with the role, then the content.
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

/// Returns the maximum number of output tokens for a prompt of `prompt` tokens, or vLLM's error for an impossible or too long request.
pub fn output_limit(app: &App, style: Style, prompt: usize, asked: Option<i64>) -> Result<usize, ApiError> {
    let longest = app.settings.limits.max_model_len;
    let context = format!("This model's maximum context length is {longest} tokens. However,");
    let name = match style {
        Style::Chat => "max_completion_tokens",
        Style::Completion => "max_tokens",
    };
    let (param, value, why) = match asked {
        _ if prompt >= longest => {
            let why = format!(
                "{context} your prompt contains {prompt} input tokens, which exceeds this limit even without any output \
                 tokens. Please reduce the length of the input prompt."
            );
            ("input_tokens", prompt as i64, why)
        }
        None => return Ok(longest - prompt),
        Some(asked) if asked < 1 => (name, asked, format!("{name} must be at least 1, got {asked}.")),
        Some(asked) if asked > longest as i64 => {
            let limit = format!("max_model_len={longest}");
            let why = format!("{name}={asked} cannot be greater than {limit}. Please request fewer output tokens.");
            (name, asked, why)
        }
        Some(asked) if prompt + asked as usize <= longest => return Ok(asked as usize),
        Some(asked) => {
            let total = prompt + asked as usize;
            let why = format!(
                "{context} you requested {asked} output tokens and your prompt contains {prompt} input tokens, for a total of \
                 {total} tokens. Please reduce the length of the input prompt or the number of requested output tokens."
            );
            ("input_tokens", prompt as i64, why)
        }
    };
    let sentence = format!("{why} (parameter={param}, value={value})");
    Err(ApiError::bad_request(param, sentence))
}

/// Conditions that may end an answer before its limit.
pub struct Stop {
    texts: Vec<String>,
    ids: Vec<u32>,
    min_tokens: usize,
    ignore_eos: bool,
}

impl Stop {
    /// Reads the conditions from the fields of a body.
    pub fn read(body: &Body) -> Result<Stop, ApiError> {
        let mut texts = body.texts("stop")?;
        texts.retain(|text| !text.is_empty());
        let ids = body.get("stop_token_ids").and_then(|ids| Vec::deserialize(ids).ok());
        Ok(Stop {
            texts,
            ids: ids.unwrap_or_default(),
            min_tokens: body.int("min_tokens")?.unwrap_or(0).max(0) as usize,
            ignore_eos: body.flag("ignore_eos")?,
        })
    }

    /// Returns the length, finish reason and stop text of an answer of at most `most` tokens. The seed determines its tokens, so its end is
    /// known beforehand. Stop texts and stop tokens may end any answer. An answer without a stated limit (`unlimited`) also ends by itself,
    /// after 40 tokens plus an exponentially distributed number of mean 120, unless `ignore_eos` is set. All other answers have `most`
    /// tokens.
    pub fn apply(&self, app: &App, seed: u64, most: usize, unlimited: bool) -> (usize, &'static str, Option<String>) {
        let natural = (40.0 - 120.0 * (1.0 - uniform(seed, 0)).ln()) as usize;
        let (limit, reason) = match unlimited && !self.ignore_eos && natural.max(self.min_tokens) < most {
            true => (natural.max(self.min_tokens), "stop"),
            false => (most, "length"),
        };
        if self.texts.is_empty() && self.ids.is_empty() {
            return (limit.max(1), reason, None);
        }
        let mut text = String::new();
        for index in 0..limit {
            let id = token_id(seed, index, app.tokenizer.vocabulary());
            text.push_str(&app.tokenizer.piece(id));
            if index + 1 < self.min_tokens {
                continue;
            }
            if self.ids.contains(&id) {
                return (index + 1, "stop", Some(id.to_string()));
            }
            if let Some(stop) = self.texts.iter().find(|stop| text.contains(stop.as_str())) {
                return (index + 1, "stop", Some(stop.clone()));
            }
        }
        (limit.max(1), reason, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_located_from_the_beginning_of_the_body() {
        let error = |body: &str| Body::read(body.as_bytes()).err();
        assert_eq!(error("{\"model\": x}"), Some(ApiError::not_json(10)));
        assert_eq!(error("{\n  \"model\": x}"), Some(ApiError::not_json(13)));
    }
}
