//! What vsweep 1.x wrote, as one sealed session: start slot 0, one chain for each search, in the order that 1.x gave it. It
//! is read, and never added to.
//!
//! The lines are turned into those of today, so that the fold knows one format.

mod cold;
mod fold;
mod lines;

use super::directory::Directory;
use super::event::SeenJournal;
use super::place::Hex64;
use super::state::Sealed;
use fold::Fold;
use lines::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use vsweep_plan::error::{Error, Result};

/// The newest minor version of 1.x.
const LAST_MINOR: u32 = 6;

/// Reads the journals of 1.x in a directory.
pub fn read(directory: &Directory, journals: &[PathBuf]) -> Result<Sealed> {
    let mut fold = Fold::new(directory);
    let mut timed: Vec<(jiff::Timestamp, usize, OldLine<OldEvent>)> = Vec::new();
    for (shard, path) in journals.iter().enumerate() {
        let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let seen = SeenJournal {
            lines: bytes.iter().filter(|byte| **byte == b'\n').count() as u64,
            sum: Hex64::of(&bytes),
        };
        fold.sealed.seen.insert(name.clone(), seen);
        fold.shards.push(name);
        let mut latest = jiff::Timestamp::MIN;
        for line in parse(&bytes, path, &mut fold.sealed.damage)? {
            // A clock that was set back does not reorder a journal.
            latest = latest.max(line.at.parse().unwrap_or(latest));
            timed.push((latest, shard, line));
        }
    }
    timed.sort_by_key(|(at, ..)| *at);
    for (_, shard, line) in timed {
        fold.apply(shard, line);
    }
    Ok(fold.finish())
}

/// The lines of a journal. A torn last line is left out, a damaged last one is named, any other damage is an error: these
/// lines have no checksums, so nothing after it could be trusted.
fn parse(bytes: &[u8], path: &Path, damage: &mut Vec<String>) -> Result<Vec<OldLine<OldEvent>>> {
    let mut entries = Vec::new();
    let mut is_of_newer_minor = false;
    let mut lines = (0..).zip(bytes.split_inclusive(|&byte| byte == b'\n')).peekable();
    while let Some((number, line)) = lines.next() {
        if !line.ends_with(b"\n") {
            break;
        }
        let place = format!("{}:{}", path.display(), number + 1);
        let refuse = |what: String| {
            Err(Error::Fatal(format!(
                "{place}: {what}; restore the file from a copy, or start over with --fresh"
            )))
        };
        let OldLine { seq, at, event } = match serde_json::from_slice::<OldLine<Value>>(line) {
            Ok(line) => line,
            Err(error) if lines.peek().is_none() => {
                damage.push(format!("{place}: damaged line ({error}); what it told is lost"));
                break;
            }
            Err(error) => return refuse(format!("damaged line ({error})")),
        };
        if seq != number {
            return refuse(format!(
                "entry {seq} stands where {number} should; the file was edited or mixed"
            ));
        }
        match serde_json::from_value(event) {
            Ok(event) => {
                if let OldEvent::JournalCreated { format, vsweep } = &event {
                    is_of_newer_minor |= check_format(format, vsweep, path)?;
                }
                entries.push(OldLine { seq, at, event });
            }
            Err(_) if is_of_newer_minor => {}
            Err(error) => return refuse(error.to_string()),
        }
    }
    Ok(entries)
}

/// Refuses what is not of 1.x; says whether the minor is newer than the last that is known.
fn check_format(format: &str, vsweep: &str, path: &Path) -> Result<bool> {
    match super::reader::version_of(format) {
        Some((1, minor)) => Ok(minor > LAST_MINOR),
        _ => Err(super::reader::refuse_format(format, vsweep, path)),
    }
}
