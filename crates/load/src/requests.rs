//! All requests of a load, written out before t0 and kept compactly: one block of memory, or, beyond a limit, a file that
//! has no name and goes with the process. Sending from the file costs one read, usually from the system's cache.

use super::api::request::Request;
use std::io;
use vsweep_base::spool::Spool;

/// Bytes that are kept in memory.
const MOST_IN_MEMORY: usize = 32 << 20;

/// Requests in order.
#[derive(Debug)]
pub struct Requests {
    entries: Vec<StoredRequest>,
    bytes: Spool,
}

/// Position of a request's bytes, with its properties.
#[derive(Debug, Clone, Copy)]
struct StoredRequest {
    place: u64,
    length: u32,
    sequences: u32,
    prompt_len: u64,
    output_len: u64,
    audio_s: f64,
}

/// Properties of a request besides its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Properties {
    pub sequences: u32,
    pub prompt_len: u64,
    pub audio_s: f64,
}

impl Properties {
    pub fn of(request: &Request) -> Properties {
        Properties {
            sequences: request.sequences,
            prompt_len: request.prompt_len,
            audio_s: request.audio_s,
        }
    }
}

impl Default for Requests {
    fn default() -> Self {
        Requests {
            entries: vec![],
            bytes: Spool::new(MOST_IN_MEMORY),
        }
    }
}

impl Requests {
    /// Number of requests.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are no requests.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds one at the end.
    pub fn push(&mut self, request: &Request) {
        self.entries.push(StoredRequest {
            place: self.bytes.push(&request.bytes),
            length: u32::try_from(request.bytes.len()).unwrap_or(u32::MAX),
            sequences: request.sequences,
            prompt_len: request.prompt_len,
            output_len: request.output_len,
            audio_s: request.audio_s,
        });
    }

    /// Prompt tokens of each as it is sent, in order.
    pub fn prompt_lens(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().map(|entry| entry.prompt_len)
    }

    /// Output tokens that each asks for, in order; 0 where that is not known.
    pub fn output_lens(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().map(|entry| entry.output_len)
    }

    pub(super) fn properties(&self, index: usize) -> Properties {
        let entry = self.entries[index];
        Properties {
            sequences: entry.sequences,
            prompt_len: entry.prompt_len,
            audio_s: entry.audio_s,
        }
    }

    /// The bytes of one, read into `buffer` if they are in the file.
    pub(super) fn bytes<'a>(&'a self, index: usize, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        let StoredRequest { place, length, .. } = self.entries[index];
        self.bytes.read(place, length as usize, buffer)
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
