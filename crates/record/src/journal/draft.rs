//! An event on its way to disk. It holds all that is to be written, so that it can be written on another thread while whoever
//! watches servers goes on. What it says counts once it is written and the recorder was told.

use super::directory::RunFiles;
use super::event::{Event, StoredFile};
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
    pub(super) event: Event,
    /// The run that the event gives a result to, if it was measured: its file is written first, then the line that vouches for it.
    pub(super) run: Option<Box<MeasuredRun>>,
}

/// A run whose file is to be written.
#[derive(Debug)]
pub(super) struct MeasuredRun {
    /// The experiment directory.
    pub root: PathBuf,
    pub provenance: Provenance,
    pub measured: Measured,
}

impl Draft {
    /// Writes it, and waits until it is on disk. The recorder is to be told of the line: [`super::Recorder::settle`].
    pub fn write(self) -> Result<Entry> {
        let mut event = self.event;
        if let (Event::RunFinished(finished), Some(run)) = (&mut event, self.run) {
            finished.file = Some(run.write(&self.secrets)?);
        }
        let event = self.secrets.redact_data(event);
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.append(self.lamport, event)
    }
}

impl MeasuredRun {
    fn write(self, secrets: &Secrets) -> Result<StoredFile> {
        let path = RunFiles::begun(&self.provenance.started, self.provenance.line).json();
        let target = self.root.join(&path);
        let content = run_file::encode(&self.provenance, self.measured, secrets);
        if let Some(folder) = target.parent() {
            create_folder(folder)?;
        }
        write_atomic(&target, &content)?;
        Ok(StoredFile::of(path, &content))
    }
}
