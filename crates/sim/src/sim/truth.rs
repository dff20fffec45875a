//! The truth about every finished request, one JSON line each, so that a load generator's figures can be compared with
//! what happened. Times are milliseconds of CLOCK_MONOTONIC, which every process of one machine shares.

use super::engine::Key;
use nix::time::{ClockId, clock_gettime};
use serde_json::json;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// A sequence: which engine, and its key there.
pub type Name = (usize, Key);

struct Record {
    id: String,
    choice: usize,
    prompt: usize,
    output: usize,
    arrival_ms: f64,
    token_ms: Vec<f64>,
}

/// The open file and the requests that are not finished.
pub struct Truth {
    file: BufWriter<File>,
    open: HashMap<Name, Record>,
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
        let record = Record {
            id: id.into(),
            choice,
            prompt,
            output,
            arrival_ms: monotonic_ms(),
            token_ms: Vec::with_capacity(output),
        };
        self.open.insert(name, record);
    }

    /// The next tokens were handed over at `at_ms`.
    pub(super) fn tokens(&mut self, name: Name, at_ms: f64, count: usize, last: bool) {
        if let Some(record) = self.open.get_mut(&name) {
            record.token_ms.extend(std::iter::repeat_n(at_ms, count));
        }
        if last && let Some(record) = self.open.remove(&name) {
            let line = json!({
                "request_id": record.id,
                "choice": record.choice,
                "arrival_ms": record.arrival_ms,
                "first_token_ms": record.token_ms.first(),
                "token_ms": record.token_ms,
                "prompt_tokens": record.prompt,
                "output_tokens": record.output,
            });
            // A full disk must not stop the server; whoever reads the file will miss the line.
            let _ = writeln!(self.file, "{line}").and_then(|()| self.file.flush());
        }
    }

    /// A sequence was taken out before its end.
    pub(super) fn forget(&mut self, name: Name) {
        self.open.remove(&name);
    }
}
