//! The timelines of a load in progress: the engine's key of each request, and the times of its tokens.

use crate::engine::{Key, NewToken};
use vsweep_metrics::{Nanos, Sample};

/// The timelines of all requests, in the order of the load.
#[derive(Default)]
pub(super) struct Timelines {
    pub samples: Vec<Sample>,
    /// True to keep the time of every token; otherwise only those of the first and the last one are kept.
    pub every_token: bool,
    /// The engine's key of the first request that it got.
    first: Key,
    /// Indices of the requests, in the order in which the engine got them.
    admitted: Vec<usize>,
    /// Requests that have ended since the last call of [`take_ended`](Self::take_ended).
    ended: Vec<usize>,
}

impl Timelines {
    pub fn new(count: usize, every_token: bool) -> Timelines {
        Timelines {
            samples: vec![Sample::default(); count],
            every_token,
            ..Timelines::default()
        }
    }

    /// Records that the engine has received a request and given it this key. Keys are consecutive.
    pub fn admit(&mut self, key: Key, index: usize) {
        if self.admitted.is_empty() {
            self.first = key;
        }
        self.admitted.push(index);
    }

    /// Returns the engine's keys of all requests that it got.
    pub fn keys(&self) -> impl Iterator<Item = Key> + use<> {
        self.first..self.first + self.admitted.len() as Key
    }

    /// Returns the requests that have ended since the last call, in order.
    pub fn take_ended(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.ended)
    }

    /// Records the tokens of steps that ended at these times. The tokens that one step yields for a request are one event.
    pub fn record(&mut self, outputs: &[NewToken], times: &[Nanos]) {
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
    pub fn record_steady(&mut self, keys: &[Key], times: &[Nanos]) {
        for key in keys {
            let index = self.index(*key);
            self.samples[index].events.extend(times.iter().copied());
        }
    }

    fn index(&self, key: Key) -> usize {
        self.admitted[(key - self.first) as usize]
    }
}
