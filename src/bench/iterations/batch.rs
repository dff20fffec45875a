//! One batch. Its requests are spread over the engines, queue there while the servers are held, and are released together. Then they are
//! timed, and checked to have run as one batch.

use super::{Bench, Hold, engines};
use crate::bench::broken;
use crate::bench::exact_prompts::request;
use crate::bench::judge::commonest_error;
use crate::bench::native::generator_failed;
use crate::bench::side::counters::ServerCounters;
use crate::bench::side::endpoint::{Endpoint, SHORT, ServerLimits};
use crate::cause::Failure;
use crate::load::{Generator, Load, LoadOutcome, Request, Stop};
use crate::metrics::seconds;
use crate::threads;
use reqwest::StatusCode;
use std::thread;
use std::time::{Duration, Instant};

/// Requests of a batch, one list for each endpoint.
pub(super) struct Batch {
    requests: Vec<Vec<Request>>,
    output_len: usize,
}

/// Times and counts of one batch. Times are in seconds, since the servers were released.
#[derive(Debug, Clone, Default)]
pub(super) struct Timing {
    /// Time until the last token of the last sequence.
    pub total: f64,
    /// Time until the first token of each sequence.
    pub first_tokens: Vec<f64>,
    /// Mean time between tokens of each sequence.
    pub steps: Vec<f64>,
    /// Longest time for which a generator did not look at the network during the batch.
    pub away: f64,
    /// Time until the slowest server had confirmed its wake-up.
    pub wake: f64,
    /// Prompt tokens of each sequence by the servers' count.
    pub prompts: Vec<u64>,
    /// Generated tokens by the servers' count.
    pub completion_tokens: u64,
    /// Counters of the servers, if they publish them.
    pub counts: Option<ServerCounters>,
    /// Number of steps of an engine in addition to those that one batch takes, below 0 if it took fewer; `None` if it is unknown.
    pub extra_steps: Option<f64>,
}

impl Batch {
    /// Spreads prompts over all engines in turn.
    pub fn of(
        endpoints: &[Endpoint],
        limits: &[ServerLimits],
        prompts: &[Vec<u32>],
        output_len: usize,
    ) -> Result<Batch, String> {
        let mut requests: Vec<Vec<Request>> = endpoints.iter().map(|_| Vec::new()).collect();
        let engines = limits.iter().enumerate().flat_map(|(at, limits)| {
            let ranks = (0..limits.engines).map(move |rank| (limits.engines > 1).then_some(rank));
            ranks.map(move |rank| (at, rank))
        });
        let engines: Vec<(usize, Option<usize>)> = engines.collect();
        for (prompt, (at, rank)) in prompts.iter().zip(engines.iter().cycle()) {
            requests[*at].push(request(&endpoints[*at], prompt, output_len, *rank)?);
        }
        Ok(Batch { requests, output_len })
    }

    /// Sends the batch without holding the servers, and awaits every answer.
    pub fn send_freely(&self, bench: &mut Bench) -> Result<(), Failure> {
        self.connect(bench)?;
        let ((), outcomes) = self.send(bench.settings.exact.request_timeout, &mut bench.generators, || ());
        require_success(outcomes?).map(drop)
    }

    /// Sends the batch, runs `meanwhile`, and awaits every answer. Each endpoint has a generator on its own thread.
    fn send<R>(
        &self,
        request_timeout: Duration,
        generators: &mut [Generator],
        meanwhile: impl FnOnce() -> R,
    ) -> (R, Result<Vec<LoadOutcome>, Failure>) {
        let drive = |generator: &mut Generator, requests: &[Request]| {
            let load = Load {
                requests: requests.iter().cloned().collect(),
                due: vec![0; requests.len()],
                request_timeout,
                silence_timeout: request_timeout,
                ..Load::default()
            };
            generator.drive(&load).map_err(generator_failed)
        };
        thread::scope(|scope| {
            let pairs = generators.iter_mut().zip(&self.requests);
            let started = pairs.map(|(generator, requests)| {
                let thread = thread::Builder::new().name("vsweep-load".to_owned());
                thread.spawn_scoped(scope, move || drive(generator, requests))
            });
            let started: Vec<_> = started.collect();
            let meanwhile = meanwhile();
            let outcomes = started.into_iter().map(|thread| {
                let thread = thread.map_err(|error| broken(format!("cannot start the generator's thread: {error}")))?;
                let ended = thread.join();
                ended.unwrap_or_else(|_| Err(broken("a thread of the generator ended early")))
            });
            (meanwhile, outcomes.collect())
        })
    }

