//! Messages of failing servers and their meaning: words that occur together on an error line.
//!
//! The words come from real logs (tests/data/logs, whose index names the source of each). Whole phrases come first, then words that
//! identify a kind of failure in any phrase, so that messages of other releases and servers are recognised as well.

use super::Phase;
use crate::cause::Cause;

/// Words that identify a cause.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    /// Words that must all be on the line, in lower case.
    pub words: &'static [&'static str],
    cause: Cause,
    /// True if the words count only on lines of errors, because they are common elsewhere.
    pub is_loose: bool,
}

const fn phrase(words: &'static [&'static str], cause: Cause) -> Pattern {
    pattern(words, cause, false)
}

const fn loose(words: &'static [&'static str], cause: Cause) -> Pattern {
    pattern(words, cause, true)
}

const fn pattern(words: &'static [&'static str], cause: Cause, is_loose: bool) -> Pattern {
    let mut rest = words;
    while let [word, others @ ..] = rest {
        let mut bytes = word.as_bytes();
        while let [byte, more @ ..] = bytes {
            assert!(!byte.is_ascii_uppercase(), "write the words of a pattern in lower case");
            bytes = more;
        }
        rest = others;
    }
    Pattern { words, cause, is_loose }
}

/// Patterns from the most specific to the most general; the first that occurs decides.
pub(super) const PATTERNS: &[Pattern] = &[
    phrase(&["vsweep: cannot execute"], Cause::CommandNotFound),
    // A full disk or /dev/shm makes NCCL fail, so system errors come first.
    phrase(&["space", "/dev/shm"], Cause::SystemRefused),
    phrase(&["no space left on device"], Cause::SystemRefused),
    phrase(&["too many open files"], Cause::SystemRefused),
    phrase(&["can't allocate memory"], Cause::SystemRefused),
    phrase(&["out of memory"], Cause::OomAtLoad),
    phrase(&["outofmemoryerror"], Cause::OomAtLoad),
    loose(&["memoryerror"], Cause::SystemRefused),
    phrase(&["address already in use"], Cause::PortTaken),
    // Messages of llama.cpp.
    phrase(&["couldn't bind", "socket"], Cause::PortTaken),
    phrase(&["error: invalid argument: "], Cause::BadFlag),
    phrase(&["error while handling argument "], Cause::BadFlag),
    phrase(&["gguf_init_from_"], Cause::ModelNotFound),
    phrase(&["cuda error"], Cause::GpuFault),
    phrase(&["nccl error"], Cause::GpuFault),
    phrase(&["ncclsystemerror"], Cause::GpuFault),
    phrase(&["cudagetdevicecount"], Cause::GpuFault),
    // vLLM's own checks of settings do not raise `RuntimeError`.
    loose(&["runtimeerror", "cuda"], Cause::GpuFault),
    loose(&["free memory on device", "less than"], Cause::GpuMemoryHeld),
    loose(&["memory on", "less than"], Cause::OomAtLoad),
    loose(&["memory", "cache"], Cause::KvCacheTooSmall),
    loose(&["kv cache"], Cause::KvCacheTooSmall),
    loose(&["--mem-fraction-static"], Cause::KvCacheTooSmall),
    loose(&["insufficient", "memory"], Cause::OomAtLoad),
    loose(&["repository"], Cause::ModelNotFound),
    loose(&["huggingface_hub."], Cause::ModelNotFound),
    loose(&["model weights"], Cause::ModelNotFound),
    loose(&["safetensor"], Cause::ModelNotFound),
    loose(&["no adapter found"], Cause::ModelNotFound),
    loose(&["world_size", "less than"], Cause::BadConfig),
    loose(&["decrease dp/tp/pp"], Cause::BadConfig),
    loose(&["validation error for"], Cause::BadConfig),
    loose(&["value error, "], Cause::BadConfig),
    loose(&["validationerror"], Cause::BadConfig),
    loose(&["invalid", "parser"], Cause::BadConfig),
    loose(&["valid options are"], Cause::BadConfig),
];

impl Pattern {
    /// Returns true if a line, in lower case, contains all words.
    pub fn is_in(&self, line: &str) -> bool {
        self.words.iter().all(|word| line.contains(word))
    }

    /// Returns the cause for a server in this phase; `None` if the words do not explain the failure of a ready server.
    pub fn cause(&self, phase: Phase) -> Option<Cause> {
        match (phase, self.cause) {
            (Phase::Starting, cause) => Some(cause),
            (Phase::Serving, Cause::OomAtLoad) => Some(Cause::OomUnderLoad),
            (Phase::Serving, cause @ (Cause::GpuFault | Cause::SystemRefused)) => Some(cause),
            (Phase::Serving, _) => None,
        }
    }
}
