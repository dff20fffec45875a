//! Parameters of the iterations benchmark as typed values: the shape of one batch, and how it is measured.

use crate::bench::exact_prompts::Prompts;
use crate::bench::params::reader::Reader;
use crate::bench::params::server::{self, Site};
use crate::bench::params::{Flag, Takes, find_in, flag, unknown_in};
use crate::plan::Params;
use std::ops::Range;
use std::time::Duration;

/// Every parameter.
pub const FLAGS: &[Flag] = &[
    flag(
        "endpoints",
        Takes::Texts,
        "Servers that share the batch, each an address [the one at base_url]",
    ),
    server::BASE_URL,
    server::HOST,
    server::PORT,
    server::HEADER,
    server::INSECURE,
    server::MODEL,
    flag("mode", Takes::Text, "prefill or decode (required)"),
    flag(
        "context_len",
        Takes::Count,
        "Tokens of each sequence that are in the KV cache before; decode needs at least 1 [0]",
    ),
    flag(
        "input_len",
        Takes::Count,
        "New prompt tokens of each sequence; prefill only [128]",
    ),
    flag(
        "batch_size",
        Takes::Count,
        "Sequences for each data-parallel engine [1]",
    ),
    flag("iterations", Takes::Count, "Tokens to generate; decode only [128]"),
    flag("repeats", Takes::Count, "Measured batches of each shape [3]"),
    flag("warmups", Takes::Count, "Batches of each shape before, not counted [1]"),
    flag(
        "pause",
        Takes::Text,
        "How the server is held while the batch queues: sleep (/sleep?level=0) or pause (/pause?mode=keep) [sleep]",
    ),
    flag(
        "settle_ms",
        Takes::Number,
        "Time for the batch to reach the queue; a batch that came apart is tried again with more [100, and 0.5 a sequence]",
    ),
    flag(
        "profile",
        Takes::Nothing,
        "Profile the server during the measured batches",
    ),
    server::VOCAB_SIZE,
    server::SEED,
    server::REQUEST_TIMEOUT,
];

/// Which phase is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Prompts are computed, up to their first token.
    Prefill,
    /// Tokens are generated after prompts that are in the cache.
    Decode,
}

/// How a server is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// `/sleep?level=0` and `/wake_up`.
    Sleep,
    /// `/pause?mode=keep&clear_cache=false` and `/resume`.
    Pause,
}

impl Hold {
    /// The routes that begin and end it. What runs already is frozen, not aborted. vLLM 0.32 empties the prefix cache in a
    /// pause of any mode, whatever its documentation says, unless told not to.
    pub(super) fn routes(self) -> (&'static str, &'static str) {
        match self {
            Hold::Sleep => ("/sleep?level=0&mode=keep", "/wake_up"),
            Hold::Pause => ("/pause?mode=keep&clear_cache=false", "/resume"),
        }
    }
}

/// Everything the benchmark was told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The server and its requests.
    pub site: Site,
    /// Base URLs that share the batch; none means the one of the job.
    pub endpoints: Vec<String>,
    /// The phase.
    pub mode: Mode,
    /// Tokens of each sequence that are cached before.
    pub context_len: usize,
    /// New prompt tokens of each sequence; 0 for decode.
    pub input_len: usize,
    /// Sequences for each engine.
    pub batch_size: usize,
    /// Tokens to generate for each sequence; 1 for prefill.
    pub output_len: usize,
    /// Measured batches.
    pub repeats: usize,
    /// Batches before, not counted.
    pub warmups: usize,
    /// How the servers are held.
    pub hold: Hold,
    /// Time for the batch to reach the queue.
    pub settle: Option<Duration>,
    /// Profile the servers.
    pub profile: bool,
}

