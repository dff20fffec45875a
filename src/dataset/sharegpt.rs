//! The `sharegpt` dataset: first questions of recorded conversations, each with the length of its answer.

use super::rows::{Row, Rows};
use super::sampling::is_usual_length;
use super::{Item, Prompt, Sampling, Vocabulary};
use serde_json::Value;
use std::path::PathBuf;

/// Settings of the `sharegpt` dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareGpt {
    /// A JSON list of `{"conversations": [{"value": …}, …]}`.
    pub path: PathBuf,
    /// Output tokens, if not those of the recorded answers.
    pub output_len: Option<u64>,
}

impl ShareGpt {
    /// Draws the requests.
    pub fn draw(&self, sampling: &Sampling, vocabulary: &Vocabulary<'_>) -> Result<Vec<Item>, String> {
        let rows = Rows::read(&self.path)?;
        let conversations: Vec<(&Row, &Vec<Value>)> = rows
            .rows
            .iter()
            .filter_map(|row| Some((row, row.fields.get("conversations")?.as_array()?)))
            .filter(|(_, turns)| turns.len() >= 2)
            .collect();
        if conversations.is_empty() {
            let problem = "holds no \"conversations\" of two or more turns; give a file in the format of ShareGPT";
            return Err(rows.wrong_file(problem));
        }
        let mut items = Vec::new();
        for (row, turns) in sampling.shuffled(conversations) {
            if sampling.is_met(items.len()) {
                break;
            }
            let (Some(prompt), Some(answer)) = (turns[0]["value"].as_str(), turns[1]["value"].as_str()) else {
                return Err(rows.wrong(
                    row,
                    "a turn without a text as its \"value\"; correct or remove the entry",
                ));
            };
            let prompt_len = vocabulary.count(prompt)?;
            let output_len = match self.output_len {
                Some(length) => length,
                None => vocabulary.count(answer)?,
            };
            if is_usual_length(prompt_len, output_len, self.output_len.is_some()) {
                let prompt = Prompt::Text(prompt.to_owned());
                items.push(Item::new(items.len(), prompt, prompt_len, output_len));
            }
        }
        if items.is_empty() {
            let problem = "holds no conversation of a usual length (prompts of 4 to 1024 tokens, at most 2048 with the \
                           answer); give another file, or use dataset_name custom, which takes every length";
            return Err(rows.wrong_file(problem));
        }
        Ok(sampling.filled_up(items))
    }
}
