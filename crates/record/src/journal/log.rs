//! The append-only file: one JSON line an event, each on disk before the next thing happens. A torn last line (the
//! crash came while it was being written) is cut; any other damage is refused with its place.

use super::event::{Entry, Event, FORMAT};
use serde::Deserialize;
use std::fs::{File, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use vsweep_plan::error::{Error, Result};

/// A journal opened for writing.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: PathBuf,
    next_seq: u64,
    length_bytes: u64,
    /// Whether a torn line may stand at the end: nothing may follow it.
    is_torn: bool,
}

impl Log {
    /// Opens or creates the journal, cuts a torn last line and returns what it holds.
    pub fn open(path: &Path) -> Result<(Log, Vec<Entry>)> {
        let (bytes, exists) = match std::fs::read(path) {
            Ok(bytes) => (bytes, true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (Vec::new(), false),
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let content = parse(&bytes, path)?;
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(Error::io("open", path))?;
        if content.sound_bytes < bytes.len() as u64 {
            file.set_len(content.sound_bytes).map_err(Error::io("repair", path))?;
            file.sync_all().map_err(Error::io("repair", path))?;
        }
        if !exists && let Some(folder) = path.parent() {
            File::open(folder)
                .and_then(|folder| folder.sync_all())
                .map_err(Error::io("sync", folder))?;
        }
        let log = Log {
            file,
            path: path.to_path_buf(),
            next_seq: content.next_seq,
            length_bytes: content.sound_bytes,
            is_torn: false,
        };
        Ok((log, content.entries))
    }

    /// Appends one event and waits until it is on disk. After an error nothing of the event remains in the file, or
    /// nothing is appended any more.
    pub fn append(&mut self, event: Event) -> Result<Entry> {
        if !self.is_in_place() {
            return Err(Error::Fatal(format!(
                "the journal {} was deleted or moved away while vsweep worked on it; put it back, or start over with --fresh",
                self.path.display()
            )));
        }
        let entry = Entry {
            seq: self.next_seq,
            at: jiff::Timestamp::now()
                .round(jiff::Unit::Millisecond)
                .map_or_else(|_| String::new(), |at| at.to_string()),
            event,
        };
        let mut line = serde_json::to_vec(&entry).expect("an event is plain data, which always serialises");
        line.push(b'\n');
        let written = match self.is_torn {
            false => self.file.write_all(&line).and_then(|()| self.file.sync_data()),
            true => Err(std::io::Error::other("an earlier event could not be written")),
        };
        if let Err(error) = written {
            // If this fails too, the torn line is cut when the journal is opened again.
            self.is_torn = self.file.set_len(self.length_bytes).is_err();
            let path = self.path.display();
            return Err(Error::Fatal(format!(
                "cannot write the journal {path}: {error}; nothing recorded so far is lost: make room or permit writing, then run again"
            )));
        }
        self.next_seq += 1;
        self.length_bytes += line.len() as u64;
        Ok(entry)
    }

    /// Whether the path still leads to the open file: what is written to a deleted one is lost.
    fn is_in_place(&self) -> bool {
        let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let there = std::fs::metadata(&self.path).map(id);
        let open = self.file.metadata().map(id);
        matches!((there, open), (Ok(there), Ok(open)) if there == open)
    }
}

/// Reads a journal without touching it; a torn last line is left out.
pub fn read(path: &Path) -> Result<Vec<Entry>> {
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    Ok(parse(&bytes, path)?.entries)
}

/// What the sound part of a journal holds.
struct Content {
    entries: Vec<Entry>,
    next_seq: u64,
    sound_bytes: u64,
}

/// An entry whose event may be unknown to this version.
#[derive(Deserialize)]
struct RawEntry {
    seq: u64,
    at: String,
    event: serde_json::Value,
}

fn parse(bytes: &[u8], path: &Path) -> Result<Content> {
    let mut content = Content {
        entries: Vec::new(),
        next_seq: 0,
        sound_bytes: 0,
    };
    let mut newer_minor = false;
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let place = || format!("{}:{}", path.display(), content.next_seq + 1);
        let is_last = lines.peek().is_none();
        let raw: RawEntry = match serde_json::from_slice(line) {
            Ok(raw) if line.ends_with(b"\n") => raw,
            _ if is_last => break,
            Ok(_) => unreachable!("only the last line of a split can lack its line feed"),
            Err(error) => {
                return Err(Error::Fatal(format!(
                    "{}: damaged line ({error}); restore the file from a copy, or start over with --fresh",
                    place()
                )));
            }
        };
        if raw.seq != content.next_seq {
            return Err(Error::Fatal(format!(
                "{}: entry {} stands where {} should; the file was edited or mixed: restore it from a copy, or start over with --fresh",
                place(),
                raw.seq,
                content.next_seq
            )));
        }
        match serde_json::from_value::<Event>(raw.event) {
            Ok(event) => {
                if let Event::JournalCreated { format, vsweep, .. } = &event {
                    newer_minor = check_format(format, vsweep, path)?;
                }
                content.entries.push(Entry {
                    seq: raw.seq,
                    at: raw.at,
                    event,
                });
            }
            Err(_) if newer_minor => {}
            Err(error) => {
                return Err(Error::Fatal(format!(
                    "{}: {error}; restore the file from a copy, or start over with --fresh",
                    place()
                )));
            }
        }
        content.next_seq += 1;
        content.sound_bytes += line.len() as u64;
    }
    Ok(content)
}

/// Refuses a newer major format; says whether the minor is newer.
fn check_format(format: &str, vsweep: &str, path: &Path) -> Result<bool> {
    let version = format
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
    match version {
        Some((major, minor)) if major <= FORMAT.0 => Ok((major, minor) > FORMAT),
        _ => Err(Error::Fatal(format!(
            "{} is in format {format}, this vsweep {} reads up to {}.x; use vsweep {vsweep} or newer for it",
            path.display(),
            env!("CARGO_PKG_VERSION"),
            FORMAT.0,
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ended(reason: &str) -> Event {
        Event::SessionEnded { reason: reason.into() }
    }

    fn journal_of(count: usize) -> Vec<u8> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("1-of-1.jsonl");
        let (mut log, _) = Log::open(&path).expect("new");
        for i in 0..count {
            log.append(ended(&format!("reason {i} äöü"))).expect("appended");
        }
        std::fs::read(&path).expect("readable")
    }

    #[test]
    fn what_was_appended_is_read_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("1-of-1.jsonl");
        let (mut log, entries) = Log::open(&path).expect("new");
        assert!(entries.is_empty());
        log.append(ended("finished")).expect("appended");
        drop(log);
        let (mut log, entries) = Log::open(&path).expect("again");
        assert_eq!(entries.len(), 1);
        assert_eq!(log.append(ended("again")).expect("appended").seq, 1);
        assert_eq!(read(&path).expect("readable").len(), 2);
    }

    #[test]
    fn nothing_is_written_to_a_journal_that_is_not_there_any_more() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("1-of-1.jsonl");
        let (mut log, _) = Log::open(&path).expect("new");
        log.append(ended("finished")).expect("appended");
        std::fs::rename(&path, folder.path().join("elsewhere")).expect("moved");
        let error = log.append(ended("again")).expect_err("moved");
        assert!(error.to_string().contains("moved away"), "{error}");
        std::fs::write(&path, "").expect("another file by its name");
        log.append(ended("again")).expect_err("not the same file");
    }

    #[test]
    fn a_damaged_middle_line_is_refused_with_its_place() {
        let mut bytes = journal_of(3);
        bytes[3] = b'#';
        let error = parse(&bytes, Path::new("j.jsonl")).err().expect("refused");
        assert!(error.to_string().contains("j.jsonl:1"), "{error}");
    }

    #[test]
    fn a_missing_line_is_refused() {
        let bytes = journal_of(3);
        let first_line = bytes.iter().position(|&b| b == b'\n').expect("a line") + 1;
        let error = parse(&bytes[first_line..], Path::new("j.jsonl"))
            .err()
            .expect("refused");
        assert!(error.to_string().contains("entry 1 stands where 0"), "{error}");
    }

    #[test]
    fn a_newer_major_format_is_refused_by_name() {
        let created =
            r#"{"seq":0,"at":"x","event":{"journal_created":{"format":"2.0","vsweep":"3.1.4","shard":"1-of-1"}}}"#;
        let error = parse(format!("{created}\n").as_bytes(), Path::new("j"))
            .err()
            .expect("refused");
        assert!(error.to_string().contains("use vsweep 3.1.4"), "{error}");
    }

    #[test]
    fn unknown_events_of_a_newer_minor_format_are_skipped() {
        let lines = concat!(
            r#"{"seq":0,"at":"x","event":{"journal_created":{"format":"1.9","vsweep":"3","shard":"1-of-1"}}}"#,
            "\n",
            r#"{"seq":1,"at":"x","event":{"tea_made":{}}}"#,
            "\n"
        );
        let content = parse(lines.as_bytes(), Path::new("j")).expect("read");
        assert_eq!((content.entries.len(), content.next_seq), (1, 2));
    }

    proptest! {
        #[test]
        fn cut_anywhere_only_the_torn_line_is_lost(cut in 0usize..2000) {
            let bytes = journal_of(8);
            let cut = cut % (bytes.len() + 1);
            let content = parse(&bytes[..cut], Path::new("j")).expect("a torn end is no damage");
            let whole_lines = bytes[..cut].iter().filter(|&&byte| byte == b'\n').count();
            prop_assert_eq!(content.entries.len(), whole_lines);
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = parse(&bytes, Path::new("j"));
        }

        #[test]
        fn a_flipped_byte_never_panics(at: proptest::sample::Index, to: u8) {
            let mut bytes = journal_of(4);
            let at = at.index(bytes.len());
            bytes[at] = to;
            let _ = parse(&bytes, Path::new("j"));
        }
    }
}
