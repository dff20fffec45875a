//! The metrics of a whole run, computed as `vllm bench serve` does: sums over completed requests, and rates over the whole duration.

use super::moments::{Nanos, seconds};
use super::quantiles::Stats;
use super::sample::{Goodput, Sample};
use super::samples::Samples;

/// A latency distribution that a result can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Time to first token.
    Ttft,
    /// Time per output token after the first.
    Tpot,
    /// Gap between output events.
    Itl,
    /// End-to-end latency.
    E2el,
    /// Wait between due and sent.
    ClientQueueTime,
    /// End-to-end latency plus the wait between due and sent.
    E2elIncludingClientQueue,
}

impl Metric {
    /// Every metric, in the order of a result file.
    pub const ALL: [Metric; 6] = [
        Metric::Ttft,
        Metric::Tpot,
        Metric::Itl,
        Metric::E2el,
        Metric::ClientQueueTime,
        Metric::E2elIncludingClientQueue,
    ];

    /// Name of the metric in the keys of a result: `ttft` in `p99_ttft_ms`.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Ttft => "ttft",
            Metric::Tpot => "tpot",
            Metric::Itl => "itl",
            Metric::E2el => "e2el",
            Metric::ClientQueueTime => "client_queue_time",
            Metric::E2elIncludingClientQueue => "e2el_including_client_queue",
        }
    }

    /// Returns the values of the metric over all completed requests, in seconds.
    pub fn values(self, samples: &Samples) -> Vec<f64> {
        let ok = samples.ok();
        match self {
            Metric::Ttft => ok.map(|sample| seconds(sample.ttft())).collect(),
            Metric::Tpot => ok.filter_map(|sample| sample.tpot()).collect(),
            Metric::Itl => ok.flat_map(|sample| sample.events.into_gaps()).map(seconds).collect(),
            Metric::E2el => ok.map(|sample| seconds(sample.latency())).collect(),
            Metric::ClientQueueTime => ok.map(|sample| seconds(sample.queue())).collect(),
            Metric::E2elIncludingClientQueue => ok
                .map(|sample| seconds(sample.latency()) + seconds(sample.queue()))
                .collect(),
        }
    }

    /// Statistics of inter-token latencies per token instead of per event, in milliseconds: an event of three tokens gives three latencies
    /// of a third each. `None` if the server packs several tokens into an event without reporting their number.
    pub fn itl_per_token(samples: &Samples, percents: &[f64]) -> Option<Stats> {
        if samples.ok().all(|sample| sample.has_one_token_per_event()) {
            return Some(Metric::Itl.stats(samples, percents));
        }
        let mut gaps = Vec::new();
        for sample in samples.ok() {
            sample.add_gaps_by_token(&mut gaps)?;
        }
        Some(Stats::of_seconds(gaps, percents))
    }

    /// Returns the statistics of the metric over all completed requests, in milliseconds.
    pub fn stats(self, samples: &Samples, percents: &[f64]) -> Stats {
        match self {
            // Almost every token has a gap, so there are too many gaps to sort.
            Metric::Itl => Stats::of_nanos(|| samples.ok().flat_map(|sample| sample.events.into_gaps()), percents),
            _ => Stats::of_seconds(self.values(samples), percents),
        }
    }
}

/// Counts and rates of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Time from t0 to the end of the last request, in seconds.
    pub duration_s: f64,
    /// Requests that succeeded.
    pub completed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Prompt tokens of completed requests.
    pub total_input: u64,
    /// Output tokens of completed requests.
    pub total_output: u64,
    /// Inputs of completed requests (more than one a request for batches).
    pub total_sequences: u64,
    /// Completed requests a second.
    pub request_throughput: f64,
    /// Completed requests a second that met every target, if targets were given.
    pub request_goodput: Option<f64>,
    /// Inputs a second.
    pub sequence_throughput: f64,
    /// Output tokens a second.
    pub output_throughput: f64,
    /// Prompt and output tokens a second.
    pub total_token_throughput: f64,
    /// Largest number of output tokens in one second.
    pub max_output_tokens_per_s: f64,
    /// Largest number of requests that touched one second.
    pub max_concurrent_requests: u64,
    /// Largest number of requests that were open at one moment, including those that failed.
    pub peak_concurrent_requests: u64,
    /// Seconds of audio that were processed per second.
    pub rtfx: f64,
}

