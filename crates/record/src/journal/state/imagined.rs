//! Events that nobody has written: of what is only played, and of tests.

use super::State;
use crate::journal::event::{Event, Learned, RunFinished, RunStarted};
use crate::journal::line::Entry;
use crate::journal::place::{LineId, Nonce, Place};
use vsweep_plan::ids::{PointId, ServerId};
use vsweep_plan::plan::Params;

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

    /// Takes the first run of a point on a start into account, one of a second that ended well: for tests.
    pub fn imagine_run(
        &mut self,
        (server, point, params): (ServerId, PointId, Params),
        (slot, launch): (u32, u32),
        learned: Option<Learned>,
    ) {
        let started = RunStarted {
            point,
            server,
            slot,
            launch,
            params,
            ..RunStarted::default()
        };
        let started = self.imagine(Event::RunStarted(Box::new(started)));
        self.imagine(Event::RunFinished(Box::new(RunFinished {
            started: started.place.line.seq,
            seconds: 1.0,
            learned,
            ..RunFinished::default()
        })));
    }
}
