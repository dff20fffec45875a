//! The requests of a run, drawn and written out before it starts.

use super::NativeRun;
use super::warmup::Amount;
use crate::bench::exact_prompts::plain_ids;
use crate::bench::result::{PromptOrigin, warnings};
use crate::bench::side::tokenizer::Alignment;
use crate::dataset::{self, ChatTemplate, Draw, Item, Material, Prompt, PromptSource, Tokenizer, Traits, Vocabulary};
use crate::load::{Backend, Content, Load, Request, Requests, Turn, Turns};
use crate::plan::Warmup;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Warm-up prompts are drawn with another seed, so that no measured prompt is in a cache.
const WARMUP_SEED: u64 = 0x7761_726d;

/// Requests that are ready to send, and how they were made.
pub(super) struct Prompts {
    /// The measured ones.
    pub load: Load,
    /// Number of them that wait for no other.
    pub starts: usize,
    /// Request for the ready check.
    pub first: Request,
    pub warmup: Vec<Request>,
    pub probe: Option<Request>,
    pub origin: PromptOrigin,
    /// Warnings about how they were made.
    pub warnings: Vec<String>,
}

impl NativeRun {
    pub(super) fn prompts(&self) -> Result<Prompts, String> {
        let settings = &self.settings;
        let (dataset, traits) = (&settings.dataset, settings.dataset.traits());
        let seed = settings.prompts.seed;
        let tokenizer_name = settings
            .tokens
            .tokenizer
            .as_ref()
            .unwrap_or(&self.job.model_root)
            .clone();
        let tokenizer = self.tokenizer(&tokenizer_name)?;
        let template = self.template(tokenizer.as_ref())?;
        let mut warnings = vec![];
        let count = 1 + Amount::of(self.job.warmup, settings).most();
        let vocabulary = self.vocabulary(tokenizer.as_ref(), &mut warnings)?;
        let source = traits.source(&vocabulary, template.as_ref());
        let counted_by = vocabulary.counted_by(source);
        let without = without_tokenizer(traits, source, counted_by);
        if let Some(without) = without.filter(|_| tokenizer.is_none() && !settings.tokens.is_skipped) {
            let sentence = format!("no tokenizer.json of {tokenizer_name} is here: {without}; name one with tokenizer");
            self.job.counters.caution(sentence);
        }
        let is_aligned = traits.may_be_cut && matches!(source, PromptSource::Tokenizer | PromptSource::ServerWords);

        let prefix = settings.api.request_id_prefix.clone().unwrap_or_else(fresh_prefix);
        let mut adapters = settings.api.adapters(seed);
        let (mut measured, mut talks, mut alignment) = (Requests::default(), vec![], None);
        let (mut due_seconds, mut known) = (vec![], HashSet::new());
        let mut take = |mut items: Vec<Item>| {
            if is_aligned {
                alignment = Some(self.endpoint.align(alignment, &mut items));
            }
            if settings.is_self_timed() {
                due_seconds = dataset::sort_by_time(&mut items);
            }
            if traits.has_turns {
                talks = items;
                return Ok(());
            }
            known.extend(items.iter().filter_map(media_of));
            for item in &items {
                let id = item.id.as_ref().map(|id| format!("{prefix}{id}"));
                let adapter = adapters.next().flatten();
                measured.push(&self.write(measured.len(), item, id.as_deref(), adapter)?);
            }
            Ok(())
        };
        let draw = |count: usize, seed: u64| Draw {
            sampling: settings.prompts.sampling(count, seed),
            vocabulary: &vocabulary,
            template: template.as_ref(),
            backend: settings.api.backend(),
        };
        dataset.draw_in_parts(&draw(settings.prompts.num_prompts, seed.into()), &mut take)?;
        let mut unmeasured = dataset.draw(&draw(count.max(traits.least), u64::from(seed) ^ WARMUP_SEED))?;
        unmeasured.retain(|item| item.turn == 0);
        unmeasured.truncate(count);
        if traits.made_of != Material::Vocabulary {
            // Another seed draws from the same file. Measured prompts must not be in a cache because of that.
            unmeasured.retain(|item| media_of(item).is_none_or(|media| !known.contains(&media)));
            unmeasured.iter_mut().for_each(|item| item.prompt.vary_prefix());
        }

        let starts = measured.len() + talks.iter().filter(|item| item.turn == 0).count();
        let due: Vec<u64> = match settings.is_self_timed() {
            true => due_seconds
                .iter()
                .map(|seconds| (seconds * 1e9).round() as u64)
                .collect(),
            false => settings.arrival.arrivals().due_times(starts, seed),
        };
        // As in vLLM, warm-up requests that a user asks for have no adapter; those that imitate the load have its adapters.
        let is_load = self.job.warmup == Warmup::Automatic;
        let mut adapters = settings.api.adapters(seed).map(|name| name.filter(|_| is_load));
        let unmeasured = unmeasured.iter().enumerate();
        let mut unmeasured = unmeasured.map(|(i, item)| self.write(i, item, None, adapters.next().flatten()));
        let hello = Item::new(0, Prompt::Text("Hi".to_owned()), 1, 1);
        let probe = settings.side.probe_rate().map(|_| self.write(0, &hello, None, None));
        let (first, warmup) = (unmeasured.next().transpose()?, unmeasured.collect::<Result<_, _>>()?);
        Ok(Prompts {
            load: match traits.has_turns {
                true => self.conversations(talks, &prefix, &due)?,
                false => self.load(measured, due),
            },
            starts,
            first: first.unwrap_or_default(),
            warmup,
            probe: probe.transpose()?,
            origin: PromptOrigin {
                tokenizer_id: tokenizer.is_some().then_some(tokenizer_name),
                source,
                counted_by,
                alignment: alignment.unwrap_or(Alignment::Unknown),
            },
            warnings,
        })
    }

