//! The datasets `spec_bench` and `speed_bench`: first questions of published benchmarks, by category.

use super::kind::PATH;
use super::source::rows::{self, DataRow};
use super::{Dataset, Draw, Item, Kind, Traits};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(super) const SPEC_BENCH: Kind = Kind::of::<SpecBench>("spec_bench", "first questions of Spec-Bench");
pub(super) const SPEED_BENCH: Kind = Kind::of::<SpeedBench>("speed_bench", "first messages of SPEED-Bench");

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
        output_len: u64 = param("speed_bench_output_len").or("output_len").least(1).default("4096"),
    }
}

crate::one_of! {
    /// A subset of SPEED-Bench.
    pub enum Subset {
        /// Questions with long answers.
        Qualitative = "qualitative",
        /// Prompts of about a thousand tokens.
        Throughput1k = "throughput_1k",
        /// Prompts of two thousand tokens.
        Throughput2k = "throughput_2k",
        /// Prompts of eight thousand tokens.
        Throughput8k = "throughput_8k",
        /// Prompts of sixteen thousand tokens.
        Throughput16k = "throughput_16k",
        /// Prompts of thirty-two thousand tokens.
        Throughput32k = "throughput_32k",
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
        let category = ("spec_bench_category", self.category.as_deref());
        draw_questions(draw, &self.path, ("turns", "/0"), category, self.output_len)
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
        let (folder, subset) = (self.folder.display(), self.subset.name());
        if !self.folder.is_dir() {
            return Err(format!(
                "{folder} is not a folder; give the one that holds {subset}.jsonl"
            ));
        }
        let file = self.folder.join(format!("{subset}.jsonl"));
        let category = ("speed_bench_category", self.category.as_deref());
        draw_questions(draw, &file, ("messages", "/0/content"), category, self.output_len)
    }
}

/// Draws the first questions of a file. `column` holds the questions of a row, and `first` is the JSON pointer to the first one in it. The
/// `parameter` chooses a `category`; without one, all rows are used. A category without rows is an error.
fn draw_questions(
    draw: &Draw<'_>,
    file: &Path,
    (column, first): (&str, &str),
    (parameter, category): (&str, Option<&str>),
    output_len: u64,
) -> Result<Vec<Item>, String> {
    let rows = rows::read(file)?;
    let wanted = rows
        .iter()
        .filter(|row| category.is_none() || category_of(row) == category);
    let wanted: Vec<&DataRow> = wanted.collect();
    if let (Some(category), []) = (category, wanted.as_slice()) {
        let known: BTreeSet<&str> = rows.iter().filter_map(category_of).collect();
        return Err(format!(
            "{} has no question of category \"{category}\"; set {parameter} to one of: {}",
            file.display(),
            Vec::from_iter(known).join(", ")
        ));
    }
    draw.each_row(wanted, |index, row| {
        let question = row.fields.get(column).and_then(|asked| asked.pointer(first)?.as_str());
        let problem = || row.wrong(&format!("no text in \"{column}\"; correct or remove the line"));
        draw.text_item(index, question.ok_or_else(problem)?.to_owned(), output_len)
    })
}

fn category_of(row: &DataRow) -> Option<&str> {
    row.fields.get("category").and_then(Value::as_str)
}
