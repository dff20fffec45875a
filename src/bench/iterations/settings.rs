//! Parameters of the iterations benchmark as typed values: the shape of one batch, and how it is measured.

use crate::bench::exact_prompts::{ExactParams, Prompts, ServingPhase};
use crate::bench::params::{ParamGroup, ServerParams, Table};
use crate::plan::Params;
use std::ops::Range;
use std::time::Duration;

/// Every parameter.
pub const TABLE: Table = Table {
    whose: "the iterations benchmark",
    groups: &[
        ParamGroup::of("Batch", BatchParams::PARAMS),
        ParamGroup::of("Server", ServerParams::PARAMS),
        ParamGroup::of("Requests", ExactParams::PARAMS),
    ],
    has_datasets: false,
    remedy: "remove it, or see \"vsweep iterations --help\" for those it has",
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
            .otherwise("100, and 0.5 a sequence"),
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
    pub(super) fn routes(self) -> (&'static str, &'static str) {
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

    /// Base URLs that share the batch; none means the one of the job.
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
    pub(super) fn prompt_len(&self) -> usize {
        self.batch.context_len + self.input_len()
    }

    /// Time for the batch to reach the queue, if it is given.
    pub(super) fn settle(&self) -> Option<Duration> {
        self.batch.settle_ms.map(|ms| Duration::from_secs_f64(ms / 1000.0))
    }

    /// Prompts that no other shape has.
    pub(super) fn prompts(&self, ids: Range<u32>) -> Prompts {
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
