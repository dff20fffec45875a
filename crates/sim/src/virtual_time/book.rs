//! The timelines of a load in progress: which request the engine knows by which key, and when it got its tokens. Decides
//! nothing.

use crate::engine::{Key, NewToken};
use vsweep_metrics::{Nanos, Sample};

/// Timelines, one a request, in the order of the load.
#[derive(Default)]
pub(super) struct Book {
    pub samples: Vec<Sample>,
    /// Keep the time of every token; otherwise only those of the first and the last one.
    pub every_token: bool,
    /// The engine's name of the first request that it got.
    first: Key,
    /// Requests by the order in which the engine got them.
    admitted: Vec<usize>,
    /// Requests that have ended since somebody asked.
    ended: Vec<usize>,
}

impl Book {
    pub fn new(count: usize, every_token: bool) -> Book {
        Book {
            samples: vec![Sample::default(); count],
            every_token,
            ..Book::default()
        }
    }

    /// The engine has got a request and calls it `key`; keys follow each other.
    pub fn admit(&mut self, key: Key, index: usize) {
        if self.admitted.is_empty() {
            self.first = key;
        }
        self.admitted.push(index);
    }

    /// The engine's names of all requests that it got.
    pub fn keys(&self) -> impl Iterator<Item = Key> + use<> {
        self.first..self.first + self.admitted.len() as Key
    }

    /// Requests that have ended since the last call, in order.
    pub fn take_ended(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.ended)
    }

    /// Tokens, each of which came at all of these times. What one step yields for a request arrives as one event.
    pub fn note(&mut self, outputs: &[NewToken], times: &[Nanos]) {
        for tokens in outputs.chunk_by(|one, next| one.key == next.key) {
            let [.., output] = tokens else { continue };
            let index = self.index(output.key);
            let sample = &mut self.samples[index];
            if self.every_token || sample.events.is_empty() {
                sample.events.extend(times.iter().copied());
            }
            if output.finished {
                sample.end = times.last().copied().unwrap_or_default();
                sample.output_tokens = Some(output.index as u64 + 1);
                self.ended.push(index);
            }
        }
    }

    /// Records one token for each of these requests at each of these times.
    pub fn note_steady(&mut self, keys: &[Key], times: &[Nanos]) {
        for key in keys {
            let index = self.index(*key);
            self.samples[index].events.extend(times.iter().copied());
        }
    }

    fn index(&self, key: Key) -> usize {
        self.admitted[(key - self.first) as usize]
    }
}
