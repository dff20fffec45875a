//! The `speed_bench` dataset: first messages of SPEED-Bench, by subset and category.

use super::kind::PATH;
use super::rows::Rows;
use super::{Dataset, Draw, Item, Kind, Traits};
use std::path::PathBuf;

pub(super) const KIND: Kind = Kind::of::<SpeedBench>("speed_bench", "first messages of SPEED-Bench");

crate::params! {
    /// The `speed_bench` dataset.
    pub struct SpeedBench {
        /// A folder of files `<subset>.jsonl` with rows of `{"messages": [{"content": "…"}], "category": "…"}`.
        folder: PathBuf = PATH,
        /// qualitative, or throughput_ with 1k, 2k, 8k, 16k or 32k.
        subset: Subset = param("speed_bench_dataset_subset").default("qualitative"),
        /// Only messages of this category.
        category: Option<String> = param("speed_bench_category").otherwise("all"),
        /// Output tokens.
        output_len: u64 = param("speed_bench_output_len").least(1).default("4096"),
    }
}

crate::one_of! {
    /// A subset of the data set.
    pub enum Subset {
        /// Questions with long answers.
        Qualitative = "qualitative",
        /// Prompts of about a thousand tokens.
        Throughput1k = "throughput_1k",
        /// Of two thousand.
        Throughput2k = "throughput_2k",
        /// Of eight thousand.
        Throughput8k = "throughput_8k",
        /// Of sixteen thousand.
        Throughput16k = "throughput_16k",
        /// Of thirty-two thousand.
        Throughput32k = "throughput_32k",
    }
}

impl Dataset for SpeedBench {
    fn traits(&self) -> Traits {
        Traits {
            wants_template: true,
            ..Traits::default()
        }
    }

    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let subset = self.subset.name();
        if !self.folder.is_dir() {
            return Err(format!(
                "{} is no folder; give the one that holds {}.jsonl",
                self.folder.display(),
                subset
            ));
        }
        let rows = Rows::read(&self.folder.join(format!("{subset}.jsonl")))?;
        let wanted = rows.of_category(self.category.as_deref(), "speed_bench_category")?;
        draw.each_row(wanted, |index, row| {
            let messages = row.fields.get("messages");
            let Some(text) = messages.and_then(|messages| messages.get(0)?.get("content")?.as_str()) else {
                return Err(rows.wrong(row, "no text in \"messages\"; correct or remove the line"));
            };
            draw.text_item(index, text.to_owned(), self.output_len)
        })
    }
}
