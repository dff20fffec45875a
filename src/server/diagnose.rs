//! From how a server ended and what it wrote to a cause of the closed list.
//!
//! The patterns come from real logs of vLLM (tests/data/logs) and from its source. The first pattern of the table that
//! occurs decides, so the table runs from the most specific to the most general.

use super::guard::{Exit, NOT_EXECUTED};
use crate::cause::{Cause, Failure};
use crate::printable::printable;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// How much of a log is read: more than enough for the tracebacks of a few processes.
const LOG_BYTES: u64 = 4 << 20;
/// Longest detail in characters.
const DETAIL: usize = 400;

/// How far the server had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It was not ready yet.
    Starting,
    /// It was ready.
    Serving,
}

/// Texts that say why a server did not start, most specific first.
const STARTING: [(&str, Cause); 24] = [
    ("vsweep: cannot execute", Cause::CommandNotFound),
    ("No available memory for the cache blocks", Cause::KvCacheTooSmall),
    ("larger than the available KV cache memory", Cause::KvCacheTooSmall),
    (
        "larger than the maximum number of tokens that can be stored in KV cache",
        Cause::KvCacheTooSmall,
    ),
    ("estimated maximum model length", Cause::KvCacheTooSmall),
    ("is less than desired GPU memory utilization", Cause::OomAtLoad),
    ("is less than the engine's budget", Cause::OomAtLoad),
    ("OutOfMemoryError", Cause::OomAtLoad),
    ("CUDA out of memory", Cause::OomAtLoad),
    ("HIP out of memory", Cause::OomAtLoad),
    ("CUDA error: out of memory", Cause::OomAtLoad),
    ("CUBLAS_STATUS_ALLOC_FAILED", Cause::OomAtLoad),
    ("Address already in use", Cause::PortTaken),
    ("address already in use", Cause::PortTaken),
    ("HFValidationError", Cause::ModelNotFound),
    ("RepositoryNotFoundError", Cause::ModelNotFound),
    ("You are trying to access a gated repo", Cause::ModelNotFound),
    ("GatedRepoError", Cause::ModelNotFound),
    ("LocalEntryNotFoundError", Cause::ModelNotFound),
    ("is not a valid model identifier", Cause::ModelNotFound),
    ("We couldn't connect to 'https://huggingface.co'", Cause::ModelNotFound),
    ("Value error, ", Cause::BadConfig),
    ("ValidationError", Cause::BadConfig),
    ("must be divisible by tensor parallel size", Cause::BadConfig),
];

/// Texts that say why a server failed under load. Anything else is a crash.
const SERVING: [(&str, Cause); 5] = [
    ("OutOfMemoryError", Cause::OomUnderLoad),
    ("CUDA out of memory", Cause::OomUnderLoad),
    ("HIP out of memory", Cause::OomUnderLoad),
    ("CUDA error: out of memory", Cause::OomUnderLoad),
    ("CUBLAS_STATUS_ALLOC_FAILED", Cause::OomUnderLoad),
];

/// Names the cause of an end. `exit` is `None` if the process is still there or its end could not be seen.
pub fn diagnose(phase: Phase, exit: Option<Exit>, log: &str) -> Failure {
    let usage = log.lines().rev().find(|line| line.contains(": error: "));
    if let (Phase::Starting, Some(Exit::Code(2)), Some(usage)) = (phase, exit, usage) {
        return Failure::new(Cause::BadFlag, clean(usage));
    }
    let patterns: &[(&str, Cause)] = match phase {
        Phase::Starting => &STARTING,
        Phase::Serving => &SERVING,
    };
    for &(text, cause) in patterns {
        if let Some(complaint) = complaint(log, text) {
            return Failure::new(cause, complaint);
        }
    }
    let cause = match phase {
        Phase::Starting if exit == Some(Exit::Code(NOT_EXECUTED)) => Cause::CommandNotFound,
        Phase::Starting => Cause::CrashedStarting,
        Phase::Serving => Cause::CrashedUnderLoad,
    };
    let how = match exit {
        // SIGKILL that nobody here sent is nearly always the kernel's.
        Some(Exit::Signal(9)) => "killed by SIGKILL, perhaps by the kernel because memory ran out".to_owned(),
        Some(exit) => exit.to_string(),
        None => "its end was not seen".to_owned(),
    };
    Failure::new(cause, format!("{how}; {}", clean(decisive_line(log))))
}

