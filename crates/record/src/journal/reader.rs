//! Reads one journal as far as it is written, and continues from there later. Every line has its own checksum; its `prev` shows whether
//! lines are missing, moved or duplicated. A defect is reported, and costs only the line that has it.

use super::event::{Event, FORMAT};
use super::line::{DecodedLine, Entry, decode};
use super::rank::{LineId, Nonce, Rank, Sum};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read as _, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use vsweep_base::error::{Error, Result};
use vsweep_base::files::open;
use vsweep_base::threads;
use vsweep_base::units::show_many;

/// Largest number of lines that may be missing before a line. A line after a larger gap does not count as one of the journal, because the
/// list of missing lines would fill the memory.
const LONGEST_GAP: u64 = 1 << 24;
/// Length in bytes at which reading of a line stops. vsweep writes no line that long, and reading it could fill the memory.
const LONGEST_LINE: u64 = if cfg!(test) { 1 << 22 } else { 1 << 28 };

/// Most defects that are listed; further ones are only counted, because their list would fill the memory.
const MOST_DAMAGE: usize = 100;

/// Size at which a batch of lines is complete and is decoded, in bytes.
const BATCH_BYTES: usize = 1 << 20;
/// Smallest number of lines that are decoded by several threads.
const MANY_LINES: usize = 64;

/// A journal as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub path: PathBuf,
    pub nonce: Nonce,
    /// The first defects, one sentence each.
    damage: Vec<String>,
    /// Number of further defects.
    more_damage: u64,
    /// Damaged lines that may have retired results, by their number in the file, from 1.
    pub doubtful: Vec<u64>,
    offset: u64,
    /// Number of lines in the file that were read.
    lines: u64,
    /// Checksums of the lines, by their `seq`; `None` for missing and damaged lines.
    sums: Vec<Option<Sum>>,
    /// Checksums that missing lines must have, by their `seq`: the `prev` of the lines that follow them.
    wanted: BTreeMap<u64, Sum>,
    /// Number of damaged lines since the last intact one.
    damaged: u64,
    /// True if the journal has a newer minor version than [`FORMAT`], so that it may contain unknown events.
    is_of_newer_minor: bool,
    /// True if a line was found that is too long to be read.
    has_endless_line: bool,
}

/// Result of reading further.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// The lines were read, and further ones may follow.
    On,
    /// The file has become shorter than the part that was read.
    Changed,
    /// The file is not the journal that its name claims.
    Foreign,
    /// A line is too long to be read.
    Endless,
}

/// A line without its line feed, and its content; `None` if it is damaged.
type ReadLine = (Vec<u8>, Option<(DecodedLine, Sum)>);

/// Reads complete lines, which are decoded together. Also returns the result of reading if no complete line follows.
fn read_batch(file: &mut impl BufRead) -> io::Result<(Vec<ReadLine>, Option<Read>)> {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    let end = loop {
        if bytes >= BATCH_BYTES {
            break None;
        }
        let mut line = Vec::new();
        let read = file.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if read as u64 == LONGEST_LINE {
            break Some(Read::Endless);
        }
        // A last line without a line feed is torn, or being written.
        if read == 0 || line.pop() != Some(b'\n') {
            break Some(Read::On);
        }
        // The memory of a short line is mostly that of its place in the list.
        bytes += read + size_of::<ReadLine>();
        lines.push(line);
    };
    // For the few lines that a sweep in progress adds, threads do not pay.
    let threads = if lines.len() < MANY_LINES { 1 } else { threads::cores() };
    let decoded = threads::map(threads, &lines, |line| decode(line));
    Ok((lines.into_iter().zip(decoded).collect(), end))
}

impl Reader {
    /// Returns a journal of which nothing was read yet; `None` if its name is not a nonce.
    pub fn of(path: &Path) -> Option<Reader> {
        let nonce = path.file_stem()?.to_str()?.parse().ok()?;
        Some(Reader {
            path: path.to_path_buf(),
            nonce,
            ..Reader::default()
        })
    }

