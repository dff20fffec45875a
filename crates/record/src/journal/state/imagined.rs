//! Events that nobody has written: of what is only played, and of tests.

use super::State;
use crate::journal::event::Event;
use crate::journal::line::Entry;
use crate::journal::place::{LineId, Nonce, Place};

impl State {
    /// An event as the line that would be written next. Nothing is taken into account.
    pub fn next_entry(&self, event: Event) -> Entry {
        Entry {
            place: Place {
                lamport: self.lamport + 1,
                line: LineId {
                    journal: Nonce::IMAGINED,
                    seq: self.lamport + 1,
                },
            },
            at: String::new(),
            event,
            prev: Nonce::IMAGINED,
        }
    }

    /// Takes an event into account as if it were written next: for what is only played, and for tests.
    pub fn imagine(&mut self, event: Event) -> Entry {
        let entry = self.next_entry(event);
        self.apply(entry.clone());
        entry
    }
}

#[cfg(test)]
impl State {
    /// Takes the first run of a point on a start into account, one of a second that ended well.
    pub(in crate::journal) fn imagine_run(
        &mut self,
        started: crate::journal::RunStarted,
        learned: Option<crate::journal::Learned>,
    ) {
        let started = self.imagine(Event::RunStarted(Box::new(started)));
        self.imagine(Event::RunFinished(Box::new(crate::journal::RunFinished {
            started: started.place.line.seq,
            seconds: 1.0,
            learned,
            ..crate::journal::RunFinished::default()
        })));
    }
}
