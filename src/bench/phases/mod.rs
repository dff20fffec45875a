//! The phases benchmark: prefill or decode throughput over a window of time, while the requests in flight fill the KV cache.
//!
//! A slot sends one request after another; `max_concurrency` is the number of slots. The window opens at `warmup_margin` times the time
//! after which every slot has output, within bounds. At its end the requests in flight are cancelled. The first requests of a decode run
//! have outputs of graded lengths, so that slots are spread over all stages of a sequence, as on a server that has run for a long time. A
//! run measures one level of concurrency; callers repeat it for others.

mod result;

use crate::bench::exact_prompts::{self, ExactParams, Prompts, ServingPhase, plain_ids};
use crate::bench::judge::{HOPELESS, commonest_error};
use crate::bench::native::generator_failed;
use crate::bench::params::{ParamGroup, ServerParams, Table};
use crate::bench::side::endpoint::{Endpoint, SHORT, ServerLimits};
use crate::bench::worker::{self, GivenUp};
use crate::bench::{Job, Measurement, broken, valid};
use crate::cause::Failure;
use crate::load::{Generator, Load, Reply, Requests, allow_connections};
use crate::metrics::{LoadProgress, Nanos};
use crate::plan::Params;
use crate::telemetry::series;
use crate::units::show_many;
use std::ops::{ControlFlow, Range};
use std::time::Duration;

/// Maximum number of prompts that are drawn after the first ones of the slots. A prompt takes about six bytes a token.
const MOST_PROMPTS: u64 = 200_000;
/// Minimum number of tokens of a sequence. A run with shorter ones is refused.
const SHORTEST: u64 = 4;

/// Measures one phase at one level of concurrency. If the future is dropped, its requests are ended before the drop returns.
pub async fn measure(job: &Job) -> Result<Measurement, Failure> {
    let settings = valid(PhaseSettings::read(&job.params))?;
    let endpoint = exact_prompts::open(job, &job.base_url, &settings.server).await?;
    let generator = endpoint.generator()?;
    let stops = vec![generator.stop_handle(), endpoint.stop_handle()];
    let run = PhaseRun {
        prompts: settings.prompts(plain_ids(settings.exact.vocab_size, &job.model_root)),
        job: job.clone(),
        settings,
        endpoint,
        generator,
    };
    worker::perform(stops, || job.timeout, GivenUp::Awaited, move || run.perform()).await
}

/// One run, on a separate thread.
struct PhaseRun {
    job: Job,
    settings: PhaseSettings,
    prompts: Prompts,
    endpoint: Endpoint,
    generator: Generator,
}

/// Lengths of the sequences of a run, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    input_len: usize,
    output_len: usize,
    /// Tokens that the KV cache of all engines holds.
    kv_tokens: u64,
    /// The longest sequence that is allowed, if known.
    limit: Option<u64>,
}

impl Shape {
    /// Returns the shape of sequences that fill the cache together. Each has an equal share of the cache, up to the longest length that the
    /// server accepts.
    ///
    /// # Errors
    ///
    /// A sentence with the remedy, if the size of the cache is unknown or the shares are too small.
    fn of(settings: &PhaseSettings, limits: &ServerLimits) -> Result<Shape, String> {
        let kv_tokens = settings.window.kv_cache_tokens.or(limits.all_kv_cache_tokens()).ok_or(
            "the server's /metrics does not say how many tokens its KV cache holds; give kv_cache_tokens (the server's log \
             says \"KV cache size\")",
        )?;
        let limit = match (settings.window.max_model_len, limits.max_model_len) {
            (Some(asked), Some(served)) => Some(asked.min(served)),
            (asked, served) => asked.or(served),
        };
        let share = kv_tokens / settings.window.max_concurrency as u64;
        let length = limit.map_or(share, |limit| share.min(limit));
        let input = match settings.window.phase {
            ServingPhase::Prefill => length.saturating_sub(1),
            ServingPhase::Decode => (length as f64 * settings.window.ratio) as u64,
        };
        let output = length.saturating_sub(input);
        if length < SHORTEST || input < 1 || output < 1 {
            return Err(format!(
                "{} requests in a KV cache of {kv_tokens} tokens leave {} for each; lower max_concurrency",
                settings.window.max_concurrency,
                show_many(length, "token")
            ));
        }
        Ok(Shape {
            input_len: usize::try_from(input).unwrap_or(usize::MAX),
            output_len: usize::try_from(output).unwrap_or(usize::MAX),
            kv_tokens,
            limit,
        })
    }
}

