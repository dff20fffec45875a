//! The `spec_bench` dataset: first questions of Spec-Bench, by category.

use super::kind::PATH;
use super::rows::Rows;
use super::{Dataset, Draw, Item, Kind, Traits};
use std::path::PathBuf;

pub(super) const KIND: Kind = Kind::of::<SpecBench>("spec_bench", "first questions of Spec-Bench");

crate::params! {
    /// The `spec_bench` dataset.
    pub struct SpecBench {
        /// JSON lines of `{"turns": ["…"], "category": "…"}`.
        path: PathBuf = PATH,
        /// Only questions of this category.
        category: Option<String> = param("spec_bench_category").otherwise("all"),
        /// Output tokens.
        output_len: u64 = param("spec_bench_output_len").or("output_len").least(1).default("256"),
    }
}

impl Dataset for SpecBench {
    fn traits(&self) -> Traits {
        Traits {
            wants_template: true,
            ..Traits::default()
        }
    }

    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let rows = Rows::read(&self.path)?;
        let wanted = rows.of_category(self.category.as_deref(), "spec_bench_category")?;
        draw.each_row(wanted, |index, row| {
            let first = row.fields.get("turns").and_then(|turns| turns.get(0)?.as_str());
            let Some(turn) = first else {
                return Err(rows.wrong(row, "no text in \"turns\"; correct or remove the line"));
            };
            draw.text_item(index, turn.to_owned(), self.output_len)
        })
    }
}