    /// Reads the lines that were not read yet, and passes every line that counts to `take`.
    pub fn read(&mut self, take: &mut dyn FnMut(Entry)) -> Result<Read> {
        let mut file = open(&self.path).map_err(Error::io("read", &self.path))?;
        let length = file.metadata().map_err(Error::io("read", &self.path))?.len();
        if length < self.offset {
            return Ok(Read::Changed);
        }
        if self.has_endless_line {
            return Ok(Read::On);
        }
        file.seek(SeekFrom::Start(self.offset))
            .map_err(Error::io("read", &self.path))?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        let (mut lines, mut end) = read_batch(&mut file).map_err(Error::io("read", &self.path))?;
        loop {
            // The next lines are decoded while these are taken.
            let (next, taken) = match &end {
                None => threads::both(|| Some(read_batch(&mut file)), || self.take_lines(lines, take)),
                Some(_) => (None, self.take_lines(lines, take)),
            };
            match (taken?, end) {
                (Read::On, None) => {}
                (Read::On, Some(Read::Endless)) if self.lines == 0 => return Ok(Read::Foreign),
                (Read::On, Some(end @ (Read::On | Read::Endless))) => {
                    if end == Read::Endless {
                        self.refuse_endless_line();
                    }
                    self.number_damaged();
                    return Ok(Read::On);
                }
                (Read::On, Some(other)) | (other, _) => return Ok(other),
            }
            let next = next.expect("only the last batch has an end");
            (lines, end) = next.map_err(Error::io("read", &self.path))?;
        }
    }

    fn take_lines(&mut self, lines: Vec<ReadLine>, take: &mut dyn FnMut(Entry)) -> Result<Read> {
        for (line, decoded) in lines {
            self.offset += line.len() as u64 + 1;
            self.lines += 1;
            if self.take_line(&line, decoded, take)? == Read::Foreign {
                return Ok(Read::Foreign);
            }
        }
        Ok(Read::On)
    }

    /// Returns the number of lines of the journal, including missing and damaged ones.
    pub fn length(&self) -> u64 {
        self.sums.len() as u64 + self.damaged
    }

    /// Returns the checksum of a line, if it is intact.
    pub fn sum(&self, seq: u64) -> Option<Sum> {
        *self.sums.get(usize::try_from(seq).ok()?)?
    }

    /// Returns the checksum of the last line; zero if that line is not intact.
    pub fn last_sum(&self) -> Sum {
        self.length()
            .checked_sub(1)
            .and_then(|last| self.sum(last))
            .unwrap_or_default()
    }

    fn place(&self) -> String {
        format!("{}:{}", self.path.display(), self.lines)
    }

    /// Returns the defects, one sentence each.
    pub fn damage(&self) -> impl Iterator<Item = String> {
        let more = show_many(self.more_damage, "more defect");
        let more = (self.more_damage > 0).then(|| {
            format!(
                "{} has {more}; restore the file from a copy if there is one",
                self.path.display()
            )
        });
        self.damage.iter().cloned().chain(more)
    }

    /// Notes a defect of the line that was read last.
    fn note_damage(&mut self, what: &str) {
        match self.damage.len() < MOST_DAMAGE {
            true => self.damage.push(format!("{}: {what}", self.place())),
            false => self.more_damage += 1,
        }
    }

