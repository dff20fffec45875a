//! Draws requests while others are sent, for runs that are ended by time. The requests do not depend on the time at which they are drawn.

use super::OPEN_LOOP_CONNECTIONS;
use super::prompts::{Prompts, Sources};
use super::writer::Drawer;
use crate::bench::side::tokenizer::Alignment;
use crate::dataset::{Item, Material, Vocabulary, draw_endlessly};
use crate::load::{Feed, supply};
use std::sync::mpsc::{Sender, channel};

impl Drawer {
    /// Starts drawing on a separate thread, which ends with the load. Returns once the queue of requests is full, or all are drawn.
    pub fn start(self) -> Result<Prompts, String> {
        let count = self.settings.requests();
        let at_once = self.settings.concurrency().unwrap_or(OPEN_LOOP_CONNECTIONS);
        let (feed, supply) = supply(2 * at_once);
        let (give, given) = channel();
        let draw = move || {
            if let Err(error) = self.with_sources(|sources| sources.draw_on(&feed, &give)) {
                // The receiver is gone once the first requests were drawn. Then only the feed reports the error.
                let _ = give.send(Err(error.clone()));
                feed.fail(error);
            }
        };
        let thread = std::thread::Builder::new().name("vsweep-draw".to_owned());
        let started = thread.spawn(draw);
        started.map_err(|error| {
            format!("cannot start the thread that draws prompts: {error}; raise the limit of processes")
        })?;
        let mut prompts: Prompts = given
            .recv()
            .unwrap_or_else(|_| Err("the thread that draws prompts ended early".to_owned()))?;
        prompts.starts = supply.fill().min(count.unwrap_or(usize::MAX));
        prompts.load.supply = Some(supply);
        Ok(prompts)
    }
}

impl Sources<'_> {
    /// Draws until no more requests are taken, or until there are as many as are due within the run. Once the first requests are written,
    /// sends everything else that the run needs, such as its warm-up requests, through `give`.
    fn draw_on(&self, feed: &Feed, give: &Sender<Result<Prompts, String>>) -> Result<(), String> {
        let settings = &self.drawer.settings;
        let (dataset, seed) = (&settings.dataset, settings.prompts.seed);
        let asks_server = matches!(self.vocabulary, Vocabulary::Server(_));
        if asks_server && dataset.traits().made_of != Material::Vocabulary {
            return Err(ASKS_SERVER.to_owned());
        }
        let (count, mut sent, mut is_given) = (settings.requests(), 0, false);
        let mut writer = self.writer();
        let mut take = |mut items: Vec<Item>| {
            writer.align(&mut items);
            if matches!(writer.alignment, Some(Alignment::Cut(_))) {
                return Err(ASKS_SERVER.to_owned());
            }
            items.truncate(count.unwrap_or(usize::MAX) - sent);
            let mut written = Vec::with_capacity(items.len());
            writer.write_all(&items, |request| written.push(request))?;
            if !is_given {
                let due = count.map(|count| settings.arrival.due_times(count, seed));
                let load = self.drawer.load(Vec::new(), due.unwrap_or_default());
                // The receiver is gone if the run was given up.
                let _ = give.send(Ok(self.prompts(&writer, load, 0)?));
                is_given = true;
            }
            sent += written.len();
            Ok(written.into_iter().all(|request| feed.push(request)) && count.is_none_or(|count| sent < count))
        };
        let draw = self.draw(0, seed.into());
        match &settings.mix {
            Some(mix) => mix.draw_endlessly(&draw, settings.count(), &mut take),
            None => draw_endlessly(&**dataset, &draw, settings.count(), &mut take),
        }
    }
}

const ASKS_SERVER: &str = "the server itself would have to count the tokens of prompts during the run; name a tokenizer, or add num_prompts, \
                           so that all prompts are drawn before it";
