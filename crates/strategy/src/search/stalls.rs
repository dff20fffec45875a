//! Estimates the figures that a run would have had without the stalls of its load generator, from its requests.
//!
//! Requests that were sent well before the next stall, and not soon after one, are like those of an undisturbed run, because the time at
//! which a request is sent does not depend on its latency. If there are too few of them, all requests count, each with the least and the
//! greatest latencies that it may have had without the stalls.

use super::Vary;
use super::criterion::{Criterion, Latency, Quantity, requests_of, worst_ratio};
use super::reading::{Reading, RequestLatencies};

/// The code of the disturbance whose effect is known for each request.
pub(super) const STALLED: &str = "generator_stalled";
/// Quantiles of the latencies. For each quantile, the requests whose time to the next stall is at least this latency are read.
const CALM: [f64; 4] = [0.5, 0.9, 0.99, 1.0];
/// Minimum number of requests that are read.
const FEWEST: f64 = 20.0;
/// Minimum expected number of requests beyond a percentile among the requests that are read.
const FEWEST_BEYOND: f64 = 1.0;

impl Criterion {
    /// Returns the reading of a run without the stalls, which is an upper bound, and its slack. `None` if stalls are not known for the
    /// requests, or the criterion is not about latencies. The first `wave` requests met an empty server; as large a part of them is read
    /// as of the others.
    pub(super) fn read_without_stalls(
        &self,
        vary: Vary,
        requests: &[RequestLatencies],
        wave: usize,
    ) -> Option<Reading> {
        let (share, latencies) = self.latencies()?;
        requests.iter().find(|request| request.stalls.is_some())?;
        let reach = |request: &RequestLatencies| match latencies.as_slice() {
            [Latency::Ttft] => request.ttft_ms,
            _ => request.e2el_ms,
        };
        let concerned = |part| requests_of(self.class.as_deref(), part).collect::<Vec<_>>();
        let (first, rest) = requests.split_at(wave.min(requests.len()));
        let [first, rest] = [first, rest].map(concerned);
        let mut reaches: Vec<f64> = rest.iter().map(|request| reach(request)).collect();
        reaches.retain(|reach| reach.is_finite());
        reaches.sort_by(f64::total_cmp);
        let all: Vec<&RequestLatencies> = first.iter().chain(&rest).copied().collect();
        let whole = self.read_between(vary, &all)?;
        let calm = CALM.iter().filter_map(|quantile| {
            let last = reaches.len().checked_sub(1)?;
            let needed = reaches[(quantile * last as f64).ceil() as usize];
            let is_calm = |request: &&&RequestLatencies| request.stalls.is_none_or(|stalls| stalls.calm_ms >= needed);
            let calm: Vec<&RequestLatencies> = rest.iter().filter(is_calm).copied().collect();
            let part = calm.len() as f64 / rest.len() as f64;
            // An equal part of the first requests is kept, evenly spaced.
            let is_kept = |at: &usize| (part * (at + 1) as f64).floor() > (part * *at as f64).floor();
            let kept = (0..first.len()).filter(is_kept).map(|at| first[at]);
            let chosen: Vec<&RequestLatencies> = kept.chain(calm).collect();
            let count = chosen.len() as f64;
            let is_enough = count >= FEWEST && share.is_none_or(|share| count * (1.0 - share) >= FEWEST_BEYOND);
            let reading = is_enough.then(|| self.read_between(vary, &chosen))??;
            // The error of all requests is scaled, because it is more certain than the error of a few.
            let error = whole.standard_error() * (all.len() as f64 / count).sqrt();
            Some((error + reading.slack?, reading))
        });
        let whole_error = whole.standard_error() + whole.slack?;
        let best = calm.min_by(|a, b| a.0.total_cmp(&b.0));
        Some(
            best.filter(|(error, _)| *error < whole_error)
                .map_or(whole, |(_, reading)| reading),
        )
    }

    /// Reads requests with the greatest latencies that they may have had without stalls. The slack is the distance from the reading of the
    /// least latencies.
    fn read_between(&self, vary: Vary, requests: &[&RequestLatencies]) -> Option<Reading> {
        let between = requests.iter().map(|request| request.without_stalls());
        let (least, most): (Vec<_>, Vec<_>) = between.map(|[least, most]| (least, most)).unzip();
        let [least, most] = [least, most].map(|requests| self.read_latencies(vary, &requests));
        let (least, most) = (least?, most?);
        Some(Reading {
            slack: Some((most.margin() - least.margin()).max(0.0)),
            ..most
        })
    }

