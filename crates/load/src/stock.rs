//! The requests of a load that are at hand. Without a supply, these are all requests. With a supply, these are the next requests and the
//! requests in flight; of requests that have ended, only the lengths are kept.

use super::api::request::Request;
use super::supply::Supply;
use std::collections::HashMap;
use std::io;
use vsweep_base::spool::Spool;

/// Number of requests that are taken from a supply in advance.
const AHEAD: usize = 64;

/// Number of prompt tokens of a request, and of output tokens that it asks for.
pub type TokenCounts = (u32, u32);

/// The requests of a load that are at hand.
pub(super) struct Stock<'a> {
    all: &'a Requests,
    /// Number of requests in `all` that have a due time.
    count: usize,
    /// If set, requests are sent without end. Requests before this index are sent once, the others again and again.
    lap_start: Option<usize>,
    supply: Option<&'a Supply>,
    /// Requests of a supply that have not ended, by index.
    taken: HashMap<usize, Request>,
    /// Lengths of all requests that were taken from a supply.
    pub asked: Vec<TokenCounts>,
    /// True if no more requests will come.
    is_complete: bool,
}

impl<'a> Stock<'a> {
    /// A stock of all these requests, of which `count` have a due time; or of the requests of a supply, if there is one.
    pub fn new(all: &'a Requests, count: usize, lap_start: Option<usize>, supply: Option<&'a Supply>) -> Self {
        Stock {
            all,
            count,
            lap_start,
            supply,
            taken: HashMap::new(),
            asked: vec![],
            is_complete: supply.is_none(),
        }
    }

    /// If fewer than half of [`AHEAD`] requests are in memory from index `next` on, takes more from the supply, up to `AHEAD`.
    pub fn restock(&mut self, next: usize) {
        let Some(supply) = self.supply.filter(|_| !self.is_complete) else {
            return;
        };
        let missing = (next + AHEAD).saturating_sub(self.asked.len());
        if missing > AHEAD / 2 {
            let (taken, asked) = (&mut self.taken, &mut self.asked);
            self.is_complete = supply.take(missing, |request| {
                let [prompt, output] = [request.prompt_len, request.output_len];
                taken.insert(asked.len(), request);
                asked.push((clamped(prompt), clamped(output)));
            });
        }
    }

    /// Returns the number of all requests; `None` while it is unknown, and for a load without end.
    pub fn total(&self) -> Option<usize> {
        match (self.supply, self.lap_start) {
            (Some(_), _) => self.is_complete.then_some(self.asked.len()),
            (None, Some(_)) => None,
            (None, None) => Some(self.count),
        }
    }

    /// Returns true if the request of this index exists and can be sent.
    pub fn has(&self, index: usize) -> bool {
        match self.supply {
            Some(_) => index < self.asked.len(),
            None => self.lap_start.is_some() || index < self.count,
        }
    }

    /// Returns true if the request is still to be drawn.
    pub fn lacks(&self, index: usize) -> bool {
        !self.is_complete && !self.has(index)
    }

    pub fn properties(&self, index: usize) -> Properties {
        match self.taken.get(&index) {
            Some(request) => Properties::of(request),
            // It is still to be drawn.
            None if self.supply.is_some() => Properties::of(&Request::default()),
            None => self.all.properties(self.index_in_all(index)),
        }
    }

    /// The bytes of a request, in `buffer` if they come from a file.
    pub fn bytes<'b>(&'b self, index: usize, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        match self.taken.get(&index) {
            Some(request) => Ok(&request.bytes),
            None => self.all.bytes(self.index_in_all(index), buffer),
        }
    }

    /// Forgets a request that has ended.
    pub fn forget(&mut self, index: usize) {
        self.taken.remove(&index);
    }

    /// Returns the index in `all` of the request that is sent as the `index`-th.
    fn index_in_all(&self, index: usize) -> usize {
        let count = self.all.len();
        match (self.lap_start, index.checked_sub(count)) {
            (Some(lap_start), Some(beyond)) => {
                let lap_start = lap_start.min(count.saturating_sub(1));
                lap_start + beyond % (count - lap_start).max(1)
            }
            _ => index,
        }
    }
}

fn clamped(tokens: u64) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

/// All requests of a load in order, written out before t0. The first requests are in one block of memory, the others in a file without a
/// name, which the system deletes when the process ends. Sending from the file costs one read, usually from the system's cache.
#[derive(Debug, Default)]
pub struct Requests {
    /// Offset and length of the bytes of each request, and its properties.
    entries: Vec<(u64, u32, Properties)>,
    bytes: Spool,
}

/// Properties of a request besides its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Properties {
    pub sequences: u32,
    pub prompt_len: u64,
    pub output_len: u64,
    pub audio_s: f64,
}

impl Properties {
    pub fn of(request: &Request) -> Properties {
        Properties {
            sequences: request.sequences,
            prompt_len: request.prompt_len,
            output_len: request.output_len,
            audio_s: request.audio_s,
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

    /// Adds a request at the end.
    pub fn push(&mut self, request: &Request) {
        let length = u32::try_from(request.bytes.len()).unwrap_or(u32::MAX);
        let offset = self.bytes.push(&request.bytes);
        self.entries.push((offset, length, Properties::of(request)));
    }

    /// Returns the number of prompt tokens of each request, in order.
    pub fn prompt_lens(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().map(|(.., properties)| properties.prompt_len)
    }

    /// Returns the number of output tokens that each request asks for, in order; 0 if it asks for none, or if it is unknown.
    pub fn output_lens(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().map(|(.., properties)| properties.output_len)
    }

    pub(super) fn properties(&self, index: usize) -> Properties {
        self.entries[index].2
    }

    /// The bytes of a request, read into `buffer` if they are in the file.
    pub(super) fn bytes<'a>(&'a self, index: usize, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        let (offset, length, _) = self.entries[index];
        self.bytes.read(offset, length as usize, buffer)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_without_end_goes_round_behind_the_first_requests() {
        let all = vec![Request::default(); 5].into();
        let stock = Stock::new(&all, 0, Some(2), None);
        let order: Vec<usize> = (0..9).map(|index| stock.index_in_all(index)).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 2, 3, 4, 2]);
        assert!(stock.has(1_000_000) && stock.total().is_none());
    }
}
