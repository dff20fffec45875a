//! Writes drawn prompts as requests, in the order in which they were drawn.

use super::settings::NativeSettings;
use crate::bench::Job;
use crate::bench::side::endpoint::Endpoint;
use crate::bench::side::tokenizer::Alignment;
use crate::dataset::Item;
use crate::load::{Content, Load, Request, Requests, Turn, Turns};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Draws and writes the requests of a run.
pub(super) struct Drawer {
    pub job: Job,
    pub settings: Arc<NativeSettings>,
    pub endpoint: Arc<Endpoint>,
}

/// Writes the measured requests.
pub(super) struct Writer<'a> {
    drawer: &'a Drawer,
    prefix: &'a str,
    adapters: Box<dyn Iterator<Item = Option<&'a str>> + 'a>,
    is_aligned: bool,
    written: usize,
    /// Agreement of the prompts with the server's tokenizer; `None` if the server was not asked.
    pub alignment: Option<Alignment>,
    /// Hashes of the pictures, videos and sounds of the written requests.
    pub media: HashSet<u64>,
}

impl<'a> Writer<'a> {
    /// A writer of requests whose ids begin with `prefix`.
    pub fn new(drawer: &'a Drawer, prefix: &'a str, is_aligned: bool) -> Self {
        let settings = &drawer.settings;
        Writer {
            drawer,
            prefix,
            adapters: Box::new(settings.api.adapters(settings.prompts.seed)),
            is_aligned,
            written: 0,
            alignment: None,
            media: HashSet::new(),
        }
    }

    /// Cuts prompts that are too long by the count of the server's tokenizer, if that is wanted.
    pub fn align(&mut self, items: &mut [Item]) {
        if self.is_aligned {
            self.alignment = Some(self.drawer.endpoint.align(self.alignment, items));
        }
    }

    /// Writes each item as a request, and passes it to `take`.
    pub fn write_all(&mut self, items: &[Item], mut take: impl FnMut(Request)) -> Result<(), String> {
        self.media.extend(items.iter().filter_map(media_of));
        for item in items {
            let id = item.id.as_ref().map(|id| format!("{}{id}", self.prefix));
            let adapter = self.adapters.next().flatten();
            take(self.drawer.write(self.written, item, id.as_deref(), adapter)?);
            self.written += 1;
        }
        Ok(())
    }
}

impl Drawer {
    /// The measured load of these requests.
    pub fn load(&self, requests: impl Into<Requests>, due: Vec<u64>) -> Load {
        let mix = self.settings.mix.as_ref();
        Load {
            sending: self.settings.arrival.sending(),
            classes: mix.map(|mix| mix.shares(self.settings.prompts.seed.into())),
            ..load(&self.settings, &self.endpoint, requests, due)
        }
    }

    /// A load of conversations, of which only the first turns are written yet. All turns of a conversation have the due time of its first
    /// one.
    pub fn conversations(&self, items: Vec<Item>, prefix: &str, due: Vec<u64>) -> Result<Load, String> {
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
                    output_len: item.output_len,
                    sequences: 1,
                    ..Request::default()
                },
            });
            due_turns.push(due.get(conversation).copied().unwrap_or(0));
        }
        Ok(Load {
            turns: Some(turns),
            // Later turns repeat the earlier answers.
            keep_texts: true,
            ..self.load(requests, due_turns)
        })
    }

    pub fn write(&self, index: usize, item: &Item, id: Option<&str>, adapter: Option<&str>) -> Result<Request, String> {
        self.endpoint.options.request(&Content {
            prompt: Some(&item.prompt.to_value()),
            media: item.media.as_ref(),
            overrides: self.settings.keys_of_class(item.class).as_ref(),
            sequences: item.sequences,
            prompt_len: item.prompt_len,
            output_len: item.output_len,
            id,
            adapter,
            index,
            ..Content::default()
        })
    }
}

/// A hash that identifies a request's pictures, videos and sounds.
pub(super) fn media_of(item: &Item) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    item.media.as_ref()?.to_string().hash(&mut hasher);
    Some(hasher.finish())
}

/// A load of these requests, with the limits of the run.
pub(super) fn load(
    settings: &NativeSettings,
    endpoint: &Endpoint,
    requests: impl Into<Requests>,
    due: Vec<u64>,
) -> Load {
    Load {
        requests: requests.into(),
        due,
        limit: settings.concurrency(),
        reply: endpoint.options.reply(),
        request_timeout: settings.limits.request,
        silence_timeout: settings.limits.silence,
        keep_texts: settings.figures.save_detailed,
        ..Load::default()
    }
}