impl Summary {
    /// Computes the summary of a run that took `duration_s` seconds.
    pub fn of(samples: &Samples, duration_s: f64, goodput: Option<&Goodput>) -> Summary {
        let (mut completed, mut total_input, mut total_output, mut total_sequences) = (0, 0, 0, 0);
        let (mut audio_s, mut good) = (0.0, 0);
        for sample in samples.ok() {
            completed += 1;
            total_input = sample.prompt_len.saturating_add(total_input);
            total_output = sample.output_len().saturating_add(total_output);
            total_sequences += u64::from(sample.sequences);
            audio_s += sample.audio_s;
            good += u64::from(goodput.is_some_and(|goodput| goodput.is_met(&sample)));
        }
        let rate = |count: f64| if duration_s > 0.0 { count / duration_s } else { 0.0 };
        Summary {
            duration_s,
            completed,
            failed: samples.len() as u64 - completed,
            total_input,
            total_output,
            total_sequences,
            request_throughput: rate(completed as f64),
            request_goodput: goodput.map(|_| rate(good as f64)),
            sequence_throughput: rate(total_sequences as f64),
            output_throughput: rate(total_output as f64),
            total_token_throughput: rate(total_input.saturating_add(total_output) as f64),
            max_output_tokens_per_s: busiest_second(samples),
            max_concurrent_requests: concurrency_by_second(samples),
            peak_concurrent_requests: peak_concurrency(samples.iter().map(|sample| (sample.sent, sample.end))),
            rtfx: rate(audio_s),
        }
    }
}

const SECOND: Nanos = 1_000_000_000;

/// The largest number of output tokens in one second. Seconds are counted from the start of the first request. Tokens of failed requests do
/// not count.
pub fn busiest_second(samples: &Samples) -> f64 {
    by_second(samples, |sample, start, buckets| {
        for (event, tokens) in sample.events.iter().zip(sample.tokens_of_events()) {
            buckets[(event.saturating_sub(start) / SECOND) as usize] += tokens;
        }
    })
}

/// The largest number of requests that touched one second. A request counts in every second from its first to its last, so successive
/// requests in one second are counted together, as in `vllm bench serve`. [`peak_concurrency`] is the true figure.
pub fn concurrency_by_second(samples: &Samples) -> u64 {
    let most = by_second(samples, |sample, start, buckets| {
        let first = (sample.sent - start) / SECOND;
        let last = (sample.end.max(sample.sent) - start) / SECOND;
        for bucket in first..=last {
            buckets[bucket as usize] += 1.0;
        }
    });
    most as u64
}

fn by_second(samples: &Samples, mut count: impl FnMut(&Sample, Nanos, &mut [f64])) -> f64 {
    let (mut start, mut end) = (Nanos::MAX, 0);
    for sample in samples.ok() {
        start = start.min(sample.sent);
        end = end
            .max(sample.sent)
            .max(sample.end)
            .max(sample.events.last().unwrap_or(0));
    }
    let Some(length) = end.checked_sub(start) else {
        return 0.0;
    };
    let mut buckets = vec![0.0; (length / SECOND) as usize + 1];
    samples.ok().for_each(|sample| count(&sample, start, &mut buckets));
    buckets.into_iter().fold(0.0, f64::max)
}

/// The largest number of intervals [start, end) that overlap at one moment. Intervals without length do not count.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_failed_was_open_until_then() {
        let answered = Sample {
            end: 9,
            ..Sample::default()
        };
        let failed = Sample {
            error: Some("nothing came for 1 s".to_owned()),
            ..answered.clone()
        };
        let summary = Summary::of(&vec![answered, failed].into(), 1.0, None);
        assert_eq!((summary.peak_concurrent_requests, summary.completed), (2, 1));
    }

    #[test]
    fn the_busiest_second_has_the_most_tokens_not_events() {
        let busiest = |tokens_by_event| {
            busiest_second(&Samples::from(vec![Sample {
                events: vec![SECOND / 4, SECOND / 2, SECOND + 1].into(),
                output_tokens: Some(12),
                tokens_by_event,
                end: SECOND + 1,
                ..Sample::default()
            }]))
        };
        assert_eq!(busiest(vec![]), 8.0, "12 tokens in 3 events");
        assert_eq!(busiest(vec![1, 2, 12]), 10.0);
    }
}
