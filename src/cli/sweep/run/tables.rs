//! Writes the tables of a sweep in progress on a separate thread, so that the supervision of servers does not wait for them. Events during
//! one round are included in the next.

use crate::error::{Error, Result};
use crate::journal::{Directory, Follower};
use crate::plan::ReportOptions;
use crate::report::{Best, LiveTables};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

/// The thread that writes the tables.
pub struct Tables {
    /// Notifies the thread of new events, by their number. Dropping it ends the thread.
    news: Option<Sender<u64>>,
    /// Number of notifications.
    notified: u64,
    /// The writing thread; `None` once its result was returned.
    thread: Option<JoinHandle<Result<()>>>,
    /// The best server, and the last notification before it was found.
    best: Arc<Mutex<(u64, Option<Best>)>>,
}

impl Tables {
    /// Starts the thread for the tables of a directory, with the plan's options. The tables are made from the files on disk, which also
    /// have the runs of other shards.
    pub fn of(directory: &Directory, options: &ReportOptions) -> Result<Tables> {
        let directory_read = directory.clone();
        let mut tables = LiveTables::of(directory, options);
        let (news, receiver) = channel();
        let best = Arc::new(Mutex::new((0, None)));
        let found = Arc::clone(&best);
        let work = move || {
            let mut follower = None;
            while let Ok(first) = receiver.recv() {
                let known = receiver.try_iter().last().unwrap_or(first);
                // Opened only now, because a sweep with nothing left to do needs no tables, and its journals may be large.
                let follower = match &mut follower {
                    Some(follower) => follower,
                    none => none.insert(Follower::open(&directory_read)?),
                };
                follower.refresh()?;
                tables.write(follower.state())?;
                *found.lock().expect("no thread panics with it") = (known, tables.best());
            }
            Ok(())
        };
        let thread = Builder::new().name("vsweep-tables".into()).spawn(work);
        Ok(Tables {
            news: Some(news),
            notified: 0,
            thread: Some(thread.map_err(|error| Error::Fatal(format!("cannot start a thread: {error}")))?),
            best,
        })
    }

    /// Returns the best server, once the tables have everything that they were notified of.
    pub fn best(&self) -> Option<Best> {
        let found = self.best.lock().expect("no thread panics with it");
        found.1.clone().filter(|_| found.0 == self.notified)
    }

    /// Notifies the thread that something was recorded. Returns the error of an earlier round, if there was one.
    pub fn renew(&mut self) -> Result<()> {
        self.notified += 1;
        match &self.news {
            Some(news) if news.send(self.notified).is_err() => self.end(),
            _ => Ok(()),
        }
    }

    /// Waits until the tables have all events, and ends the thread. Returns its error, if there was one.
    pub fn end(&mut self) -> Result<()> {
        self.news = None;
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        let ended = "the thread that writes the tables ended early; `vsweep report` makes them again";
        thread.join().unwrap_or_else(|_| Err(Error::Fatal(ended.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_server_is_none_of_an_earlier_record() {
        let (news, receiver) = channel();
        let best = Best {
            config: "a".into(),
            text: String::new(),
            reached: String::new(),
            times: String::new(),
            sure: String::new(),
        };
        let mut tables = Tables {
            news: Some(news),
            notified: 1,
            thread: None,
            best: Arc::new(Mutex::new((1, Some(best)))),
        };
        assert!(tables.best().is_some());
        tables.renew().expect("somebody listens");
        assert!(tables.best().is_none());
        assert_eq!(receiver.recv(), Ok(2));
    }
}
