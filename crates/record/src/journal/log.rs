//! The journal of this session: one line for each event. A line is on disk before its event takes effect.

use super::event::Event;
use super::line::{Entry, decode};
use super::rank::{LineId, Nonce, Rank, Sum};
use jiff::{SignedDuration, Timestamp, Unit};
use std::fs::{File, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;
use vsweep_base::error::{Error, Result, remedy};
use vsweep_base::files::sync_folder_of;

/// A journal that only this process writes.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: PathBuf,
    nonce: Nonce,
    next_seq: u64,
    prev: Sum,
    length_bytes: u64,
    /// True if the file may end in a torn line, after which nothing may be written.
    is_torn: bool,
}

impl Log {
    /// Begins a journal in a folder. It is an error if the journal's file exists.
    pub fn create(folder: &Path, nonce: Nonce) -> Result<Log> {
        let path = folder.join(format!("{nonce}.jsonl"));
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = file.map_err(Error::io("create", &path))?;
        sync_folder_of(&path)?;
        Ok(Log {
            file,
            path,
            nonce,
            next_seq: 0,
            prev: nonce,
            length_bytes: 0,
            is_torn: false,
        })
    }

    /// Appends one event and waits until it is on disk. After an error, it removes the event from the file. If that also fails, the next
    /// call returns an error and tries the removal again.
    pub fn append(&mut self, lamport: u64, event: Event) -> Result<Entry> {
        if !self.is_in_place() {
            return Err(Error::Fatal(format!(
                "the journal {} was deleted or moved away while vsweep worked on it; put it back, or start over with --fresh",
                self.path.display()
            )));
        }
        let entry = Entry {
            rank: Rank {
                lamport,
                line: LineId {
                    journal: self.nonce,
                    seq: self.next_seq,
                },
            },
            at: now()
                .round(Unit::Millisecond)
                .map_or_else(|_| String::new(), |at| at.to_string()),
            event,
            prev: self.prev,
        };
        let (line, sum) = entry.encode();
        // A line that cannot be read back, for example because JSON has no infinite numbers, would spoil the whole journal.
        let read = decode(&line[..line.len() - 1]).map(|(read, _)| read.event);
        if let Some(Err(error)) = read {
            return Err(Error::Fatal(format!(
                "an event cannot be recorded ({error}), and the journal stays as it was; this is a defect of vsweep: report it"
            )));
        }
        let written = match self.is_torn {
            false => self.file.write_all(&line).and_then(|()| self.file.sync_data()),
            true => Err(std::io::Error::other("an earlier event could not be written")),
        };
        if let Err(error) = written {
            // If the file cannot be shortened either, readers ignore the torn line.
            self.is_torn = self.file.set_len(self.length_bytes).is_err();
            let path = self.path.display();
            let remedy = match remedy(&error) {
                "" => "; nothing that was recorded is lost: run the same command again",
                remedy => remedy,
            };
            return Err(Error::Fatal(format!(
                "cannot write the journal {path}: {error}{remedy}"
            )));
        }
        self.next_seq += 1;
        self.prev = sum;
        self.length_bytes += line.len() as u64;
        Ok(entry)
    }

    /// Returns true if the path still leads to the open file. Data written to a deleted file would be lost.
    fn is_in_place(&self) -> bool {
        let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let there = std::fs::metadata(&self.path).map(id);
        let open = self.file.metadata().map(id);
        matches!((there, open), (Ok(there), Ok(open)) if there == open)
    }
}

static BEGINNING: OnceLock<(Timestamp, Instant)> = OnceLock::new();

/// Returns the time of day as this process sees it: the wall clock at its first use, plus the time since. If the wall clock is set, or the
/// machine sleeps, no span between two moments of a session becomes longer or shorter.
pub fn now() -> Timestamp {
    let (began, since) = BEGINNING.get_or_init(|| (Timestamp::now(), Instant::now()));
    let passed = SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX);
    began.saturating_add(passed).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::event::ServerReady;
    use super::*;

    #[test]
    fn what_could_not_be_read_back_is_not_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let nonce = Nonce::random();
        let mut log = Log::create(folder.path(), nonce).expect("new");
        let ready = |seconds| {
            Event::ServerReady(Box::new(ServerReady {
                seconds,
                ..ServerReady::default()
            }))
        };
        let error = log
            .append(1, ready(f64::INFINITY))
            .expect_err("JSON has no such number");
        assert!(error.to_string().contains("cannot be recorded"), "{error}");
        log.append(1, ready(1.5)).expect("appended");
        let text = std::fs::read_to_string(folder.path().join(format!("{nonce}.jsonl"))).expect("there");
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn nothing_is_written_to_a_journal_that_is_not_there_any_more() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let nonce = Nonce::random();
        let ended = || Event::SessionEnded { reason: "again".into() };
        let mut log = Log::create(folder.path(), nonce).expect("new");
        Log::create(folder.path(), nonce).expect_err("somebody has it");
        log.append(1, ended()).expect("appended");
        let path = folder.path().join(format!("{nonce}.jsonl"));
        std::fs::rename(&path, folder.path().join("elsewhere")).expect("moved");
        let error = log.append(2, ended()).expect_err("moved");
        assert!(error.to_string().contains("moved away"), "{error}");
        std::fs::write(&path, "").expect("another file by its name");
        log.append(2, ended()).expect_err("not the same file");
    }
}
