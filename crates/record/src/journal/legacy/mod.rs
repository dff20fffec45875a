//! What vsweep 1.x wrote, as one sealed session: start slot 0, one chain for each search, in the order that 1.x gave it. It
//! is read, and never added to.
//!
//! The lines are turned into those of today, so that the fold knows one format.

mod cold;
mod upgrade;

use super::directory::Directory;
use super::event::SeenJournal;
use super::rank::Hex64;
use super::state::Sealed;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use upgrade::{Upgrade, member};
use vsweep_plan::error::{Error, Result};

/// The newest minor version of 1.x.
const LAST_MINOR: u32 = 6;

/// One line of a journal.
#[derive(Deserialize)]
struct OldLine {
    seq: u64,
    at: String,
    /// What happened, by its name.
    event: Map<String, Value>,
}

/// Reads the journals of 1.x in a directory.
pub fn read(directory: &Directory, journals: &[PathBuf]) -> Result<Sealed> {
    let mut upgrade = Upgrade::new(directory);
    let mut timed: Vec<(jiff::Timestamp, usize, OldLine)> = Vec::new();
    let mut are_of_newer_minor = Vec::new();
    for (shard, path) in journals.iter().enumerate() {
        let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let seen = SeenJournal {
            lines: bytes.iter().filter(|byte| **byte == b'\n').count() as u64,
            sum: Hex64::of(&bytes),
        };
        upgrade.sealed.seen.insert(name.clone(), seen);
        upgrade.shards.push(name);
        let lines = parse(&bytes, path, &mut upgrade.sealed.damage)?;
        are_of_newer_minor.push(is_of_newer_minor(&lines, path)?);
        let mut latest = jiff::Timestamp::MIN;
        for line in lines {
            // A clock that was set back does not reorder a journal.
            latest = latest.max(line.at.parse().unwrap_or(latest));
            timed.push((latest, shard, line));
        }
    }
    timed.sort_by_key(|(at, ..)| *at);
    for (_, shard, OldLine { seq, at, event }) in timed {
        for (name, body) in event {
            let taken = serde_json::from_value(body).and_then(|body| upgrade.take(shard, seq, &at, &name, body));
            if let (Err(error), false) = (taken, are_of_newer_minor[shard]) {
                return refuse(&journals[shard], seq, &error.to_string());
            }
        }
    }
    Ok(upgrade.finish())
}

/// The lines of a journal. A torn last line is left out, a damaged last one is named, any other damage is an error: these
/// lines have no checksums, so nothing after it could be trusted.
fn parse(bytes: &[u8], path: &Path, damage: &mut Vec<String>) -> Result<Vec<OldLine>> {
    let mut entries = Vec::new();
    let mut lines = (0..).zip(bytes.split_inclusive(|&byte| byte == b'\n')).peekable();
    while let Some((number, line)) = lines.next() {
        if !line.ends_with(b"\n") {
            break;
        }
        match serde_json::from_slice::<OldLine>(line) {
            Ok(line) if line.seq == number => entries.push(line),
            Ok(OldLine { seq, .. }) => {
                let what = format!("entry {seq} stands where {number} should; the file was edited or mixed");
                return refuse(path, number, &what);
            }
            Err(error) if lines.peek().is_none() => damage.push(format!(
                "{}:{}: damaged line ({error}); what it told is lost",
                path.display(),
                number + 1
            )),
            Err(error) => return refuse(path, number, &format!("damaged line ({error})")),
        }
    }
    Ok(entries)
}

fn refuse<T>(path: &Path, number: u64, what: &str) -> Result<T> {
    Err(Error::Fatal(format!(
        "{}:{}: {what}; restore the file from a copy, or start over with --fresh",
        path.display(),
        number + 1
    )))
}

/// Refuses what is not of 1.x; says whether the minor is newer than the last that is known.
fn is_of_newer_minor(lines: &[OldLine], path: &Path) -> Result<bool> {
    let created = lines.iter().find_map(|line| line.event.get("journal_created"));
    let Some(created) = created.and_then(Value::as_object) else {
        return Ok(false);
    };
    let text = |name: &str| member::<String>(created, name).unwrap_or_default();
    match super::reader::version_of(&text("format")) {
        Some((1, minor)) => Ok(minor > LAST_MINOR),
        _ => Err(super::reader::refuse_format(&text("format"), &text("vsweep"), path)),
    }
}