    /// Measures the batch once. `settle` is the time that its requests have to reach the queue.
    pub fn time(&self, bench: &mut Bench, limits: &[ServerLimits], settle: Duration) -> Result<Timing, Failure> {
        self.connect(bench)?;
        let before = counts(&bench.endpoints);
        let stops: Vec<Stop> = bench.generators.iter().map(Generator::stop_handle).collect();
        let held = Held::begin(&bench.endpoints, bench.settings.batch.hold).map_err(broken)?;
        let request_timeout = bench.settings.exact.request_timeout;
        let (woken, outcomes) = self.send(request_timeout, &mut bench.generators, || {
            let until = Instant::now() + settle;
            while Instant::now() < until && !stops[0].is_asked() {
                thread::sleep((until - Instant::now()).min(Duration::from_millis(20)));
            }
            let woken = held.end();
            // A server that does not continue would never answer, so the load is stopped, on all servers.
            if woken.is_err() {
                stops.iter().for_each(Stop::stop);
            }
            woken
        });
        let (released, wake) = woken.map_err(broken)?;
        let outcomes = require_success(outcomes?)?;
        let after = counts(&bench.endpoints);
        let mut timing = Timing {
            wake: wake.as_secs_f64(),
            counts: before.zip(after).and_then(|(before, after)| after.since(&before)),
            ..Timing::default()
        };
        for outcome in &outcomes {
            timing.away = timing.away.max(seconds(outcome.longest_absence));
            let since = |nanos: u64| {
                let at = outcome.began + Duration::from_nanos(nanos);
                at.saturating_duration_since(released).as_secs_f64()
            };
            for sample in outcome.samples.iter() {
                timing.total = timing.total.max(since(sample.end));
                timing.first_tokens.extend(sample.events.first().map(since));
                timing.steps.extend(sample.tpot());
                timing.prompts.push(sample.prompt_len);
                timing.completion_tokens += sample.output_len();
            }
        }
        timing.extra_steps = self.extra_steps(&timing, limits);
        Ok(timing)
    }

    /// Number of steps of an engine in addition to those that one batch takes. One batch takes as few steps for its prefill as the limit of
    /// tokens allows, then one for each further token. `None` if the steps or the limit are unknown.
    fn extra_steps(&self, timing: &Timing, limits: &[ServerLimits]) -> Option<f64> {
        let counts = timing.counts.as_ref()?;
        let limit = limits.iter().map(|limits| limits.max_num_batched_tokens).min()?? as f64;
        let engines = engines(limits) as f64;
        let sequences = self.requests.iter().map(Vec::len).sum::<usize>() as f64 / engines;
        let new_tokens = (timing.prompts.iter().sum::<u64>() as f64 - counts.cached()) / engines;
        let steps = (new_tokens / limit).ceil().max(1.0);
        // A sequence that has finished its prefill takes one token of each step in which others continue theirs.
        let prefill = match steps > 1.0 {
            true => ((new_tokens + sequences * steps) / limit).ceil(),
            false => 1.0,
        };
        let expected = prefill + (self.output_len - 1) as f64;
        Some(counts.steps()? / engines - expected)
    }

    fn connect(&self, bench: &mut Bench) -> Result<(), Failure> {
        let endpoints = bench.endpoints.iter().zip(&mut bench.generators);
        let mut all = endpoints.zip(&self.requests);
        all.try_for_each(|((endpoint, generator), requests)| endpoint.connect(generator, requests.len()))
    }
}

/// Returns the outcomes if every request succeeded, else a failure, because a batch without some of its requests is another batch.
fn require_success(outcomes: Vec<LoadOutcome>) -> Result<Vec<LoadOutcome>, Failure> {
    let all: usize = outcomes.iter().map(|outcome| outcome.samples.len()).sum();
    let failed: usize = outcomes.iter().map(|outcome| outcome.samples.failed()).sum();
    if failed == 0 {
        return Ok(outcomes);
    }
    let commonest = commonest_error(outcomes.iter().map(|outcome| &outcome.samples));
    let detail = format!("{failed} of {all} requests of a batch failed");
    Err(Failure::of_requests(detail, commonest))
}

/// Sum of the counters of all servers; `None` if one of them does not answer or does not count its steps.
fn counts(endpoints: &[Endpoint]) -> Option<ServerCounters> {
    let each = endpoints.iter().map(|endpoint| {
        let counters = endpoint.counters(SHORT).ok()?;
        counters.steps().map(|_| counters)
    });
    each.reduce(|all, counters| Some(all?.plus(&counters?))).flatten()
}

