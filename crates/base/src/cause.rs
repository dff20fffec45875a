//! Causes of failed runs: a closed list, each entry with a name for files, a sentence of advice and a policy. Doubts about measured runs
//! are another list (`validity`). The server room derives the cause from exit codes and log lines.

use crate::printable::message;
use crate::request_error::RequestError;
use itertools::Itertools;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The outcome of one run, as recorded in the journal and in `summary.csv`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Measured, and its validity is `valid`.
    #[default]
    Ok,
    /// Measured, but its validity is not `valid`.
    Suspect,
    /// Not measured; the cause says why.
    Failed,
    /// A probe of a search, ended as soon as its verdict was certain: an answer, but no figures of a whole run.
    Cut,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Prefix of the detail of a run that was given up without a try, because its server did not start or died in other runs.
pub const NOT_TRIED: &str = "not tried again: ";

/// Name that advice uses for the log file of a server.
const LOG: &str = "the server's log";

closed_list! {
    /// Causes of failure, in the order of a server's life. The serialised name is part of the file formats.
    Cause of CauseFacts;
    /// The server refused its command line.
    BadFlag "bad_flag" again=false load=false: "correct or remove the flag that is named";
    /// The system refused what the server or its supervision takes: a process, an open file, memory, room on a disk, or `/proc`.
    SystemRefused "system_refused" again=false load=false:
        "raise the limit that is named (ulimit -u, -n, -v; /dev/shm), free memory or disk space, or mount /proc, then \
         add --retry-failed";
    /// The program to run is not there or cannot be executed.
    CommandNotFound "command_not_found" again=false load=false:
        "install the program, put it on PATH, or correct the command in the plan";
    /// The model is not where the command says.
    ModelNotFound "model_not_found" again=false load=false: "check the model name, its folder, and HF_TOKEN or HF_HUB_OFFLINE";
    /// The model's configuration does not allow what was asked (e.g. a context length).
    BadConfig "bad_config" again=false load=false: "change the setting that is named; the model does not allow it";
    /// Out of GPU memory while loading or profiling.
    OomAtLoad "oom_at_load" again=false load=false:
        "raise tensor_parallel_size or quantize; if the weights fit, lower max_model_len or gpu_memory_utilization";
    /// Memory left for the KV cache does not hold one request of the asked length.
    KvCacheTooSmall "kv_cache_too_small" again=false load=false:
        "lower max_model_len, or raise gpu_memory_utilization or tensor_parallel_size";
    /// Out of GPU memory while serving.
    OomUnderLoad "oom_under_load" again=false load=true: "lower gpu_memory_utilization, max_num_seqs or max_num_batched_tokens";
    /// A GPU, its driver or the links between GPUs failed (CUDA, NCCL, Xid, ECC).
    GpuFault "gpu_fault" again=true load=true:
        "look at the GPUs and their driver (nvidia-smi, and Xid in dmesg) and, with several GPUs, set \
         NCCL_DEBUG=INFO; if the hardware is healthy, it is a defect of the server";
    /// The port was in use.
    PortTaken "port_taken" again=true load=false:
        "stop the program that holds the port, or remove the port from the plan so that a free one is chosen";
    /// Another server answered, or ours serves another model than asked.
    WrongServer "wrong_server" again=false load=false:
        "stop the other server, or correct url, model or served_model_name in the plan";
    /// Not ready within `ready_timeout`.
    ReadyTimeout "ready_timeout" again=false load=false:
        "raise serve.ready_timeout if the server's log shows that it was still loading; with serve.url, start that \
         server or correct the URL";
    /// The server ended before it was ready, for no reason we recognise.
    CrashedStarting "crashed_starting" again=false load=false: "read the end of the server's log";
    /// The server ended, or lost its engine, while it was being measured.
    CrashedUnderLoad "crashed_under_load" again=true load=true:
        "read the end of the server's log; it may be unstable under this load";
    /// The server is healthy but makes no progress.
    Hung "hung" again=true load=true:
        "requests were accepted but nothing was produced; read the server's log, and report it to its developers";
    /// An earlier server or another program holds GPU memory.
    GpuMemoryHeld "gpu_memory_held" again=false load=false:
        "end the processes that hold GPU memory (nvidia-smi lists them), then run again";
    /// The benchmark program failed, or left no readable result.
    BenchFailed "bench_failed" again=false load=false:
        "see what its detail names: a bench parameter, or a file; the output of a benchmark command is in the run's bench.log";
    /// The benchmark did not end within `bench.timeout`.
    BenchTimeout "bench_timeout" again=false load=true: "raise bench.timeout, or lower num_prompts for this load";
    /// Too many requests failed for the figures to mean anything.
    RequestErrors "request_errors" again=false load=true:
        "HTTP 401 and 403 ask for a key (set OPENAI_API_KEY), 400 and 404 for other bench parameters; with other \
         errors the load may be beyond what the server accepts";
    /// The run's file is missing, unreadable, or not the one that the journal vouches for.
    ResultDamaged "result_damaged" again=false load=false:
        "restore the run's file from a copy; its figures are left out because they are not what was measured";
}

