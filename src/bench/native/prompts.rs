//! The requests of a run, drawn and written out before it starts.

use super::Run;
use crate::bench::aside::Alignment;
use crate::bench::ids::plain_ids;
use crate::dataset::{self, ChatTemplate, Dataset, Item, Prompt, PromptSource, Tokenizer, Vocabulary};
use crate::load::{Backend, Content, Request, Requests, Turn, Turns};

/// Warm-up prompts are drawn with another seed, so that no measured prompt is in a cache.
const WARMUP_SEED: u64 = 0x7761_726d;

/// Requests that are ready to send, and how they were made.
pub(super) struct Prompts {
    pub measured: Requests,
    /// How many of them wait for no other.
    pub starts: usize,
    /// What follows in conversations.
    pub turns: Option<Turns>,
    /// When each measured request is due, in nanoseconds after t0.
    pub due: Vec<u64>,
    /// For the ready check.
    pub first: Request,
    pub warmup: Vec<Request>,
    pub probe: Request,
    pub source: &'static str,
    pub tokenizer_id: Option<String>,
    pub alignment: Alignment,
}

impl Run {
    pub(super) fn prompts(&mut self) -> Result<Prompts, String> {
        let settings = self.settings.clone();
        let tokenizer_name = settings.tokenizer.as_ref().unwrap_or(&self.job.model_root).clone();
        let tokenizer = if settings.skip_tokenizer {
            None
        } else {
            Tokenizer::find(&tokenizer_name)?
        };
        if tokenizer.is_none() && settings.tokenizer.is_some() && !settings.skip_tokenizer {
            return Err(format!(
                "there is no tokenizer.json at {tokenizer_name}; correct tokenizer, or remove it"
            ));
        }
        let vocabulary = match (&tokenizer, settings.backend) {
            (Some(tokenizer), _) => Vocabulary::Tokenizer(tokenizer),
            (None, backend) if backend.takes_ids() => {
                Vocabulary::Ids(plain_ids(settings.vocab_size, &self.job.model_root))
            }
            (None, _) => Vocabulary::Words,
        };
        let template = self.template(tokenizer.as_ref())?;
        let draw = |num_prompts: usize, seed: u64| {
            let sampling = settings.sampling(num_prompts, seed);
            settings.dataset.draw(&sampling, &vocabulary, template.as_ref())
        };
        let prefix = settings.request_id_prefix.clone().unwrap_or_else(fresh_prefix);
        let seed = u64::from(settings.seed);
        let mut measured = draw(settings.num_prompts, seed)?;
        let unmeasured = 1 + settings.steps.num_warmups.max(self.job.warmup_prompts as usize);
        let mut first_and_warmups = draw(unmeasured.max(settings.dataset.least()), seed ^ WARMUP_SEED)?;
        first_and_warmups.retain(|item| item.turn == 0);
        first_and_warmups.truncate(unmeasured);

        let source = settings.dataset.source(&vocabulary, template.as_ref());
        let has_exact_lengths = matches!(settings.dataset, Dataset::Random(_) | Dataset::PrefixRepetition(_));
        let mut alignment = Alignment::Unknown;
        if source == PromptSource::Tokenizer && has_exact_lengths {
            let model = self.options.body.model.clone();
            alignment = self.aside().align(&model, &mut measured);
        }
        let starts = measured.iter().filter(|item| item.turn == 0).count();
        let due = if settings.self_timed {
            let seconds = dataset::sort_by_time(&mut measured);
            seconds
                .into_iter()
                .map(|seconds| (seconds * 1e9).round() as u64)
                .collect()
        } else {
            settings.arrivals.due_times(starts, settings.seed)
        };
        let adapters = settings.steps.adapters.assign(starts, settings.seed);
        let write = |index: usize, item: &Item, id: Option<String>, adapter: Option<&str>| {
            self.options.request(&Content {
                prompt: Some(&item.prompt.to_value()),
                media: item.media.as_ref(),
                prompt_len: item.prompt_len,
                output_len: item.output_len,
                id: id.as_deref(),
                adapter,
                index,
                ..Content::default()
            })
        };
        let id = |item: &Item| item.id.as_ref().map(|id| format!("{prefix}{id}"));
        let mut unmeasured = first_and_warmups
            .iter()
            .enumerate()
            .map(|(i, item)| write(i, item, None, None));
        let hello = Item::new(0, Prompt::Text("Hi".to_owned()), 1, 1);
        let (first, warmup) = (unmeasured.next().transpose()?, unmeasured.collect::<Result<_, _>>()?);
        let probe = settings.steps.probe_rate.map(|_| write(0, &hello, None, None));
        let probe = probe.transpose()?.unwrap_or_default();
        let (measured, due, turns) = if let Dataset::Conversations(conversations) = &settings.dataset {
            let turns = self.turns(measured, &adapters, &prefix, conversations.has_history());
            let due = due_of_turns(&turns, &due);
            (first_turns(&turns)?, due, Some(turns))
        } else {
            let requests = measured.into_iter().zip(adapters).enumerate();
            let written = requests.map(|(i, (item, adapter))| write(i, &item, id(&item), adapter));
            (written.collect::<Result<_, _>>()?, due, None)
        };
        Ok(Prompts {
            measured,
            starts,
            turns,
            due,
            first: first.unwrap_or_default(),
            warmup,
            probe,
            source: source.name(),
            tokenizer_id: tokenizer.is_some().then_some(tokenizer_name),
            alignment,
        })
    }

