//! The `hf` dataset: any dataset in the form of the Hugging Face Hub, from a local file or folder, or from the Hub. The columns of prompts
//! and answers are found by their names.

use super::kind::PATH;
use super::source::hub::{self, Hub};
use super::source::rows::{self, DataRow};
use super::{Dataset, Draw, Item, Kind, Traits, source::split};
use serde_json::Value;
use std::path::{Path, PathBuf};
use vsweep_metrics::rng::NumpyPcg64;

/// Names of columns with conversations, the preferred ones first.
const CONVERSATIONS: &str = "conversations conversation messages turns";
/// Names of columns with prompts, the preferred ones first.
const PROMPTS: &str =
    "prompt question problem instruction input query text content user_input article document context";
/// Names of columns with answers, the preferred ones first.
const ANSWERS: &str = "solution answer response completion output expected_output canonical_solution target summary";
/// Number of output tokens of a request without a recorded answer.
const USUAL_OUTPUT: u64 = 128;
/// Number of rows in the buffer with which the `datasets` library shuffles a stream.
const SHUFFLE_BUFFER: usize = 1000;

pub(super) const KIND: Kind = Kind::of::<HuggingFace>("hf", "any dataset in the form of the Hugging Face Hub");

crate::params! {
    /// The `hf` dataset.
    pub struct HuggingFace {
        /// A file, a folder of files, or the name of a dataset on the Hub.
        path: String = PATH,
        /// Subset of the dataset.
        subset: Option<String> = param("hf_subset"),
        /// Split of the dataset.
        split: Option<String> = param("hf_split").otherwise("train, else what there is"),
        /// Column of the prompts.
        text_column: Option<String> = param("hf_text_column").otherwise("found by its name"),
        /// Output tokens.
        output_len: Option<u64> = param("hf_output_len")
            .or("output_len")
            .least(1)
            .otherwise("those of the answers, else 128"),
    }
}

impl Dataset for HuggingFace {
    fn traits(&self) -> Traits {
        Traits {
            wants_template: true,
            depends_on_counts: true,
            ..Traits::default()
        }
    }

    fn to_download(&self) -> Option<&str> {
        (!Path::new(&self.path).exists() && hub::is_name(&self.path)).then_some(&self.path)
    }

    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let (sampling, vocabulary) = (draw.sampling, draw.vocabulary);
        let mut rows = Vec::new();
        for file in self.files()? {
            rows.extend(rows::read(&file)?);
        }
        if sampling.shuffle {
            rows = shuffled_in_buffer(rows, sampling.seed);
        }
        let items = sampling.gather(rows, |index, row: DataRow| {
            let Some(found) = self.texts(&row)? else {
                return Ok(None);
            };
            let output_len = match (self.output_len, &found.answer) {
                (Some(length), _) => length,
                (None, Some(answer)) => vocabulary.count(answer)?.max(1),
                (None, None) => USUAL_OUTPUT,
            };
            let template = draw.template.filter(|_| !found.is_conversation);
            let draw = Draw { template, ..*draw };
            draw.text_item(index, found.prompt, output_len).map(Some)
        })?;
        if items.is_empty() {
            return Err(format!("{} holds no prompts; give another split or file", self.path));
        }
        Ok(sampling.filled_up(items))
    }
}

impl HuggingFace {
    fn files(&self) -> Result<Vec<PathBuf>, String> {
        let path = Path::new(&self.path);
        if path.is_file() {
            return Ok(vec![path.to_path_buf()]);
        }
        let (subset, split) = (self.subset.as_deref(), self.split.as_deref());
        if path.is_dir() {
            let names = split::names_below(path)?;
            let chosen = split::choose(&self.path, &names, subset, split)?;
            return Ok(chosen.iter().map(|name| path.join(name)).collect());
        }
        Hub::from_env()?.fetch(&self.path, |names| split::choose(&self.path, names, subset, split))
    }

    /// Returns prompt and answer of a row. `None` if the prompt is empty, or if a conversation has no turn of a user.
    fn texts(&self, row: &DataRow) -> Result<Option<Texts>, String> {
        let named = |names: &'static str| names.split(' ').find(|name| row.fields.contains_key(*name));
        if self.text_column.is_none()
            && let Some(column) = named(CONVERSATIONS)
        {
            let turns = row.fields[column].as_array().map(Vec::as_slice).unwrap_or_default();
            let prompt = turns.iter().find(|turn| is_user(turn)).and_then(text_of);
            let answer = turns.iter().skip_while(|turn| !is_user(turn)).nth(1).and_then(text_of);
            return Ok(prompt.filter(|prompt| !prompt.is_empty()).map(|prompt| Texts {
                prompt: prompt.to_owned(),
                answer: answer.filter(|_| column != "turns").map(str::to_owned),
                is_conversation: column != "turns",
            }));
        }
        let column = match &self.text_column {
            Some(column) => column.as_str(),
            None => named(PROMPTS).ok_or_else(|| {
                row.wrong(&format!(
                    "no column is known to hold prompts (there are: {}); name it with hf_text_column",
                    row.columns()
                ))
            })?,
        };
        let prompt = row.text(column)?;
        let answer = named(ANSWERS).filter(|name| *name != column);
        let answer = answer.and_then(|name| row.fields[name].as_str());
        Ok((!prompt.is_empty()).then(|| Texts {
            prompt,
            answer: answer.map(str::to_owned),
            is_conversation: false,
        }))
    }
}

