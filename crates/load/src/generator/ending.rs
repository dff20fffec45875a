//! The end of a request on its connection, and of a connection under its request.
//!
//! Some servers close a connection after its answer although they announced nothing of the kind; llama.cpp's does after each stream. A
//! request that is sent before the close arrives is lost without an answer, so it is sent again on a new connection.

use super::Generator;
use crate::clock::nanos;
use crate::drive::Drive;
use std::time::{Duration, Instant};
use vsweep_metrics::Nanos;

/// A close that comes later than this after a request was sent is an answer to the request, and no longer to the one before.
const CROSSING: Duration = Duration::from_millis(500);

impl Generator {
    /// Takes the request that ended at `at` off its connection, and the connection back if it can carry another. `read_closed`: the server
    /// has closed its end.
    pub(super) fn end(&mut self, slot: usize, at: Nanos, read_closed: bool, drive: &mut Drive<'_>) {
        let Some(connection) = &mut self.connections[slot] else {
            return;
        };
        let Some(index) = connection.carries.take() else { return };
        let sample = connection.exchange.finish(at);
        let is_kept = connection.unsent.is_none() && connection.exchange.keeps_alive();
        connection.idle_since = Instant::now();
        connection.has_answered = true;
        self.closes_early |= is_kept && read_closed;
        drive.end(index, sample, at);
        if is_kept && !self.closes_early {
            self.offer(slot, drive);
        } else {
            self.discard(slot);
        }
    }

    /// Ends the request of a connection that ended under it, or sends it again if it crossed the close of the connection. The reason is
    /// given if it was not the server closing the connection.
    pub(super) fn lose(&mut self, slot: usize, reason: Option<String>, drive: &mut Drive<'_>) {
        let now = drive.clock.now();
        let Some(connection) = &mut self.connections[slot] else {
            return;
        };
        let is_crossed = connection.has_answered
            && connection.exchange.is_unanswered()
            && connection.exchange.age(now) < nanos(CROSSING);
        match connection.carries.filter(|_| is_crossed) {
            Some(index) => {
                let ready = connection.exchange.sample().ready;
                self.closes_early = true;
                self.discard(slot);
                drive.waiting.push_front((index, ready));
                self.awaited += 1;
                self.open_for(drive);
            }
            None => {
                connection.exchange.break_off(reason);
                self.end(slot, now, true, drive);
            }
        }
    }

    /// Gives a free connection to a request that waits for one, or keeps it ready.
    pub(super) fn offer(&mut self, slot: usize, drive: &mut Drive<'_>) {
        match drive.waiting.pop_front() {
            Some((index, ready)) => self.send(slot, index, ready, drive),
            None => self.idle.push(slot),
        }
    }
}
