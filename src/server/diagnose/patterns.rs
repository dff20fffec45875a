//! Messages of failing servers and their meaning: words that occur together on a line of a log.
//!
//! The words come from real logs (tests/data/logs, whose index names the source of each). Some patterns are whole phrases. Others are words
//! that identify a kind of failure in any phrase, so that messages of other releases and servers are recognised as well.

use super::Phase;
use crate::cause::Cause;

/// Words that identify a cause.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    /// Words that must all be on the line, in lower case.
    pub words: &'static [&'static str],
    cause: Cause,
    /// True if the words count only on lines of errors, because they are common elsewhere.
    pub on_errors_only: bool,
}

const fn phrase(words: &'static [&'static str], cause: Cause) -> Pattern {
    pattern(words, cause, false)
}

const fn on_errors(words: &'static [&'static str], cause: Cause) -> Pattern {
    pattern(words, cause, true)
}

const fn pattern(words: &'static [&'static str], cause: Cause, on_errors_only: bool) -> Pattern {
    let mut rest = words;
    while let [word, others @ ..] = rest {
        let mut bytes = word.as_bytes();
        while let [byte, more @ ..] = bytes {
            assert!(!byte.is_ascii_uppercase(), "write the words of a pattern in lower case");
            bytes = more;
        }
        rest = others;
    }
    Pattern {
        words,
        cause,
        on_errors_only,
    }
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
    on_errors(&["memoryerror"], Cause::SystemRefused),
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
    // A `RuntimeError` with CUDA is a fault of the GPU, because vLLM's checks of settings raise other errors.
    on_errors(&["runtimeerror", "cuda"], Cause::GpuFault),
    on_errors(&["free memory on device", "less than"], Cause::GpuMemoryHeld),
    on_errors(&["memory on", "less than"], Cause::OomAtLoad),
    on_errors(&["memory", "cache"], Cause::KvCacheTooSmall),
    on_errors(&["kv cache"], Cause::KvCacheTooSmall),
    on_errors(&["--mem-fraction-static"], Cause::KvCacheTooSmall),
    on_errors(&["insufficient", "memory"], Cause::OomAtLoad),
    on_errors(&["repository"], Cause::ModelNotFound),
    on_errors(&["huggingface_hub."], Cause::ModelNotFound),
    on_errors(&["model weights"], Cause::ModelNotFound),
    on_errors(&["safetensor"], Cause::ModelNotFound),
    on_errors(&["no adapter found"], Cause::ModelNotFound),
    on_errors(&["world_size", "less than"], Cause::BadConfig),
    on_errors(&["decrease dp/tp/pp"], Cause::BadConfig),
    on_errors(&["validation error for"], Cause::BadConfig),
    on_errors(&["value error, "], Cause::BadConfig),
    on_errors(&["validationerror"], Cause::BadConfig),
    on_errors(&["invalid", "parser"], Cause::BadConfig),
    on_errors(&["valid options are"], Cause::BadConfig),
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
