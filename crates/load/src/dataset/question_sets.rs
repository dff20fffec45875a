//! The datasets `spec_bench` and `speed_bench`: first questions of published benchmarks, by category.

use super::kind::PATH;
use super::source::rows::{self, DataRow};
use super::{Dataset, Draw, Item, Kind, Traits};
use serde_json::Value;
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
        let set = QuestionSet {
            file: &self.path,
            questions: ("turns", "/0"),
            category: ("spec_bench_category", self.category.as_deref()),
        };
        set.draw(draw, self.output_len)
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
        let set = QuestionSet {
            file: &self.folder.join(format!("{subset}.jsonl")),
            questions: ("messages", "/0/content"),
            category: ("speed_bench_category", self.category.as_deref()),
        };
        set.draw(draw, self.output_len)
    }
}

/// A file of questions, and the category that is wanted.
struct QuestionSet<'a> {
    file: &'a Path,
    /// The column of a row's questions, and the JSON pointer to the first question in it.
    questions: (&'a str, &'a str),
    /// The parameter that chooses a category, and its value; `None` for all questions.
    category: (&'a str, Option<&'a str>),
}

impl QuestionSet<'_> {
    fn draw(&self, draw: &Draw<'_>, output_len: u64) -> Result<Vec<Item>, String> {
        let rows = rows::read(self.file)?;
        draw.each_row(self.wanted(&rows)?, |index, row| {
            let (column, first) = self.questions;
            let question = row.fields.get(column).and_then(|asked| asked.pointer(first)?.as_str());
            let problem = || row.wrong(&format!("no text in \"{column}\"; correct or remove the line"));
            draw.text_item(index, question.ok_or_else(problem)?.to_owned(), output_len)
        })
    }

    /// Returns the rows of the category, or an error if there are none.
    fn wanted<'r>(&self, rows: &'r [DataRow]) -> Result<Vec<&'r DataRow>, String> {
        let (parameter, category) = self.category;
        let Some(category) = category else {
            return Ok(rows.iter().collect());
        };
        let of = |row: &'r DataRow| row.fields.get("category").and_then(Value::as_str);
        let wanted: Vec<&DataRow> = rows.iter().filter(|row| of(row) == Some(category)).collect();
        if wanted.is_empty() {
            let mut known: Vec<&str> = rows.iter().filter_map(of).collect();
            known.sort_unstable();
            known.dedup();
            return Err(format!(
                "{} has no question of category \"{category}\"; set {parameter} to one of: {}",
                self.file.display(),
                known.join(", ")
            ));
        }
        Ok(wanted)
    }
}
