//! Peaks over time: per whole second as `vllm bench serve` counts them, and exact.

use super::sample::{Nanos, Sample};

const SECOND: Nanos = 1_000_000_000;

/// The most output events in one second, seconds counted from the first request's start; events of failed requests do
/// not count.
pub fn busiest_second(samples: &[Sample]) -> u64 {
    by_second(samples, |sample, start, buckets| {
        for event in sample.events.iter() {
            buckets[(event.saturating_sub(start) / SECOND) as usize] += 1;
        }
    })
}

/// The most requests that touched one second: each counts in every second from its first to its last, so requests that
/// follow one another within a second count together. [`peak_concurrency`] is the true figure.
pub fn concurrency_by_second(samples: &[Sample]) -> u64 {
    by_second(samples, |sample, start, buckets| {
        let first = (sample.sent - start) / SECOND;
        let last = (sample.end.max(sample.sent) - start) / SECOND;
        for bucket in first..=last {
            buckets[bucket as usize] += 1;
        }
    })
}

fn by_second(samples: &[Sample], mut count: impl FnMut(&Sample, Nanos, &mut [u64])) -> u64 {
    let ok = || samples.iter().filter(|sample| sample.is_ok());
    let Some(start) = ok().map(|sample| sample.sent).min() else {
        return 0;
    };
    let last = |sample: &Sample| sample.end.max(sample.events.last().unwrap_or(0)).max(start);
    let end = ok().map(last).max().unwrap_or(start);
    let mut buckets = vec![0; ((end - start) / SECOND) as usize + 1];
    ok().for_each(|sample| count(sample, start, &mut buckets));
    buckets.into_iter().max().unwrap_or(0)
}

/// The most intervals [start, end) that overlap at one moment; intervals of no length do not count.
pub fn peak_concurrency(intervals: impl Iterator<Item = (Nanos, Nanos)>) -> u64 {
    let mut edges: Vec<(Nanos, i64)> = intervals
        .filter(|(start, end)| start < end)
        .flat_map(|(start, end)| [(start, 1), (end, -1)])
        .collect();
    edges.sort_unstable();
    let (mut open, mut peak) = (0, 0);
    for (_, change) in edges {
        open += change;
        peak = peak.max(open);
    }
    peak as u64
}