/// Facts about a cause.
struct CauseFacts {
    /// True if another try may succeed.
    again: bool,
    /// True if too much load may be the reason.
    load: bool,
}

impl Cause {
    /// Returns true if another try may succeed. After any other cause, it would fail in the same way.
    pub fn is_transient(self) -> bool {
        self.facts().again
    }

    /// Returns true if only another plan helps: the same command line under the same load fails again.
    pub fn needs_another_plan(self) -> bool {
        matches!(
            self,
            Cause::BadFlag | Cause::BadConfig | Cause::OomAtLoad | Cause::KvCacheTooSmall | Cause::OomUnderLoad
        )
    }

    /// Returns true if too much load can cause it. A search then concludes that the load is too high.
    pub fn may_come_from_load(self) -> bool {
        self.facts().load
    }

    /// Returns the advice, which names the file of the server's log if `log` is known.
    pub fn advice_with(self, log: Option<&str>) -> String {
        name_log(self.advice(), log)
    }
}

fn name_log(advice: &str, log: Option<&str>) -> String {
    // A server behind a URL has no log here.
    let advice = match advice.split_once("; with serve.url, ") {
        Some((launched, attached)) => log.map_or(attached, |_| launched),
        None => advice,
    };
    match log {
        Some(log) => advice.replace(LOG, &format!("{LOG} ({log})")),
        None => advice.to_owned(),
    }
}

/// A server that is not started because it needs at least as much memory as one that failed to start.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RuledOut {
    /// The settings in which the two differ, each with its values: `max_model_len`, `8192 > 4096`.
    pub settings: Vec<(String, String)>,
    /// Name of the server that did not start.
    pub by: String,
    /// Reason why that server did not start.
    pub why: String,
}

impl RuledOut {
    /// Returns the conclusion as a sentence, without the reason why the other server did not start.
    pub fn claim(&self) -> String {
        let mut settings = self.settings.iter().map(|(name, values)| format!("{name} {values}"));
        format!(
            "not started: it needs at least the memory of {}, which was too much ({})",
            self.by,
            settings.join(", ")
        )
    }

    /// Returns a copy with other names for settings and servers.
    pub fn renamed(&self, setting: impl Fn(&str) -> String, server: impl Fn(&str) -> String) -> RuledOut {
        let settings = self.settings.iter();
        RuledOut {
            settings: settings.map(|(name, values)| (setting(name), values.clone())).collect(),
            by: server(&self.by),
            why: self.why.clone(),
        }
    }
}

impl fmt::Display for RuledOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.claim(), self.why)
    }
}

/// A failure of a server or a benchmark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The cause.
    pub cause: Cause,
    /// The decisive log line, exit status or error text, in one line.
    pub detail: String,
    /// The most frequent error of failed requests, if they are the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_error: Option<RequestError>,
    /// The comparison with another server, if the server was not started because it needs too much memory.
    #[serde(skip)]
    pub ruled_out: Option<Box<RuledOut>>,
}

impl Failure {
    /// Returns a failure with this detail, which is made printable and shortened.
    pub fn new(cause: Cause, detail: impl Into<String>) -> Self {
        Failure {
            cause,
            // The detail may be a message of a server or another program.
            detail: message(&detail.into()),
            request_error: None,
            ruled_out: None,
        }
    }

    /// Returns the failure of a server that is not started.
    pub fn of_ruled_out(cause: Cause, ruled_out: RuledOut) -> Self {
        Failure {
            ruled_out: Some(Box::new(ruled_out.clone())),
            ..Failure::new(cause, ruled_out.to_string())
        }
    }