impl Settings {
    /// Reads parameters; every problem is a sentence that names the parameter and the remedy.
    pub fn read(params: &Params) -> Result<Settings, Vec<String>> {
        let mut reader = Reader::of(params, |name| find_in(FLAGS.iter(), name), unknown);
        let mode = match reader.text("mode").as_deref() {
            Some("prefill") => Some(Mode::Prefill),
            Some("decode") => Some(Mode::Decode),
            Some(_) => {
                reader.wrong("mode", "\"prefill\" or \"decode\"");
                None
            }
            None => {
                let missing = "mode is missing; the iterations benchmark measures \"prefill\" or \"decode\"";
                reader.problems.push(missing.to_owned());
                None
            }
        };
        let hold = match reader.text("pause").as_deref() {
            None | Some("sleep") => Hold::Sleep,
            Some("pause") => Hold::Pause,
            Some(_) => {
                reader.wrong("pause", "\"sleep\" or \"pause\"");
                Hold::Sleep
            }
        };
        let mut count = |name: &str, least: u64, default: u64| {
            let given = reader.count(name, least).unwrap_or(default);
            usize::try_from(given).unwrap_or(usize::MAX)
        };
        let context_len = count("context_len", 0, 0);
        let (input_len, iterations) = (count("input_len", 1, 128), count("iterations", 1, 128));
        let (batch_size, repeats, warmups) = (
            count("batch_size", 1, 1),
            count("repeats", 1, 3),
            count("warmups", 0, 1),
        );
        if mode == Some(Mode::Decode) && context_len == 0 {
            let nothing = "context_len is 0; a decode batch needs a context of at least 1 token";
            reader.problems.push(nothing.to_owned());
        }
        let settle = reader.number("settle_ms", "a number of milliseconds of at least 0", |ms| {
            (0.0..1e7).contains(&ms)
        });
        let endpoints = reader.texts("endpoints");
        let endpoints = endpoints.iter().flat_map(|text| text.split(',')).map(str::trim);
        let is_prefill = mode != Some(Mode::Decode);
        let settings = Settings {
            endpoints: endpoints.filter(|url| !url.is_empty()).map(with_scheme).collect(),
            site: Site::read(&mut reader),
            mode: mode.unwrap_or(Mode::Prefill),
            context_len,
            input_len: if is_prefill { input_len } else { 0 },
            batch_size,
            output_len: if is_prefill { 1 } else { iterations },
            repeats,
            warmups,
            hold,
            settle: settle.map(|ms| Duration::from_secs_f64(ms / 1000.0)),
            profile: reader.is_set("profile"),
        };
        match reader.problems.is_empty() {
            true => Ok(settings),
            false => Err(reader.problems),
        }
    }

    /// Prompts that no other shape has.
    pub(super) fn prompts(&self, ids: Range<u32>) -> Prompts {
        let shape = [self.context_len, self.input_len, self.batch_size, self.output_len];
        Prompts::new(ids, self.site.seed, &format!("{:?} {shape:?}", self.mode))
    }

    /// Tokens of each prompt.
    pub(super) fn prompt_len(&self) -> usize {
        self.context_len + self.input_len
    }
}

fn with_scheme(url: &str) -> String {
    let url = url.trim_end_matches('/');
    match url.contains("://") {
        true => url.to_owned(),
        false => format!("http://{url}"),
    }
}

fn unknown(name: &str) -> String {
    let whose = "the iterations benchmark";
    unknown_in(FLAGS.iter(), whose, name).unwrap_or_else(|| {
        format!("{whose} has no parameter \"{name}\"; remove it, or see \"vsweep iterations --help\" for those it has")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(params: serde_json::Value) -> Result<Settings, Vec<String>> {
        Settings::read(params.as_object().expect("an object"))
    }

    #[test]
    fn a_mode_decides_what_counts() {
        let prefill = read(json!({"mode": "prefill", "input-len": 64, "iterations": 9})).expect("valid");
        assert_eq!((prefill.prompt_len(), prefill.output_len), (64, 1));
        let decode = json!({"mode": "decode", "context_len": "100", "iterations": 9, "endpoints": "a:1, https://b/"});
        let decode = read(decode).expect("valid");
        assert_eq!((decode.prompt_len(), decode.output_len), (100, 9));
        assert_eq!(decode.endpoints, ["http://a:1", "https://b"]);
    }

    #[test]
    fn every_problem_is_told() {
        let problems = read(json!({"mode": "both", "batch_size": 0, "contextlen": 4, "pause": 3})).expect_err("wrong");
        assert_eq!(
            problems,
            [
                "the iterations benchmark has no parameter \"contextlen\"; did you mean \"context_len\"?",
                "mode is \"both\"; it must be \"prefill\" or \"decode\"",
                "pause is 3; it must be \"sleep\" or \"pause\"",
                "batch_size is 0; it must be a whole number of at least 1",
            ]
        );
        assert_eq!(
            read(json!({"mode": "decode"})).expect_err("no context"),
            ["context_len is 0; a decode batch needs a context of at least 1 token"]
        );
        assert!(read(json!({})).expect_err("no mode")[0].starts_with("mode is missing"));
    }
}
