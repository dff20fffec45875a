//! The `custom` dataset: prompts from a file of one's own.

use super::rows::Rows;
use super::{ChatTemplate, Item, Prompt, Sampling, Vocabulary};
use std::path::PathBuf;

/// Settings of the `custom` dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Custom {
    /// A file with a column `prompt`.
    pub path: PathBuf,
    /// Output tokens; unset means those in the column `output_tokens`.
    pub output_len: Option<u64>,
}

impl Custom {
    /// Draws the requests.
    pub fn draw(
        &self,
        sampling: &Sampling,
        vocabulary: &Vocabulary<'_>,
        template: Option<&ChatTemplate>,
    ) -> Result<Vec<Item>, String> {
        let rows = Rows::read(&self.path)?;
        let items = sampling.gather(sampling.shuffled(rows.rows.iter().collect()), |index, row| {
            let output_len = rows.output_len(row, self.output_len)?;
            let text = rows.text(row, "prompt")?;
            text_item(index, text, output_len, vocabulary, template).map(Some)
        })?;
        Ok(sampling.filled_up(items))
    }
}

/// A request with a text from a file, as a turn of the user if there is a template for it.
pub(super) fn text_item(
    index: usize,
    text: String,
    output_len: u64,
    vocabulary: &Vocabulary<'_>,
    template: Option<&ChatTemplate>,
) -> Result<Item, String> {
    let text = match template {
        Some(template) => template.user_turn(&text)?,
        None => text,
    };
    let prompt_len = vocabulary.count(&text)?;
    Ok(Item::new(index, Prompt::Text(text), prompt_len, output_len))
}
