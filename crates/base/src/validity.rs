//! Validity of a measured run: a closed list of codes, each with a name for files, a severity and a sentence of advice. The rules that
//! assign codes are elsewhere: most of them where runs are measured, some where records are read.

use crate::printable::message;
use crate::request_error::RequestError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Validity of a run or a point. Ordered: the worst is the greatest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// There are no objections.
    #[default]
    Valid,
    /// There are doubts about the figures.
    Suspect,
    /// The run or point did not measure what it claims. It never wins and is not an answer.
    Invalid,
}

impl Validity {
    /// Returns the worst validity of these codes. A code with the severity `Valid` only marks figures.
    pub fn of(codes: impl IntoIterator<Item = Code>) -> Validity {
        codes.into_iter().map(Code::severity).max().unwrap_or_default()
    }

    /// The name in files and tables: `suspect`.
    pub fn name(self) -> &'static str {
        match self {
            Validity::Valid => "valid",
            Validity::Suspect => "suspect",
            Validity::Invalid => "invalid",
        }
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

use Validity::{Invalid, Suspect, Valid};

closed_list! {
    /// Doubts about a run or a point. The name is part of the file formats.
    Code of CodeFacts;
    /// The load that was asked for was never in flight, a batch did not run as one, or a slot stayed without work.
    LoadNotReached "load_not_reached" severity=Invalid:
        "send more requests than are in flight at once (num_prompts = { per = \"max_concurrency\", times = 10 }); for rates, \
         batches and phases lower the load, or raise max_num_seqs or the KV cache";
    /// The server's answers to the fixed questions differ from the baseline, or contradict themselves.
    AnswersDiffer "answers_differ" severity=Invalid:
        "find out which setting changes the answers, and whether that is intended; if it is, compare quality elsewhere and set \
         answer_check = false in [serve]";
    /// The result of an external benchmark is of another load than its point.
    OtherLoad "other_load" severity=Invalid:
        "check whether the benchmark was given the load of its point (max_concurrency, request_rate, num_prompts, model), and whether its \
         result is of this run";
    /// The server counted fewer prompt tokens than were sent.
    InputLengthsDiffer "input_lengths_differ" severity=Invalid:
        "check whether the server cuts prompts to its context length; if it only counts other tokens, give its tokenizer (tokenizer)";
    /// The server counted more output tokens than `max_tokens` allows.
    TooManyOutputTokens "too_many_output_tokens" severity=Invalid:
        "make the server respect max_tokens, and look at what its usage counts: throughput and TPOT are computed from it";
    /// The load generator stood still for a large part of the run.
    GeneratorStopped "generator_stopped" severity=Invalid:
        "measure again without stopping vsweep; give it its own core";
    /// The load generator stood still for a noticeable part of the run.
    GeneratorStalled "generator_stalled" severity=Suspect:
        "give vsweep its own core, and do not stop it during a run";
    /// The load generator or its connections, not the server, were the limit.
    GeneratorSaturated "generator_saturated" severity=Suspect:
        "lower the load, give the generator more CPU, or let the server keep its connections";
    /// Requests failed, too few to make the run a failure.
    RequestErrors "request_errors" severity=Suspect:
        "look for the errors in the server's log; the load may be beyond what the server accepts";
    /// No warm-up went before the first run of this load on this start of the server.
    ColdServer "cold_server" severity=Suspect:
        "let vsweep warm up (remove warmup_prompts = 0), or repeat the run; first requests include cold caches and compilation";
    /// The server runs other settings than the plan gives, by its own words.
    NotAsPlanned "not_as_planned" severity=Suspect:
        "read the server's log for the reason, or set the named settings in the plan";
    /// The server's caches could not be reset before the run.
    CachesNotReset "caches_not_reset" severity=Suspect:
        "figures may benefit from an earlier run's cache; start the server with VLLM_SERVER_DEV_MODE=1, or let vsweep start it \
         with reset = \"restart\"";
    /// The run was over before a steady state could be seen.
    RunTooShort "run_too_short" severity=Valid:
        "raise num_prompts to several times max_concurrency";
    /// A percentile of the result needs more requests than there were.
    SampleTooSmall "sample_too_small" severity=Valid:
        "send more requests (num_prompts), or ask for a lower percentile (metric_percentiles)";
    /// Requests were preempted, so that the server computed parts of them twice.
    RequestsPreempted "requests_preempted" severity=Valid:
        "lower the load, or give the KV cache more room (gpu_memory_utilization, tensor_parallel_size, kv_cache_dtype)";
    /// The server found parts of prompts in its prefix cache that are not shared by design.
    PrefixCacheHits "prefix_cache_hits" severity=Suspect:
        "let vsweep reset the caches between runs, or use another seed; prefills were faster than they would be";
    /// Answers had more or fewer tokens than were asked for.
    OutputLengthsDiffer "output_lengths_differ" severity=Suspect:
        "make the server respect ignore_eos and max_tokens, and check whether its usage can be trusted: throughput and TPOT are computed from it";
    /// More requests were at the server than the benchmark sent.
    ServerNotAlone "server_not_alone" severity=Suspect:
        "let no other client use the server while it is measured";
    /// Tokens a second had a trend throughout the run.
    NoSteadyState "no_steady_state" severity=Suspect:
        "send more requests (num_prompts), so that ramp and drain are a small part; if the server slows down, look for the reason in its telemetry";
    /// A GPU was slowed down for its heat or its power supply.
    GpuSlowedDown "gpu_slowed_down" severity=Suspect:
        "cool the GPU, or lock its clocks for all configs alike; gpu_throttle_reasons says why it was slowed down";
    /// Another process than the server computed on its GPU.
    GpuNotAlone "gpu_not_alone" severity=Suspect:
        "let no other program use the measured GPUs; `nvidia-smi` shows which one does";
    /// The share of guessed tokens that were right (the acceptance rate) changed during the run, or from the first run to the last.
    AcceptanceDrifts "acceptance_drifts" severity=Suspect:
        "send prompts that are alike from beginning to end, or more of them; speed and acceptance go together";
    /// The server became slower or faster from its first runs to its last.
    ServerDrifts "server_drifts" severity=Suspect:
        "measure on several starts, look for what grows or warms up in the telemetry, or warm up longer (warmup_prompts)";
    /// The runs of a point differ by more than noise explains.
    RunsDisagree "runs_disagree" severity=Suspect:
        "read the server's log, or raise `runs` to see which result is typical";
    /// A code that a newer vsweep wrote.
    #[serde(other)]
    Unknown "unknown" severity=Suspect:
        "read the record with the newer vsweep that wrote the code";
}

/// Facts about a code.
struct CodeFacts {
    severity: Validity,
}

impl Code {
    /// Returns the validity of a run that has only this doubt.
    pub fn severity(self) -> Validity {
        self.facts().severity
    }

