//! The iterations benchmark: a batch of exactly known shape is held back in the server's queue until all its requests are there, then
//! released and timed. Prefill batches end with the first token, decode batches after a given number of steps.
//!
//! For each batch the servers are held, all requests are sent, the servers are released, and all answers are awaited. The server's own
//! count of steps shows if the batch ran as one. A batch that came apart is tried again. Callers choose the shape, and repeat the benchmark
//! for other shapes.

mod batch;
mod result;

use self::batch::{Batch, Timing};
use crate::bench::exact_prompts::{self, ExactParams, Prompts, ServingPhase, plain_ids};
use crate::bench::params::{ParamGroup, ServerParams, Table};
use crate::bench::side::endpoint::{Endpoint, PROFILER, ServerLimits};
use crate::bench::worker::{self, GivenUp};
use crate::bench::{Job, Measurement, broken, valid};
use crate::cause::Failure;
use crate::load::{Generator, allow_connections};
use crate::plan::Params;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Measures one shape. If the future is dropped, held servers are released before the drop returns.
pub async fn measure(job: &Job) -> Result<Measurement, Failure> {
    let settings = valid(IterationSettings::read(&job.params))?;
    let mut urls = settings.endpoints();
    if urls.is_empty() {
        urls.push(job.base_url.clone());
    }
    let mut endpoints = Vec::new();
    for url in urls {
        endpoints.push(exact_prompts::open(job, &url, &settings.server).await?);
    }
    let generators: Vec<Generator> = endpoints.iter().map(Endpoint::generator).collect::<Result<_, _>>()?;
    let stops = generators.iter().map(Generator::stop_handle).collect();
    let bench = Bench {
        prompts: settings.prompts(plain_ids(settings.exact.vocab_size, &job.model_root)),
        job: job.clone(),
        settings,
        endpoints,
        generators,
    };
    worker::perform(stops, || job.timeout, GivenUp::Awaited, move || bench.perform()).await
}

/// Default time for requests to reach the queue: a part for every batch, and a part for each of its sequences.
const SETTLE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_micros(500));
/// Most tries of a batch that does not run as one. Each try has four times as long to settle as the one before.
const TRIES: u32 = 3;

/// The measurement of one shape, which runs on a separate thread.
struct Bench {
    job: Job,
    settings: IterationSettings,
    prompts: Prompts,
    endpoints: Vec<Endpoint>,
    /// Generators for the measured requests, one for each endpoint.
    generators: Vec<Generator>,
}

impl Bench {
    fn perform(mut self) -> Result<Measurement, Failure> {
        let limits: Vec<ServerLimits> = self.endpoints.iter().map(ServerLimits::of).collect();
        let sequences = self.settings.batch.batch_size * engines(&limits);
        limits.iter().try_for_each(|limits| self.fits(limits)).map_err(broken)?;
        allow_connections(sequences).map_err(broken)?;
        self.endpoints.iter().for_each(Endpoint::forget_prefixes);
        let batches = self.settings.batch.warmups + self.settings.batch.repeats;
        self.job.counters.planned.store((sequences * batches) as u64, Relaxed);

        let contexts: Vec<Vec<u32>> = (0..sequences)
            .map(|_| self.prompts.draw(self.settings.batch.context_len))
            .collect();
        if self.settings.batch.context_len > 0 {
            let batch = Batch::of(&self.endpoints, &limits, &contexts, 1).map_err(broken)?;
            batch.send_freely(&mut self)?;
        }
        for _ in 0..self.settings.batch.warmups {
            self.time(&contexts, &limits)?;
        }
        self.profile("start");
        let timings = (0..self.settings.batch.repeats).map(|_| self.time(&contexts, &limits));
        let timings: Result<Vec<_>, _> = timings.collect();
        // The profiler must not outlast a batch that failed.
        self.profile("stop");
        Ok(result::measurement(&self, &limits, sequences, &timings?))
    }

    /// Measures one batch of new prompts that continue these contexts. If it did not run as one, another batch is tried: the prompts of
    /// the first are in the prefix cache by then.
    fn time(&mut self, contexts: &[Vec<u32>], limits: &[ServerLimits]) -> Result<Timing, Failure> {
        let default = SETTLE.0 + SETTLE.1 * u32::try_from(contexts.len()).unwrap_or(u32::MAX);
        let mut settle = self.settings.settle().unwrap_or(default);
        let mut tried = 1;
        loop {
            let prompts: Vec<Vec<u32>> = contexts.iter().map(|context| self.continued(context)).collect();
            let batch = Batch::of(&self.endpoints, limits, &prompts, self.settings.output_len()).map_err(broken)?;
            let timing = batch.time(self, limits, settle)?;
            let came_apart = timing.extra_steps.is_some_and(|extra| extra > 0.0);
            if !came_apart || tried == TRIES {
                let counters = &self.job.counters;
                counters.finished.fetch_add(contexts.len() as u64, Relaxed);
                return Ok(timing);
            }
            tried += 1;
            settle = (settle * 4).max(SETTLE.0);
        }
    }

