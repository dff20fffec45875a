//! The `custom` dataset: prompts from a file of one's own.

use super::kind::PATH;
use super::output_len::{OUTPUT_LEN, OutputLen};
use super::rows::Rows;
use super::{ChatTemplate, Dataset, Draw, Item, Kind, Prompt, Traits, Vocabulary};
use std::path::PathBuf;

pub(super) const KIND: Kind = Kind::of::<Custom>("custom", "texts of your own");

crate::params! {
    /// The `custom` dataset.
    pub struct Custom {
        /// A file with a column `prompt`.
        path: PathBuf = PATH,
        /// Output tokens; -1 takes the column output_tokens.
        output_len: OutputLen = OUTPUT_LEN,
    }
}

impl Dataset for Custom {
    fn traits(&self) -> Traits {
        Traits {
            wants_template: true,
            takes_every_row: true,
            ..Traits::default()
        }
    }

    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let Draw {
            sampling,
            vocabulary,
            template,
            ..
        } = *draw;
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
