//! The one writer of a session, shared by the groups that are under way: every event goes through it to the journal, and from
//! there to the observer.

use super::drive::Writer;
use super::{Observer, Update};
use crate::agenda::Commit;
use crate::error::Result;
use crate::journal::{Entry, Event, Recorder, State};
use std::cell::RefCell;

/// A recorder and whoever is told of what it writes.
pub struct SessionWriter<'w>(RefCell<Desk<'w>>);

struct Desk<'w> {
    recorder: &'w mut Recorder,
    observer: &'w mut Observer<'w>,
}

impl<'w> SessionWriter<'w> {
    /// Takes over both.
    pub fn new(recorder: &'w mut Recorder, observer: &'w mut Observer<'w>) -> SessionWriter<'w> {
        SessionWriter(RefCell::new(Desk { recorder, observer }))
    }

    /// Tells the observer something that is not recorded.
    pub fn tell(&self, update: Update<'_>) -> Result<()> {
        let desk = &mut *self.0.borrow_mut();
        (desk.observer)(update, desk.recorder)
    }

    /// Does something with the recorder.
    pub fn with<T>(&self, act: impl FnOnce(&mut Recorder) -> T) -> T {
        act(self.0.borrow_mut().recorder)
    }
}

impl Writer for SessionWriter<'_> {
    type Error = crate::error::Error;

    fn look<T>(&self, view: impl FnOnce(&State) -> T) -> T {
        view(self.0.borrow().recorder.state())
    }

    fn record(&self, event: Event) -> Result<Entry> {
        let entry = self.with(|recorder| recorder.record(event))?;
        self.tell(Update::Recorded(&entry))?;
        Ok(entry)
    }

    fn commit(&self, commit: Commit) -> Result<()> {
        let entry = self.with(|recorder| recorder.commit(&commit.started, commit.finished, commit.measured))?;
        self.tell(Update::Recorded(&entry))
    }

    fn note(&self, note: &str) -> Result<()> {
        self.tell(Update::Note(note))
    }
}
