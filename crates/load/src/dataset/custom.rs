//! The `custom` dataset: prompts from a file of one's own.

use super::kind::PATH;
use super::output_len::{OUTPUT_LEN, OutputLen};
use super::rows::Rows;
use super::{Dataset, Draw, Item, Kind, Traits};
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
        let rows = Rows::read(&self.path)?;
        draw.each_row(rows.rows.iter().collect(), |index, row| {
            let output_len = rows.output_len(row, self.output_len)?;
            draw.text_item(index, rows.text(row, "prompt")?, output_len)
        })
    }
}
