//! Output of programs that is kept: what it repeats of the plan's secrets is hidden once the program has ended.

use crate::files::write_atomic;
use crate::plan::Secrets;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Hides secrets in a program's log. Returns what went wrong, as a sentence; a log that is not there holds none.
pub(super) fn hide_in_log(log: &Path, secrets: &Secrets) -> Option<String> {
    if secrets.is_empty() || !log.exists() {
        return None;
    }
    let told = |error: &dyn std::fmt::Display| {
        let log = log.display();
        Some(format!(
            "{log} may hold secrets of the plan, and they could not be hidden: {error}"
        ))
    };
    let holds_any = match holds_any(log, secrets) {
        Ok(holds_any) => holds_any,
        Err(error) => return told(&error),
    };
    if !holds_any {
        return None;
    }
    let text = match fs::read(log) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return told(&error),
    };
    write_atomic(log, secrets.redact(&text).as_bytes())
        .err()
        .and_then(|error| told(&error))
}

/// Looks line by line: logs can be larger than memory, and few repeat a secret.
fn holds_any(log: &Path, secrets: &Secrets) -> std::io::Result<bool> {
    for line in BufReader::new(File::open(log)?).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if secrets.redact(&line) != line {
            return Ok(true);
        }
    }
    Ok(false)
}