    fn turns(&self, items: Vec<Item>, adapters: &[Option<&str>], prefix: &str, with_history: bool) -> Turns {
        let mut each: Vec<Turn> = Vec::with_capacity(items.len());
        let mut conversation = 0;
        for item in items {
            match each.last_mut() {
                Some(before) if item.turn == 0 => {
                    before.is_last = true;
                    conversation += 1;
                }
                _ => {}
            }
            let session = format!("{prefix}conv-{conversation}");
            each.push(Turn {
                prompt: item.prompt.to_value(),
                prompt_len: item.prompt_len,
                output_len: item.output_len,
                id: format!("{session}-turn{}", item.turn),
                session,
                adapter: adapters.get(conversation).copied().flatten().map(str::to_owned),
                is_last: false,
            });
        }
        if let Some(last) = each.last_mut() {
            last.is_last = true;
        }
        Turns {
            options: self.options.clone(),
            each,
            pause: self.settings.turn_pause.as_nanos() as u64,
            with_history,
        }
    }

    /// The chat template, where the dataset wants one and the API does not apply it.
    fn template(&self, tokenizer: Option<&Tokenizer>) -> Result<Option<ChatTemplate>, String> {
        let settings = &self.settings;
        let is_wanted = settings.dataset.wants_template() && !settings.skip_chat_template;
        let Some(tokenizer) = tokenizer.filter(|_| is_wanted && settings.backend == Backend::Completions) else {
            return Ok(None);
        };
        match ChatTemplate::find(tokenizer.folder(), &settings.chat_template_kwargs)? {
            Some(template) => Ok(Some(template)),
            None => Err(format!(
                "there is no chat template in {}; set skip_chat_template to send texts as they are",
                tokenizer.folder().display()
            )),
        }
    }
}

/// Requests of which only the first turns are written yet.
fn first_turns(turns: &Turns) -> Result<Requests, String> {
    let mut is_first = true;
    let each = turns.each.iter().enumerate();
    each.map(|(i, turn)| {
        let request = match std::mem::replace(&mut is_first, turn.is_last) {
            true => turns.request(i, &[])?,
            false => Request {
                prompt_len: turn.prompt_len,
                sequences: 1,
                ..Request::default()
            },
        };
        Ok(request)
    })
    .collect()
}

/// The time of its conversation for every turn.
fn due_of_turns(turns: &Turns, due: &[u64]) -> Vec<u64> {
    let mut conversation = 0;
    let each = turns.each.iter().map(|turn| {
        let time = due.get(conversation).copied().unwrap_or(0);
        conversation += usize::from(turn.is_last);
        time
    });
    each.collect()
}

/// `bench-` and eight hex digits that differ from run to run.
fn fresh_prefix() -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let seed = now.as_nanos() as u64 ^ (u64::from(std::process::id()) << 32);
    format!("bench-{:08x}-", crate::rng::NumpyPcg64::new(seed).integer(0, 1 << 32))
}