    /// Returns true if something other than the server and its load influenced the run: the load generator stalled, someone else used the
    /// GPU or the server, or a GPU was throttled. Such a run can show that a load is sustained, never that it is not.
    pub fn is_disturbance(self) -> bool {
        matches!(
            self,
            Code::GeneratorStopped
                | Code::GeneratorStalled
                | Code::ServerNotAlone
                | Code::GpuSlowedDown
                | Code::GpuNotAlone
        )
    }

    /// Returns true if a doubt of this code that names no figures concerns this figure.
    pub fn touches(self, figure: &str) -> bool {
        match self {
            Code::SampleTooSmall => is_percentile(figure),
            // The first token comes before any of these effects.
            Code::OutputLengthsDiffer | Code::AcceptanceDrifts => !figure.ends_with("_ttft_ms"),
            _ => true,
        }
    }
}

/// Returns true for figures with names like `p99_ttft_ms`.
fn is_percentile(figure: &str) -> bool {
    let percent = figure.strip_prefix('p').and_then(|rest| rest.split_once('_'));
    percent.is_some_and(|(percent, _)| percent.parse::<f64>().is_ok())
}

/// Largest share of failed requests with which a run has meaningful figures.
const MOST_FAILED: f64 = 0.05;

/// Returns true if so many of all requests of a run failed that its figures mean nothing.
pub fn too_many_failed(failed: f64, all: f64) -> bool {
    failed > MOST_FAILED * all
}

/// A reason to doubt a run, with the observation behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// The kind of doubt.
    pub code: Code,
    /// The observation, in one line.
    pub detail: String,
    /// Names of the figures that it concerns. If there are none, it concerns all figures that its code touches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<String>,
    /// The most frequent error of failed requests, if they are the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_error: Option<RequestError>,
}

