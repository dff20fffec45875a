//! An event on its way to disk. It holds all that is to be written, so that it can be written on another thread while whoever
//! watches servers goes on. What it says counts once it is written and the recorder was told.

use super::directory::RunFiles;
use super::event::{Event, RunFinished, RunStarted, StoredFile};
use super::line::Entry;
use super::log::Log;
use super::run_file::{self, Measured, Provenance};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use vsweep_plan::error::Result;
use vsweep_plan::files::{create_folder, write_atomic};
use vsweep_plan::plan::Secrets;

/// An event that is not on disk yet. No other may be drafted before it is written.
#[derive(Debug)]
pub struct Draft {
    pub(super) log: Arc<Mutex<Log>>,
    pub(super) lamport: u64,
    pub(super) secrets: Secrets,
    pub(super) content: Content,
}

/// What is to be written.
#[derive(Debug)]
pub(super) enum Content {
    Event(Event),
    /// A measured run: its file first, then the line that vouches for it.
    Run(Box<Finished>),
}

#[derive(Debug)]
pub(super) struct Finished {
    /// The experiment directory.
    pub root: PathBuf,
    pub provenance: Provenance,
    pub measured: Measured,
}

impl Draft {
    /// Writes it, and waits until it is on disk. The recorder is to be told of the line: [`super::Recorder::settle`].
    pub fn write(self) -> Result<Entry> {
        let Draft {
            log, lamport, secrets, ..
        } = self;
        let event = match self.content {
            Content::Event(event) => event,
            Content::Run(finished) => Event::RunFinished(Box::new(finished.write(&secrets)?)),
        };
        let event = secrets.redact_data(event);
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.append(lamport, event)
    }
}

impl Finished {
    fn write(self: Box<Self>, secrets: &Secrets) -> Result<RunFinished> {
        let (started, line): (&RunStarted, _) = (&self.provenance.started, self.provenance.line);
        let path = RunFiles::begun(started, line).json();
        let target = self.root.join(&path);
        let mut finished = self.provenance.finished.clone();
        let content = run_file::encode(&self.provenance, self.measured, secrets);
        if let Some(folder) = target.parent() {
            create_folder(folder)?;
        }
        write_atomic(&target, &content)?;
        finished.file = Some(StoredFile::of(path, &content));
        Ok(finished)
    }
}
