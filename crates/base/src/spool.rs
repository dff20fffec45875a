//! Stores bytes that accumulate during a run: a limited number in memory, the rest in a file without a name, which disappears with the
//! process. The meaning of the bytes is up to the owner.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of bytes that are collected before they are written to the file: so few that writing them delays nobody.
const WRITE_SIZE: usize = 64 << 10;

/// Pieces of bytes in the order in which they were added. Each can be read by its place, the number of bytes before it.
#[derive(Debug)]
pub struct Spool {
    /// The first bytes of all.
    head: Vec<u8>,
    /// Largest number of bytes in `head`.
    most: usize,
    /// The file of the bytes after `head`, if there is one.
    file: Option<File>,
    /// Number of bytes in the file.
    in_file: u64,
    /// Bytes after those in the file, which are not yet written.
    tail: Vec<u8>,
    /// True if the file could not be created or written. Further bytes then stay in `tail`.
    is_stuck: bool,
}

/// Number of bytes that a spool keeps in memory by default.
const MOST_IN_MEMORY: usize = 32 << 20;

impl Default for Spool {
    fn default() -> Spool {
        Spool::new(MOST_IN_MEMORY)
    }
}

impl Spool {
    /// Returns an empty spool that keeps its first `most` bytes in memory.
    pub fn new(most: usize) -> Spool {
        Spool {
            head: vec![],
            most,
            file: None,
            in_file: 0,
            tail: vec![],
            is_stuck: false,
        }
    }

    /// Adds a piece at the end. Returns its place, for [`Spool::read`].
    pub fn push(&mut self, piece: &[u8]) -> u64 {
        let place = self.head.len() as u64 + self.in_file + self.tail.len() as u64;
        let is_in_head = self.in_file == 0 && self.tail.is_empty();
        if is_in_head && self.head.len() + piece.len() <= self.most {
            self.head.extend_from_slice(piece);
            return place;
        }
        self.tail.extend_from_slice(piece);
        if self.tail.len() >= WRITE_SIZE && !self.is_stuck {
            self.is_stuck = self.write_tail().is_err();
        }
        place
    }

    fn write_tail(&mut self) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => unnamed_file()?,
        };
        let written = file.write_all_at(&self.tail, self.in_file);
        if written.is_ok() {
            self.in_file += self.tail.len() as u64;
            self.tail.clear();
        }
        self.file = Some(file);
        written
    }

    /// Returns the piece of this length at this place. It is read into `buffer` if it is in the file.
    pub fn read<'a>(&'a self, place: u64, length: usize, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        let Some(beyond) = place.checked_sub(self.head.len() as u64) else {
            let place = place as usize;
            return Ok(&self.head[place..place + length]);
        };
        match (&self.file, beyond.checked_sub(self.in_file)) {
            (_, Some(place)) => {
                let place = place as usize;
                Ok(&self.tail[place..place + length])
            }
            (Some(file), None) => {
                buffer.resize(length, 0);
                file.read_exact_at(buffer, beyond)?;
                Ok(buffer)
            }
            (None, None) => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Returns a reader of all bytes, from the first to the last.
    pub fn reader(&self) -> impl Read + '_ {
        let file = FilePart {
            file: self.file.as_ref(),
            at: 0,
            end: self.in_file,
        };
        let file = BufReader::with_capacity(WRITE_SIZE, file);
        self.head.as_slice().chain(file).chain(self.tail.as_slice())
    }
}

/// Creates a file for this process alone, and removes its name before anything is written to it.
fn unnamed_file() -> io::Result<File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600);
    loop {
        let number = COUNT.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!(".vsweep-{}-{number}", std::process::id()));
        match options.open(&path) {
            // A process with the same id, in another container, uses this name.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                std::fs::remove_file(path)?;
                return Ok(file);
            }
        }
    }
}

/// A reader of the first `end` bytes of a file, if there is one.
struct FilePart<'a> {
    file: Option<&'a File>,
    at: u64,
    end: u64,
}

impl Read for FilePart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(file) = self.file else { return Ok(0) };
        let left = (self.end - self.at).min(buffer.len() as u64) as usize;
        let read = file.read_at(&mut buffer[..left], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(
            pieces in prop::collection::vec((any::<u8>(), prop_oneof![0..40usize, 0..WRITE_SIZE * 2]), 0..20),
            most in prop_oneof![0usize..200, 0..WRITE_SIZE * 3], is_stuck in any::<bool>(),
        ) {
            let pieces: Vec<Vec<u8>> = pieces.into_iter().map(|(byte, length)| vec![byte; length]).collect();
            let mut spool = Spool { is_stuck, ..Spool::new(most) };
            let places: Vec<u64> = pieces.iter().map(|piece| spool.push(piece)).collect();
            let mut buffer = vec![];
            for (piece, place) in pieces.iter().zip(places) {
                prop_assert_eq!(spool.read(place, piece.len(), &mut buffer).expect("readable"), &piece[..]);
            }
            let mut all = vec![];
            spool.reader().read_to_end(&mut all).expect("readable");
            prop_assert_eq!(all, pieces.concat());
        }
    }
}
