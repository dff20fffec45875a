//! Derives a cause of the closed list from the end of a server and from its log.
//!
//! A start that ends with code 2 and a usage error has a bad flag. Otherwise the first pattern of the table that occurs in the log decides;
//! lines of information and warnings are not searched. The patterns come from real logs (tests/data/logs). If no pattern occurs, the cause
//! follows from the exit, and the last lines of the log are its detail.

mod patterns;
#[cfg(test)]
mod tests;

use super::process::guard::{Exit, NOT_EXECUTED};
use crate::cause::{Cause, Failure};
use crate::files;
use crate::printable::printable;
use patterns::{PATTERNS, Pattern};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes of a log that are read: more than enough for the tracebacks of a few processes.
const LOG_BYTES: u64 = 4 << 20;
/// Number of lines of a log that are shown if no pattern occurs.
const LAST_LINES: usize = 3;
/// Longest detail, in characters.
const DETAIL: usize = 400;

/// State of a server before it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The server was not ready yet.
    Starting,
    /// The server was ready.
    Serving,
}

impl Phase {
    /// The cause of an end that the log does not explain.
    pub fn crash(self) -> Cause {
        match self {
            Phase::Starting => Cause::CrashedStarting,
            Phase::Serving => Cause::CrashedUnderLoad,
        }
    }
}

/// Returns the failure of a server that ended. `exit` is `None` if the process is still there or its end could not be seen.
pub fn diagnose(phase: Phase, exit: Option<Exit>, log: &str) -> Failure {
    let usage = log.lines().rev().find(|line| line.contains(": error: "));
    if let (Phase::Starting, Some(Exit::Code(2)), Some(usage)) = (phase, exit, usage) {
        return Failure::new(Cause::BadFlag, clean(usage));
    }
    if let Some(recognised) = recognise(PATTERNS, phase, log) {
        return recognised;
    }
    let cause = match phase {
        Phase::Starting if exit == Some(Exit::Code(NOT_EXECUTED)) => Cause::CommandNotFound,
        _ => phase.crash(),
    };
    let how = match exit {
        // A SIGKILL that vsweep did not send nearly always comes from the kernel.
        Some(Exit::Signal(9)) => "killed by SIGKILL, perhaps by the kernel because memory ran out".to_owned(),
        Some(exit) => exit.to_string(),
        None => "its end was not seen".to_owned(),
    };
    Failure::new(cause, format!("{how}; {}", clean(&last_lines(log))))
}

/// Returns the failure of the first pattern that occurs in the log, with the last line in which it occurs.
fn recognise<'a>(patterns: impl IntoIterator<Item = &'a Pattern>, phase: Phase, log: &str) -> Option<Failure> {
    let lines: Vec<&str> = log.lines().collect();
    let complaints: Vec<(usize, String)> = (lines.iter().enumerate())
        .filter(|(_, line)| !is_informative(line))
        .map(|(at, line)| (at, line.to_lowercase()))
        .collect();
    patterns.into_iter().find_map(|pattern| {
        let cause = pattern.cause(phase)?;
        let is_match =
            |(at, line): &&(usize, String)| pattern.is_in(line) && (!pattern.on_errors_only || is_error(lines[*at]));
        let (at, _) = complaints.iter().rfind(is_match)?;
        Some(Failure::new(cause, complaint(&lines, *at)))
    })
}

/// Returns a line with the lines that belong to it. pydantic writes the field and its fault on the next two lines.
fn complaint(lines: &[&str], at: usize) -> String {
    let more = match lines[at].contains("validation error for ") {
        true => 2,
        false => 0,
    };
    let parts: Vec<&str> = lines[at..]
        .iter()
        .take(1 + more)
        .map(|line| without_prefix(line))
        .collect();
    clean(&parts.join("; "))
}

/// Returns true if a line is information or a warning, by its level.
fn is_informative(line: &str) -> bool {
    let line = without_source(line);
    let levels = ["DEBUG", "INFO", "WARNING"];
    // vLLM and uvicorn begin with the level, TensorRT-LLM has it in brackets.
    levels.iter().any(|level| {
        let after = line.strip_prefix(level);
        after.is_some_and(|after| after.starts_with([' ', ':'])) || line.contains(&format!("[{level}]"))
    }) || is_glog_notice(line)
}

/// Returns true for a warning or information of PyTorch's C++ side, such as `W1122 21:49:45.013000 15322 torch/...] `, perhaps after
/// `[rank0]:[`.
fn is_glog_notice(line: &str) -> bool {
    let begin = line.rsplit_once('[').map_or(line, |(before, after)| {
        if before.is_empty() || before.ends_with(':') {
            after
        } else {
            line
        }
    });
    let day = begin
        .strip_prefix(['W', 'I'])
        .map(|rest| rest.chars().take_while(char::is_ascii_digit).count());
    matches!(day, Some(3 | 4))
}

