//! The interface of a dataset to the rest of the program: its parameters, its properties, and the input for drawing prompts.

use super::{ChatTemplate, Item, Prompt, PromptSource, Sampling, Vocabulary};
use crate::Backend;
use crate::params::{Declared, Param, ParamReader, param};
use std::fmt::Debug;
use std::sync::Arc;

/// A kind of dataset: its name and its parameters, without their values.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its `dataset_name`.
    pub name: &'static str,
    /// Description of its prompts, for the docs.
    pub prompts: &'static str,
    /// Tables of its own parameters.
    pub params: &'static [&'static [Param]],
    /// Makes a dataset with the values of its parameters.
    pub read: fn(&mut ParamReader<'_>) -> Arc<dyn Dataset>,
}

/// The parameter that names a dataset's file.
pub(super) const PATH: Param = param("dataset_path").default("");

impl Kind {
    /// The kind of the dataset `D`, with a description of its prompts.
    pub const fn of<D: Dataset + Declared + 'static>(name: &'static str, prompts: &'static str) -> Kind {
        Kind {
            name,
            prompts,
            params: D::TABLES,
            read: |reader| Arc::new(D::declared(reader)),
        }
    }

    /// Returns true if the dataset draws from a file, which must be named.
    pub fn has_file(&self) -> bool {
        self.all_params().any(|param| param.name == PATH.name)
    }

    /// Returns its parameters, of all tables.
    pub fn all_params(&self) -> impl Iterator<Item = &'static Param> {
        self.params.iter().copied().flatten()
    }
}

/// A dataset with the values of its parameters.
pub trait Dataset: Debug + Send + Sync {
    /// Draws the requests. Texts from files are put into the chat template, if `draw` has one.
    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String>;

    /// Properties that the rest of the program needs.
    fn traits(&self) -> Traits {
        Traits::default()
    }

    /// Reports parameters that do not fit the API or the number of requests.
    fn check(&self, _backend: Backend, _num_prompts: usize, _reader: &mut ParamReader<'_>) {}

    /// Like [`Dataset::draw`], but in parts if possible, so that not all requests have to be in memory.
    fn draw_in_parts(
        &self,
        draw: &Draw<'_>,
        take: &mut dyn FnMut(Vec<Item>) -> Result<(), String>,
    ) -> Result<(), String> {
        take(self.draw(draw)?)
    }

    /// Draws all parts together.
    fn draw_whole(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let mut items = Vec::with_capacity(draw.sampling.num_prompts);
        self.draw_in_parts(draw, &mut |part| {
            items.extend(part);
            Ok(())
        })?;
        Ok(items)
    }

    /// Number of requests in a round of [`draw_endlessly`](super::draw_endlessly), if each seed gives new prompts. `None` if the dataset
    /// has a limited number of rows.
    fn round_size(&self) -> Option<usize> {
        None
    }

    /// Lengths of prompt and output of each request, in tokens: those of [`Dataset::draw`] with a vocabulary of this many ids. `None` if
    /// they are unknown before prompts are drawn.
    fn lengths(&self, _sampling: &Sampling, _vocabulary: u64) -> Option<Vec<(u64, u64)>> {
        None
    }

    /// Time from the first to the last of `num_prompts` requests, in seconds; `None` if the dataset does not give their times.
    fn lasts_s(&self, _num_prompts: usize) -> Option<f64> {
        None
    }

    /// Largest number of drawn prompts that one request carries.
    fn prompts_a_request(&self) -> usize {
        1
    }

    /// Name of the dataset that must be downloaded first; `None` if it is on this machine.
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
    /// The model's chat template, if the API does not apply it.
    pub template: Option<&'a ChatTemplate>,
    /// The API that the requests will be sent to.
    pub backend: Backend,
}

impl<'a> Draw<'a> {
    /// A draw for the completions API, without a chat template.
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

    /// Returns a request with a text from a file. If there is a chat template, the text becomes a turn of the user.
    pub(super) fn text_item(&self, index: usize, text: String, output_len: u64) -> Result<Item, String> {
        let text = match self.template {
            Some(template) => template.user_turn(&text)?,
            None => text,
        };
        let prompt_len = self.vocabulary.count(&text)?;
        Ok(Item::new(index, Prompt::Text(text), prompt_len, output_len))
    }
}

/// Properties of a dataset. The default describes texts from a file.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Traits {
    /// Material of its prompts.
    pub made_of: Material,
    /// True if its texts are put into the model's chat template when the API does not do that itself.
    pub wants_template: bool,
    /// True if draws with different seeds can have the same prompts although the dataset generates them.
    pub ignores_seed: bool,
    /// True if its prompts depend on the number of tokens of its texts.
    pub depends_on_counts: bool,
    /// True if its prompts may be cut when they have too many tokens by the server's tokenizer.
    pub may_be_cut: bool,
    /// True if outputs should have exactly the drawn lengths, even if the model would stop earlier.
    pub fixes_outputs: bool,
    /// True if it gives the due times of requests.
    pub is_timed: bool,
    /// True if it draws conversations, whose turns wait for each other.
    pub has_turns: bool,
    /// True if each turn repeats the earlier turns and their answers.
    pub has_history: bool,
    /// True if `num_prompts = 0` means every row of its file.
    pub takes_every_row: bool,
    /// Smallest number of requests that it can draw; 0 if one is enough.
    pub least: usize,
    /// The largest share of a prompt's tokens that may be in the prefix cache by design, because prompts share them.
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
    /// Several of these materials.
    Mixed,
}

impl Traits {
    /// Returns the origin of the prompts, for the result file.
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

/// Returns the share of `part` in the sum of both, or 0 if both are 0.
pub(super) fn share(part: u64, rest: u64) -> f64 {
    part as f64 / (part + rest).max(1) as f64
}
