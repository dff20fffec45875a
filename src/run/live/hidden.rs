//! Output of programs that is kept: what it repeats of the plan's secrets is hidden once the program has ended.

use crate::error::{Error, Result};
use crate::files::write_atomic;
use crate::plan::Secrets;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Hides secrets that another program repeats in the file of its figures, which stays.
pub(super) fn hide_in_result(result: &Path, secrets: &Secrets) -> Result<()> {
    let Ok(written) = fs::read(result) else {
        return Ok(());
    };
    let hidden = secrets.redact_json(written.clone());
    match hidden == written {
        true => Ok(()),
        false => write_atomic(result, &hidden),
    }
}

/// Hides secrets in a server's log; one that is not there holds none.
pub(super) fn hide_in_log(log: &Path, secrets: &Secrets) -> Result<()> {
    if secrets.is_empty() || !log.exists() || !holds_any(log, secrets).map_err(Error::io("read", log))? {
        return Ok(());
    }
    let text = fs::read(log).map_err(Error::io("read", log))?;
    write_atomic(log, secrets.redact(&String::from_utf8_lossy(&text)).as_bytes())
}

/// Looks line by line: logs can be larger than memory, and few repeat a secret.
fn holds_any(log: &Path, secrets: &Secrets) -> io::Result<bool> {
    for line in BufReader::new(File::open(log)?).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if secrets.redact(&line) != line {
            return Ok(true);
        }
    }
    Ok(false)
}
