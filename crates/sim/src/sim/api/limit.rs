//! How long an answer is: what the client asked for, what the model allows, and what ends an answer before.

use super::App;
use super::answer::Style;
use super::body::Body;
use super::error::ApiError;
use crate::sim::engine::noise::uniform;
use crate::sim::engine::token_id;
use serde::Deserialize;

/// How many tokens an answer may have; vLLM's refusals of what is too long.
pub fn output_limit(app: &App, style: Style, prompt: usize, asked: Option<i64>) -> Result<usize, ApiError> {
    let longest = app.settings.limits.max_model_len;
    let refusal = |param: &str, value: i64, why: String| {
        ApiError::bad_request(param, format!("{why} (parameter={param}, value={value})"))
    };
    let context = format!("This model's maximum context length is {longest} tokens. However,");
    if prompt >= longest {
        let why = format!(
            "{context} your prompt contains {prompt} input tokens, which exceeds this limit even without any output \
             tokens. Please reduce the length of the input prompt."
        );
        return Err(refusal("input_tokens", prompt as i64, why));
    }
    let Some(asked) = asked else {
        return Ok(longest - prompt);
    };
    let name = match style {
        Style::Chat => "max_completion_tokens",
        Style::Completion => "max_tokens",
    };
    if asked < 1 {
        return Err(refusal(name, asked, format!("{name} must be at least 1, got {asked}.")));
    }
    if asked > longest as i64 {
        let why = format!(
            "{name}={asked} cannot be greater than max_model_len={longest}. Please request fewer output tokens."
        );
        return Err(refusal(name, asked, why));
    }
    let total = prompt + asked as usize;
    if total > longest {
        let why = format!(
            "{context} you requested {asked} output tokens and your prompt contains {prompt} input tokens, for a total of \
             {total} tokens. Please reduce the length of the input prompt or the number of requested output tokens."
        );
        return Err(refusal("input_tokens", prompt as i64, why));
    }
    Ok(asked as usize)
}

/// What may end an answer before its limit.
pub struct Stop {
    texts: Vec<String>,
    ids: Vec<u32>,
    least: usize,
    ignore_eos: bool,
}

impl Stop {
    /// Reads the fields of a body.
    pub fn read(body: &Body) -> Result<Stop, ApiError> {
        let mut texts = body.texts("stop")?;
        texts.retain(|text| !text.is_empty());
        let ids = body.get("stop_token_ids").and_then(|ids| Vec::deserialize(ids).ok());
        Ok(Stop {
            texts,
            ids: ids.unwrap_or_default(),
            least: body.int("min_tokens")?.unwrap_or(0).max(0) as usize,
            ignore_eos: body.flag("ignore_eos")?,
        })
    }

    /// Length, reason and stop text of an answer of at most `most` tokens. Its tokens are known beforehand, so the end
    /// is too. Only an answer without a stated limit ends by itself: a benchmark gets the length it asked for.
    pub fn apply(&self, app: &App, seed: u64, most: usize, unlimited: bool) -> (usize, &'static str, Option<String>) {
        let natural = (40.0 - 120.0 * (1.0 - uniform(seed, 0)).ln()) as usize;
        let (limit, reason) = match unlimited && !self.ignore_eos && natural.max(self.least) < most {
            true => (natural.max(self.least), "stop"),
            false => (most, "length"),
        };
        if self.texts.is_empty() && self.ids.is_empty() {
            return (limit.max(1), reason, None);
        }
        let mut text = String::new();
        for index in 0..limit {
            let id = token_id(seed, index, app.tokenizer.vocabulary());
            text.push_str(&app.tokenizer.piece(id));
            if index + 1 < self.least {
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