struct Texts {
    prompt: String,
    answer: Option<String>,
    /// True if the texts are from a conversation with roles, whose prompt is not put into the chat template. False for `turns`, which lists
    /// only what the user says.
    is_conversation: bool,
}

fn is_user(turn: &Value) -> bool {
    let role = turn.get("role").or_else(|| turn.get("from"));
    turn.is_string() || role.is_none_or(|role| matches!(role.as_str(), Some("user" | "human")))
}

fn text_of(turn: &Value) -> Option<&str> {
    turn.as_str()
        .or_else(|| turn.get("content")?.as_str())
        .or_else(|| turn.get("value")?.as_str())
}

/// Returns rows in the order in which the `datasets` library (5.2) streams those of one file after `shuffle(seed)`. Rows go through a
/// buffer. Whenever the buffer is full, it is shuffled, and its first half is returned.
fn shuffled_in_buffer<T>(items: Vec<T>, seed: u64) -> Vec<T> {
    let mut random = NumpyPcg64::new(seed);
    let mut buffer = Vec::with_capacity(SHUFFLE_BUFFER);
    let mut shuffled = Vec::with_capacity(items.len());
    for item in items {
        buffer.push(item);
        if buffer.len() == SHUFFLE_BUFFER {
            random.shuffle(&mut buffer);
            shuffled.extend(buffer.drain(..SHUFFLE_BUFFER / 2));
        }
    }
    random.shuffle(&mut buffer);
    shuffled.extend(buffer);
    shuffled
}

#[cfg(test)]
mod tests {
    use super::super::{Sampling, Vocabulary};
    use super::*;
    use serde_json::json;

    fn drawn(file: &str, content: &str, settings: HuggingFace) -> Result<Vec<(Value, u64)>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, content).expect("written");
        let settings = HuggingFace {
            path: folder.path().display().to_string(),
            ..settings
        };
        let sampling = Sampling {
            num_prompts: 1,
            seed: 0,
            shuffle: true,
            oversample: true,
        };
        let items = settings.draw(&Draw::of(sampling, &Vocabulary::Words))?;
        Ok(items
            .iter()
            .map(|item| (item.prompt.to_value(), item.output_len))
            .collect())
    }

    const ANY: HuggingFace = HuggingFace {
        path: String::new(),
        subset: None,
        split: None,
        text_column: None,
        output_len: None,
    };

    #[test]
    fn columns_are_found_by_their_names() {
        let cases = [
            (json!({"question": "q", "answer": "eight by"}), ("q", 2)),
            (json!({"category": "c", "turns": ["one", "two"]}), ("one", 128)),
            (
                json!({"conversations": [{"from": "human", "value": "h"}, {"from": "gpt", "value": "12345"}]}),
                ("h", 2),
            ),
            (
                json!({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"},
                                 {"role": "assistant", "content": "aaaa"}]}),
                ("u", 1),
            ),
        ];
        for (row, (prompt, output)) in cases {
            let found = drawn("data/train.jsonl", &row.to_string(), ANY).expect("drawn");
            assert_eq!(found, [(json!(prompt), output)], "{row}");
        }
        let named = HuggingFace {
            text_column: Some("body".to_owned()),
            output_len: Some(9),
            ..ANY
        };
        assert_eq!(
            drawn("x.csv", "prompt,body\nno,yes\n", named),
            Ok(vec![(json!("yes"), 9)])
        );
        let unknown = drawn("x.csv", "a,b\n1,2\n", ANY).expect_err("no prompt");
        assert!(unknown.ends_with(
            "x.csv, line 2: no column is known to hold prompts (there are: a, b); name it with hf_text_column"
        ));
    }

    #[test]
    fn streams_are_shuffled_as_the_datasets_library_does() {
        let few = shuffled_in_buffer((0..10).collect(), 0);
        let many = shuffled_in_buffer((0..3500).collect::<Vec<u32>>(), 7);
        // load_dataset("json", streaming=True).shuffle(seed) of datasets 5.2.0
        assert_eq!(few, [4, 6, 2, 7, 3, 5, 9, 0, 8, 1]);
        assert_eq!(many[..8], [816, 923, 151, 900, 213, 100, 851, 503]);
        assert_eq!(many[3492..], [223, 3034, 3133, 3489, 2617, 2001, 472, 3331]);
    }
}
