//! Driving the load, under the eyes of a watch if a search asked for the run.

use super::{NativeRun, at_least, broke, count_end, latencies, span};
use crate::cause::Failure;
use crate::load::{Load, LoadOutcome};
use crate::metrics::LoadProgress;
use crate::search::Cut;
use std::ops::ControlFlow;

impl NativeRun {
    /// Drives the load to its end, or until the watch has seen enough; the outcome then holds the requests that had ended.
    pub(super) fn drive(&mut self, load: &Load) -> Result<(LoadOutcome, Option<Cut>), Failure> {
        let counters = self.job.counters.clone();
        let Some(mut watch) = self.watch.take() else {
            let driven = self.generator.drive(load, &mut |sample| count_end(&counters, sample));
            return Ok((driven.map_err(broke)?, None));
        };
        let mut decided = None;
        let outcome = self.generator.drive_watched(load, &mut |progress| {
            let cut = match progress {
                LoadProgress::Ended(sample, in_flight) => {
                    count_end(&counters, sample);
                    watch.note_end(latencies(sample), span(sample), in_flight as u64)
                }
                LoadProgress::Underway(underway) => watch.note_underway(underway.iter().map(at_least)),
            };
            match cut {
                // What ends in the turn that follows changes nothing any more.
                Some(cut) if decided.is_none() => decided = Some(cut),
                _ => return ControlFlow::Continue(()),
            }
            ControlFlow::Break(())
        });
        let outcome = outcome.map_err(broke)?;
        let ended = outcome.samples.len() as u64;
        // The last request can decide as well: then the run is whole.
        let is_whole = ended >= counters.planned.load(std::sync::atomic::Ordering::Relaxed);
        Ok((outcome, decided.filter(|_| !is_whole)))
    }
}