    /// The model's tokenizer, where one is wanted and there is one.
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

    /// Chooses the vocabulary for prompts and the counter of tokens. The first available of: the model's tokenizer, bare ids if they can be
    /// sent, the server's own tokenizer, common words.
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
        let wants_words = traits.made_of == Material::Vocabulary && !takes_ids;
        if !settings.tokens.is_skipped && (wants_words || traits.depends_on_counts) {
            // A server that is still starting has no tokenizer yet.
            if let Some(limit) = settings.limits.ready() {
                self.endpoint.await_answer(limit)?;
            }
            match self.endpoint.tokenizer(wants_words) {
                Ok(tokenizer) => return Ok(Vocabulary::Server(tokenizer)),
                Err(error) => warnings.extend(warnings::of_silence(
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

    /// Conversations, of which only the first turns are written yet; every turn is due with the first one.
    fn conversations(&self, items: Vec<Item>, prefix: &str, due: &[u64]) -> Result<Load, String> {
        let mut turns = Turns {
            options: self.endpoint.options.clone(),
            each: Vec::with_capacity(items.len()),
            pause: self.settings.turns.pause().as_nanos() as u64,
            with_history: self.settings.dataset.traits().has_history,
        };
        let (mut requests, mut due_turns) = (Requests::default(), Vec::with_capacity(items.len()));
        let mut starts = self.settings.api.adapters(self.settings.prompts.seed).enumerate();
        let (mut conversation, mut adapter) = (0, None);
        let mut items = items.into_iter().peekable();
        while let Some(item) = items.next() {
            let at = turns.each.len();
            let is_first = item.turn == 0;
            if is_first {
                (conversation, adapter) = starts.next().unwrap_or_default();
            }
            let session = format!("{prefix}conv-{conversation}");
            turns.each.push(Turn {
                prompt: item.prompt.to_value(),
                prompt_len: item.prompt_len,
                output_len: item.output_len,
                id: format!("{session}-turn{}", item.turn),
                session,
                adapter: adapter.map(str::to_owned),
                is_last: items.peek().is_none_or(|next| next.turn == 0),
            });
            requests.push(&match is_first {
                true => turns.request(at, &[])?,
                false => Request {
                    prompt_len: item.prompt_len,
                    sequences: 1,
                    ..Request::default()
                },
            });
            due_turns.push(due.get(conversation).copied().unwrap_or(0));
        }
        Ok(Load {
            turns: Some(turns),
            // The history repeats the answers.
            keep_texts: true,
            ..self.load(requests, due_turns)
        })
    }

    fn write(&self, index: usize, item: &Item, id: Option<&str>, adapter: Option<&str>) -> Result<Request, String> {
        self.endpoint.options.request(&Content {
            prompt: Some(&item.prompt.to_value()),
            media: item.media.as_ref(),
            sequences: item.sequences,
            prompt_len: item.prompt_len,
            output_len: item.output_len,
            id,
            adapter,
            index,
            ..Content::default()
        })
    }

    /// The chat template, where the dataset wants one and the API does not apply it.
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

/// A hash that identifies a request's pictures, films and sounds.
fn media_of(item: &Item) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    item.media.as_ref()?.to_string().hash(&mut hasher);
    Some(hasher.finish())
}

/// Describes prompts made without a tokenizer, if that makes a difference.
fn without_tokenizer(traits: Traits, source: PromptSource, counted_by: &str) -> Option<String> {
    match source {
        PromptSource::TokenIds => Some("prompts are lists of token ids, not text".to_owned()),
        PromptSource::Words => Some("prompts are common words, and their lengths estimates".to_owned()),
        PromptSource::ServerWords => Some("prompts are words that are one token each for the server".to_owned()),
        PromptSource::Text if traits.depends_on_counts => {
            Some(format!("the lengths of texts are those of counter \"{counted_by}\""))
        }
        PromptSource::Text | PromptSource::Tokenizer | PromptSource::Template => None,
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