/// Returns true if a line names an exception, or is marked as an error and not part of a traceback.
fn is_error(line: &str) -> bool {
    let text = without_prefix(line);
    let name = text.split(':').next().unwrap_or_default();
    let last = name.rsplit(['.', ' ']).next().unwrap_or_default();
    let is_marked = ["Value error, ", "[E] ", "ERROR "]
        .iter()
        .any(|mark| line.contains(mark));
    is_exception(last) || (is_marked && !is_of_traceback(line))
}

/// Returns true if a word is the name of a Python exception.
fn is_exception(word: &str) -> bool {
    (word.ends_with("Error") || word.ends_with("Exception")) && word.starts_with(|c: char| c.is_ascii_uppercase())
}

/// Returns true if a line is part of a traceback: a location, or its source line.
fn is_of_traceback(line: &str) -> bool {
    let after = line.split_once("] ").map_or(line, |(_, after)| after);
    after.starts_with("  ") && !after.contains("Value error, ")
}

/// Returns the excerpt of a log in which no pattern occurs: the exception that ended it, or else its last lines.
fn last_lines(log: &str) -> String {
    let decisive = decisive_line(log);
    if is_error(decisive) {
        return decisive.to_owned();
    }
    let mut last: Vec<&str> = lines_with_text(log)
        .rev()
        .take(LAST_LINES)
        .map(without_prefix)
        .collect();
    last.reverse();
    match last.is_empty() {
        true => last_text(log).to_owned(),
        false => last.join(" | "),
    }
}

/// Returns the lines of a log that are not empty and not about answered requests.
fn lines_with_text(log: &str) -> impl DoubleEndedIterator<Item = &str> {
    log.lines()
        .filter(|line| !is_access(line) && !without_prefix(line).is_empty())
}

/// Returns true for uvicorn's line about an answered request: `INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK`.
fn is_access(line: &str) -> bool {
    line.contains(" HTTP/1.1\" ") && is_informative(line)
}

/// Returns the line that most likely has the reason of a failure: the last one that ends a traceback, or else the last one.
fn decisive_line(log: &str) -> &str {
    let ends_traceback = |line: &&str| {
        let text = without_prefix(line);
        let name = text.split(':').next().unwrap_or_default();
        text.contains(": ") && !name.contains(' ') && is_exception(name.rsplit('.').next().unwrap_or_default())
    };
    // vLLM's parent process only repeats that its engine failed; the engine's own error comes before it.
    let is_root = |line: &&str| {
        ends_traceback(line) && !line.contains("See root cause above") && !line.contains("See stack trace")
    };
    let lines = || log.lines().rev();
    lines()
        .find(is_root)
        .or_else(|| lines().find(ends_traceback))
        .unwrap_or_else(|| last_text(log))
}

fn last_text(log: &str) -> &str {
    lines_with_text(log).next_back().unwrap_or(match log.trim().is_empty() {
        true => "it wrote nothing",
        false => "it wrote of nothing but requests",
    })
}

/// Returns the last line of a log that is not empty and not about an answered request, without its prefix.
pub fn last_line(log: &Path) -> String {
    clean(last_text(&read_log(log, 0)))
}

/// Returns the line of a log that most likely has the reason why its program failed, without its prefix.
pub fn decisive(log: &Path) -> String {
    clean(decisive_line(&read_log(log, 0)))
}

/// Returns a line without its log prefix, made printable and cut to [`DETAIL`] characters.
fn clean(line: &str) -> String {
    let text = printable(without_prefix(line));
    match text.char_indices().nth(DETAIL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// Removes a prefix such as `(APIServer pid=1) `.
fn without_source(line: &str) -> &str {
    match line.trim().strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some((head, tail)) if head.contains("pid=") => tail.trim_start(),
        _ => line.trim(),
    }
}

/// Removes a prefix such as `(APIServer pid=1) ERROR 11-20 10:09:11 [core.py:906] `, or a part of it.
fn without_prefix(line: &str) -> &str {
    let mut text = without_source(line);
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

/// Reads a log from the byte `offset` on, without colours. Only the end of a very long log is read.
pub fn read_log(path: &Path, offset: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = files::open(path)?;
        let length = file.metadata()?.len();
        // The guard shortens a log that grows without end. The offset may then lie beyond its end.
        let offset = if offset > length { 0 } else { offset };
        file.seek(SeekFrom::Start(offset.max(length.saturating_sub(LOG_BYTES))))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    without_colours(&String::from_utf8_lossy(&read().unwrap_or_default()))
}

/// Removes terminal sequences such as `ESC [ 0 ; 36 m`.
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
