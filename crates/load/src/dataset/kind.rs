//! The interface of a dataset to the rest of the program: its parameters, and the input for drawing prompts.

use super::{ChatTemplate, Item, Prompt, PromptSource, Sampling, Vocabulary};
use crate::Backend;
use crate::params::{Declared, Param, ParamReader, param};
use std::fmt::Debug;
use std::sync::Arc;

/// A dataset as it can be asked for.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its `dataset_name`.
    pub name: &'static str,
    /// Description of its prompts, for the docs.
    pub prompts: &'static str,
    /// Tables of its own parameters.
    pub params: &'static [&'static [Param]],
    /// Takes the values of its parameters.
    pub read: fn(&mut ParamReader<'_>) -> Arc<dyn Dataset>,
}

/// The file of a dataset that has one.
pub(super) const PATH: Param = param("dataset_path").default("");

impl Kind {
    /// A dataset under its name, with what its prompts are.
    pub const fn of<D: Dataset + Declared + 'static>(name: &'static str, prompts: &'static str) -> Kind {
        Kind {
            name,
            prompts,
            params: D::TABLES,
            read: |reader| Arc::new(D::declared(reader)),
        }
    }

    /// Returns true if it draws from a file, which must be named.
    pub fn has_file(&self) -> bool {
        self.all_params().any(|param| param.name == PATH.name)
    }

    /// Its parameters.
    pub fn all_params(&self) -> impl Iterator<Item = &'static Param> {
        self.params.iter().copied().flatten()
    }
}

/// A dataset with the values of its parameters.
pub trait Dataset: Debug + Send + Sync {
    /// Draws the requests. Texts from files are put into the chat template, if one is given.
    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String>;

    /// Properties that the rest of the program needs.
    fn traits(&self) -> Traits {
        Traits::default()
    }

    /// Notes what does not go with an API, or with a number of requests.
    fn check(&self, _backend: Backend, _num_prompts: usize, _reader: &mut ParamReader<'_>) {}

    /// Like [`Dataset::draw`], but in parts if possible, so that not all requests have to be in memory.
    fn draw_in_parts(
        &self,
        draw: &Draw<'_>,
        take: &mut dyn FnMut(Vec<Item>) -> Result<(), String>,
    ) -> Result<(), String> {
        take(self.draw(draw)?)
    }

    /// All parts together.
    fn draw_whole(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let mut items = Vec::with_capacity(draw.sampling.num_prompts);
        self.draw_in_parts(draw, &mut |part| {
            items.extend(part);
            Ok(())
        })?;
        Ok(items)
    }

    /// Requests of a round, if each seed gives new prompts; `None` for one with a number of rows.
    fn round(&self) -> Option<usize> {
        None
    }

    /// Lengths of prompt and output of each request, in tokens, for datasets that need no prompts to know them; those of
    /// [`Dataset::draw`] with a vocabulary of so many ids.
    fn lengths(&self, _sampling: &Sampling, _vocabulary: u64) -> Option<Vec<(u64, u64)>> {
        None
    }

    /// The data set that would have to be downloaded first, if it is not on this machine.
    fn to_download(&self) -> Option<&str> {
        None
    }
}

/// Input for drawing prompts.
#[derive(Clone, Copy)]
pub struct Draw<'a> {
    /// Number of requests, and how they are chosen.
    pub sampling: Sampling,
    /// Source of synthetic prompts, and the tokenizer that counts tokens.
    pub vocabulary: &'a Vocabulary<'a>,
    /// The model's chat template, where the API does not apply it.
    pub template: Option<&'a ChatTemplate>,
    /// The API that will be spoken.
    pub backend: Backend,
}

impl<'a> Draw<'a> {
    /// A draw of texts as they are, for completions.
    pub fn of(sampling: Sampling, vocabulary: &'a Vocabulary<'a>) -> Draw<'a> {
        Draw {
            sampling,
            vocabulary,
            template: None,
            backend: Backend::Completions,
        }
    }

    /// Draws one request from each row of a file, in random order if wanted, until there are enough.
    pub(super) fn each_row<R>(
        &self,
        rows: Vec<R>,
        mut item: impl FnMut(usize, R) -> Result<Item, String>,
    ) -> Result<Vec<Item>, String> {
        let rows = self.sampling.shuffled(rows);
        let items = self.sampling.gather(rows, |index, row| item(index, row).map(Some))?;
        Ok(self.sampling.filled_up(items))
    }

    /// A request with a text from a file, as a turn of the user if there is a template for it.
    pub(super) fn text_item(&self, index: usize, text: String, output_len: u64) -> Result<Item, String> {
        let text = match self.template {
            Some(template) => template.user_turn(&text)?,
            None => text,
        };
        let prompt_len = self.vocabulary.count(&text)?;
        Ok(Item::new(index, Prompt::Text(text), prompt_len, output_len))
    }
}

/// Properties of a dataset. The default is that of texts from a file.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Traits {
    /// Material of its prompts.
    pub made_of: Material,
    /// Its texts are put into the model's chat template where the API does not do that itself.
    pub wants_template: bool,
    /// Its prompts depend on the number of tokens of its texts.
    pub depends_on_counts: bool,
    /// Prompts that the server's tokenizer finds longer than they should be may be cut.
    pub may_be_cut: bool,
    /// The lengths of its outputs are meant to be kept, even if the model would stop earlier.
    pub fixes_outputs: bool,
    /// It gives the due times of requests.
    pub is_timed: bool,
    /// It draws conversations, whose turns wait for each other.
    pub has_turns: bool,
    /// Each turn repeats what was said before.
    pub has_history: bool,
    /// `num_prompts = 0` means every row of its file.
    pub takes_every_row: bool,
    /// Fewest requests that it can draw, if more than one.
    pub least: usize,
    /// The share of prompt tokens that all prompts have in common by design.
    pub shared_share: f64,
}

/// Material of prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Material {
    /// Tokens of the vocabulary.
    Vocabulary,
    /// Token ids.
    TokenIds,
    /// Texts, of a file or made by the dataset.
    #[default]
    Text,
    /// Several of these.
    Mixed,
}

impl Traits {
    /// Source of the prompts for the result file.
    pub fn source(&self, vocabulary: &Vocabulary<'_>, template: Option<&ChatTemplate>) -> PromptSource {
        match self.made_of {
            Material::Vocabulary => vocabulary.source(),
            Material::TokenIds => PromptSource::TokenIds,
            Material::Text if self.wants_template && template.is_some() => PromptSource::Template,
            Material::Text => PromptSource::Text,
            Material::Mixed => PromptSource::Mixed,
        }
    }
}

/// A part of a whole.
pub(super) fn share(part: u64, rest: u64) -> f64 {
    part as f64 / (part + rest).max(1) as f64
}
