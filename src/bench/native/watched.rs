//! Driving the load, under the eyes of a watch if a search asked for the run.

use super::{NativeRun, broke, seen_by};
use crate::cause::Failure;
use crate::load::{Load, LoadOutcome};
use crate::metrics::LoadProgress;
use crate::search::Cut;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

impl NativeRun {
    /// Drives the load to its end, or until the watch has seen enough; the outcome then holds the requests that had ended.
    pub(super) fn drive(&mut self, load: &Load) -> Result<(LoadOutcome, Option<Cut>), Failure> {
        let (counters, mut watch) = (&self.job.counters, self.watch.take());
        let (mut decided, classes) = (None, self.settings.class_tags());
        let outcome = self.generator.drive_watched(load, &mut |progress| {
            if let LoadProgress::Ended(sample, _) = &progress {
                counters.count(sample);
            }
            match watch.as_mut().and_then(|watch| seen_by(watch, &progress, &classes)) {
                // Events after the decision in the same turn change nothing.
                Some(cut) if decided.is_none() => decided = Some(cut),
                _ => return ControlFlow::Continue(()),
            }
            ControlFlow::Break(())
        });
        let outcome = outcome.map_err(broke)?;
        let ended = outcome.samples.len() as u64;
        // The last request can decide as well: then the run is whole.
        let is_whole = load.supply.is_none() && ended >= counters.planned.load(Relaxed);
        Ok((outcome, decided.filter(|_| !is_whole)))
    }
}