    /// Reads requests alone, without the figures of the run.
    fn read_latencies(&self, vary: Vary, requests: &[RequestLatencies]) -> Option<Reading> {
        if let Some((share, limits)) = self.per_request() {
            let ratios = requests.iter().map(|request| worst_ratio(&limits, request)).collect();
            return Reading::from_requests(ratios, share, vary);
        }
        let latency = self.mean_of()?;
        let all = requests.iter().map(|request| latency.of(request));
        let values: Vec<f64> = all.filter(|value| value.is_finite()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let ratios: Vec<f64> = values.iter().map(|value| value / self.limit).collect();
        (!values.is_empty()).then(|| Reading::of_mean(self.read_value(mean), &ratios, vary))
    }

    /// Returns the latencies that the criterion bounds, with the share of the requests that must keep the bounds; no share for a mean.
    fn latencies(&self) -> Option<(Option<f64>, Vec<Latency>)> {
        match (self.per_request(), &self.quantity) {
            (Some((share, limits)), _) => {
                let latencies = limits.iter().map(|limit| limit.latency);
                Some((Some(share), latencies.collect()))
            }
            (None, Quantity::Metric(_)) if self.operator.is_upper_bound() => Some((None, vec![self.mean_of()?])),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::reading::Stalls;
    use super::*;

    /// A request that stalls may have delayed by `late_ms`. The next stall began `calm_ms` after it was sent.
    fn request(e2el_ms: f64, calm_ms: f64, late_ms: f64) -> RequestLatencies {
        RequestLatencies {
            ttft_ms: 100.0,
            tpot_ms: 10.0,
            e2el_ms,
            stalls: Some(Stalls {
                calm_ms,
                of_ttft_ms: 0.0,
                of_e2el_ms: late_ms,
            }),
            ..RequestLatencies::default()
        }
    }

    fn read(requests: &[RequestLatencies], wave: usize) -> Reading {
        let criterion = Criterion::metric("p90_e2el_ms", "<=500").expect("valid in this test");
        let reading = criterion.read_without_stalls(Vary::MaxConcurrency, requests, wave);
        reading.expect("the stalls are known")
    }

    #[test]
    fn requests_that_were_sent_long_before_a_stall_are_read() {
        let late = (0..50).map(|i| request(600.0 + f64::from(i), 100.0, 250.0));
        let calm = (0..50).map(|i| request(400.0 + f64::from(i), 2000.0, 0.0));
        let (late, calm): (Vec<_>, Vec<_>) = (late.collect(), calm.collect());
        let all = [late.clone(), calm.clone()].concat();
        let reading = read(&all, 0);
        assert_eq!((reading.requests, reading.slack), (50, Some(0.0)));
        assert!(reading.met && reading.ratio < 0.9, "{reading:?}");
        // The first ten met an empty server. Every second one of them counts, because half of the others count.
        let first: Vec<_> = (0..10).map(|_| request(450.0, 100.0, 0.0)).collect();
        assert_eq!(read(&[first, late, calm].concat(), 10).requests, 55);
    }

    #[test]
    fn where_every_request_may_be_late_the_slack_is_that_of_their_stalls() {
        let all: Vec<_> = (0..200).map(|i| request(600.0 + f64::from(i), 100.0, 250.0)).collect();
        let reading = read(&all, 0);
        let [most, least] = [780.5f64, 530.5].map(|e2el_ms| (e2el_ms / 500.0).ln());
        let slack = reading.slack.expect("known");
        assert!(
            (reading.margin() - most).abs() < 0.01 && (slack - most + least).abs() < 0.01,
            "{reading:?}"
        );
    }

    #[test]
    fn without_stalls_or_latencies_nothing_is_read() {
        let calm = RequestLatencies::default();
        let read = |key: &str, bound: &str, requests: &[RequestLatencies]| {
            let criterion = Criterion::metric(key, bound).expect("valid in this test");
            criterion.read_without_stalls(Vary::RequestRate, requests, 0)
        };
        assert_eq!(read("p90_e2el_ms", "<=500", &[calm; 100]), None);
        let stalled = [request(600.0, 100.0, 250.0); 100];
        assert_eq!(read("output_throughput", ">=500", &stalled), None);
        let mean = read("mean_e2el_ms", "<=500", &stalled).expect("a latency");
        assert!(
            (mean.ratio - 1.2).abs() < 1e-9 && mean.slack.is_some_and(|slack| slack > 0.5),
            "{mean:?}"
        );
    }

    #[test]
    fn a_late_first_token_makes_the_others_seem_fast() {
        let request = RequestLatencies {
            stalls: Some(Stalls {
                calm_ms: 0.0,
                of_ttft_ms: 50.0,
                of_e2el_ms: 100.0,
            }),
            ..request(1100.0, 0.0, 0.0)
        };
        let [least, most] = request.without_stalls();
        assert_eq!((least.ttft_ms, least.tpot_ms, least.e2el_ms), (50.0, 9.0, 1000.0));
        assert_eq!((most.ttft_ms, most.tpot_ms, most.e2el_ms), (100.0, 10.5, 1100.0));
    }
}