/// The last line that holds a text. pydantic names the field and what is wrong with it on the two lines after.
fn complaint(log: &str, text: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().collect();
    let at = lines.iter().rposition(|line| line.contains(text))?;
    let more = if lines[at].contains("validation error for ") {
        2
    } else {
        0
    };
    let said: Vec<&str> = lines[at..]
        .iter()
        .take(1 + more)
        .map(|line| without_prefix(line))
        .collect();
    Some(clean(&said.join("; ")))
}

/// The line that says most where no pattern fits: the last one that ends a traceback, else the last one.
fn decisive_line(log: &str) -> &str {
    let is_error = |line: &&str| {
        let text = without_prefix(line);
        let name = text.split(':').next().unwrap_or_default();
        let last = name.rsplit('.').next().unwrap_or_default();
        text.contains(": ")
            && !name.contains(' ')
            && (last.ends_with("Error") || last.ends_with("Exception"))
            && last.starts_with(|c: char| c.is_ascii_uppercase())
    };
    // vLLM's parent process only repeats that its engine failed; the engine's own error comes before it.
    let root =
        |line: &&str| is_error(line) && !line.contains("See root cause above") && !line.contains("See stack trace");
    let lines = || log.lines().rev();
    lines()
        .find(root)
        .or_else(|| lines().find(is_error))
        .unwrap_or_else(|| last_words(log))
}

fn last_words(log: &str) -> &str {
    log.lines()
        .rev()
        .find(|line| !without_prefix(line).is_empty())
        .unwrap_or("it wrote nothing")
}

/// The last line of a log that says something, without its prefix.
pub fn last_line(log: &Path) -> String {
    clean(last_words(&read_log(log, 0)))
}

/// The line of a log that says most about why its program failed, without its prefix.
pub fn decisive(log: &Path) -> String {
    clean(decisive_line(&read_log(log, 0)))
}

