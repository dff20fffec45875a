//! The steady state of a closed loop: the time during which it was at, or near, its full concurrency.

use super::moments::{Nanos, seconds};
use super::quantiles::Stats;
use super::samples::Samples;

/// Condition for the steady state of a closed loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyRule {
    /// Number of requests that should be open at once.
    pub target: usize,
    /// Share of `target` that is enough, 0 to 1.
    pub threshold: f64,
}

/// The window of the steady state, and its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct SteadyState {
    /// Time at which enough requests were open for the first time.
    pub start: Nanos,
    /// Time at which enough requests were open for the last time.
    pub end: Nanos,
    /// Time during which enough requests were open; the window without its dips.
    pub held: Nanos,
    /// Number of requests that had to be open at once.
    pub enough: u64,
    /// Greatest number of requests open at once.
    pub peak: u64,
    /// Number of requests that began in the window.
    pub started: u64,
    /// Number of requests that ended in the window.
    pub completed: u64,
    /// Completed requests per second.
    pub request_throughput: f64,
    /// Prompt tokens per second, of requests that began in the window.
    pub input_throughput: f64,
    /// Output tokens per second. The tokens of a request are spread evenly over its events.
    pub output_throughput: f64,
    /// TTFT of requests that began in the window.
    pub ttft: Stats,
    /// TPOT of requests that began in the window and have more than one token.
    pub tpot: Stats,
}

impl SteadyState {
    /// Finds the window. It opens when enough requests are open for the first time, and closes when enough are open for the last time; dips
    /// in between belong to it. A request that failed was open until then, but has no part in the figures. The error is the reason why no
    /// window was found.
    pub fn find(samples: &Samples, rule: SteadyRule, percents: &[f64]) -> Result<SteadyState, String> {
        let enough = ((rule.threshold * rule.target as f64).ceil() as u64).max(1);
        // At equal times ends come first.
        let mut edges: Vec<(Nanos, i64)> = samples
            .iter()
            .filter(|sample| sample.sent < sample.end)
            .flat_map(|sample| [(sample.sent, 1), (sample.end, -1)])
            .collect();
        edges.sort_unstable();
        let (mut open, mut peak, mut start, mut end) = (0u64, 0, None, 0);
        let (mut since, mut held) = (0, 0);
        for (at, change) in edges {
            let before = open;
            open = open.saturating_add_signed(change);
            peak = peak.max(open);
            if before < enough && open >= enough {
                start.get_or_insert(at);
                since = at;
            } else if before >= enough && open < enough {
                end = at;
                held += at - since;
            }
        }
        let start = start
            .ok_or_else(|| format!("none found: at most {peak} requests were open at once, {enough} are needed"))?;
        let within = |at: Nanos| (start..end).contains(&at);
        let (mut started, mut completed, mut prompts, mut outputs) = (0, 0, 0, 0.0);
        let (mut ttfts, mut tpots) = (vec![], vec![]);
        for sample in samples.ok() {
            let events = sample.events.iter().zip(sample.tokens_of_events());
            let tokens = events.filter(|(event, _)| within(*event)).map(|(_, tokens)| tokens);
            outputs += tokens.sum::<f64>();
            completed += u64::from(within(sample.end));
            if within(sample.sent) {
                started += 1;
                prompts += sample.prompt_len;
                ttfts.push(seconds(sample.ttft()));
                tpots.extend(sample.tpot());
            }
        }
        if started == 0 && completed == 0 {
            return Err("none found: no request began or ended at full concurrency".to_owned());
        }
        let rate = |count: f64| count / seconds(end - start);
        Ok(SteadyState {
            start,
            end,
            held,
            enough,
            peak,
            started,
            completed,
            request_throughput: rate(completed as f64),
            input_throughput: rate(prompts as f64),
            output_throughput: rate(outputs),
            ttft: Stats::of_seconds(ttfts, percents),
            tpot: Stats::of_seconds(tpots, percents),
        })
    }

    /// Length of the window, in seconds.
    pub fn duration_s(&self) -> f64 {
        seconds(self.end - self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;

    #[test]
    fn a_request_that_ends_at_once_was_not_open() {
        let sample = |sent, end| Sample {
            sent,
            end,
            output_tokens: Some(1),
            ..Sample::default()
        };
        let samples = Samples::from(vec![sample(0, 0), sample(5, 9)]);
        let rule = SteadyRule {
            target: 1,
            threshold: 1.0,
        };
        let found = SteadyState::find(&samples, rule, &[]).expect("a window");
        assert_eq!((found.start, found.end, found.peak), (5, 9, 1));
    }

    #[test]
    fn a_dip_belongs_to_the_window_but_is_not_held_and_failed_requests_are_open() {
        let sample = |sent, end, error: Option<&str>| Sample {
            sent,
            end,
            error: error.map(str::to_owned),
            ..Sample::default()
        };
        let samples = Samples::from(vec![
            sample(0, 9, None),
            sample(0, 4, Some("nothing came")),
            sample(7, 9, None),
        ]);
        let rule = SteadyRule {
            target: 2,
            threshold: 1.0,
        };
        let found = SteadyState::find(&samples, rule, &[]).expect("a window");
        assert_eq!((found.start, found.end, found.held, found.peak), (0, 9, 6, 2));
        assert_eq!((found.started, found.completed), (2, 0));
    }

    #[test]
    fn tokens_that_came_together_all_count() {
        let sample = Sample {
            events: [500_000_000, 1_000_000_000].into_iter().collect(),
            end: 2_000_000_000,
            output_tokens: Some(6),
            ..Sample::default()
        };
        let rule = SteadyRule {
            target: 1,
            threshold: 1.0,
        };
        let throughput = |sample: Sample| {
            let found = SteadyState::find(&Samples::from(vec![sample]), rule, &[]).expect("a window");
            found.output_throughput
        };
        // The event at the end of the window does not belong to it.
        let counted = Sample {
            events: [500_000_000, 2_000_000_000].into_iter().collect(),
            tokens_by_event: vec![1, 6],
            ..sample.clone()
        };
        assert_eq!(throughput(sample), 3.0);
        assert_eq!(
            throughput(counted),
            0.5,
            "the server counted one token with the first event"
        );
    }
}