impl PhaseRun {
    fn perform(mut self) -> Result<Measurement, Failure> {
        let limits = ServerLimits::of(&self.endpoint);
        let shape = Shape::of(&self.settings, &limits).map_err(broken)?;
        allow_connections(self.settings.window.max_concurrency).map_err(broken)?;
        self.endpoint.forget_prefixes();
        let load = self.load(shape, &limits).map_err(broken)?;
        let slots = self.settings.window.max_concurrency;
        self.endpoint.connect(&mut self.generator, slots)?;
        let before = self.endpoint.counters(SHORT);
        let (counters, mut window) = (&self.job.counters, LoadWindow::of(&self.settings));
        let outcome = self.generator.drive_watched(&load, &mut |progress| {
            if let LoadProgress::Ended(sample, _) = &progress {
                counters.count(sample);
            }
            window.note(&progress)
        });
        let outcome = outcome.map_err(generator_failed)?;
        // The difference includes the warm-up.
        let grown = before
            .ok()
            .zip(self.endpoint.counters(SHORT).ok())
            .and_then(|(before, after)| after.since(&before));
        if window.is_hopeless() {
            let detail = "the run ended after many failed requests";
            return Err(Failure::of_requests(detail, commonest_error([&outcome.samples])));
        }
        let span = window.span();
        let [from, to] = [span.start, span.end].map(|nanos| outcome.began + Duration::from_nanos(nanos));
        // This cannot fail, because the time is set only here.
        let _ = self.job.counters.measured.set(series::Window { from, to });
        Ok(result::measurement(&self, &limits, shape, grown, &outcome, &window))
    }

    /// Returns the load: the first request of each slot, then those that are repeated until the end. Unless prefix caching is off, the
    /// repeated prompts have twice the tokens that the cache holds, up to `MOST_PROMPTS` prompts, so that none is still cached when it
    /// comes again.
    fn load(&mut self, shape: Shape, limits: &ServerLimits) -> Result<Load, String> {
        let slots = self.settings.window.max_concurrency;
        let cache = limits.all_kv_cache_tokens().unwrap_or(shape.kv_tokens);
        let cycle = 2 * cache / shape.input_len as u64 + 1;
        let repeated = match limits.prefix_caching {
            Some(false) => slots as u64,
            _ => cycle.max(slots as u64).min(MOST_PROMPTS),
        };
        let mut requests = Requests::default();
        for index in 0..slots + repeated as usize {
            let graded = (shape.output_len * (index + 1)).div_ceil(slots);
            let output_len = if index < slots { graded } else { shape.output_len };
            let prompt = self.prompts.draw(shape.input_len);
            requests.push(&exact_prompts::request(&self.endpoint, &prompt, output_len, None)?);
        }
        Ok(Load {
            requests,
            limit: Some(slots),
            reply: Reply::Choices,
            request_timeout: self.settings.exact.request_timeout,
            silence_timeout: self.settings.exact.request_timeout,
            lap_start: Some(slots),
            ..Load::default()
        })
    }
}

