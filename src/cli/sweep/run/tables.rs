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
    /// Notifies the thread of new events. Dropping it ends the thread.
    news: Option<Sender<()>>,
    /// The writing thread; `None` once its result was returned.
    thread: Option<JoinHandle<Result<()>>>,
    best: Arc<Mutex<Option<Best>>>,
}

impl Tables {
    /// Starts the thread for the tables of a directory, with the plan's options. The tables are made from the files on disk, which also
    /// have the runs of other shards.
    pub fn of(directory: &Directory, options: &ReportOptions) -> Result<Tables> {
        let directory_read = directory.clone();
        let mut tables = LiveTables::of(directory, options);
        let (news, receiver) = channel();
        let best = Arc::new(Mutex::new(None));
        let found = Arc::clone(&best);
        let work = move || {
            let mut follower = None;
            while receiver.recv().is_ok() {
                while receiver.try_recv().is_ok() {}
                // Opened only now, because a sweep with nothing left to do needs no tables, and its journals may be large.
                let follower = match &mut follower {
                    Some(follower) => follower,
                    none => none.insert(Follower::open(&directory_read)?),
                };
                follower.refresh()?;
                tables.write(follower.state())?;
                *found.lock().expect("no thread panics with it") = tables.best();
            }
            Ok(())
        };
        let thread = Builder::new().name("vsweep-tables".into()).spawn(work);
        Ok(Tables {
            news: Some(news),
            thread: Some(thread.map_err(|error| Error::Fatal(format!("cannot start a thread: {error}")))?),
            best,
        })
    }

    /// Returns the best server, as of the last tables.
    pub fn best(&self) -> Option<Best> {
        self.best.lock().expect("no thread panics with it").clone()
    }

    /// Notifies the thread that something was recorded. Returns the error of an earlier round, if there was one.
    pub fn renew(&mut self) -> Result<()> {
        match &self.news {
            Some(news) if news.send(()).is_err() => self.end(),
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
