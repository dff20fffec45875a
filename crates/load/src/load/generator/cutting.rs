//! The generator's part in a window: looking at the slots while it is to open, and ending what is in flight at its end.

use super::Generator;
use crate::load::drive::Drive;
use crate::load::window::WindowSeen;
use vsweep_metrics::metrics::{Nanos, Sample};

impl Generator {
    /// Counts the slots whose first request has had output.
    pub(super) fn look_at_slots(&self, drive: &mut Drive<'_>, now: Nanos) {
        let Some(watch) = drive.window.as_mut().filter(|watch| watch.is_looking()) else {
            return;
        };
        let slots = watch.slots();
        let in_first_round = self.connections.iter().flatten().filter(|connection| {
            connection.carries.is_some_and(|index| index < slots) && connection.exchange.has_output()
        });
        let count = in_first_round.count();
        watch.look(count, now);
    }

    /// Takes what is in flight off its connections; these are closed, so that the server gives the requests up.
    pub(super) fn cut(&mut self, drive: &mut Drive<'_>) -> Option<WindowSeen> {
        let watch = drive.window.as_ref()?;
        let now = drive.clock.now();
        let mut cut: Vec<Sample> = Vec::new();
        for slot in 0..self.connections.len() {
            let carrying = self.connections[slot]
                .as_mut()
                .filter(|connection| connection.carries.is_some());
            if let Some(connection) = carrying {
                cut.push(connection.exchange.cut(now));
                self.discard(slot);
            }
        }
        watch.seen(cut)
    }
}