/// One harmless line without its log prefix, cut to a bearable length.
fn clean(line: &str) -> String {
    let text = printable(without_prefix(line));
    match text.char_indices().nth(DETAIL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// Cuts `(APIServer pid=1) ERROR 11-20 10:09:11 [core.py:906] ` in any of its parts.
fn without_prefix(line: &str) -> &str {
    let mut text = line.trim();
    if let Some(rest) = text.strip_prefix('(')
        && let Some((head, tail)) = rest.split_once(')')
        && head.contains("pid=")
    {
        text = tail.trim_start();
    }
    for level in ["DEBUG ", "INFO ", "WARNING ", "ERROR ", "CRITICAL "] {
        if let Some(rest) = text.strip_prefix(level)
            && rest.starts_with(|c: char| c.is_ascii_digit())
            && let Some((_, tail)) = rest.split_once(']')
        {
            text = tail.trim_start();
        }
    }
    text
}

/// What a log holds from `offset` on, without colours; of a very long one the beginning is left out.
pub fn read_log(path: &Path, offset: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        // The guard shortens a log that grows without end: what was beyond its end then is now at its end.
        let offset = if offset > length { 0 } else { offset };
        file.seek(SeekFrom::Start(offset.max(length.saturating_sub(LOG_BYTES))))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    without_colours(&String::from_utf8_lossy(&read().unwrap_or_default()))
}

/// Cuts terminal sequences such as `ESC [ 0 ; 36 m`.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| {
        let mut rest = part
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == ';')
            .chars();
        rest.next();
        plain + rest.as_str()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    macro_rules! log {
        ($name:literal) => {
            include_str!(concat!("../../tests/data/logs/", $name, ".log"))
        };
    }

    fn at_start(code: i32, log: &str) -> (Cause, String) {
        let failure = diagnose(Phase::Starting, Some(Exit::Code(code)), log);
        (failure.cause, failure.detail)
    }

    #[test]
    fn failures_to_start_are_named() {
        let cases = [
            (
                2,
                log!("bad_flag"),
                Cause::BadFlag,
                "vllm: error: unrecognized arguments: --no-such-flag 3",
            ),
            (
                2,
                log!("bad_value"),
                Cause::BadFlag,
                "vllm serve: error: argument --max-num-seqs: invalid int value: 'abc'",
            ),
            (
                1,
                log!("model_not_found"),
                Cause::ModelNotFound,
                "huggingface_hub.errors.HFValidationError: Repo id must",
            ),
            (
                1,
                log!("gated_model"),
                Cause::ModelNotFound,
                "OSError: You are trying to access a gated repo.",
            ),
            (
                1,
                log!("port_taken"),
                Cause::PortTaken,
                "OSError: [Errno 98] Address already in use",
            ),
            (
                1,
                log!("context_too_long"),
                Cause::BadConfig,
                "Value error, User-specified max_model_len (999999) is",
            ),
            (
                1,
                log!("pydantic_field"),
                Cause::BadConfig,
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig; max_num_seqs; Input should be greater",
            ),
            (
                1,
                log!("oom_at_load"),
                Cause::OomAtLoad,
                "torch.OutOfMemoryError: CUDA out of memory. Tried",
            ),
            (
                1,
                log!("gpu_not_free"),
                Cause::OomAtLoad,
                "ValueError: Free memory on device cuda:0 (111.99",
            ),
            (
                1,
                log!("kv_cache_none"),
                Cause::KvCacheTooSmall,
                "ValueError: No available memory for the cache",
            ),
            (
                1,
                log!("kv_cache_small"),
                Cause::KvCacheTooSmall,
                "ValueError: To serve at least one request",
            ),
            (
                1,
                log!("kv_cache_small_v0"),
                Cause::KvCacheTooSmall,
                "ValueError: The model's max seq len (131072)",
            ),
            (
                127,
                "vsweep: cannot execute ./x: No such file",
                Cause::CommandNotFound,
                "vsweep: cannot execute ./x",
            ),
            (
                1,
                "NameError: name 'x' is not defined\nbye",
                Cause::CrashedStarting,
                "exit code 1; NameError: name 'x'",
            ),
            (3, "", Cause::CrashedStarting, "exit code 3; it wrote nothing"),
        ];
        for (code, log, cause, detail) in cases {
            let found = at_start(code, log);
            assert_eq!(found.0, cause, "{}", found.1);
            assert!(found.1.starts_with(detail), "{}", found.1);
        }
    }

    #[test]
    fn failures_under_load_are_named() {
        let serving = |exit, log: &str| diagnose(Phase::Serving, exit, log);
        let oom = serving(Some(Exit::Code(1)), log!("oom_under_load"));
        assert_eq!(oom.cause, Cause::OomUnderLoad);
        let dead = serving(None, log!("engine_killed"));
        assert_eq!(dead.cause, Cause::CrashedUnderLoad);
        assert!(
            dead.detail
                .contains("EngineDeadError: EngineCore encountered an issue."),
            "{dead}"
        );
        let killed = serving(
            Some(Exit::Signal(9)),
            "INFO:     127.0.0.1:1 - \"GET /health HTTP/1.1\" 200 OK\n",
        );
        assert_eq!(killed.cause, Cause::CrashedUnderLoad);
        assert!(killed.detail.starts_with("killed by SIGKILL, perhaps"), "{killed}");
    }

    #[test]
    fn a_healthy_log_accuses_nobody() {
        let failure = diagnose(Phase::Serving, Some(Exit::Code(0)), log!("stopping_with_a_stream"));
        assert_eq!(failure.cause, Cause::CrashedUnderLoad);
    }

    #[test]
    fn prefixes_and_colours_are_cut() {
        let plain = without_colours("\u{1b}[0;36m(Bench pid=1)\u{1b}[0m \u{1b}[32mINFO\u{1b}[0m x");
        assert_eq!(plain, "(Bench pid=1) INFO x");
        assert_eq!(
            without_prefix("(APIServer pid=1) ERROR 11-20 10:09:11 [a.py:9] boom"),
            "boom"
        );
        assert_eq!(without_prefix("ERROR 11-20 10:09:11 [a.py:9] boom"), "boom");
        assert_eq!(without_prefix("(none) INFO more"), "(none) INFO more");
    }

    proptest! {
        #[test]
        fn any_log_is_survived(log in "(?s).{0,400}", code in any::<i32>()) {
            for phase in [Phase::Starting, Phase::Serving] {
                let failure = diagnose(phase, Some(Exit::Code(code)), &without_colours(&log));
                prop_assert!(!failure.detail.contains('\n'));
                prop_assert!(failure.detail.chars().count() <= DETAIL + 100);
            }
        }
    }
}
