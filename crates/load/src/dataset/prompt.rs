//! Prompts as data: the content of requests, in the forms that the APIs take.

use serde::Serialize;
use serde_json::Value;

/// The prompt of one request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Prompt {
    /// A text.
    Text(String),
    /// Token ids.
    Ids(Vec<u32>),
    /// Several prompts in one request.
    Batch(Vec<Prompt>),
    /// A conversation, or a list of content parts.
    Parts(Value),
}

impl Prompt {
    /// The prompt as a JSON value.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("texts and numbers are JSON")
    }

    /// Changes the beginning of the prompt. A prefix cache finds prompts by their beginnings, so the original prompt finds nothing of the
    /// changed one in the cache.
    pub fn vary_prefix(&mut self) {
        match self {
            Prompt::Text(text) => text.insert_str(0, OTHER_BEGINNING),
            Prompt::Ids(ids) => {
                if let Some(first) = ids.first_mut() {
                    *first = first.checked_sub(1).unwrap_or(1);
                }
            }
            Prompt::Batch(prompts) => prompts.iter_mut().for_each(Prompt::vary_prefix),
            Prompt::Parts(parts) => drop(vary_first_text(parts)),
        }
    }
}

/// Text that is put before a prompt to change its beginning.
const OTHER_BEGINNING: &str = "Once more: ";

/// Changes the first text of a conversation or a list of parts. Returns true if there is one.
fn vary_first_text(parts: &mut Value) -> bool {
    match parts {
        Value::Array(parts) => parts.iter_mut().any(vary_first_text),
        Value::Object(part) => ["content", "text"].into_iter().any(|key| match part.get_mut(key) {
            Some(Value::String(text)) => {
                text.insert_str(0, OTHER_BEGINNING);
                true
            }
            Some(inner) => vary_first_text(inner),
            None => false,
        }),
        _ => false,
    }
}

/// Content of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The prompt.
    pub prompt: Prompt,
    /// Pictures, videos or sounds that accompany the prompt: one content part of a message, or a list of them.
    pub media: Option<Value>,
    /// Length of the prompt in tokens, by the dataset's count.
    pub prompt_len: u64,
    /// Tokens to generate.
    pub output_len: u64,
    /// Id of the request, without the run's prefix; `None` if the dataset gives none.
    pub id: Option<String>,
    /// Number of inputs in the prompt, if it is a batch.
    pub sequences: Option<u32>,
    /// Position of the request in its conversation, from 0. A later turn waits for the answer to the one before it.
    pub turn: u32,
    /// Due time by the dataset's own clock, in seconds.
    pub timestamp: Option<f64>,
    /// Index of its class in a mixed load.
    pub class: u8,
}

impl Item {
    /// Returns the request with this index, from 0, with one prompt. Its due time comes from the arrival process.
    pub fn new(index: usize, prompt: Prompt, prompt_len: u64, output_len: u64) -> Item {
        Item {
            prompt,
            media: None,
            prompt_len,
            output_len,
            id: Some(index.to_string()),
            sequences: None,
            turn: 0,
            timestamp: None,
            class: 0,
        }
    }
}

/// Origin of prompts, as named in the result file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptSource {
    /// Text of exact length by the model's tokenizer.
    Tokenizer,
    /// Lists of token ids.
    TokenIds,
    /// Text of common words, about one token each.
    Words,
    /// Text of words that are one token each by the server's tokenizer.
    ServerWords,
    /// Text from a file.
    Text,
    /// Text from a file, put into the model's chat template.
    #[serde(rename = "text_in_chat_template")]
    Template,
    /// Several of these origins, by the classes of a mixed load.
    Mixed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_prompt_can_begin_otherwise() {
        let chat = json!([
            {"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "What?"}]},
            {"role": "user", "content": "And?"},
        ]);
        let begun = |mut prompt: Prompt| {
            prompt.vary_prefix();
            prompt.to_value()
        };
        assert_eq!(begun(Prompt::Text("a".to_owned())), "Once more: a");
        let batch = vec![Prompt::Ids(vec![7, 8]), Prompt::Ids(vec![0]), Prompt::Ids(vec![])];
        assert_eq!(begun(Prompt::Batch(batch)), json!([[6, 8], [1], []]));
        let chat = begun(Prompt::Parts(chat));
        assert_eq!(chat[0]["content"][1]["text"], "Once more: What?");
        assert_eq!(chat[1]["content"], "And?");
    }
}
