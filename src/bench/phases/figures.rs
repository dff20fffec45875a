//! The events within the window: tokens, requests and latencies, counted from the timelines of all requests that touched it, including
//! those that were cut.

use crate::metrics::confidence::{Errors, of_events, of_values};
use crate::metrics::{Nanos, Sample, Samples, Stats, seconds};
use std::ops::Range;

/// Percentiles of every latency.
const PERCENTS: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// The window's figures.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WindowFigures {
    pub window_s: f64,
    /// Tokens generated.
    pub output_tokens: u64,
    /// Prompt tokens of requests whose first token came.
    pub input_tokens: u64,
    pub started: u64,
    pub completed: u64,
    /// Relative sampling errors: of the output events a second, and of the latencies.
    pub events_error: Option<f64>,
    pub errors: Errors,
    /// TTFT of requests whose first token came.
    pub ttft: Stats,
    /// ITL of gaps that ended.
    pub itl: Stats,
}

impl WindowFigures {
    /// Counts what requests that ended and requests that were cut did within `window`; failed ones do not count.
    pub fn of(ended: &Samples, cut: &[Sample], window: Range<Nanos>, slots: usize) -> WindowFigures {
        let completed = ended.ok().filter(|sample| window.contains(&sample.end)).count() as u64;
        let within = |at: Nanos| window.contains(&at);
        let mut events: Vec<Nanos> = Vec::new();
        let (mut ttfts, mut gaps) = (Vec::new(), Vec::new());
        let (mut output_tokens, mut input_tokens, mut started) = (0, 0, 0);
        for sample in ended.iter().chain(cut.iter().cloned()).filter(Sample::is_ok) {
            started += u64::from(within(sample.sent));
            if sample.events.first().is_some_and(within) {
                input_tokens += sample.prompt_len;
                ttfts.push(seconds(sample.ttft()));
            }
            let counted = sample.tokens_by_event.len() == sample.events.len();
            let mut last = None;
            for (at, event) in sample.events.iter().enumerate() {
                let gap = last.replace(event).map(|last| event - last);
                if !within(event) {
                    continue;
                }
                let before = at
                    .checked_sub(1)
                    .map_or(0, |before| sample.tokens_by_event.get(before).copied().unwrap_or(0));
                output_tokens += match counted {
                    true => u64::from(sample.tokens_by_event[at].saturating_sub(before)),
                    false => 1,
                };
                events.push(event - window.start);
                gaps.extend(gap.map(seconds));
            }
        }
        let length = window.end - window.start;
        let mut errors = Errors::new();
        for (name, values) in [("ttft", &ttfts), ("itl", &gaps)] {
            of_values(name, values.clone(), slots, &PERCENTS, &mut errors);
        }
        WindowFigures {
            window_s: seconds(length),
            output_tokens,
            input_tokens,
            started,
            completed,
            events_error: of_events(events.into_iter(), length),
            errors,
            ttft: Stats::of_seconds(ttfts, &PERCENTS),
            itl: Stats::of_seconds(gaps, &PERCENTS),
        }
    }

    /// A count as a rate over the window.
    pub fn per_s(&self, count: u64) -> f64 {
        count as f64 / self.window_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_window_counts() {
        let ended = Sample {
            sent: 5,
            events: [10, 20, 30].into_iter().collect(),
            tokens_by_event: vec![1, 3, 4],
            end: 30,
            prompt_len: 100,
            ..Sample::default()
        };
        let cut = Sample {
            sent: 31,
            events: [35, 45].into_iter().collect(),
            tokens_by_event: vec![],
            end: 45,
            prompt_len: 50,
            ..Sample::default()
        };
        let failed = Sample {
            sent: 21,
            events: [22].into_iter().collect(),
            end: 23,
            error: Some("HTTP 500".into()),
            ..Sample::default()
        };
        let figures = WindowFigures::of(&vec![ended, failed].into(), &[cut], 20..40, 2);
        assert_eq!(figures.output_tokens, 2 + 1 + 1);
        assert_eq!(figures.input_tokens, 50);
        assert_eq!((figures.started, figures.completed), (1, 1));
        assert_eq!((figures.ttft.count, figures.itl.count), (1, 2));
    }
}