/// The window, and the progress of the load that decides when the window opens and ends.
#[derive(Debug)]
struct LoadWindow {
    /// The window opens at `primed` times this factor, but not before `earliest` or after `latest`.
    margin: f64,
    /// Earliest time at which the window opens.
    earliest: Nanos,
    /// Latest time at which the window opens.
    latest: Nanos,
    length: Nanos,
    slots: usize,
    /// Number of slots whose first request has ended.
    ended: usize,
    /// Time at which every slot had output for the first time; `None` before that.
    pub primed: Option<Nanos>,
    failed_in_a_row: usize,
}

impl LoadWindow {
    pub fn of(settings: &PhaseSettings) -> LoadWindow {
        let nanos = |time: Duration| time.as_nanos() as Nanos;
        let (earliest, latest) = settings.warmup_bounds();
        LoadWindow {
            margin: settings.window.warmup_margin,
            earliest: nanos(earliest),
            latest: nanos(latest),
            length: nanos(settings.window.duration),
            slots: settings.window.max_concurrency,
            ended: 0,
            primed: None,
            failed_in_a_row: 0,
        }
    }

    /// Follows the load. Breaks it off when the window is over or the server is given up.
    pub fn note(&mut self, progress: &LoadProgress<'_>) -> ControlFlow<()> {
        let is_over = match progress {
            LoadProgress::Ended(sample, _) => {
                // Only first requests are ready at time 0. All others wait for a free slot.
                self.ended += usize::from(sample.ready == 0);
                self.failed_in_a_row = match sample.is_ok() {
                    true => 0,
                    false => self.failed_in_a_row + 1,
                };
                self.is_hopeless()
            }
            LoadProgress::Underway(now, underway) => {
                let first = underway.iter().filter(|sample| sample.ready == 0);
                let with_output = first.filter(|sample| !sample.events.is_empty()).count();
                if self.ended + with_output >= self.slots {
                    self.primed.get_or_insert(*now);
                }
                *now >= self.span().end
            }
            LoadProgress::Stalled(_) => false,
        };
        match is_over {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Time from the opening of the window to its end.
    pub fn span(&self) -> Range<Nanos> {
        let primed = self.primed.map(|at| (at as f64 * self.margin) as Nanos);
        let start = primed.unwrap_or(self.latest).max(self.earliest).min(self.latest);
        start..start.saturating_add(self.length)
    }

    /// Returns true if the server is given up.
    pub fn is_hopeless(&self) -> bool {
        self.failed_in_a_row > self.slots + HOPELESS
    }
}

/// The parameters of the benchmark.
pub const TABLE: Table = Table {
    benchmark: "the phases benchmark",
    groups: &[
        ParamGroup::of("Window", WindowParams::PARAMS),
        ParamGroup::of("Server", ServerParams::PARAMS),
        ParamGroup::of("Requests", ExactParams::PARAMS),
    ],
    has_datasets: false,
    remedy: "remove it, or see docs/phases.md for those it has",
    refused: &[],
};

crate::params! {
    /// The phase to measure, and for how long.
    pub struct WindowParams {
        /// prefill or decode (required).
        phase: ServingPhase = param("phase").default("prefill")
            .required("the phases benchmark measures \"prefill\" or \"decode\""),
        /// Requests in flight at once (required); they share the KV cache evenly.
        max_concurrency: usize = param("max_concurrency").least(1).default("1")
            .required("say how many requests are in flight at once"),
        /// Prompt's share of each sequence; decode only.
        ratio: f64 = param("ratio")
            .within("a share above 0 and below 1", |ratio| 0.0 < ratio && ratio < 1.0)
            .default("0.5"),
        /// Seconds to measure.
        duration: Duration = param("duration")
            .within("a number of seconds above 0", |seconds| (1e-3..1e6).contains(&seconds))
            .default("15"),
        /// Seconds before that.
        warmup: Option<Duration> = param("warmup")
            .within("a number of seconds of at least 0", |seconds| (0.0..1e6).contains(&seconds))
            .otherwise("until every request in flight has output, times warmup_margin"),
        /// Factor of the automatic warm-up.
        warmup_margin: f64 = param("warmup_margin")
            .within("a factor of at least 1", |margin| (1.0..1e3).contains(&margin))
            .default("1.5"),
        /// Tokens that the KV cache holds.
        kv_cache_tokens: Option<u64> = param("kv_cache_tokens").least(1).otherwise("as the server's /metrics says"),
        /// Longest sequence.
        max_model_len: Option<u64> = param("max_model_len").least(1).otherwise("as the server says"),
    }
}

/// Longest automatic warm-up.
const LONGEST_WARMUP: Duration = Duration::from_secs(120);
/// Shortest automatic warm-up, as a share of the measured time: 5 s of 15 s.
const SHORTEST_WARMUP: f64 = 1.0 / 3.0;

/// All parameters of the benchmark.
#[derive(Debug, Clone)]
pub struct PhaseSettings {
    /// Address of the server.
    pub server: ServerParams,
    /// Parameters of the prompts.
    pub exact: ExactParams,
    /// The window.
    pub window: WindowParams,
}

impl PhaseSettings {
    /// Reads parameters; every problem is a sentence that names the parameter and the remedy.
    pub fn read(params: &Params) -> Result<PhaseSettings, Vec<String>> {
        let mut reader = TABLE.reader(params);
        let settings = PhaseSettings {
            window: WindowParams::read(&mut reader),
            server: ServerParams::checked(&mut reader),
            exact: ExactParams::read(&mut reader),
        };
        reader.finish(settings)
    }

    /// Source of prompts that differ from those of all other levels.
    fn prompts(&self, ids: Range<u32>) -> Prompts {
        let phase = match self.window.phase {
            ServingPhase::Prefill => "Prefill".to_owned(),
            ServingPhase::Decode => format!("Decode({:?})", self.window.ratio),
        };
        Prompts::new(
            ids,
            self.exact.seed,
            &format!("{phase} {}", self.window.max_concurrency),
        )
    }

    /// Shortest time of a run.
    pub fn shortest(&self) -> Duration {
        self.warmup_bounds().0 + self.window.duration
    }

    /// The shortest and the longest time before the window opens.
    fn warmup_bounds(&self) -> (Duration, Duration) {
        match self.window.warmup {
            Some(fixed) => (fixed, fixed),
            None => (
                self.window.duration.mul_f64(SHORTEST_WARMUP).min(LONGEST_WARMUP),
                LONGEST_WARMUP,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shape(params: serde_json::Value) -> Result<(usize, usize), String> {
        let settings = PhaseSettings::read(params.as_object().expect("an object")).expect("valid");
        let limits = ServerLimits {
            engines: 2,
            kv_cache_tokens: Some(10_000),
            max_model_len: Some(3000),
            ..ServerLimits::default()
        };
        Shape::of(&settings, &limits).map(|shape| (shape.input_len, shape.output_len))
    }

    #[test]
    fn sequences_share_the_cache() {
        assert_eq!(shape(json!({"phase": "prefill", "max_concurrency": 10})), Ok((1999, 1)));
        let decode = json!({"phase": "decode", "max_concurrency": 2, "ratio": 0.25});
        assert_eq!(shape(decode), Ok((750, 2250)), "the model's longest");
        let short = json!({"phase": "decode", "max_concurrency": 2, "kv_cache_tokens": 100, "max_model_len": 40});
        assert_eq!(shape(short), Ok((20, 20)));
        for (concurrency, left) in [(8000, "2 tokens"), (16000, "1 token")] {
            let many = shape(json!({"phase": "prefill", "max_concurrency": concurrency})).expect_err("too many");
            let expected = format!(
                "{concurrency} requests in a KV cache of 20000 tokens leave {left} for each; lower max_concurrency"
            );
            assert_eq!(many, expected);
        }
    }
}

#[cfg(test)]
mod window_tests {
    use super::*;
    use crate::metrics::Sample;

    const SECOND: Nanos = 1_000_000_000;

    fn window(margin: f64, slots: usize) -> LoadWindow {
        LoadWindow {
            margin,
            earliest: 2 * SECOND,
            latest: 10 * SECOND,
            length: 5 * SECOND,
            slots,
            ended: 0,
            primed: None,
            failed_in_a_row: 0,
        }
    }

    fn start_s(primed_s: Option<u64>, margin: f64) -> u64 {
        let mut window = window(margin, 3);
        let with_output = Sample {
            events: [1].into_iter().collect(),
            ..Sample::default()
        };
        let mut look = |count: usize, now| window.note(&LoadProgress::Underway(now, &vec![&with_output; count]));
        if let Some(at) = primed_s {
            assert!(look(2, at * SECOND / 2).is_continue());
            assert!(look(3, at * SECOND).is_continue());
            assert!(look(3, at * SECOND + 99).is_continue());
        }
        window.span().start / SECOND
    }

    #[test]
    fn it_opens_when_every_slot_is_at_work() {
        assert_eq!(start_s(Some(4), 1.5), 6);
        assert_eq!(start_s(Some(1), 1.5), 2, "not before the earliest");
        assert_eq!(start_s(Some(8), 1.5), 10, "not after the latest");
        assert_eq!(start_s(None, 1.5), 10);
    }

    #[test]
    fn it_ends_the_load() {
        let mut window = window(1.0, 3);
        assert!(window.note(&LoadProgress::Underway(14 * SECOND, &[])).is_continue());
        assert!(window.note(&LoadProgress::Underway(15 * SECOND, &[])).is_break());
    }

    #[test]
    fn a_server_that_only_fails_is_given_up() {
        let mut window = window(1.0, 1);
        let failed = Sample {
            error: Some("HTTP 500".into()),
            ..Sample::default()
        };
        for _ in 0..=HOPELESS {
            assert!(window.note(&LoadProgress::Ended(&failed, 1)).is_continue());
        }
        let done = Sample::default();
        assert!(window.note(&LoadProgress::Ended(&done, 1)).is_continue());
        for _ in 0..=HOPELESS {
            assert!(window.note(&LoadProgress::Ended(&failed, 1)).is_continue());
        }
        assert!(window.note(&LoadProgress::Ended(&failed, 1)).is_break());
        assert!(window.is_hopeless());
    }
}

#[cfg(test)]
mod settings_tests {
    use super::*;
    use serde_json::json;

    fn read(params: serde_json::Value) -> Result<PhaseSettings, Vec<String>> {
        PhaseSettings::read(params.as_object().expect("an object"))
    }

    #[test]
    fn warm_up_is_automatic_unless_it_is_set() {
        let given = json!({"phase": "decode", "max-concurrency": 4, "ratio": 0.25, "duration": 3});
        let mut settings = read(given).expect("valid");
        assert_eq!(
            (settings.window.phase, settings.window.ratio),
            (ServingPhase::Decode, 0.25)
        );
        assert_eq!(
            settings.warmup_bounds(),
            (Duration::from_secs(1), Duration::from_secs(120))
        );
        settings.window.warmup = Some(Duration::ZERO);
        assert_eq!(settings.warmup_bounds(), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn every_problem_is_reported() {
        let problems = read(json!({"phase": 1, "ratio": 1, "duration": 0, "num_prompts": 3})).expect_err("wrong");
        assert!(problems[0].starts_with("the phases benchmark has no parameter \"num_prompts\"; remove it"));
        assert_eq!(
            problems[1..],
            [
                "phase is 1; it must be \"prefill\" or \"decode\"",
                "max_concurrency is missing; say how many requests are in flight at once",
                "ratio is 1; it must be a share above 0 and below 1",
                "duration is 0; it must be a number of seconds above 0",
            ]
        );
    }
}