    fn take_line(
        &mut self,
        line: &[u8],
        decoded: Option<(DecodedLine, Sum)>,
        take: &mut dyn FnMut(Entry),
    ) -> Result<Read> {
        let Some((line, own)) = decoded else {
            if looks_like(line, b"results_retired") {
                self.doubtful.push(self.lines);
            }
            self.damaged += 1;
            self.note_damage("damaged line; its content is lost; restore the file from a copy if there is one");
            return Ok(Read::On);
        };
        if line.seq == 0 && line.prev != self.nonce {
            return match self.lines {
                1 => Ok(Read::Foreign),
                _ => Ok(self.refuse()),
            };
        }
        let next = self.sums.len() as u64;
        let before = line.seq.checked_sub(1).and_then(|seq| self.sum(seq));
        if before.is_some_and(|sum| sum != line.prev) || line.seq > next + LONGEST_GAP {
            return Ok(self.refuse());
        }
        if line.seq < next {
            match self.sum(line.seq) {
                Some(sum) if sum == own => {
                    self.note_damage("this line is here twice; it counts once");
                    return Ok(Read::On);
                }
                Some(_) => return Ok(self.refuse()),
                None if self.wanted.get(&line.seq).is_some_and(|sum| *sum != own) => return Ok(self.refuse()),
                None => {
                    self.note_damage("this line was moved here; it counts");
                    self.sums[line.seq as usize] = Some(own);
                }
            }
        } else {
            self.note_gap(line.seq - next);
            if line.seq > next {
                self.wanted.insert(line.seq - 1, line.prev);
            }
            self.sums.resize(line.seq as usize, None);
            self.sums.push(Some(own));
        }
        let event = match line.event {
            Ok(event) => event,
            Err(_) if self.is_of_newer_minor => return Ok(Read::On),
            Err(error) => {
                return Err(Error::Fatal(format!(
                    "{}: {error}; a newer vsweep wrote this: use that one",
                    self.place()
                )));
            }
        };
        if let Event::JournalCreated { format, vsweep, .. } = &event {
            match version_of(format) {
                Some((major, minor)) if major == FORMAT.0 => self.is_of_newer_minor = minor > FORMAT.1,
                _ => return Err(refuse_format(format, vsweep, &self.path)),
            }
        }
        let (journal, seq) = (self.nonce, line.seq);
        take(Entry {
            rank: Rank {
                lamport: line.lamport,
                line: LineId { journal, seq },
            },
            at: line.at,
            event,
            prev: line.prev,
        });
        Ok(Read::On)
    }

    /// Notes that the next line is too long to be read.
    fn refuse_endless_line(&mut self) {
        self.has_endless_line = true;
        self.damage.push(format!(
            "{}:{}: this line is longer than {} MiB; it and what follows are not read; restore the file from a copy if there is one",
            self.path.display(),
            self.lines + 1,
            LONGEST_LINE >> 20
        ));
    }

    fn refuse(&mut self) -> Read {
        self.note_damage("this line is of another journal or was changed; it does not count");
        Read::On
    }

    /// Notes lines that are missing before an intact one. `missing` includes the damaged lines there, which are subtracted.
    fn note_gap(&mut self, missing: u64) {
        let more = missing.saturating_sub(std::mem::take(&mut self.damaged));
        if more > 0 {
            let lines = if more == 1 { "line is" } else { "lines are" };
            self.note_damage(&format!(
                "{more} {lines} missing before this one (after seq {}); their content is lost; restore the file from a copy if \
                 there is one",
                self.sums.len()
            ));
        }
    }

    /// Reserves numbers for damaged lines at the end, so that lines that are read later follow them.
    fn number_damaged(&mut self) {
        let damaged = std::mem::take(&mut self.damaged) as usize;
        self.sums.resize(self.sums.len() + damaged, None);
    }
}

/// Returns true if a word occurs in the first 200 bytes of a line, with up to two wrong bytes.
fn looks_like(line: &[u8], word: &[u8]) -> bool {
    let head = &line[..line.len().min(200)];
    let wrong = |window: &[u8]| window.iter().zip(word).filter(|(one, other)| one != other).count();
    head.windows(word.len()).any(|window| wrong(window) <= 2)
}

