//! Parameters that all datasets have in common, the request for prompts that all get, and the rules they share: oversampling and the filter of lengths.

use super::{Dataset, Item, KINDS, Kind, TurnParams};
use crate::Backend;
use crate::params::ParamReader;
use serde_json::{Map, Value};
use std::sync::Arc;
use vsweep_metrics::rng::PythonRandom;

/// Number of requests, and how they are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Requests to draw; 0 means every row of a `custom` file.
    pub num_prompts: usize,
    /// Seed of all draws.
    pub seed: u64,
    /// True if rows of a file are taken in random order.
    pub shuffle: bool,
    /// True if a file with too few rows is used several times.
    pub oversample: bool,
}

impl Sampling {
    /// `items` in an order drawn with the seed, unless order is kept.
    pub(super) fn shuffled<T>(&self, mut items: Vec<T>) -> Vec<T> {
        if self.shuffle {
            PythonRandom::new(self.seed).shuffle(&mut items);
        }
        items
    }

    /// Returns true if `have` rows are enough.
    pub(super) fn is_met(&self, have: usize) -> bool {
        self.num_prompts > 0 && have >= self.num_prompts
    }

    /// Converts `rows` in order until there are enough items. A row may give none.
    pub(super) fn gather<R, T>(
        &self,
        rows: Vec<R>,
        mut item: impl FnMut(usize, R) -> Result<Option<T>, String>,
    ) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        for row in rows {
            if self.is_met(items.len()) {
                break;
            }
            items.extend(item(items.len(), row)?);
        }
        Ok(items)
    }

    /// Repeats items, chosen with the seed, until there are as many as were asked for.
    pub(super) fn filled_up(&self, items: Vec<Item>) -> Vec<Item> {
        let originals = items.len();
        let mut items = self.repeated(items);
        for (index, item) in items.iter_mut().enumerate().skip(originals) {
            item.id = Some(index.to_string());
        }
        items
    }

    /// Repeats what there is, chosen with the seed, until there is as much as was asked for.
    pub(super) fn repeated<T: Clone>(&self, mut all: Vec<T>) -> Vec<T> {
        let originals = all.len();
        if !self.oversample || originals == 0 {
            return all;
        }
        let mut random = PythonRandom::new(self.seed);
        for _ in originals..self.num_prompts {
            all.push(all[random.below(originals as u32) as usize].clone());
        }
        all
    }
}

/// The lengths that `vllm bench serve` accepts from conversation files, in tokens: prompts of 4 to 1024, at most 2048
/// with the output, and outputs of at least 4 unless their length was given.
pub(super) fn is_usual_length(prompt: u64, output: u64, output_is_given: bool) -> bool {
    (4..=1024).contains(&prompt) && prompt.saturating_add(output) <= 2048 && (output_is_given || output >= 4)
}

/// More prompts than any run sends.
pub const MOST_PROMPTS: usize = 10_000_000;
/// Prompts of a run that says nothing about its end.
const USUAL_PROMPTS: usize = 1000;

crate::params! {
    /// The prompts of a run.
    pub struct PromptParams {
        /// Dataset of the prompts.
        dataset_name: String = param("dataset_name").default("random"),
        /// File of the dataset, where it has one; for hf also a folder or a name on the Hub.
        dataset_path: Option<String> = param("dataset_path"),
        /// Requests.
        given: Option<usize> = param("num_prompts")
            .within("a whole number of at least 1, or 0 for every row of a custom file", |_| true)
            .otherwise("1000; with duration, as many as it takes"),
        /// Seed of prompts and arrivals.
        seed: u32 = param("seed").default("0"),
        /// Prompt length, for every dataset that has one.
        input_len: Option<u64> = param("input_len"),
        /// Output length, for every dataset that has one.
        output_len: Option<u64> = param("output_len").least(1),
        /// Take rows of a file in their order.
        disable_shuffle: bool = param("disable_shuffle"),
        /// Send fewer requests where a file has too few rows, instead of using rows twice.
        no_oversample: bool = param("no_oversample"),
        /// Send texts of a file as they are to completions.
        skip_chat_template: bool = param("skip_chat_template"),
        /// Values for the chat template.
        chat_template_kwargs: Map<String, Value> = param("chat_template_kwargs"),
    }
}

