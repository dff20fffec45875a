//! Parameters of the phases benchmark as typed values.

use crate::bench::exact_prompts::{ExactParams, Prompts, ServingPhase};
use crate::bench::params::{ParamGroup, ServerParams, Table};
use crate::plan::Params;
use std::ops::Range;
use std::time::Duration;

/// Every parameter of one measurement.
pub const TABLE: Table = Table {
    whose: "the phases benchmark",
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

/// The longest automatic warm-up.
const LONGEST_WARMUP: Duration = Duration::from_secs(120);
/// The shortest, as a share of the measured time: 5 s of 15 s.
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

    /// Prompts that no other level has.
    pub(super) fn prompts(&self, ids: Range<u32>) -> Prompts {
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

    /// The shortest and the longest time before the window opens.
    pub(super) fn warmup_bounds(&self) -> (Duration, Duration) {
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

    fn read(params: serde_json::Value) -> Result<PhaseSettings, Vec<String>> {
        PhaseSettings::read(params.as_object().expect("an object"))
    }

    #[test]
    fn warm_up_is_automatic_unless_told() {
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
    fn every_problem_is_told() {
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
