//! All requests of a load, written out before t0 and kept compactly: one block of memory, or, beyond a limit, a file that
//! has no name and goes with the process. Sending from the file costs one read, usually from the system's cache.

use super::request::Request;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that are kept in memory.
const MOST_IN_MEMORY: usize = 64 << 20;

/// Requests in order.
#[derive(Debug, Default)]
pub struct Requests {
    entries: Vec<Entry>,
    /// The bytes after those in the file.
    block: Vec<u8>,
    spilled: Option<Spilled>,
}

/// Where a request's bytes are among all bytes, and what is known of it besides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    start: u64,
    length: u32,
    pub sequences: u32,
    pub prompt_len: u64,
    pub audio_s: f64,
}

#[derive(Debug)]
struct Spilled {
    file: File,
    length: u64,
}

impl Requests {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds one at the end.
    pub fn push(&mut self, request: &Request) {
        self.push_within(request, MOST_IN_MEMORY);
    }

    fn push_within(&mut self, request: &Request, most: usize) {
        if self.block.len() + request.bytes.len() > most {
            // Without a place for the file everything stays in memory.
            let _ = self.spill();
        }
        self.entries.push(Entry {
            start: self.spilled.as_ref().map_or(0, |spilled| spilled.length) + self.block.len() as u64,
            length: u32::try_from(request.bytes.len()).unwrap_or(u32::MAX),
            sequences: request.sequences,
            prompt_len: request.prompt_len,
            audio_s: request.audio_s,
        });
        self.block.extend_from_slice(&request.bytes);
    }

    /// Moves the block to the end of the file.
    fn spill(&mut self) -> io::Result<()> {
        let mut spilled = match self.spilled.take() {
            Some(spilled) => spilled,
            None => Spilled {
                file: nameless_file()?,
                length: 0,
            },
        };
        let written = spilled.file.write_all_at(&self.block, spilled.length);
        if written.is_ok() {
            spilled.length += self.block.len() as u64;
            self.block.clear();
        }
        self.spilled = Some(spilled);
        written
    }

    pub(super) fn entry(&self, index: usize) -> Entry {
        self.entries[index]
    }

    /// The bytes of one, read into `buffer` if they are in the file.
    pub(super) fn bytes<'a>(&'a self, index: usize, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        let Entry { start, length, .. } = self.entries[index];
        let in_file = self.spilled.as_ref().map_or(0, |spilled| spilled.length);
        match &self.spilled {
            Some(spilled) if start < in_file => {
                buffer.resize(length as usize, 0);
                spilled.file.read_exact_at(buffer, start)?;
                Ok(buffer)
            }
            _ => {
                let start = (start - in_file) as usize;
                Ok(&self.block[start..start + length as usize])
            }
        }
    }
}

impl FromIterator<Request> for Requests {
    fn from_iter<T: IntoIterator<Item = Request>>(requests: T) -> Self {
        let mut all = Requests::default();
        requests.into_iter().for_each(|request| all.push(&request));
        all
    }
}

impl From<Vec<Request>> for Requests {
    fn from(requests: Vec<Request>) -> Self {
        requests.into_iter().collect()
    }
}

/// A file in the folder for temporary files, whose name is removed at once.
fn nameless_file() -> io::Result<File> {
    let folder = std::env::temp_dir();
    for attempt in 0u32.. {
        let path = folder.join(format!("vsweep-requests-{}-{attempt}", std::process::id()));
        match File::options().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..30), most in 0usize..200,
        ) {
            let mut requests = Requests::default();
            for bytes in &bodies {
                let request = Request { bytes: bytes.clone(), ..Request::default() };
                requests.push_within(&request, most);
            }
            prop_assert_eq!(requests.len(), bodies.len());
            let mut buffer = vec![];
            for (i, body) in bodies.iter().enumerate() {
                prop_assert_eq!(requests.bytes(i, &mut buffer).expect("readable"), &body[..]);
            }
        }
    }
}
