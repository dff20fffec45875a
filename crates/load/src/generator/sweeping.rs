//! Ending what took too long, and giving up what is in flight.

use super::Generator;
use crate::clock::nanos;
use crate::drive::Drive;
use vsweep_metrics::{LoadProgress, Nanos, Sample};

impl Generator {
    /// Ends requests that took too long, and replaces connections that have been idle too long.
    pub(super) fn sweep(&mut self, drive: &mut Drive<'_>, now: Nanos) {
        let (limit, silence) = (drive.load.request_timeout, drive.load.silence_timeout);
        let patience = drive.patience().filter(|(until, _)| now > *until);
        for slot in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[slot] else {
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
            } else if let Some((_, says)) = &patience {
                exchange.break_off(Some(says.clone()));
            } else {
                continue;
            }
            self.end(slot, drive.clock.now(), false, drive);
        }
        while let Some((index, ready)) = drive.waiting.front().copied()
            && (now.saturating_sub(ready) > nanos(limit) || patience.is_some())
        {
            drive.waiting.pop_front();
            let no_connection = || format!("no connection within {} s", limit.as_secs_f64());
            // The grace may end long before the limit of a request.
            let why = patience.as_ref().map_or_else(no_connection, |(_, says)| says.clone());
            drive.fail_unsent(index, ready, why);
        }
        self.drop_stale();
        let busy = self.connections.iter().flatten();
        let underway = busy.filter(|connection| connection.carries.is_some());
        let underway: Vec<&Sample> = underway.map(|connection| connection.exchange.sample()).collect();
        drive.notify(LoadProgress::Underway(now, &underway));
    }

    /// Gives up what is in flight; how far it had come. Closing the connections tells the server that nobody waits for the
    /// answers any more.
    pub(super) fn cut(&mut self, now: Nanos) -> Vec<Sample> {
        let busy = self.connections.iter_mut().flatten();
        let busy = busy.filter(|connection| connection.carries.is_some());
        let cut = busy.map(|connection| connection.exchange.cut(now)).collect();
        self.discard_all();
        cut
    }
}
