//! Drives the load, observed by a watch if a search asked for the run, and finds the generator's stalls around single requests.

use super::{NativeRun, generator_failed, show_to_watch};
use crate::bench::judge::{HOPELESS, commonest_error};
use crate::cause::Failure;
use crate::load::{Load, LoadOutcome, UNCONNECTED};
use crate::metrics::LoadProgress;
use crate::search::{Cut, Stalls};
use crate::units::show_many;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering::Relaxed;
use vsweep_metrics::{Nanos, Sample, seconds};

impl NativeRun {
    /// Drives the load to its end, or until the watch has seen enough. If the watch ends the load, the samples of the outcome are only the
    /// requests that had ended. A closed loop that time ends is given up if the server accepts no connections, because it would only fail
    /// requests, as fast as it can, until its end.
    pub(super) fn drive(&mut self, load: &Load) -> Result<(LoadOutcome, Option<Cut>), Failure> {
        let (counters, mut watch) = (&self.job.counters, self.watch.take());
        let (mut decided, classes) = (None, self.settings.class_tags());
        let slots = load
            .limit
            .filter(|_| load.sending.is_some() && !self.settings.is_open_loop());
        let is_hopeless = |refused: usize| slots.is_some_and(|slots| refused > slots + HOPELESS);
        let mut refused = 0;
        let outcome = self.generator.drive_watched(load, &mut |progress| {
            if let LoadProgress::Ended(sample, _) = &progress {
                counters.count(sample);
                refused = match &sample.error {
                    None => 0,
                    Some(error) => refused + usize::from(error.starts_with(UNCONNECTED)),
                };
            }
            match watch
                .as_mut()
                .and_then(|watch| show_to_watch(watch, &progress, &classes))
            {
                // The generator may report further events before it stops. They do not change the decision.
                Some(cut) if decided.is_none() => decided = Some(cut),
                _ if is_hopeless(refused) => {}
                _ => return ControlFlow::Continue(()),
            }
            ControlFlow::Break(())
        });
        let outcome = outcome.map_err(generator_failed)?;
        if decided.is_none() && is_hopeless(refused) {
            let detail = format!(
                "the load ended after {} in a row",
                show_many(refused as u64, "failed connection")
            );
            return Err(Failure::of_requests(detail, commonest_error([&outcome.samples])));
        }
        let ended = outcome.samples.len() as u64;
        // If the last request was the decisive one, the run is complete, and nothing was cut.
        let is_whole = load.supply.is_none() && ended >= counters.planned.load(Relaxed);
        Ok((outcome, decided.filter(|_| !is_whole)))
    }
}

/// Time after a stall during which it may still delay requests, as a multiple of its length. In this time a server at three quarters of its
/// capacity works off the requests that were sent late, all at once.
const AFTER: Nanos = 3;

/// The times at which a generator stood still.
pub(super) struct StallTimes<'a> {
    /// The times, ascending and without overlaps.
    times: &'a [Range<Nanos>],
    /// For each stall, the end of the time that it or an earlier one affects.
    affected: Vec<Nanos>,
}

impl<'a> StallTimes<'a> {
    pub(super) fn of(times: &'a [Range<Nanos>]) -> StallTimes<'a> {
        let affected = times.iter().scan(0, |last, time| {
            *last = time.end.saturating_add(AFTER * (time.end - time.start)).max(*last);
            Some(*last)
        });
        StallTimes {
            affected: affected.collect(),
            times,
        }
    }

    /// Returns the stalls that may affect a request.
    pub(super) fn around(&self, sample: &Sample) -> Stalls {
        let first = self.affected.partition_point(|end| *end <= sample.sent);
        let near = &self.times[first..];
        let until = |end: Nanos| {
            let under_way = near.iter().take_while(|time| time.start < end);
            let all: Nanos = under_way.map(|time| time.end - time.start).sum();
            seconds(all) * 1000.0
        };
        let next = near.first().map(|time| time.start.saturating_sub(sample.sent));
        Stalls {
            calm_ms: next.map_or(f64::INFINITY, |next| seconds(next) * 1000.0),
            of_ttft_ms: until(sample.sent + sample.ttft()),
            of_e2el_ms: until(sample.end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_delays_what_is_under_way_and_what_is_sent_soon_after() {
        let ms = |ms: u64| ms * 1_000_000;
        let times = [ms(1000)..ms(1100), ms(5000)..ms(5200)];
        let times = StallTimes::of(&times);
        let around = |sent: u64, ttft: u64, latency: u64| {
            let sample = Sample {
                sent: ms(sent),
                events: [ms(sent + ttft)].into_iter().collect(),
                end: ms(sent + latency),
                ..Sample::default()
            };
            let stalls = times.around(&sample);
            [stalls.calm_ms, stalls.of_ttft_ms, stalls.of_e2el_ms]
        };
        assert_eq!(around(500, 100, 400), [500.0, 0.0, 0.0]);
        assert_eq!(around(500, 100, 600), [500.0, 0.0, 100.0]);
        assert_eq!(around(900, 250, 6000), [100.0, 100.0, 300.0]);
        assert_eq!(around(1399, 10, 20), [0.0, 100.0, 100.0], "it waited with others");
        assert_eq!(around(1400, 10, 20), [3600.0, 0.0, 0.0]);
        assert_eq!(around(5800, 10, 20), [f64::INFINITY, 0.0, 0.0]);
    }
}
