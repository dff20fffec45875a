//! The only writer of a session, shared by the groups that are under way: every event goes through it to the journal, and then to the
//! observer. A separate thread waits for the disk, so that the supervision of servers never does.

use super::drive::Writer;
use super::{Observer, Update};
use crate::error::{Error, Result};
use crate::journal::{BenchmarkResult, Draft, Entry, Event, Recorder, State};
use std::cell::RefCell;
use std::sync::mpsc;
use std::thread;
use tokio::sync::{Mutex, oneshot};

/// A recorder and the observer of its events.
pub struct SessionWriter<'w> {
    state: RefCell<WriterState<'w>>,
    /// Serialises the writers; the holder writes.
    turn: Mutex<()>,
    disk: Disk,
}

struct WriterState<'w> {
    recorder: &'w mut Recorder,
    observer: &'w mut Observer<'w>,
    /// The last note, because groups that run at the same time may give the same one.
    noted: String,
}

impl<'w> SessionWriter<'w> {
    /// Returns a writer with this recorder and this observer.
    pub fn new(recorder: &'w mut Recorder, observer: &'w mut Observer<'w>) -> SessionWriter<'w> {
        let state = WriterState {
            recorder,
            observer,
            noted: String::new(),
        };
        SessionWriter {
            state: RefCell::new(state),
            turn: Mutex::new(()),
            disk: Disk::start(),
        }
    }

    /// Passes an update to the observer, except a note that repeats the last one.
    pub fn notify(&self, update: Update<'_>) -> Result<()> {
        let state = &mut *self.state.borrow_mut();
        match update {
            Update::Note(note) if note == state.noted => return Ok(()),
            Update::Note(note) => note.clone_into(&mut state.noted),
            // Notes after the beginning of a new run are about that run, so they are shown even if they repeat an earlier one.
            Update::Running(..) => state.noted.clear(),
            Update::Recorded(_) | Update::Acting(..) => {}
        }
        (state.observer)(update, state.recorder)
    }

    /// Calls a function with the recorder.
    pub fn with<T>(&self, act: impl FnOnce(&mut Recorder) -> T) -> T {
        act(self.state.borrow_mut().recorder)
    }
}

impl Writer for SessionWriter<'_> {
    type Error = Error;

    fn look<T>(&self, view: impl FnOnce(&State) -> T) -> T {
        view(self.state.borrow().recorder.state())
    }

    /// Writes an event once it is this group's turn. The future must not be dropped halfway: what is on disk would then be unknown.
    async fn write(&self, event: Event, measured: Option<BenchmarkResult>) -> Result<Entry> {
        let _turn = self.turn.lock().await;
        let draft = self.with(|recorder| recorder.draft(event, measured))?;
        let written = self.disk.write(draft).await?;
        let entry = self.with(|recorder| recorder.settle(written));
        self.notify(Update::Recorded(&entry))?;
        Ok(entry)
    }

    fn note(&self, note: &str) -> Result<()> {
        self.notify(Update::Note(note))
    }
}

/// A draft, and the channel for its result.
type WriteTask = (Draft, oneshot::Sender<Result<Entry>>);

/// The thread that waits for the disk. It ends when this value is dropped. Without a thread, the writer itself waits.
struct Disk(Option<mpsc::Sender<WriteTask>>);

impl Disk {
    fn start() -> Disk {
        let (tasks, taken) = mpsc::channel::<WriteTask>();
        let work = move || {
            for (draft, answer) in taken {
                // The receiver is gone if the session has ended.
                let _ = answer.send(draft.write());
            }
        };
        let thread = thread::Builder::new().name("vsweep-journal".into()).spawn(work);
        Disk(thread.ok().map(|_| tasks))
    }

    async fn write(&self, draft: Draft) -> Result<Entry> {
        let Some(tasks) = &self.0 else { return draft.write() };
        let (answer, written) = oneshot::channel();
        let ended = || {
            Error::Fatal("the thread that writes the journal ended early; run again: what is recorded is kept".into())
        };
        tasks.send((draft, answer)).map_err(|_| ended())?;
        written.await.map_err(|_| ended())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Directory, Shard};
    use futures_util::FutureExt;
    use futures_util::future::join;
    use std::cell::Cell;

    fn ended(reason: &str) -> Event {
        let reason = reason.to_owned();
        Event::SessionEnded { reason }
    }

    #[test]
    fn while_the_disk_is_slow_others_go_on_and_wait_in_line_to_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut recorder = Recorder::open(Directory::at(folder.path()), Shard::WHOLE).expect("new");
        let observed = Cell::new(0);
        let mut observer = |update: Update<'_>, _: &Recorder| {
            observed.set(observed.get() + u32::from(matches!(update, Update::Recorded(_))));
            Ok(())
        };
        let mut writer = SessionWriter::new(&mut recorder, &mut observer);
        let (tasks, taken) = mpsc::channel();
        writer.disk = Disk(Some(tasks));
        let mut both = Box::pin(join(writer.record(ended("first")), writer.record(ended("second"))));
        for written in 0..2 {
            assert!(both.as_mut().now_or_never().is_none(), "nobody waits for the disk");
            assert_eq!(observed.get(), written, "what is not on disk is not reported");
            assert_eq!(writer.look(|state| state.sessions().len()), 0);
            let (draft, answer): WriteTask = taken.try_recv().expect("something is to be written");
            assert!(taken.try_recv().is_err(), "one at a time");
            assert!(answer.send(draft.write()).is_ok(), "somebody waits for it");
        }
        let (first, second) = both.now_or_never().expect("both are on disk");
        let seq = |entry: Result<Entry>| entry.expect("recorded").rank.line.seq;
        assert_eq!((seq(first), seq(second), observed.get()), (1, 2, 2));
    }
}
