//! Peaks over time: per whole second as `vllm bench serve` counts them, and exact.

use super::moments::Nanos;
use super::sample::Sample;
use super::samples::Samples;

const SECOND: Nanos = 1_000_000_000;

/// The most output events in one second, seconds counted from the first request's start; events of failed requests do
/// not count.
pub fn busiest_second(samples: &Samples) -> u64 {
    by_second(samples, |sample, start, buckets| {
        for event in sample.events.iter() {
            buckets[(event.saturating_sub(start) / SECOND) as usize] += 1;
        }
    })
}

/// The most requests that touched one second: each counts in every second from its first to its last, so requests that
/// follow one another within a second count together. [`peak_concurrency`] is the true figure.
pub fn concurrency_by_second(samples: &Samples) -> u64 {
    by_second(samples, |sample, start, buckets| {
        let first = (sample.sent - start) / SECOND;
        let last = (sample.end.max(sample.sent) - start) / SECOND;
        for bucket in first..=last {
            buckets[bucket as usize] += 1;
        }
    })
}

fn by_second(samples: &Samples, mut count: impl FnMut(&Sample, Nanos, &mut [u64])) -> u64 {
    let (mut start, mut end) = (Nanos::MAX, 0);
    for sample in samples.ok() {
        start = start.min(sample.sent);
        end = end
            .max(sample.sent)
            .max(sample.end)
            .max(sample.events.last().unwrap_or(0));
    }
    let Some(length) = end.checked_sub(start) else { return 0 };
    let mut buckets = vec![0; (length / SECOND) as usize + 1];
    samples.ok().for_each(|sample| count(&sample, start, &mut buckets));
    buckets.into_iter().max().unwrap_or(0)
}

/// The most intervals [start, end) that overlap at one moment; intervals of no length do not count.
pub fn peak_concurrency(intervals: impl Iterator<Item = (Nanos, Nanos)>) -> u64 {
    let (mut starts, mut ends): (Vec<Nanos>, Vec<Nanos>) = intervals.filter(|(start, end)| start < end).unzip();
    starts.sort_unstable();
    ends.sort_unstable();
    let (mut ended, mut peak) = (0, 0);
    for (started, start) in (1..).zip(starts) {
        ended += ends[ended..].iter().take_while(|end| **end <= start).count();
        peak = peak.max(started - ended);
    }
    peak as u64
}
