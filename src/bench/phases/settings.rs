//! Parameters of the phases benchmark as typed values.

use crate::bench::exact_prompts::Prompts;
use crate::bench::params::reader::Reader;
use crate::bench::params::server::{self, Site};
use crate::bench::params::{Flag, Takes, find_in, flag, unknown_in};
use crate::plan::Params;
use std::ops::Range;
use std::time::Duration;

/// Every parameter of one measurement.
pub const FLAGS: &[Flag] = &[
    server::BASE_URL,
    server::HOST,
    server::PORT,
    server::HEADER,
    server::INSECURE,
    server::MODEL,
    flag("phase", Takes::Text, "prefill or decode (required)"),
    flag(
        "max_concurrency",
        Takes::Count,
        "Requests in flight at once (required); they share the KV cache evenly",
    ),
    flag(
        "ratio",
        Takes::Number,
        "Prompt's share of each sequence; decode only [0.5]",
    ),
    flag("duration", Takes::Number, "Seconds to measure [15]"),
    flag(
        "warmup",
        Takes::Number,
        "Seconds before that [until every request in flight has output, times warmup_margin]",
    ),
    flag("warmup_margin", Takes::Number, "Factor of the automatic warm-up [1.5]"),
    flag(
        "kv_cache_tokens",
        Takes::Count,
        "Tokens that the KV cache holds [as the server's /metrics says]",
    ),
    flag("max_model_len", Takes::Count, "Longest sequence [as the server says]"),
    server::VOCAB_SIZE,
    server::SEED,
    server::REQUEST_TIMEOUT,
];

/// The longest automatic warm-up.
const LONGEST_WARMUP: Duration = Duration::from_secs(120);
/// The shortest, as a share of the measured time: 5 s of 15 s.
const SHORTEST_WARMUP: f64 = 1.0 / 3.0;

/// Which phase is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Phase {
    /// Requests of one output token.
    Prefill,
    /// Sequences of which this share is the prompt.
    Decode(f64),
}

/// Everything the benchmark was told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The server and its requests.
    pub site: Site,
    /// The phase.
    pub phase: Phase,
    /// Requests in flight.
    pub concurrency: usize,
    /// Time to measure.
    pub duration: Duration,
    /// Time before that, if it is not found automatically.
    pub warmup: Option<Duration>,
    /// Factor of the automatic warm-up.
    pub warmup_margin: f64,
    /// Tokens that the KV cache holds, if the server is not to be asked.
    pub kv_cache_tokens: Option<u64>,
    /// Longest sequence, if the server is not to be asked.
    pub max_model_len: Option<u64>,
}

impl Settings {
    /// Reads parameters; every problem is a sentence that names the parameter and the remedy.
    pub fn read(params: &Params) -> Result<Settings, Vec<String>> {
        let mut reader = Reader::of(params, |name| find_in(FLAGS.iter(), name), unknown);
        let ratio = reader.number("ratio", "a share above 0 and below 1", |ratio| {
            0.0 < ratio && ratio < 1.0
        });
        let phase = match reader.text("phase").as_deref() {
            Some("prefill") => Some(Phase::Prefill),
            Some("decode") => Some(Phase::Decode(ratio.unwrap_or(0.5))),
            Some(_) => {
                reader.wrong("phase", "\"prefill\" or \"decode\"");
                None
            }
            None => {
                let missing = "phase is missing; the phases benchmark measures \"prefill\" or \"decode\"";
                reader.problems.push(missing.to_owned());
                None
            }
        };
        let concurrency = reader.count("max_concurrency", 1);
        if concurrency.is_none() && !params.keys().any(|name| name.replace('-', "_") == "max_concurrency") {
            let missing = "max_concurrency is missing; say how many requests are in flight at once";
            reader.problems.push(missing.to_owned());
        }
        let mut seconds = |name: &str, least: f64| {
            let wants = match least > 0.0 {
                true => "a number of seconds above 0",
                false => "a number of seconds of at least 0",
            };
            let given = reader.number(name, wants, |seconds| seconds >= least && seconds < 1e6);
            given.map(Duration::from_secs_f64)
        };
        let (duration, warmup) = (seconds("duration", 1e-3), seconds("warmup", 0.0));
        let margin = reader.number("warmup_margin", "a factor of at least 1", |margin| {
            (1.0..1e3).contains(&margin)
        });
        let settings = Settings {
            site: Site::read(&mut reader),
            phase: phase.unwrap_or(Phase::Prefill),
            concurrency: concurrency.unwrap_or(1) as usize,
            duration: duration.unwrap_or(Duration::from_secs(15)),
            warmup,
            warmup_margin: margin.unwrap_or(1.5),
            kv_cache_tokens: reader.count("kv_cache_tokens", 1),
            max_model_len: reader.count("max_model_len", 1),
        };
        match reader.problems.is_empty() {
            true => Ok(settings),
            false => Err(reader.problems),
        }
    }

    /// Prompts that no other level has.
    pub(super) fn prompts(&self, ids: Range<u32>) -> Prompts {
        Prompts::new(ids, self.site.seed, &format!("{:?} {}", self.phase, self.concurrency))
    }

    /// The shortest and the longest time before the window opens.
    pub(super) fn warmup_bounds(&self) -> (Duration, Duration) {
        match self.warmup {
            Some(fixed) => (fixed, fixed),
            None => (
                self.duration.mul_f64(SHORTEST_WARMUP).min(LONGEST_WARMUP),
                LONGEST_WARMUP,
            ),
        }
    }
}

fn unknown(name: &str) -> String {
    let whose = "the phases benchmark";
    unknown_in(FLAGS.iter(), whose, name).unwrap_or_else(|| {
        let known: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
        format!(
            "{whose} has no parameter \"{name}\"; remove it; there are {}",
            known.join(", ")
        )
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
    fn warm_up_is_automatic_unless_told() {
        let told = json!({"phase": "decode", "max-concurrency": 4, "ratio": 0.25, "duration": 3});
        let mut settings = read(told).expect("valid");
        assert_eq!(settings.phase, Phase::Decode(0.25));
        assert_eq!(
            settings.warmup_bounds(),
            (Duration::from_secs(1), Duration::from_secs(120))
        );
        settings.warmup = Some(Duration::ZERO);
        assert_eq!(settings.warmup_bounds(), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn every_problem_is_told() {
        let problems = read(json!({"phase": 1, "ratio": 1, "duration": 0, "num_prompts": 3})).expect_err("wrong");
        assert!(problems[0].starts_with("the phases benchmark has no parameter \"num_prompts\"; remove it"));
        assert_eq!(
            problems[1..],
            [
                "ratio is 1; it must be a share above 0 and below 1",
                "phase is 1; it must be \"prefill\" or \"decode\"",
                "max_concurrency is missing; say how many requests are in flight at once",
                "duration is 0; it must be a number of seconds above 0",
            ]
        );
    }
}
