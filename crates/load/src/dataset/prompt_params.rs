//! Parameters that all datasets have in common: the choice of the dataset, and the number of prompts.

use super::{Dataset, KINDS, Kind, Sampling, TurnParams};
use crate::Backend;
use crate::params::ParamReader;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Largest number of prompts of a run. No run needs more.
pub const MOST_PROMPTS: usize = 10_000_000;
/// Number of prompts of a run if `num_prompts` is not set.
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
    /// Returns the kind of the dataset, or `None` if no dataset has this name.
    pub fn kind(&self) -> Option<&'static Kind> {
        KINDS.iter().find(|kind| kind.name == self.dataset_name)
    }

    /// Reads the dataset with the values of its parameters. If no dataset has this name, reads the default one.
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

    /// Reports a number of prompts that cannot be drawn.
    pub fn check_number(&self, takes_every_row: bool, reader: &mut ParamReader<'_>) {
        let num_prompts = self.num_prompts();
        if num_prompts == 0 && !takes_every_row {
            reader.wrong("num_prompts", "a whole number of at least 1");
        }
        if num_prompts > MOST_PROMPTS {
            reader.wrong("num_prompts", &format!("at most {MOST_PROMPTS}"));
        }
    }

    /// Number of prompts, if the run is not ended by time.
    pub fn num_prompts(&self) -> usize {
        self.given.unwrap_or(USUAL_PROMPTS)
    }

    /// Returns the number of prompts to draw, and the options for drawing them.
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
