//! Ends requests: when they are answered, when their connections are lost, when they take too long, and when the load is cut.
//!
//! Some servers close a connection after an answer without announcing it; llama.cpp's server does so after each stream. A request that is
//! sent before the close arrives is lost without an answer, so it is sent again on a new connection.

use super::Generator;
use crate::clock::nanos;
use crate::drive::Drive;
use std::time::{Duration, Instant};
use vsweep_metrics::{LoadProgress, Nanos, Sample};

/// Time after a request is sent within which a close of the connection is attributed to the previous answer. A later close is a failure of
/// the request.
const CROSSING: Duration = Duration::from_millis(500);

impl Generator {
    /// Ends the request of a connection at the time `at`. Keeps the connection if it can carry another request. `read_closed` is true if
    /// the server has closed its end.
    pub(super) fn end(&mut self, place: usize, at: Nanos, read_closed: bool, drive: &mut Drive<'_>) {
        let Some(connection) = &mut self.connections[place] else {
            return;
        };
        let Some(index) = connection.carries.take() else { return };
        let sample = connection.exchange.finish(at);
        let is_kept = connection.writing.is_none() && connection.exchange.keeps_alive();
        connection.idle_since = Instant::now();
        connection.has_answered = true;
        self.closes_unannounced |= is_kept && read_closed;
        drive.end(index, sample, at);
        if is_kept && !self.closes_unannounced {
            self.offer(place, drive);
        } else {
            self.discard(place);
        }
    }

    /// Handles a connection that was lost during a request. The request fails, or is sent again if it crossed the close of the connection
    /// after the previous answer. `reason` is `None` if the server closed the connection.
    pub(super) fn lose(&mut self, place: usize, reason: Option<String>, drive: &mut Drive<'_>) {
        let now = drive.clock.now();
        let Some(connection) = &mut self.connections[place] else {
            return;
        };
        let is_crossed = connection.has_answered
            && connection.exchange.is_unanswered()
            && connection.exchange.age(now) < nanos(CROSSING);
        match connection.carries.filter(|_| is_crossed) {
            Some(index) => {
                let ready = connection.exchange.sample().ready;
                self.closes_unannounced = true;
                self.discard(place);
                drive.waiting.push_front((index, ready));
                self.awaited += 1;
                self.open_for(drive);
            }
            None => {
                connection.exchange.break_off(reason);
                self.end(place, now, true, drive);
            }
        }
    }

    /// Gives a free connection to a request that waits for one, or keeps the connection ready.
    pub(super) fn offer(&mut self, place: usize, drive: &mut Drive<'_>) {
        match drive.waiting.pop_front() {
            Some((index, ready)) => self.send(place, index, ready, drive),
            None => self.idle.push(place),
        }
    }

    /// Ends requests that took too long, drops connections that have been idle too long, and reports the requests in flight.
    pub(super) fn sweep(&mut self, drive: &mut Drive<'_>, now: Nanos) {
        let (limit, silence) = (drive.load.request_timeout, drive.load.silence_timeout);
        let expired = drive.deadline().filter(|(until, _)| now > *until);
        for place in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[place] else {
                continue;
            };
            if connection.carries.is_none() {
                continue;
            }
            let exchange = &mut connection.exchange;
            if exchange.age(now) > nanos(limit) {
                exchange.break_off(Some(format!("no complete answer within {} s", limit.as_secs_f64())));
            } else if exchange.silence(now) > nanos(silence) {
                exchange.break_off(Some(format!("nothing came for {} s", silence.as_secs_f64())));
            } else if let Some((_, says)) = &expired {
                exchange.break_off(Some(says.clone()));
            } else {
                continue;
            }
            self.end(place, drive.clock.now(), false, drive);
        }
        while let Some((index, ready)) = drive.waiting.front().copied()
            && (now.saturating_sub(ready) > nanos(limit) || expired.is_some())
        {
            drive.waiting.pop_front();
            let no_connection = || format!("no connection within {} s", limit.as_secs_f64());
            // The deadline of the load may come long before the limit of a request.
            let why = expired.as_ref().map_or_else(no_connection, |(_, says)| says.clone());
            drive.fail_unsent(index, ready, why);
        }
        if let Some((_, says)) = &expired {
            drive.fail_waiting(says);
        }
        self.drop_stale();
        let busy = self.connections.iter().flatten();
        let underway = busy.filter(|connection| connection.carries.is_some());
        let underway: Vec<&Sample> = underway.map(|connection| connection.exchange.sample()).collect();
        drive.notify(LoadProgress::Underway(now, &underway));
    }

    /// Gives up the requests in flight, and returns their timelines so far. Closes their connections, so that the server can stop
    /// generating the answers.
    pub(super) fn cut(&mut self, now: Nanos) -> Vec<Sample> {
        let busy = self.connections.iter_mut().flatten();
        let busy = busy.filter(|connection| connection.carries.is_some());
        let cut = busy.map(|connection| connection.exchange.cut(now)).collect();
        self.discard_all();
        cut
    }
}
