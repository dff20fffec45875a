//! The requests of a run. They are drawn and written before the run starts, or during the run.

use super::NativeRun;
use super::warmup::Amount;
use super::writer::{Drawer, Writer, media_of};
use crate::bench::exact_prompts::plain_ids;
use crate::bench::result::{self, PromptOrigin};
use crate::bench::side::tokenizer::Alignment;
use crate::dataset::{
    self, ChatTemplate, Draw, Item, MOST_PROMPTS, Material, Prompt, PromptSource, Tokenizer, Traits, Vocabulary,
};
use crate::load::{Backend, Load, Request, Requests};
use crate::plan::Warmup;

/// Warm-up prompts are drawn with another seed, so that no measured prompt is in a cache.
const WARMUP_SEED: u64 = 0x7761_726d;

/// Requests that are ready to send, with the origin of their prompts.
pub(super) struct Prompts {
    /// The measured requests.
    pub load: Load,
    /// Number of measured requests that do not wait for an earlier turn, among those that are drawn already.
    pub starts: usize,
    /// Request for the ready check.
    pub first: Request,
    pub warmup: Vec<Request>,
    /// The wanted amount of warm-up.
    pub amount: Amount,
    pub probe: Option<Request>,
    pub origin: PromptOrigin,
    /// Warnings about the prompts.
    pub warnings: Vec<String>,
}

/// Sources of the prompts.
pub(super) struct Sources<'a> {
    pub drawer: &'a Drawer,
    pub vocabulary: &'a Vocabulary<'a>,
    template: Option<&'a ChatTemplate>,
    tokenizer_id: Option<String>,
    source: PromptSource,
    /// Name of the counter of the prompts' tokens.
    counted_by: &'static str,
    /// Beginning of the requests' ids.
    pub prefix: String,
    warnings: Vec<String>,
}

impl NativeRun {
    /// Draws all requests, or only the first ones if the others are drawn during the run.
    pub(super) fn prompts(&self) -> Result<Prompts, String> {
        let drawer = Drawer {
            job: self.job.clone(),
            settings: self.settings.clone(),
            endpoint: self.endpoint.clone(),
        };
        match self.settings.draws_during_run() {
            true => drawer.start(),
            false => drawer.with_sources(|sources| sources.draw_all()),
        }
    }
}

