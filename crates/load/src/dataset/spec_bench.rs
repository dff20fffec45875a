//! The `spec_bench` dataset: first questions of Spec-Bench, by category.

use super::custom::text_item;
use super::rows::Rows;
use super::{ChatTemplate, Item, Sampling, Vocabulary};
use std::path::PathBuf;

/// Settings of the `spec_bench` dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct SpecBench {
    /// JSON lines of `{"turns": ["…"], "category": "…"}`.
    pub path: PathBuf,
    /// Only questions of this category.
    pub category: Option<String>,
    /// Output tokens.
    pub output_len: u64,
}

impl SpecBench {
    /// Draws the requests.
    pub fn draw(
        &self,
        sampling: &Sampling,
        vocabulary: &Vocabulary<'_>,
        template: Option<&ChatTemplate>,
    ) -> Result<Vec<Item>, String> {
        let rows = Rows::read(&self.path)?;
        let wanted = rows.of_category(self.category.as_deref(), "spec_bench_category")?;
        let items = sampling.gather(sampling.shuffled(wanted), |index, row| {
            let first = row.fields.get("turns").and_then(|turns| turns.get(0)?.as_str());
            let Some(turn) = first else {
                return Err(rows.wrong(row, "no text in \"turns\"; correct or remove the line"));
            };
            text_item(index, turn.to_owned(), self.output_len, vocabulary, template).map(Some)
        })?;
        Ok(sampling.filled_up(items))
    }
}