/// Time limit for a request to hold or wake a server.
const LIMIT: Duration = Duration::from_secs(30);
/// Most tries to wake a server, which may be busy with something else.
const WAKE_TRIES: usize = 3;

/// Servers that are held so that a batch can queue, and are woken together. They are woken on drop too, so that no server is left paused.
pub(super) struct Held<'a> {
    endpoints: &'a [Endpoint],
    hold: Hold,
}

impl<'a> Held<'a> {
    /// Holds all servers. On an error, those that may be held are woken.
    pub fn begin(endpoints: &'a [Endpoint], hold: Hold) -> Result<Held<'a>, String> {
        let mut held = Held { endpoints: &[], hold };
        let (route, _) = hold.routes();
        for (count, endpoint) in (1..).zip(endpoints) {
            // Counted before the answer: a server whose answer was lost may be held all the same.
            held.endpoints = &endpoints[..count];
            endpoint.post(route, LIMIT).map_err(|error| match error.status == Some(StatusCode::NOT_FOUND) {
                true => format!(
                    "the server at {} has no {}: it is not in development mode; start it with VLLM_SERVER_DEV_MODE=1",
                    endpoint.url,
                    path(route)
                ),
                false => format!("the server at {} refused {}: {error}", endpoint.url, path(route)),
            })?;
        }
        Ok(held)
    }

    /// Wakes all servers at once. Returns the time at which they were asked, and the time until the slowest had answered.
    pub fn end(mut self) -> Result<(Instant, Duration), String> {
        let asked = Instant::now();
        self.wake()?;
        Ok((asked, asked.elapsed()))
    }

    fn wake(&mut self) -> Result<(), String> {
        let (_, route) = self.hold.routes();
        let held = std::mem::take(&mut self.endpoints);
        // Wake all of them before the first error is returned.
        let woken = threads::map(held.len(), held, |endpoint| wake(endpoint, route));
        woken.into_iter().collect()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // The caller already has a worse error to report.
        let _ = self.wake();
    }
}

fn wake(endpoint: &Endpoint, route: &str) -> Result<(), String> {
    let mut failed = String::new();
    for _ in 0..WAKE_TRIES {
        match endpoint.post(route, LIMIT) {
            Ok(_) => return Ok(()),
            Err(error) => failed = error.to_string(),
        }
    }
    let url = &endpoint.url;
    Err(format!(
        "the server at {url} may still be paused: {failed}; resume it with curl -X POST {url}{route}"
    ))
}

fn path(route: &str) -> &str {
    route.split('?').next().unwrap_or(route)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extra(steps: f64, prompt_tokens: u64, cached: f64, output_len: usize) -> Option<f64> {
        let batch = Batch {
            requests: vec![vec![Request::default(); 8]],
            output_len,
        };
        let timing = Timing {
            prompts: vec![prompt_tokens],
            counts: Some(ServerCounters::read(&format!(
                "vllm:iteration_tokens_total_count {steps}\nvllm:prefix_cache_hits_total {cached}"
            ))),
            ..Timing::default()
        };
        let limits = ServerLimits {
            engines: 1,
            max_num_batched_tokens: Some(2048),
            ..ServerLimits::default()
        };
        batch.extra_steps(&timing, &[limits])
    }

    #[test]
    fn a_batch_that_came_apart_shows_in_its_steps() {
        assert_eq!(extra(1.0, 2048, 0.0, 1), Some(0.0));
        assert_eq!(extra(2.0, 2048, 0.0, 1), Some(1.0), "one straggler");
        assert_eq!(
            extra(3.0, 4096, 0.0, 1),
            Some(0.0),
            "its first sequences take tokens of later steps"
        );
        assert_eq!(extra(32.0, 4104, 4096.0, 32), Some(0.0));
        assert_eq!(extra(35.0, 4104, 4096.0, 32), Some(3.0));
        assert_eq!(extra(8.0, 4104, 4096.0, 32), Some(-24.0), "it stopped early");
    }

    #[test]
    fn without_the_servers_limit_nothing_is_known() {
        let batch = Batch {
            requests: vec![vec![]],
            output_len: 1,
        };
        let timing = Timing {
            counts: Some(ServerCounters::default()),
            ..Timing::default()
        };
        assert_eq!(batch.extra_steps(&timing, &[ServerLimits::default()]), None);
    }
}