impl Drawer {
    /// Finds the sources of the prompts, and calls `draw` with them.
    pub fn with_sources<T>(&self, draw: impl FnOnce(Sources<'_>) -> Result<T, String>) -> Result<T, String> {
        let settings = &self.settings;
        let traits = settings.dataset.traits();
        let tokenizer_name = settings
            .tokens
            .tokenizer
            .as_ref()
            .unwrap_or(&self.job.model_root)
            .clone();
        let tokenizer = self.tokenizer(&tokenizer_name)?;
        let template = self.template(tokenizer.as_ref())?;
        let mut warnings = vec![];
        let vocabulary = self.vocabulary(tokenizer.as_ref(), &mut warnings)?;
        let source = traits.source(&vocabulary, template.as_ref());
        let counted_by = vocabulary.counted_by(source);
        let difference = without_tokenizer(traits, source, counted_by);
        if let Some(difference) = difference.filter(|_| tokenizer.is_none() && !settings.tokens.is_skipped) {
            let sentence = format!(
                "there is no tokenizer.json of {tokenizer_name} on this machine, so {difference}; name one with tokenizer"
            );
            self.job.counters.caution(sentence);
        }
        draw(Sources {
            drawer: self,
            vocabulary: &vocabulary,
            template: template.as_ref(),
            tokenizer_id: tokenizer.is_some().then_some(tokenizer_name),
            source,
            counted_by,
            prefix: settings.api.request_id_prefix.clone().unwrap_or_else(fresh_prefix),
            warnings,
        })
    }

    /// Returns the model's tokenizer, if it is wanted and can be found.
    fn tokenizer(&self, name: &str) -> Result<Option<Tokenizer>, String> {
        if self.settings.tokens.is_skipped {
            return Ok(None);
        }
        let tokenizer = Tokenizer::find(name)?;
        if tokenizer.is_none() && self.settings.tokens.tokenizer.is_some() {
            return Err(format!(
                "there is no tokenizer.json at {name}; correct tokenizer, or remove it"
            ));
        }
        Ok(tokenizer)
    }

    /// Chooses the vocabulary for prompts and the counter of tokens: the model's tokenizer if it is here, else the server's own tokenizer
    /// if words or counts of tokens are needed, else bare ids if the API takes them, else common words.
    fn vocabulary<'a>(
        &'a self,
        tokenizer: Option<&'a Tokenizer>,
        warnings: &mut Vec<String>,
    ) -> Result<Vocabulary<'a>, String> {
        if let Some(tokenizer) = tokenizer {
            return Ok(Vocabulary::Tokenizer(tokenizer));
        }
        let settings = &self.settings;
        let (takes_ids, traits) = (settings.api.backend().takes_ids(), settings.dataset.traits());
        let wants_words = matches!(traits.made_of, Material::Vocabulary | Material::Mixed) && !takes_ids;
        if !settings.tokens.is_skipped && (wants_words || traits.depends_on_counts) {
            // A server that is still starting has no tokenizer yet.
            if let Some(limit) = settings.limits.ready() {
                self.endpoint.await_answer(limit)?;
            }
            match self.endpoint.tokenizer(wants_words) {
                Ok(tokenizer) => return Ok(Vocabulary::Server(tokenizer)),
                Err(error) => warnings.extend(result::silence_warning(
                    "/tokenize",
                    &error,
                    "lengths of texts are estimates",
                )),
            }
        }
        Ok(match takes_ids {
            true => Vocabulary::Ids(plain_ids(settings.tokens.vocab_size, &self.job.model_root)),
            false => Vocabulary::Words,
        })
    }

    /// Returns the chat template, if the dataset wants one and the API does not apply it.
    fn template(&self, tokenizer: Option<&Tokenizer>) -> Result<Option<ChatTemplate>, String> {
        let settings = &self.settings;
        let is_wanted = settings.dataset.traits().wants_template && !settings.prompts.skip_chat_template;
        let Some(tokenizer) = tokenizer.filter(|_| is_wanted && settings.api.backend() == Backend::Completions) else {
            return Ok(None);
        };
        match ChatTemplate::find(tokenizer.folder(), &settings.prompts.chat_template_kwargs)? {
            Some(template) => Ok(Some(template)),
            None => Err(format!(
                "there is no chat template in {}; set skip_chat_template to send texts as they are",
                tokenizer.folder().display()
            )),
        }
    }
}

