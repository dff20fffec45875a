//! Hides the plan's secrets in the output of programs, which is kept. This is done once a program has ended. If vsweep was killed before,
//! the next session does it when it begins.

use crate::bench::{AIPERF_RESULT, LOG, RESULT};
use crate::error::{Error, Result};
use crate::files::{self, process_started, write_atomic};
use crate::journal::{Directory, Session, State};
use crate::plan::Secrets;
use crate::run::facts;
use std::fs;
use std::path::Path;

/// Hides secrets in the log and the result files of a benchmark's program, which are kept.
pub(super) fn hide_in_scratch(scratch: &Path, secrets: &Secrets) -> Result<()> {
    hide_in_log(&scratch.join(LOG), secrets)?;
    let result = scratch.join(RESULT);
    hide_in_result(&result, secrets)?;
    hide_in_result(&result.join(AIPERF_RESULT), secrets)
}

fn hide_in_result(result: &Path, secrets: &Secrets) -> Result<()> {
    let Ok(written) = files::read(result, files::MOST_RESULT) else {
        return Ok(());
    };
    let hidden = secrets.redact_json(written.clone());
    match hidden == written {
        true => Ok(()),
        false => write_atomic(result, &hidden),
    }
}

/// Hides secrets in a program's log, if there is one.
pub(in crate::run) fn hide_in_log(log: &Path, secrets: &Secrets) -> Result<()> {
    if secrets.is_empty() || !log.exists() {
        return Ok(());
    }
    let written = files::read(log, files::MOST_RESULT).map_err(Error::io("read", log))?;
    let text = String::from_utf8_lossy(&written);
    let hidden = secrets.redact(&text);
    match hidden == text {
        true => Ok(()),
        false => write_atomic(log, hidden.as_bytes()),
    }
}

/// Hides secrets in the logs of servers and benchmarks whose sessions were killed on this machine, and of the command of `[on_finish]`. Logs
/// of other machines are left alone, because programs there may still write them.
pub(in crate::run) fn hide_in_logs_of_killed(directory: &Directory, state: &State, secrets: &Secrets) -> Result<()> {
    let here = facts::session();
    let lives = |session: &Session| session.boot == here.boot && process_started(session.pid) == Some(session.started);
    let sessions = state.sessions().iter();
    // The command runs after the recorded end of its session, so it may still write if any session lives.
    if !sessions.clone().any(lives) {
        hide_in_log(&directory.on_finish_log(), secrets)?;
    }
    let killed = sessions.filter(|session| session.ended.is_none() && session.host == here.host && !lives(session));
    let killed: Vec<String> = killed.map(|session| session.nonce().to_string()).collect();
    if secrets.is_empty() || killed.is_empty() {
        return Ok(());
    }
    for top in ["servers", "runs"] {
        let folders = fs::read_dir(directory.root().join(top)).into_iter().flatten().flatten();
        for found in folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten()) {
            let name = found.file_name();
            // `<nonce>-<n>.log`, `<slot>.<k>-<nonce>-<seq>.bench`
            let is_theirs = name
                .to_string_lossy()
                .split('-')
                .any(|part| killed.iter().any(|nonce| nonce == part));
            match found.path() {
                path if !is_theirs => drop(path),
                path if path.extension().is_some_and(|it| it == "log") => hide_in_log(&path, secrets)?,
                path if path.extension().is_some_and(|it| it == "bench") => hide_in_scratch(&path, secrets)?,
                _ => {}
            }
        }
    }
    Ok(())
}
