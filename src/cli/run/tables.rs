//! The tables of a sweep in progress, written on a thread of their own: whoever watches servers does not wait for them. What is
//! recorded while they are written comes into the next ones.

use crate::error::{Error, Result};
use crate::journal::{Directory, Follower};
use crate::plan::ReportOptions;
use crate::report::LiveTables;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

/// Whoever writes the tables.
pub enum Tables {
    /// A thread, which is told that there is something new.
    Beside(Sender<()>, JoinHandle<Result<()>>),
    /// A thread that has ended, and what it said was returned.
    Ended,
    /// We ourselves, where the system allows no thread.
    Here(Box<Work>),
}

/// What it takes. The other shards' runs belong into the tables too, so they are made of what is on disk.
pub struct Work {
    follower: Follower,
    tables: LiveTables,
}

impl Work {
    fn perform(&mut self) -> Result<()> {
        self.follower.refresh()?;
        self.tables.write(self.follower.state()).map(drop)
    }

    fn perform_each(mut self, news: &Receiver<()>) -> Result<()> {
        while news.recv().is_ok() {
            while news.try_recv().is_ok() {}
            self.perform()?;
        }
        Ok(())
    }
}

impl Tables {
    /// Of a directory, with what the plan asks of them.
    pub fn of(directory: &Directory, options: &ReportOptions) -> Result<Tables> {
        let work = || -> Result<Work> {
            let follower = Follower::open(directory)?;
            let tables = LiveTables::of(directory).asked(options.clone());
            Ok(Work { follower, tables })
        };
        let beside = work()?;
        let (tell, news) = channel();
        let thread = Builder::new().name("vsweep-tables".into());
        Ok(match thread.spawn(move || beside.perform_each(&news)) {
            Ok(thread) => Tables::Beside(tell, thread),
            Err(_) => Tables::Here(Box::new(work()?)),
        })
    }

    /// Something was recorded. An error is that of any table so far.
    pub fn renew(&mut self) -> Result<()> {
        match self {
            Tables::Beside(tell, _) if tell.send(()).is_ok() => Ok(()),
            Tables::Beside(..) => self.end(),
            Tables::Ended => Ok(()),
            Tables::Here(work) => work.perform(),
        }
    }

    /// Waits until what was told is written.
    pub fn end(&mut self) -> Result<()> {
        match std::mem::replace(self, Tables::Ended) {
            Tables::Beside(tell, thread) => {
                drop(tell);
                let ended = || {
                    Error::Fatal(
                        "the thread that writes the tables ended early; `vsweep report` makes them again".into(),
                    )
                };
                thread.join().unwrap_or_else(|_| Err(ended()))
            }
            Tables::Ended | Tables::Here(_) => Ok(()),
        }
    }
}