impl Sources<'_> {
    /// A draw of `count` requests.
    pub fn draw(&self, count: usize, seed: u64) -> Draw<'_> {
        Draw {
            sampling: self.drawer.settings.prompts.sampling(count, seed),
            vocabulary: self.vocabulary,
            template: self.template,
            backend: self.drawer.settings.api.backend(),
        }
    }

    /// A writer of the measured requests. It cuts prompts that are too long by the count of the server's tokenizer, if the dataset allows
    /// that.
    pub fn writer(&self) -> Writer<'_> {
        let may_be_cut = self.drawer.settings.dataset.traits().may_be_cut;
        let is_aligned = may_be_cut && matches!(self.source, PromptSource::Tokenizer | PromptSource::ServerWords);
        Writer::new(self.drawer, &self.prefix, is_aligned)
    }

    fn draw_all(self) -> Result<Prompts, String> {
        let settings = &self.drawer.settings;
        let (dataset, traits) = (&settings.dataset, settings.dataset.traits());
        let seed = settings.prompts.seed;
        let count = match settings.prompts.given {
            Some(0) => 0,
            _ => settings.count().unwrap_or(MOST_PROMPTS),
        };
        let mut writer = self.writer();
        let (mut measured, mut talks, mut due_seconds) = (Requests::default(), vec![], vec![]);
        let drawn = count.max(traits.least);
        dataset.draw_in_parts(&self.draw(drawn, seed.into()), &mut |mut items| {
            if drawn > count {
                items.truncate(count);
            }
            writer.align(&mut items);
            if settings.is_self_timed() {
                due_seconds = dataset::sort_by_time(&mut items);
            }
            match traits.has_turns {
                true => talks = items,
                false => writer.write_all(&items, |request| measured.push(&request))?,
            }
            Ok(())
        })?;
        let starts = measured.len() + talks.iter().filter(|item| item.turn == 0).count();
        let due: Vec<u64> = match settings.is_self_timed() {
            true => due_seconds
                .iter()
                .map(|seconds| (seconds * 1e9).round() as u64)
                .collect(),
            false => settings.arrival.due_times(starts, seed),
        };
        let load = match traits.has_turns {
            true => self.drawer.conversations(talks, &self.prefix, due)?,
            false => self.drawer.load(measured, due),
        };
        self.prompts(&writer, load, starts)
    }

    /// Returns a load with the requests that are sent before it (ready check, warm-up) and in addition to it (probes).
    pub fn prompts(&self, writer: &Writer<'_>, load: Load, starts: usize) -> Result<Prompts, String> {
        let Drawer { job, settings, .. } = self.drawer;
        let (dataset, traits) = (&settings.dataset, settings.dataset.traits());
        let seed = settings.prompts.seed;
        let amount = Amount::of(job.warmup, settings, settings.requests_of(starts), &load.due);
        let count = 1 + amount.most();
        let drawn = (count * dataset.prompts_a_request()).max(traits.least);
        let mut unmeasured = dataset.draw(&self.draw(drawn, u64::from(seed) ^ WARMUP_SEED))?;
        unmeasured.retain(|item| item.turn == 0);
        unmeasured.truncate(count);
        if traits.made_of != Material::Vocabulary || traits.ignores_seed {
            // Another seed may draw measured prompts again, so these prompts are changed: no measured one may be in a cache.
            unmeasured.retain(|item| media_of(item).is_none_or(|media| !writer.media.contains(&media)));
            unmeasured.iter_mut().for_each(|item| item.prompt.vary_prefix());
        }
        // As in vLLM, warm-up requests that a user asks for have no adapter; those that imitate the load have its adapters.
        let imitates_load = job.warmup == Warmup::Automatic;
        let mut adapters = settings.api.adapters(seed).map(|name| name.filter(|_| imitates_load));
        let unmeasured = unmeasured.iter().enumerate();
        let mut unmeasured = unmeasured.map(|(i, item)| self.drawer.write(i, item, None, adapters.next().flatten()));
        let hello = Item::new(0, Prompt::Text("Hi".to_owned()), 1, 1);
        let probe = settings
            .side
            .probe_rate()
            .map(|_| self.drawer.write(0, &hello, None, None));
        let (first, warmup) = (unmeasured.next().transpose()?, unmeasured.collect::<Result<_, _>>()?);
        Ok(Prompts {
            load,
            starts,
            first: first.unwrap_or_default(),
            warmup,
            amount,
            probe: probe.transpose()?,
            origin: PromptOrigin {
                tokenizer_id: self.tokenizer_id.clone(),
                source: self.source,
                counted_by: self.counted_by,
                alignment: writer.alignment.unwrap_or(Alignment::Unknown),
            },
            warnings: self.warnings.clone(),
        })
    }
}

/// Describes prompts that were made without a tokenizer, if they differ from those made with one.
fn without_tokenizer(traits: Traits, source: PromptSource, counted_by: &str) -> Option<String> {
    match source {
        PromptSource::TokenIds => Some("prompts are lists of token ids, not text".to_owned()),
        PromptSource::Words => Some("prompts are common words, and their lengths estimates".to_owned()),
        PromptSource::ServerWords => Some("prompts are words that are one token each for the server".to_owned()),
        PromptSource::Text | PromptSource::Mixed if traits.depends_on_counts => {
            Some(format!("the lengths of texts were counted by {counted_by}"))
        }
        PromptSource::Text | PromptSource::Mixed | PromptSource::Tokenizer | PromptSource::Template => None,
    }
}

/// `bench-` and eight hex digits that differ from run to run.
fn fresh_prefix() -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let seed = now.as_nanos() as u64 ^ (u64::from(std::process::id()) << 32);
    format!("bench-{:08x}-", crate::rng::NumpyPcg64::new(seed).integer(0, 1 << 32))
}