impl Doubt {
    /// Returns a doubt about all figures that its code touches, with this observation.
    pub fn new(code: Code, detail: impl Into<String>) -> Doubt {
        Doubt {
            code,
            detail: message(&detail.into()),
            figures: Vec::new(),
            request_error: None,
        }
    }

    /// Restricts the doubt to certain figures.
    pub fn about(self, figures: Vec<String>) -> Doubt {
        Doubt { figures, ..self }
    }

    /// Returns true if the doubt concerns this figure.
    pub fn touches(&self, figure: &str) -> bool {
        match self.figures.is_empty() {
            true => self.code.touches(figure),
            false => self.figures.iter().any(|named| named == figure),
        }
    }

    /// Returns the doubt about requests that were sent, and that a result counts neither as completed nor as failed; `None` if it counts
    /// failed ones.
    pub fn of_vanished_requests(figure: impl Fn(&str) -> Option<f64>) -> Option<Doubt> {
        // A conversation is several requests, one for each turn, and a request of a pooling benchmark may have several inputs.
        let counts_requests = ["num_conversations", "total_input_sequences"].map(&figure) == [None; 2];
        if figure("failed").is_some() || !counts_requests {
            return None;
        }
        // `num_prompts = 0` asks for every row of a file, so it does not state how many requests were sent.
        let sent = figure("num_prompts")?;
        let vanished = sent - figure("completed")?;
        let detail = format!("{vanished} of {sent} requests have no result");
        (vanished > 0.0).then(|| Doubt::new(Code::RequestErrors, detail))
    }

    /// Returns the doubt about failed requests, whose number `detail` states.
    pub fn of_requests(detail: impl Into<String>, commonest: Option<RequestError>) -> Doubt {
        let detail = RequestError::append_to(detail.into(), commonest.as_ref());
        Doubt {
            request_error: commonest,
            ..Doubt::new(Code::RequestErrors, detail)
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.code.in_words(), self.detail, self.code.advice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_worst_code_decides() {
        assert_eq!(Validity::of([]), Validity::Valid);
        assert_eq!(Validity::of([Code::SampleTooSmall, Code::RunTooShort]), Validity::Valid);
        let codes = [Code::SampleTooSmall, Code::LoadNotReached, Code::ColdServer];
        assert_eq!(Validity::of(codes), Validity::Invalid);
        assert_eq!(Validity::of([Code::ColdServer]), Validity::Suspect);
    }

    #[test]
    fn a_doubt_is_about_figures() {
        let small = Doubt::new(Code::SampleTooSmall, "p99 of 4 requests");
        assert!(small.touches("p90_ttft_ms") && small.touches("p99.9_itl_ms"));
        assert!(!small.touches("mean_ttft_ms") && !small.touches("output_throughput"));
        let small = small.about(vec!["p99_ttft_ms".to_owned()]);
        assert!(small.touches("p99_ttft_ms") && !small.touches("p90_ttft_ms"));
        let stalled = Doubt::new(Code::GeneratorStalled, "for 2 s");
        assert!(stalled.touches("output_throughput") && stalled.code.is_disturbance());
        assert!(!Code::RequestErrors.is_disturbance());
    }

    #[test]
    fn names_are_distinct_and_read_back() {
        let names: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            let written = serde_json::to_value(code).expect("a code is a string");
            assert_eq!(serde_json::from_value::<Code>(written).expect("its name"), code);
        }
        let newer: Doubt = serde_json::from_str(r#"{"code": "of_2030", "detail": "d"}"#).expect("a doubt");
        assert_eq!(newer.code, Code::Unknown);
    }
}
