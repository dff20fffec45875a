//! The requests of a load at hand: all of them, or of a supply those that are next or in flight. What has ended is forgotten, except how
//! many tokens it asked for.

use super::api::request::Request;
use super::requests::{Properties, Requests};
use super::supply::Supply;
use std::collections::HashMap;
use std::io;

/// Requests that are taken from a supply before they are sent.
const AHEAD: usize = 64;

/// Tokens of a request: of its prompt, and those that were asked for.
pub type Asked = (u32, u32);

/// Requests of a load.
pub(super) struct Stock<'a> {
    all: &'a Requests,
    /// Number of them that have a due time.
    count: usize,
    /// Sends them without end: those before this one once, the others again and again.
    lap_start: Option<usize>,
    supply: Option<&'a Supply>,
    /// Of a supply: what is at hand.
    taken: HashMap<usize, Request>,
    /// Of a supply: lengths of all that were taken.
    pub asked: Vec<Asked>,
    /// True if no more will come than there are.
    is_whole: bool,
}

impl<'a> Stock<'a> {
    /// All of these, or in place of them a supply.
    pub fn new(all: &'a Requests, count: usize, lap_start: Option<usize>, supply: Option<&'a Supply>) -> Self {
        Stock {
            all,
            count,
            lap_start,
            supply,
            taken: HashMap::new(),
            asked: vec![],
            is_whole: supply.is_none(),
        }
    }

    /// Takes more, so that those from the `next`-th on are at hand.
    pub fn restock(&mut self, next: usize) {
        let Some(supply) = self.supply.filter(|_| !self.is_whole) else {
            return;
        };
        let missing = (next + AHEAD).saturating_sub(self.asked.len());
        if missing > AHEAD / 2 {
            let (taken, asked) = (&mut self.taken, &mut self.asked);
            self.is_whole = supply.take(missing, |request| {
                let [prompt, output] = [request.prompt_len, request.output_len];
                taken.insert(asked.len(), request);
                asked.push((clamped(prompt), clamped(output)));
            });
        }
    }

    /// Number of requests in all; `None` while that is not known, and of a load without end.
    pub fn total(&self) -> Option<usize> {
        match (self.supply, self.lap_start) {
            (Some(_), _) => self.is_whole.then_some(self.asked.len()),
            (None, Some(_)) => None,
            (None, None) => Some(self.count),
        }
    }

    /// Returns true if the request can be sent.
    pub fn has(&self, index: usize) -> bool {
        match self.supply {
            Some(_) => index < self.asked.len(),
            None => self.lap_start.is_some() || index < self.count,
        }
    }

    /// Returns true if the request is still to be drawn.
    pub fn lacks(&self, index: usize) -> bool {
        !self.is_whole && !self.has(index)
    }

    pub fn properties(&self, index: usize) -> Properties {
        match self.taken.get(&index) {
            Some(request) => Properties::of(request),
            None => self.all.properties(self.place(index)),
        }
    }

    /// Its bytes, in `buffer` if they come from a file.
    pub fn bytes<'b>(&'b self, index: usize, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        match self.taken.get(&index) {
            Some(request) => Ok(&request.bytes),
            None => self.all.bytes(self.place(index), buffer),
        }
    }

    /// Forgets a request that has ended.
    pub fn forget(&mut self, index: usize) {
        self.taken.remove(&index);
    }

    /// The place of the request that is sent as the `index`-th.
    fn place(&self, index: usize) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_without_end_goes_round_behind_the_first_requests() {
        let all = vec![Request::default(); 5].into();
        let stock = Stock::new(&all, 0, Some(2), None);
        let order: Vec<usize> = (0..9).map(|index| stock.place(index)).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 2, 3, 4, 2]);
        assert!(stock.has(1_000_000) && stock.total().is_none());
    }
}
