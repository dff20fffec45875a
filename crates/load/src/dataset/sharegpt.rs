//! The `sharegpt` dataset: first questions of recorded conversations, each with the length of its answer.

use super::kind::PATH;
use super::sampling::is_usual_length;
use super::source::rows::{self, DataRow};
use super::{Dataset, Draw, Item, Kind, Prompt, Traits, custom};
use serde_json::Value;
use std::ops::RangeInclusive;
use std::path::PathBuf;

pub(super) const KIND: Kind = Kind::of::<ShareGpt>("sharegpt", "first questions of recorded conversations");

crate::params! {
    /// The `sharegpt` dataset.
    pub struct ShareGpt {
        /// A JSON file in the format of ShareGPT.
        path: PathBuf = PATH,
        /// Output tokens.
        output_len: Option<u64> = param("sharegpt_output_len")
            .or("output_len")
            .least(1)
            .otherwise("those of the recorded answers"),
    }
}

impl Dataset for ShareGpt {
    fn traits(&self) -> Traits {
        Traits {
            depends_on_counts: true,
            ..Traits::default()
        }
    }

    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let (sampling, vocabulary) = (draw.sampling, draw.vocabulary);
        let rows = rows::read(&self.path)?;
        let conversations = self.messages(&rows, 2)?;
        let items = sampling.gather(sampling.shuffled(conversations), |index, (row, messages)| {
            let (prompt, answer) = (text_of(row, &messages[0])?, text_of(row, &messages[1])?);
            let prompt_len = vocabulary.count(prompt)?;
            let output_len = match self.output_len {
                Some(length) => length,
                None => vocabulary.count(answer)?,
            };
            if !is_usual_length(prompt_len, output_len, self.output_len.is_some()) {
                return Ok(None);
            }
            let mut item = Item::new(index, Prompt::Text(prompt.to_owned()), prompt_len, output_len);
            let address = |column: &str| {
                let address = row.fields.get(column).and_then(Value::as_str);
                address.filter(|path| !path.is_empty())
            };
            item.media = match (address("image"), address("video")) {
                (Some(path), _) => Some(custom::image(path, false)?),
                (None, path) => path.map(custom::video),
            };
            Ok(Some(item))
        })?;
        if items.is_empty() {
            return Err(format!(
                "{} holds no conversation of a usual length (prompts of 4 to 1024 tokens, at most 2048 with the answer); \
                 give another file, or use dataset_name custom, which takes every length",
                self.path.display()
            ));
        }
        Ok(sampling.filled_up(items))
    }
}

impl ShareGpt {
    /// Draws the questions of whole conversations. Conversations with fewer than two turns, or with fewer than the range `turns` allows,
    /// are left out. Of longer ones, only the first turns are used.
    pub(super) fn converse(&self, draw: &Draw<'_>, turns: &RangeInclusive<u64>) -> Result<Vec<Vec<Item>>, String> {
        let (sampling, vocabulary) = (draw.sampling, draw.vocabulary);
        let rows = rows::read(&self.path)?;
        let least = 2 * (*turns.start()).max(2) as usize;
        let rows_with_messages = sampling.shuffled(self.messages(&rows, least)?);
        let conversations = sampling.gather(rows_with_messages, |_, (row, messages)| {
            let mut items = Vec::new();
            for pair in messages.chunks_exact(2).take(*turns.end() as usize) {
                let (question, answer) = (text_of(row, &pair[0])?, text_of(row, &pair[1])?);
                let output_len = match self.output_len {
                    Some(length) => length,
                    None => vocabulary.count(answer)?.max(1),
                };
                let prompt = Prompt::Text(question.to_owned());
                items.push(Item::new(0, prompt, vocabulary.count(question)?, output_len));
            }
            Ok(Some(items))
        })?;
        Ok(sampling.repeated(conversations))
    }

    /// Returns the rows whose conversations have at least `least` messages, each with its messages.
    fn messages<'r>(&self, rows: &'r [DataRow], least: usize) -> Result<Vec<(&'r DataRow, &'r Vec<Value>)>, String> {
        let messages = |row: &'r DataRow| row.fields.get("conversations").and_then(Value::as_array);
        let conversations = rows.iter().filter_map(|row| Some((row, messages(row)?)));
        let conversations: Vec<_> = conversations.filter(|(_, messages)| messages.len() >= least).collect();
        if conversations.is_empty() {
            let file = self.path.display();
            return Err(format!(
                "{file} holds no \"conversations\" of {least} or more messages; give a file in the format of ShareGPT"
            ));
        }
        Ok(conversations)
    }
}

/// Returns the text of a message.
fn text_of<'a>(row: &DataRow, message: &'a Value) -> Result<&'a str, String> {
    let missing = || row.wrong("a turn without a string as its \"value\"; correct or remove the entry");
    message["value"].as_str().ok_or_else(missing)
}