    /// Returns a prompt that continues a context with new input.
    fn continued(&mut self, context: &[u32]) -> Vec<u32> {
        let input = self.prompts.draw(self.settings.input_len());
        [context, &input].concat()
    }

    /// Checks that a server can run the batch as one. Limits that the server does not report are not checked.
    fn fits(&self, limits: &ServerLimits) -> Result<(), String> {
        let settings = &self.settings;
        let length = (settings.prompt_len() + settings.output_len()) as u64;
        let batch = settings.batch.batch_size as u64;
        if let Some(limit) = limits.max_model_len.filter(|limit| length > *limit) {
            return Err(format!(
                "a sequence of {length} tokens is longer than the server's max_model_len {limit}; shorten context_len, \
                 input_len or iterations"
            ));
        }
        if let Some(limit) = limits.max_num_seqs.filter(|limit| batch > *limit) {
            return Err(format!(
                "batch_size {batch} is above the server's max_num_seqs {limit}, so it would not run as one; lower it, or \
                 raise max_num_seqs"
            ));
        }
        let tokens = batch.saturating_mul(length);
        if let Some(limit) = limits.kv_cache_tokens.filter(|limit| tokens > *limit) {
            return Err(format!(
                "a batch of {batch} sequences of {length} tokens needs a KV cache of {tokens} tokens, and the server's holds \
                 {limit}; lower batch_size or the lengths"
            ));
        }
        if settings.batch.mode == ServingPhase::Decode
            && settings.batch.context_len > 1
            && limits.prefix_caching == Some(false)
        {
            return Err(
                "a decode batch needs its contexts in the prefix cache, which the server has turned off; start it with \
                 --enable-prefix-caching"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Starts or stops the profilers of all servers, if requested. A note reports the outcome for each server.
    fn profile(&self, action: &str) {
        if !self.settings.batch.profile {
            return;
        }
        for endpoint in &self.endpoints {
            let done = endpoint.post(&format!("/{action}_profile"), PROFILER);
            self.job.counters.note(match done {
                Ok(_) => format!("Profiler: {action} done"),
                Err(error) => format!("Profiler: cannot {action}: {error}; start the server with --profiler-config"),
            });
        }
    }
}

/// Number of engines of all servers together.
fn engines(limits: &[ServerLimits]) -> usize {
    limits.iter().map(|limits| limits.engines).sum()
}

/// The parameters of the benchmark.
pub const TABLE: Table = Table {
    benchmark: "the iterations benchmark",
    groups: &[
        ParamGroup::of("Batch", BatchParams::PARAMS),
        ParamGroup::of("Server", ServerParams::PARAMS),
        ParamGroup::of("Requests", ExactParams::PARAMS),
    ],
    has_datasets: false,
    remedy: "remove it, or see \"vsweep bench iterations --help\" for those it has",
    refused: &[],
};

crate::params! {
    /// One batch.
    pub struct BatchParams {
        /// prefill or decode (required).
        mode: ServingPhase = param("mode").default("prefill")
            .required("the iterations benchmark measures \"prefill\" or \"decode\""),
        /// Tokens of each sequence that are in the KV cache before; decode needs at least 1.
        context_len: usize = param("context_len").default("0"),
        /// New prompt tokens of each sequence; prefill only.
        input_len: usize = param("input_len").least(1).default("128"),
        /// Sequences for each data-parallel engine.
        batch_size: usize = param("batch_size").least(1).default("1"),
        /// Tokens to generate; decode only.
        iterations: usize = param("iterations").least(1).default("128"),
        /// Measured batches of each shape.
        repeats: usize = param("repeats").least(1).default("3"),
        /// Batches of each shape before, not counted.
        warmups: usize = param("warmups").default("1"),
        /// Way to hold the server while the batch queues: sleep (/sleep?level=0) or pause (/pause?mode=keep).
        hold: Hold = param("pause").default("sleep"),
        /// Time for the batch to reach the queue; a batch that came apart is tried again with more.
        settle_ms: Option<f64> = param("settle_ms")
            .within("a number of milliseconds of at least 0", |ms| (0.0..1e7).contains(&ms))
            .otherwise("100, plus 0.5 per sequence"),
        /// Profile the server during the measured batches.
        profile: bool = param("profile"),
        /// Servers that share the batch, each an address.
        endpoints: Vec<String> = param("endpoints").otherwise("the one at base_url"),
    }
}

crate::one_of! {
    /// Way to hold a server.
    pub enum Hold {
        /// `/sleep?level=0` and `/wake_up`.
        Sleep = "sleep",
        /// `/pause?mode=keep&clear_cache=false` and `/resume`.
        Pause = "pause",
    }
}

impl Hold {
    /// The routes that begin and end the hold. Running requests are frozen, not aborted. vLLM 0.32 empties the prefix cache in a pause of
    /// any mode, contrary to its documentation, unless `clear_cache` is false.
    fn routes(self) -> (&'static str, &'static str) {
        match self {
            Hold::Sleep => ("/sleep?level=0&mode=keep", "/wake_up"),
            Hold::Pause => ("/pause?mode=keep&clear_cache=false", "/resume"),
        }
    }
}

/// All parameters of the benchmark.
#[derive(Debug, Clone)]
pub struct IterationSettings {
    /// Address of the server.
    pub server: ServerParams,
    /// Parameters of the prompts.
    pub exact: ExactParams,
    /// The batch.
    pub batch: BatchParams,
}

impl IterationSettings {
    /// Reads parameters; every problem is a sentence that names the parameter and the remedy.
    pub fn read(params: &Params) -> Result<IterationSettings, Vec<String>> {
        let mut reader = TABLE.reader(params);
        let batch = BatchParams::read(&mut reader);
        if batch.mode == ServingPhase::Decode && batch.context_len == 0 {
            reader.problem("context_len is 0; a decode batch needs a context of at least 1 token");
        }
        let settings = IterationSettings {
            server: ServerParams::checked(&mut reader),
            exact: ExactParams::read(&mut reader),
            batch,
        };
        reader.finish(settings)
    }

    /// Base URLs of the servers that share the batch; empty for the server of the job alone.
    pub fn endpoints(&self) -> Vec<String> {
        let endpoints = self
            .batch
            .endpoints
            .iter()
            .flat_map(|text| text.split(','))
            .map(str::trim);
        endpoints.filter(|url| !url.is_empty()).map(with_scheme).collect()
    }

    /// New prompt tokens of each sequence.
    pub fn input_len(&self) -> usize {
        match self.batch.mode {
            ServingPhase::Prefill => self.batch.input_len,
            ServingPhase::Decode => 0,
        }
    }

    /// Tokens to generate for each sequence.
    pub fn output_len(&self) -> usize {
        match self.batch.mode {
            ServingPhase::Prefill => 1,
            ServingPhase::Decode => self.batch.iterations,
        }
    }

    /// Tokens of each prompt.
    fn prompt_len(&self) -> usize {
        self.batch.context_len + self.input_len()
    }

    /// Time for the batch to reach the queue, if the user set one.
    fn settle(&self) -> Option<Duration> {
        self.batch.settle_ms.map(|ms| Duration::from_secs_f64(ms / 1000.0))
    }

    /// Source of prompts that differ from those of all other shapes.
    fn prompts(&self, ids: Range<u32>) -> Prompts {
        let batch = &self.batch;
        let shape = [batch.context_len, self.input_len(), batch.batch_size, self.output_len()];
        Prompts::new(ids, self.exact.seed, &format!("{:?} {shape:?}", self.batch.mode))
    }
}

fn with_scheme(url: &str) -> String {
    let url = url.trim_end_matches('/');
    match url.contains("://") {
        true => url.to_owned(),
        false => format!("http://{url}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(params: serde_json::Value) -> Result<IterationSettings, Vec<String>> {
        IterationSettings::read(params.as_object().expect("an object"))
    }

    #[test]
    fn a_mode_decides_what_counts() {
        let prefill = read(json!({"mode": "prefill", "input-len": 64, "iterations": 9})).expect("valid");
        assert_eq!((prefill.prompt_len(), prefill.output_len()), (64, 1));
        let decode = json!({"mode": "decode", "context_len": "100", "iterations": 9, "endpoints": "a:1, https://b/"});
        let decode = read(decode).expect("valid");
        assert_eq!((decode.prompt_len(), decode.output_len()), (100, 9));
        assert_eq!(decode.endpoints(), ["http://a:1", "https://b"]);
    }

    #[test]
    fn every_problem_is_told() {
        let problems = read(json!({"mode": "both", "batch_size": 0, "contextlen": 4, "pause": 3})).expect_err("wrong");
        assert_eq!(
            problems,
            [
                "the iterations benchmark has no parameter \"contextlen\"; did you mean \"context_len\"?",
                "mode is \"both\"; it must be \"prefill\" or \"decode\"",
                "batch_size is 0; it must be a whole number of at least 1",
                "pause is 3; it must be \"sleep\" or \"pause\"",
            ]
        );
        assert_eq!(
            read(json!({"mode": "decode"})).expect_err("no context"),
            ["context_len is 0; a decode batch needs a context of at least 1 token"]
        );
        assert!(read(json!({})).expect_err("no mode")[0].starts_with("mode is missing"));
    }
}