/// Reads `major.minor` as numbers.
fn version_of(format: &str) -> Option<(u32, u32)> {
    let (major, minor) = format.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the error for a journal in a format of another major version.
fn refuse_format(format: &str, vsweep: &str, path: &Path) -> Error {
    let (path, major) = (path.display(), FORMAT.0);
    Error::Fatal(format!(
        "{path} is in format {format}, and this vsweep reads format {major}.x; read it with the vsweep that wrote it ({vsweep}), or \
         measure anew with `vsweep run --fresh`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Log;

    /// Writes a journal. Returns its path and its lines.
    fn journal(folder: &Path, lines: usize) -> (PathBuf, Vec<Vec<u8>>) {
        let nonce = Nonce::from(0xabc);
        let mut log = Log::create(folder, nonce).expect("new");
        let created = |format: &str| Event::JournalCreated {
            format: format.into(),
            vsweep: "9.9".into(),
            shard: "1-of-1".into(),
        };
        for i in 0..lines as u64 {
            let event = match i {
                0 => created("1.0"),
                _ => Event::SessionEnded {
                    reason: format!("reason {i}"),
                },
            };
            log.append(i + 1, event).expect("appended");
        }
        let path = folder.join(format!("{nonce}.jsonl"));
        let bytes = std::fs::read(&path).expect("readable");
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec);
        (path.clone(), lines.collect())
    }

    /// Writes these lines and reads them. Returns the numbers of the lines that count, and the messages about the others.
    fn read(path: &Path, lines: &[Vec<u8>]) -> (Vec<u64>, Vec<String>) {
        std::fs::write(path, lines.concat()).expect("written");
        let mut reader = Reader::of(path).expect("a journal's name");
        let mut seqs = Vec::new();
        let read = reader
            .read(&mut |entry| seqs.push(entry.rank.line.seq))
            .expect("readable");
        assert_eq!(read, Read::On);
        (seqs, reader.damage().collect())
    }

    #[test]
    fn damaged_missing_moved_and_doubled_lines_are_distinguished() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, lines) = journal(folder.path(), 6);
        assert_eq!(read(&path, &lines), (vec![0, 1, 2, 3, 4, 5], Vec::new()));

        let mut damaged = lines.clone();
        damaged[2][10] ^= 1;
        let (seqs, said) = read(&path, &damaged);
        assert_eq!(seqs, [0, 1, 3, 4, 5]);
        assert!(
            said.len() == 1 && said[0].contains(".jsonl:3: damaged line"),
            "{said:?}"
        );

        let mut last = lines.clone();
        last[5][10] ^= 1;
        let (seqs, said) = read(&path, &last);
        assert_eq!(seqs, [0, 1, 2, 3, 4]);
        assert!(said[0].contains(".jsonl:6: damaged line"), "{said:?}");

        let mut missing = lines.clone();
        missing.remove(2);
        let (seqs, said) = read(&path, &missing);
        assert_eq!(seqs, [0, 1, 3, 4, 5]);
        assert!(said[0].contains(":3: 1 line is missing before"), "{said:?}");

        let mut doubled = lines.clone();
        doubled.insert(4, lines[1].clone());
        let (seqs, said) = read(&path, &doubled);
        assert_eq!(seqs, [0, 1, 2, 3, 4, 5]);
        assert!(said[0].contains(":5: this line is here twice"), "{said:?}");

        let mut moved = lines.clone();
        moved.swap(2, 4);
        let (seqs, said) = read(&path, &moved);
        assert_eq!(seqs.len(), 6);
        assert!(said.iter().any(|said| said.contains("was moved here")), "{said:?}");
    }

    #[test]
    fn a_torn_end_is_no_damage_and_is_read_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, lines) = journal(folder.path(), 4);
        let whole = lines.concat();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("written");
            let mut reader = Reader::of(&path).expect("a journal's name");
            let mut seqs = Vec::new();
            reader
                .read(&mut |entry| seqs.push(entry.rank.line.seq))
                .expect("readable");
            std::fs::write(&path, &whole).expect("written");
            reader
                .read(&mut |entry| seqs.push(entry.rank.line.seq))
                .expect("readable");
            assert_eq!((seqs, reader.damage), (vec![0, 1, 2, 3], Vec::new()), "cut at {cut}");
        }
    }

    #[test]
    fn of_many_damaged_lines_the_first_are_listed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, mut lines) = journal(folder.path(), 2);
        lines.extend(vec![b"\n".to_vec(); MOST_DAMAGE + 3]);
        let (seqs, said) = read(&path, &lines);
        assert_eq!((seqs, said.len()), (vec![0, 1], MOST_DAMAGE + 1));
        let last = &said[MOST_DAMAGE];
        assert!(last.contains(".jsonl has 3 more defects; restore"), "{last}");
    }

    #[test]
    fn what_precedes_a_line_that_is_too_long_counts() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, lines) = journal(folder.path(), 3);
        let endless = vec![b'x'; LONGEST_LINE as usize + 1];
        std::fs::write(&path, [lines.concat(), endless.clone()].concat()).expect("written");
        let mut reader = Reader::of(&path).expect("a journal's name");
        let mut count = 0;
        for _ in 0..2 {
            assert_eq!(reader.read(&mut |_| count += 1).expect("readable"), Read::On);
        }
        assert_eq!((count, reader.damage.len()), (3, 1), "{:?}", reader.damage);
        assert!(
            reader.damage[0].contains(".jsonl:4: this line is longer than 4 MiB"),
            "{:?}",
            reader.damage
        );
        std::fs::write(&path, endless).expect("written");
        let read = Reader::of(&path).expect("a journal's name").read(&mut |_| ());
        assert_eq!(read.expect("readable"), Read::Foreign);
    }

    #[test]
    fn a_line_of_another_journal_does_not_count() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, lines) = journal(folder.path(), 3);
        let elsewhere = tempfile::tempdir().expect("a temporary folder");
        let mut log = Log::create(elsewhere.path(), Nonce::from(0xdef)).expect("new");
        for reason in ["a", "b", "c", "d"] {
            let reason = reason.into();
            log.append(1, Event::SessionEnded { reason }).expect("appended");
        }
        let other = elsewhere.path().join("0000000000000def.jsonl");
        let other = std::fs::read(other).expect("readable");
        let fourth = other
            .split_inclusive(|byte| *byte == b'\n')
            .nth(3)
            .expect("a line")
            .to_vec();
        let (seqs, said) = read(&path, &[lines, vec![fourth]].concat());
        assert_eq!(seqs, [0, 1, 2]);
        assert!(said[0].contains("of another journal"), "{said:?}");
    }

    #[test]
    fn a_copy_under_another_name_is_not_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, _) = journal(folder.path(), 3);
        let copy = folder.path().join("00000000000000aa.jsonl");
        std::fs::copy(path, &copy).expect("copied");
        let mut reader = Reader::of(&copy).expect("a journal's name");
        let read = reader.read(&mut |entry| panic!("{entry:?} counts"));
        assert_eq!(read.expect("readable"), Read::Foreign);
        assert!(Reader::of(&folder.path().join("copy.jsonl")).is_none());
    }

    #[test]
    fn other_versions_are_refused_or_read_as_far_as_they_are_known() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let nonce = Nonce::from(5);
        let path = folder.path().join(format!("{nonce}.jsonl"));
        let write = |format: &str, event: &str| {
            let mut prev = nonce;
            let mut text = Vec::new();
            let created = format!(r#"{{"journal_created":{{"format":"{format}","vsweep":"3.1.4","shard":"1-of-1"}}}}"#);
            for (seq, event) in [created.as_str(), event].iter().enumerate() {
                let line = format!(r#"{{"seq":{seq},"lamport":{seq},"at":"","event":{event},"prev":"{prev}""#);
                let (line, sum) = crate::journal::line::sealed(line.into_bytes());
                text.extend(line);
                text.push(b'\n');
                prev = sum;
            }
            std::fs::write(&path, text).expect("written");
            let mut reader = Reader::of(&path).expect("a journal's name");
            let mut count = 0;
            reader
                .read(&mut |_| count += 1)
                .map(|_| count)
                .map_err(|error| error.to_string())
        };
        let tea = r#"{"tea_made":{}}"#;
        assert_eq!(write("1.9", tea), Ok(1));
        assert!(write("1.0", tea).is_err_and(|error| error.contains("a newer vsweep")));
        for major in ["0.9", "2.0", "one"] {
            let refused = format!(
                "00000005.jsonl is in format {major}, and this vsweep reads format 1.x; read it with the vsweep that wrote it (3.1.4), or \
                 measure anew with `vsweep run --fresh`"
            );
            assert!(
                write(major, tea).is_err_and(|error| error.ends_with(&refused)),
                "{refused}"
            );
        }
    }
}
