//! The iterations benchmark: one batch of exactly known shape, held in the server's queue until it is whole, then let go
//! and timed. Prefill batches end with their first token, decode batches after so many steps.
//!
//! The way of a batch: hold the servers, send every request, let them go, await every answer. Whether the batch ran as one
//! is not assumed but read from the server's own count of steps; one that came apart is tried again. Sweeping shapes is
//! the caller's work.

mod batch;
mod result;
pub mod settings;

use self::batch::Batch;
use self::settings::IterationSettings;
use crate::bench::exact_prompts::{self, Prompts, ServingPhase, plain_ids};
use crate::bench::side::endpoint::{Endpoint, PROFILER};
use crate::bench::side::limits::ServerLimits;
use crate::bench::worker::{self, GivenUp};
use crate::bench::{Job, Measurement, broken, sound};
use crate::cause::Failure;
use crate::load::{Generator, allow_connections};
use std::sync::atomic::Ordering::Relaxed;

/// Measures one shape. Dropping the future lets the servers go first.
pub async fn measure(job: &Job) -> Result<Measurement, Failure> {
    let settings = sound(IterationSettings::read(&job.params))?;
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

/// Measurement of one shape, on a separate thread.
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
        let facts: Vec<ServerLimits> = self.endpoints.iter().map(ServerLimits::of).collect();
        let sequences = self.settings.batch.batch_size * engines(&facts);
        facts.iter().try_for_each(|facts| self.fits(facts)).map_err(broken)?;
        allow_connections(sequences).map_err(broken)?;
        self.endpoints.iter().for_each(Endpoint::forget_prefixes);
        let batches = self.settings.batch.warmups + self.settings.batch.repeats;
        self.job.counters.planned.store((sequences * batches) as u64, Relaxed);

        let contexts: Vec<Vec<u32>> = (0..sequences)
            .map(|_| self.prompts.draw(self.settings.batch.context_len))
            .collect();
        if self.settings.batch.context_len > 0 {
            let batch = Batch::of(&self.endpoints, &facts, &contexts, 1).map_err(broken)?;
            batch.send_freely(&mut self)?;
        }
        let mut timings = Vec::new();
        for number in 0..batches {
            if number == self.settings.batch.warmups {
                self.profile("start");
            }
            let prompts: Vec<Vec<u32>> = contexts.iter().map(|context| self.continued(context)).collect();
            let batch = Batch::of(&self.endpoints, &facts, &prompts, self.settings.output_len()).map_err(broken)?;
            let timing = batch.time(&mut self, &facts)?;
            if number >= self.settings.batch.warmups {
                timings.push(timing);
            }
        }
        self.profile("stop");
        Ok(result::measurement(&self, &facts, sequences, &timings))
    }

    /// A context with new input after it.
    fn continued(&mut self, context: &[u32]) -> Vec<u32> {
        let input = self.prompts.draw(self.settings.input_len());
        [context, &input].concat()
    }

    /// Checks that a server can run the batch as one, as far as it reports its limits.
    fn fits(&self, facts: &ServerLimits) -> Result<(), String> {
        let settings = &self.settings;
        let length = (settings.prompt_len() + settings.output_len()) as u64;
        let batch = settings.batch.batch_size as u64;
        if let Some(limit) = facts.max_model_len.filter(|limit| length > *limit) {
            return Err(format!(
                "a sequence of {length} tokens is longer than the server's max_model_len {limit}; shorten context_len, \
                 input_len or iterations"
            ));
        }
        if let Some(limit) = facts.max_num_seqs.filter(|limit| batch > *limit) {
            return Err(format!(
                "batch_size {batch} is above the server's max_num_seqs {limit}, so it would not run as one; lower it, or \
                 raise max_num_seqs"
            ));
        }
        let tokens = batch.saturating_mul(length);
        if let Some(limit) = facts.kv_cache_tokens.filter(|limit| tokens > *limit) {
            return Err(format!(
                "a batch of {batch} sequences of {length} tokens needs a KV cache of {tokens} tokens, and the server's holds \
                 {limit}; lower batch_size or the lengths"
            ));
        }
        if settings.batch.mode == ServingPhase::Decode
            && settings.batch.context_len > 1
            && facts.prefix_caching == Some(false)
        {
            return Err(
                "a decode batch needs its contexts in the prefix cache, which the server has turned off; start it with \
                 --enable-prefix-caching"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Starts or stops the profilers. Servers without one are ignored.
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

/// Engines of all servers.
fn engines(facts: &[ServerLimits]) -> usize {
    facts.iter().map(|facts| facts.engines).sum()
}
