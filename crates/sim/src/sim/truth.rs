//! The truth about every finished request, one JSON line each, so that a load generator's figures can be compared with
//! what happened. Times are milliseconds of CLOCK_MONOTONIC, which every process of one machine shares.

use super::engine::Key;
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// A sequence: which engine, and its key there.
pub type Name = (usize, Key);

/// One sequence, as its line says it.
#[derive(Serialize)]
struct SequenceTimes {
    request_id: String,
    choice: usize,
    arrival_ms: f64,
    first_token_ms: Option<f64>,
    token_ms: Vec<f64>,
    prompt_tokens: usize,
    output_tokens: usize,
}

/// The open file and the requests that are not finished.
pub struct Truth {
    file: BufWriter<File>,
    open: HashMap<Name, SequenceTimes>,
}

/// Milliseconds of CLOCK_MONOTONIC.
pub fn monotonic_ms() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the clock exists on Linux");
    now.tv_sec() as f64 * 1e3 + now.tv_nsec() as f64 / 1e6
}

impl Truth {
    /// Creates the file.
    pub fn create(path: &Path) -> std::io::Result<Truth> {
        Ok(Truth {
            file: BufWriter::new(File::create(path)?),
            open: HashMap::new(),
        })
    }

    /// A sequence entered the engine's queue.
    pub(super) fn arrived(&mut self, name: Name, id: &str, choice: usize, prompt: usize, output: usize) {
        let sequence = SequenceTimes {
            request_id: id.into(),
            choice,
            arrival_ms: monotonic_ms(),
            first_token_ms: None,
            token_ms: Vec::with_capacity(output),
            prompt_tokens: prompt,
            output_tokens: output,
        };
        self.open.insert(name, sequence);
    }

    /// The next tokens were handed over at `at_ms`.
    pub(super) fn tokens(&mut self, name: Name, at_ms: f64, count: usize, last: bool) {
        if let Some(sequence) = self.open.get_mut(&name) {
            sequence.first_token_ms.get_or_insert(at_ms);
            sequence.token_ms.extend(std::iter::repeat_n(at_ms, count));
        }
        if last && let Some(sequence) = self.open.remove(&name) {
            let line = serde_json::to_string(&sequence).expect("numbers and a text");
            // A full disk must not stop the server; whoever reads the file will miss the line.
            let _ = writeln!(self.file, "{line}").and_then(|()| self.file.flush());
        }
    }

    /// A sequence was taken out before its end.
    pub(super) fn forget(&mut self, name: Name) {
        self.open.remove(&name);
    }
}