    /// Returns the failure of a run because of failed requests, whose number `detail` states.
    pub fn of_requests(detail: impl Into<String>, commonest: Option<RequestError>) -> Self {
        let detail = RequestError::append_to(detail.into(), commonest.as_ref());
        Failure {
            request_error: commonest,
            ..Failure::new(Cause::RequestErrors, detail)
        }
    }

    /// Returns the advice of the cause or, for failed requests, the advice for their HTTP status. `None` if the detail already ends in
    /// advice.
    pub fn advice(&self) -> Option<&'static str> {
        match self.cause {
            // The detail of our own benchmarks names the parameter and the remedy.
            Cause::BenchFailed => None,
            Cause::RequestErrors => {
                let status = self.request_error.as_ref().and_then(|error| error.status);
                Some(status.map_or(WITHOUT_STATUS, advice_on_status))
            }
            cause => Some(cause.advice()),
        }
    }

    /// Returns the advice for this failure, else the advice of its cause. The advice names the file of the server's log if `log` is known.
    pub fn advice_with(&self, log: Option<&str>) -> String {
        name_log(self.advice().unwrap_or(self.cause.advice()), log)
    }
}

/// Advice about requests that got no complete response.
const WITHOUT_STATUS: &str = "look for the error in the server's log; the load may be beyond what the server accepts";

/// Returns the advice about requests that a server answered with this status.
fn advice_on_status(status: u16) -> &'static str {
    match status {
        401 | 403 => "set OPENAI_API_KEY, or header, to a key that the server accepts",
        404 | 405 => "check the model's name, base_url and endpoint",
        408 | 429 | 502..=504 => "lower the load: it is beyond what the server accepts",
        400..=499 => "correct the bench parameter that the server objects to",
        500..=599 => "read the end of the server's log",
        _ => "check base_url and endpoint: the answer is not that of an API",
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.cause.in_words(), self.detail)?;
        self.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_ruled_out_says_by_which() {
        let ruled_out = RuledOut {
            settings: vec![
                ("max_model_len".into(), "8192 > 4096".into()),
                ("tensor_parallel_size".into(), "1 < 2".into()),
            ],
            by: "max_model_len=4096, tensor_parallel_size=2".into(),
            why: "out of memory".into(),
        };
        assert_eq!(
            ruled_out.to_string(),
            "not started: it needs at least the memory of max_model_len=4096, tensor_parallel_size=2, which was too much \
             (max_model_len 8192 > 4096, tensor_parallel_size 1 < 2): out of memory"
        );
    }

    #[test]
    fn advice_fits_the_error() {
        let said =
            |error: &str| Failure::of_requests("3 of 9 requests failed", Some(RequestError::read(error))).to_string();
        for (error, advice) in [
            ("HTTP 401: Unauthorized", "a key that the server accepts"),
            ("HTTP 404: Not Found", "check the model's name, base_url and endpoint"),
            (
                "HTTP 400: too long",
                "correct the bench parameter that the server objects to",
            ),
            ("HTTP 503", "lower the load: it is beyond what the server accepts"),
            ("HTTP 500: died", "read the end of the server's log"),
            ("nothing came for 1 s", "the load may be beyond what the server accepts"),
        ] {
            let said = said(error);
            assert!(
                said.starts_with("request errors: 3 of 9") && said.ends_with(advice),
                "{said}"
            );
        }
        let detail = "cannot open 3 connections to h:1: refused; start the server";
        let failure = Failure::new(Cause::BenchFailed, detail);
        assert_eq!(failure.to_string(), format!("benchmark failed: {detail}"));
    }

    #[test]
    fn advice_to_read_a_log_says_which() {
        let advice = Cause::CrashedStarting.advice_with(Some("servers/a/1.log"));
        assert_eq!(advice, "read the end of the server's log (servers/a/1.log)");
        for cause in Cause::ALL.into_iter().filter(|cause| *cause != Cause::BenchFailed) {
            let (plain, with) = (cause.advice(), cause.advice_with(Some("FILE")));
            assert_eq!(plain.contains(" log"), with.contains("FILE"), "{plain}");
        }
        let [attached, launched] = [None, Some("FILE")].map(|log| Cause::ReadyTimeout.advice_with(log));
        assert_eq!(attached, "start that server or correct the URL");
        assert!(launched.ends_with("it was still loading"), "{launched}");
    }
}
