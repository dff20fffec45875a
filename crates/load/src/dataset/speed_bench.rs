//! The `speed_bench` dataset: first messages of SPEED-Bench, by subset and category.

use super::custom::text_item;
use super::rows::Rows;
use super::{ChatTemplate, Item, Sampling, Vocabulary};
use std::path::PathBuf;

/// Settings of the `speed_bench` dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeedBench {
    /// A folder of files `<subset>.jsonl` with rows of `{"messages": [{"content": "…"}], "category": "…"}`.
    pub folder: PathBuf,
    /// The subset.
    pub subset: String,
    /// Only messages of this category.
    pub category: Option<String>,
    /// Output tokens.
    pub output_len: u64,
}

impl SpeedBench {
    /// Subsets of the data set.
    pub const SUBSETS: [&str; 6] = [
        "qualitative",
        "throughput_1k",
        "throughput_2k",
        "throughput_8k",
        "throughput_16k",
        "throughput_32k",
    ];

    /// Draws the requests.
    pub fn draw(
        &self,
        sampling: &Sampling,
        vocabulary: &Vocabulary<'_>,
        template: Option<&ChatTemplate>,
    ) -> Result<Vec<Item>, String> {
        if !self.folder.is_dir() {
            return Err(format!(
                "{} is no folder; give the one that holds {}.jsonl",
                self.folder.display(),
                self.subset
            ));
        }
        let rows = Rows::read(&self.folder.join(format!("{}.jsonl", self.subset)))?;
        let wanted = rows.of_category(self.category.as_deref(), "speed_bench_category")?;
        let items = sampling.gather(sampling.shuffled(wanted), |index, row| {
            let first = row
                .fields
                .get("messages")
                .and_then(|messages| messages.get(0)?.get("content")?.as_str());
            let Some(text) = first else {
                return Err(rows.wrong(row, "no text in \"messages\"; correct or remove the line"));
            };
            text_item(index, text.to_owned(), self.output_len, vocabulary, template).map(Some)
        })?;
        Ok(sampling.filled_up(items))
    }
}