impl PromptParams {
    /// The dataset; `None` if no dataset has this name.
    pub fn kind(&self) -> Option<&'static Kind> {
        KINDS.iter().find(|kind| kind.name == self.dataset_name)
    }

    /// The dataset with the values of its parameters; that of the default where there is none of this name.
    pub fn dataset(&self, turns: &TurnParams, backend: Backend, reader: &mut ParamReader<'_>) -> Arc<dyn Dataset> {
        let kind = self.kind();
        if let Some(kind) = kind {
            self.check_path(kind, reader);
        }
        let dataset = turns.dataset(kind.unwrap_or(&KINDS[0]), reader);
        self.check_number(dataset.traits().takes_every_row, reader);
        dataset.check(backend, self.num_prompts(), reader);
        dataset
    }

    /// Notes a number of prompts that cannot be drawn.
    pub fn check_number(&self, takes_every_row: bool, reader: &mut ParamReader<'_>) {
        let num_prompts = self.num_prompts();
        if num_prompts == 0 && !takes_every_row {
            reader.wrong("num_prompts", "a whole number of at least 1");
        }
        if num_prompts > MOST_PROMPTS {
            reader.wrong("num_prompts", &format!("at most {MOST_PROMPTS}"));
        }
    }

    /// Prompts of a run that their number ends.
    pub fn num_prompts(&self) -> usize {
        self.given.unwrap_or(USUAL_PROMPTS)
    }

    /// Returns how many prompts to draw, and how.
    pub fn sampling(&self, num_prompts: usize, seed: u64) -> Sampling {
        Sampling {
            num_prompts,
            seed,
            shuffle: !self.disable_shuffle,
            oversample: !self.no_oversample,
        }
    }

    fn check_path(&self, kind: &Kind, reader: &mut ParamReader<'_>) {
        let name = kind.name;
        match (kind.has_file(), &self.dataset_path) {
            (true, None) => reader.problem(format!("dataset_name {name} needs a file; name it with dataset_path")),
            (false, Some(_)) if reader.has("dataset_name") => reader.problem(format!(
                "dataset_path has no meaning for dataset_name {name}, which makes its prompts itself; remove it"
            )),
            (false, Some(_)) => {
                let with_file: Vec<&str> = KINDS
                    .iter()
                    .filter(|kind| kind.has_file())
                    .map(|kind| kind.name)
                    .collect();
                reader.problem(format!(
                    "dataset_path needs a dataset_name; add one of {}",
                    with_file.join(", ")
                ));
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Prompt;
    use super::*;

    #[test]
    fn few_items_are_used_several_times() {
        let sampling = |num_prompts, oversample| Sampling {
            num_prompts,
            seed: 0,
            shuffle: false,
            oversample,
        };
        let items: Vec<Item> = (0..7)
            .map(|i| Item::new(i, Prompt::Text(i.to_string()), 1, 1))
            .collect();
        let filled = sampling(12, true).filled_up(items.clone());
        // random.seed(0); [random.choice(range(7)) for _ in range(5)]
        let expected = [6, 3, 6, 3, 0].map(|i| Prompt::Text(i.to_string()));
        assert_eq!(filled.len(), 12);
        assert!(
            filled[7..]
                .iter()
                .zip(&expected)
                .all(|(item, prompt)| item.prompt == *prompt)
        );
        assert_eq!(filled[11].id.as_deref(), Some("11"));
        assert_eq!(sampling(12, false).filled_up(items).len(), 7);
        assert!(sampling(5, true).filled_up(vec![]).is_empty());
    }

    #[test]
    fn lengths_at_the_edge() {
        assert!(is_usual_length(4, 4, false) && is_usual_length(1024, 1024, false) && is_usual_length(4, 1, true));
        assert!(!is_usual_length(3, 4, false) && !is_usual_length(1025, 4, false));
        assert!(!is_usual_length(1024, 1025, true) && !is_usual_length(4, 3, false));
    }
}

#[cfg(test)]
mod prompt_params_tests {
    use super::*;
    use crate::params::Param;

    #[test]
    fn every_dataset_can_be_read_without_parameters() {
        let none = Map::new();
        for kind in KINDS {
            let mut reader = ParamReader::new(&none, |_| None, str::to_owned);
            (kind.read)(&mut reader);
            TurnParams::read(&mut reader);
            PromptParams::read(&mut reader);
            assert_eq!(reader.finish(()), Ok(()), "{}", kind.name);
            let helps: Vec<String> = kind.all_params().map(Param::help).collect();
            assert!(helps.iter().all(|help| !help.is_empty()), "{}: {helps:?}", kind.name);
        }
    }
}
