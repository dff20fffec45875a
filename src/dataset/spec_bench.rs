//! The `spec_bench` dataset: first questions of Spec-Bench, by category.

use super::custom::text_item;
use super::rows::{Row, Rows};
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
        let category = |row: &Row| {
            row.fields
                .get("category")
                .and_then(|name| name.as_str())
                .map(str::to_owned)
        };
        let is_wanted = |row: &&Row| self.category.is_none() || category(row) == self.category;
        let wanted: Vec<&Row> = rows.rows.iter().filter(is_wanted).collect();
        if wanted.is_empty() {
            let mut known: Vec<String> = rows.rows.iter().filter_map(category).collect();
            known.sort();
            known.dedup();
            let problem = format!(
                "has no question of category \"{}\"; set spec_bench_category to one of: {}",
                self.category.as_deref().unwrap_or_default(),
                known.join(", ")
            );
            return Err(rows.wrong_file(&problem));
        }
        let mut items = Vec::new();
        for row in sampling.shuffled(wanted) {
            if sampling.is_met(items.len()) {
                break;
            }
            let turn = row
                .fields
                .get("turns")
                .and_then(|turns| turns.get(0))
                .and_then(|turn| turn.as_str());
            let Some(turn) = turn else {
                return Err(rows.wrong(row, "no text in \"turns\"; correct or remove the line"));
            };
            items.push(text_item(
                items.len(),
                turn.to_owned(),
                self.output_len,
                vocabulary,
                template,
            )?);
        }
        Ok(sampling.filled_up(items))
    }
}
