//! The steady state of a closed loop: the time during which it was at, or near, its full concurrency.

use super::moments::{Nanos, seconds};
use super::quantiles::Stats;
use super::samples::Samples;

/// Condition for the steady state of a closed loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyRule {
    /// Requests that should be open at once.
    pub target: usize,
    /// The share of them that is enough, 0 to 1.
    pub threshold: f64,
}

/// The window, and what happened in it.
#[derive(Debug, Clone, PartialEq)]
pub struct SteadyState {
    /// The moment from which enough requests were open …
    pub start: Nanos,
    /// … to the last moment they were.
    pub end: Nanos,
    /// Number of requests that had to be open at once.
    pub enough: u64,
    /// Greatest number of requests open at once.
    pub peak: u64,
    /// Requests that began in it.
    pub started: u64,
    /// Requests that ended in it.
    pub completed: u64,
    /// Completed requests a second.
    pub request_throughput: f64,
    /// Prompt tokens of requests that began in it, a second.
    pub input_throughput: f64,
    /// Output events in it, a second.
    pub output_throughput: f64,
    /// TTFT of requests that began in it.
    pub ttft: Stats,
    /// TPOT of requests that began in it and have more than one token.
    pub tpot: Stats,
}

impl SteadyState {
    /// Finds the window over the requests that succeeded. It opens when enough of them are open for the first time and
    /// closes when they are for the last time; dips between belong to it. The error says why there is none.
    pub fn find(samples: &Samples, rule: SteadyRule, percents: &[f64]) -> Result<SteadyState, String> {
        let enough = ((rule.threshold * rule.target as f64).ceil() as u64).max(1);
        // At equal times ends come first.
        let mut edges: Vec<(Nanos, i64)> = samples
            .ok()
            .flat_map(|sample| [(sample.sent, 1), (sample.end, -1)])
            .collect();
        edges.sort_unstable();
        let (mut open, mut peak, mut start, mut end) = (0u64, 0, None, 0);
        for (at, change) in edges {
            let before = open;
            open = open.saturating_add_signed(change);
            peak = peak.max(open);
            if before < enough && open >= enough {
                start.get_or_insert(at);
            } else if before >= enough && open < enough {
                end = at;
            }
        }
        let start = start
            .ok_or_else(|| format!("none found: at most {peak} requests were open at once, {enough} are needed"))?;
        let within = |at: Nanos| (start..end).contains(&at);
        let (mut started, mut completed, mut prompts, mut events) = (0, 0, 0, 0);
        let (mut ttfts, mut tpots) = (vec![], vec![]);
        for sample in samples.ok() {
            events += sample.events.iter().filter(|event| within(*event)).count();
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
            enough,
            peak,
            started,
            completed,
            request_throughput: rate(completed as f64),
            input_throughput: rate(prompts as f64),
            output_throughput: rate(events as f64),
            ttft: Stats::of_seconds(ttfts, percents),
            tpot: Stats::of_seconds(tpots, percents),
        })
    }

    /// Its length.
    pub fn duration_s(&self) -> f64 {
        seconds(self.end - self.start)
    }
}
