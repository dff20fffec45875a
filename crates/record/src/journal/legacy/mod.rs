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
use cold::Cold;
use fold::Fold;
use lines::*;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use vsweep_plan::error::{Error, Result};

/// The newest minor version of 1.x.
const LAST_MINOR: u32 = 6;

/// Reads the journals of 1.x in a directory; `None` if there are none.
pub fn read(directory: &Directory, journals: &[std::path::PathBuf]) -> Result<Option<Sealed>> {
    if journals.is_empty() {
        return Ok(None);
    }
    let mut sealed = Sealed::default();
    let mut timed: Vec<(jiff::Timestamp, OldLine)> = Vec::new();
    let mut shards = Vec::new();
    for (shard, path) in journals.iter().enumerate() {
        let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let lines = parse(&bytes, path, shard, &mut sealed.damage)?;
        let seen = SeenJournal {
            lines: bytes.iter().filter(|byte| **byte == b'\n').count() as u64,
            sum: Hex64::of(&bytes),
        };
        sealed.seen.insert(name.clone(), seen);
        shards.push(name);
        let mut latest = jiff::Timestamp::MIN;
        for line in lines {
            // A clock that was set back does not reorder a journal.
            latest = latest.max(line.at.parse().unwrap_or(latest));
            timed.push((latest, line));
        }
    }
    timed.sort_by_key(|(at, _)| *at);
    let mut fold = Fold {
        sealed,
        directory,
        shards,
        open: BTreeMap::new(),
        runs: HashMap::new(),
        probes: HashMap::new(),
        roots: HashMap::new(),
        cold: Cold::of(directory),
    };
    for (_, line) in timed {
        fold.apply(line);
    }
    Ok(Some(fold.finish()))
}

/// The lines of a journal. A torn last line is left out, a damaged last one is named, any other damage is an error: these
/// lines have no checksums, so nothing after it could be trusted.
fn parse(bytes: &[u8], path: &Path, shard: usize, damage: &mut Vec<String>) -> Result<Vec<OldLine>> {
    let mut entries = Vec::new();
    let mut newer_minor = false;
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n').peekable();
    let mut next_seq = 0;
    while let Some(line) = lines.next() {
        let place = format!("{}:{}", path.display(), next_seq + 1);
        let is_last = lines.peek().is_none();
        if !line.ends_with(b"\n") {
            break;
        }
        let refuse = |what: String| {
            Err(Error::Fatal(format!(
                "{place}: {what}; restore the file from a copy, or start over with --fresh"
            )))
        };
        let raw: OldEntry = match serde_json::from_slice(line) {
            Ok(raw) => raw,
            Err(error) if is_last => {
                damage.push(format!("{place}: damaged line ({error}); what it told is lost"));
                break;
            }
            Err(error) => return refuse(format!("damaged line ({error})")),
        };
        if raw.seq != next_seq {
            return refuse(format!(
                "entry {} stands where {next_seq} should; the file was edited or mixed",
                raw.seq
            ));
        }
        match serde_json::from_value::<OldEvent>(raw.event) {
            Ok(event) => {
                if let OldEvent::JournalCreated { format, vsweep } = &event {
                    newer_minor |= check_format(format, vsweep, path)?;
                }
                entries.push(OldLine {
                    shard,
                    seq: raw.seq,
                    at: raw.at,
                    event,
                });
            }
            Err(_) if newer_minor => {}
            Err(error) => return refuse(error.to_string()),
        }
        next_seq += 1;
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
