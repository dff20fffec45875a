//! The truth about every finished request, one JSON line each, so that a load generator's figures can be compared with
//! what happened. Times are milliseconds of CLOCK_MONOTONIC, which every process of one machine shares.

use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Times of one sequence, as in its line.
#[derive(Serialize)]
pub(super) struct SequenceTimes {
    pub request_id: String,
    pub choice: usize,
    /// Time at which it entered the engine's queue.
    pub arrival_ms: f64,
    pub first_token_ms: Option<f64>,
    /// Time at which each token was handed over.
    pub token_ms: Vec<f64>,
    pub prompt_tokens: usize,
    pub output_tokens: usize,
}

/// The open file.
pub struct Truth(Mutex<File>);

/// Milliseconds of CLOCK_MONOTONIC.
pub(super) fn monotonic_ms() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the clock exists on Linux");
    now.tv_sec() as f64 * 1e3 + now.tv_nsec() as f64 / 1e6
}

impl Truth {
    /// Creates the file.
    pub fn create(path: &Path) -> std::io::Result<Truth> {
        Ok(Truth(File::create(path)?.into()))
    }

    /// Writes the line of a sequence that has all its tokens.
    pub(super) fn write(&self, sequence: &SequenceTimes) {
        let line = serde_json::to_string(sequence).expect("numbers and a text") + "\n";
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not stop the server; the file then lacks the line.
        let _ = file.write_all(line.as_bytes());
    }
}
