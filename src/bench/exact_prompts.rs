//! Requests with exact token counts: the token ids that may be used, random prompts made of them, the form in which they are sent, and the
//! common parameters of the benchmarks that send them.

use crate::bench::Job;
use crate::bench::params::ServerParams;
use crate::bench::side::endpoint::Endpoint;
use crate::cause::Failure;
use crate::dataset::MOST_IDS;
use crate::ids::sha256_hex;
use crate::load::{Backend, BodyOptions, Content, Request};
use crate::params::Bounds;
use crate::rng::NumpyPcg64;
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// Token ids below this exist in nearly every vocabulary.
const SAFE_VOCABULARY: u32 = 32_000;
/// Token ids below this are special tokens or bytes in many vocabularies.
const FIRST_PLAIN_ID: u32 = 260;

/// Valid sizes of vocabularies.
pub(super) const VOCABULARY: Bounds = ("a whole number from 1 to 4194304", |size| size <= MOST_IDS.into());

crate::params! {
    /// Parameters of the prompts that all benchmarks of exact prompts share.
    pub struct ExactParams {
        /// Token ids below this may be used in prompts.
        vocab_size: Option<u32> = param("vocab_size").least(1).bounded(VOCABULARY).otherwise("the model's, else 32000"),
        /// Seed of the prompts.
        seed: u32 = param("seed").default("0").otherwise("0 in a plan, else another each time"),
        /// Seconds after which a request counts as failed.
        request_timeout: Duration = param("request_timeout")
            .within("a number of seconds above 0", |seconds| seconds > 0.0)
            .default("600"),
    }
}

crate::one_of! {
    /// Phase of serving that is measured.
    pub enum ServingPhase {
        /// Prompts are computed, up to their first token.
        Prefill = "prefill",
        /// Tokens are generated after prompts.
        Decode = "decode",
    }
}

/// Prepares an endpoint for completions. Every event of an answer reports the number of tokens so far.
pub(super) async fn open(job: &Job, url: &str, server: &ServerParams) -> Result<Endpoint, Failure> {
    let mut extra = Map::new();
    extra.insert("temperature".to_owned(), json!(0));
    let counted = json!({"include_usage": true, "continuous_usage_stats": true});
    extra.insert("stream_options".to_owned(), counted);
    let body = BodyOptions {
        backend: Backend::Completions,
        model: server.model.as_ref().unwrap_or(&job.served_model).clone(),
        ignore_eos: true,
        logprobs: None,
        extra,
    };
    Endpoint::open(job, url, server, Backend::Completions.endpoint(), body).await
}

/// Returns a request for exactly `output_len` output tokens. If `rank` is given, the request goes to the server's engine with this rank.
pub(super) fn request(
    endpoint: &Endpoint,
    prompt: &[u32],
    output_len: usize,
    rank: Option<usize>,
) -> Result<Request, String> {
    let mut overrides = Map::new();
    overrides.insert("min_tokens".to_owned(), json!(output_len));
    let mut options = endpoint.options.clone();
    let rank = rank.map(|rank| ("X-data-parallel-rank".to_owned(), rank.to_string()));
    options.headers.extend(rank);
    options.request(&Content {
        prompt: Some(&Value::from(prompt)),
        overrides: Some(&overrides),
        prompt_len: prompt.len() as u64,
        output_len: output_len as u64,
        ..Content::default()
    })
}

/// Returns the token ids for prompts that are made without a tokenizer.
pub(super) fn plain_ids(vocab_size: Option<u32>, model_root: &str) -> Range<u32> {
    let known = vocab_size.or_else(|| vocabulary_of(Path::new(model_root)));
    let end = known.unwrap_or(SAFE_VOCABULARY);
    if end > 2 * FIRST_PLAIN_ID {
        FIRST_PLAIN_ID..end
    } else {
        end.min(8) / 2..end
    }
}

/// Returns `vocab_size` in the `config.json` of a local model folder.
fn vocabulary_of(model: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(model.join("config.json")).ok()?;
    let config: Value = serde_json::from_str(&text).ok()?;
    let size = config
        .get("vocab_size")
        .or_else(|| config.get("text_config")?.get("vocab_size"))?;
    size.as_u64()
        .and_then(|size| u32::try_from(size).ok())
        .filter(|size| (1..=MOST_IDS).contains(size))
}

/// Draws prompts, no two of which share a block in the prefix cache.
#[derive(Debug)]
pub(super) struct Prompts {
    ids: Range<u32>,
    random: NumpyPcg64,
    drawn: u64,
}

impl Prompts {
    /// Creates a source of prompts for one purpose. Prompts for different purposes share no block of the prefix cache either, even with the
    /// same seed.
    pub fn new(ids: Range<u32>, seed: u32, purpose: &str) -> Self {
        let digest = sha256_hex(format!("{seed} {purpose}").as_bytes());
        let seed = u64::from_str_radix(&digest[..16], 16).expect("a digest is hexadecimal");
        let random = NumpyPcg64::new(seed);
        Prompts { ids, random, drawn: 0 }
    }

    /// Draws a prompt of this length, in tokens. Its first two ids count the prompts, so that no two prompts share a cached block.
    pub fn draw(&mut self, length: usize) -> Vec<u32> {
        let Range { start, end } = self.ids;
        let mut prompt: Vec<u32> = (0..length)
            .map(|_| self.random.integer(start.into(), end.into()) as u32)
            .collect();
        let count = u64::from((end - start).max(1));
        let digits = [self.drawn / count % count, self.drawn % count];
        for (id, digit) in prompt.iter_mut().zip(digits) {
            *id = start + digit as u32;
        }
        self.drawn += 1;
        prompt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_exact_and_differ_at_once() {
        let mut prompts = Prompts::new(plain_ids(Some(1024), ""), 7, "a test");
        let drawn: Vec<Vec<u32>> = (0..2000).map(|_| prompts.draw(5)).collect();
        assert!(drawn.iter().flatten().all(|id| (260..1024).contains(id)));
        assert!(drawn.iter().all(|prompt| prompt.len() == 5));
        let starts: std::collections::HashSet<&[u32]> = drawn.iter().map(|prompt| &prompt[..2]).collect();
        assert_eq!(starts.len(), 2000);
        assert_eq!(prompts.draw(0), [0; 0]);
    }
}
