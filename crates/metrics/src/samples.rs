//! The timelines of a run, stored compactly in the order in which the requests end, and in a file once they exceed a limit of memory.
//! Figures are computed by iterating over them. [`LoadProgress`] reports on a load in progress, measured or simulated.

use super::moments::Nanos;
use super::sample::Sample;
use std::io::{self, Read};
use vsweep_base::spool::Spool;

/// Bytes before each timeline: the index of its request and its length, four bytes each.
const HEAD: usize = 8;

/// Timelines of requests, each with the index of the request in its load.
#[derive(Debug, Default)]
pub struct Samples {
    spool: Spool,
    count: usize,
    /// Buffer for encoding the next timeline.
    bytes: Vec<u8>,
}

impl Samples {
    /// Adds the timeline of the request with this index in the load.
    pub fn push(&mut self, index: usize, sample: &Sample) {
        self.bytes.clear();
        self.bytes.resize(HEAD, 0);
        let bytes = postcard::to_extend(sample, std::mem::take(&mut self.bytes));
        self.bytes = bytes.expect("plain data fits into memory");
        let length = (self.bytes.len() - HEAD) as u32;
        self.bytes[..4].copy_from_slice(&(index as u32).to_le_bytes());
        self.bytes[4..HEAD].copy_from_slice(&length.to_le_bytes());
        self.spool.push(&self.bytes);
        self.count += 1;
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns all samples, in the order in which they ended. A sample that cannot be read back becomes a failed request.
    pub fn iter(&self) -> impl Iterator<Item = Sample> + '_ {
        self.read().map(|(_, sample)| sample)
    }

    /// Returns the samples of requests that succeeded.
    pub fn ok(&self) -> impl Iterator<Item = Sample> + '_ {
        self.iter().filter(Sample::is_ok)
    }

    /// Returns the samples of one class of a mixed load.
    pub fn of_class(&self, class: u8) -> Samples {
        let mut own = Samples::default();
        let all = self.read().filter(|(_, sample)| sample.class == class);
        all.for_each(|(index, sample)| own.push(index as usize, &sample));
        own
    }

    /// Number of failed samples.
    pub fn failed(&self) -> usize {
        self.iter().filter(|sample| !sample.is_ok()).count()
    }

    /// Returns all samples, in the order of their requests.
    pub fn in_order(&self) -> impl Iterator<Item = Sample> + '_ {
        let mut entries = self.entries();
        entries.sort_by_key(|(index, ..)| *index);
        let mut buffer = vec![];
        entries.into_iter().map(move |(_, offset, length)| {
            let bytes = self.spool.read(offset, length as usize, &mut buffer);
            bytes.and_then(decode).unwrap_or_else(|error| lost(&error))
        })
    }

    /// Returns the request's index, the offset and the length of each timeline.
    fn entries(&self) -> Vec<(u32, u64, u32)> {
        let mut reader = self.spool.reader();
        let (mut at, mut bytes) = (0, vec![]);
        let mut next = || {
            let (index, length) = take(&mut reader, &mut bytes)?;
            let offset = at + HEAD as u64;
            at = offset + u64::from(length);
            io::Result::Ok((index, offset, length))
        };
        let mut entries: Vec<_> = (0..self.count).map_while(|_| next().ok()).collect();
        // After an unreadable entry the places of the others are unknown. Length 0 never decodes to a timeline.
        entries.resize(self.count, (u32::MAX, 0, 0));
        entries
    }

    fn read(&self) -> impl Iterator<Item = (u32, Sample)> + '_ {
        let (mut reader, mut bytes) = (self.spool.reader(), vec![]);
        let mut broken = None;
        (0..self.count).map(move |_| {
            let read = match &broken {
                Some(error) => Err(io::Error::other(String::clone(error))),
                None => take(&mut reader, &mut bytes).and_then(|(index, _)| Ok((index, decode(&bytes)?))),
            };
            read.unwrap_or_else(|error| {
                let sample = lost(&error);
                broken.get_or_insert(error.to_string());
                (u32::MAX, sample)
            })
        })
    }
}

/// Reads the bytes of the next timeline. Returns the index of its request and its length.
fn take(reader: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<(u32, u32)> {
    let mut head = [0; HEAD];
    reader.read_exact(&mut head)?;
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (index, length) = (number(0), number(4));
    bytes.resize(length as usize, 0);
    reader.read_exact(bytes)?;
    Ok((index, length))
}

fn decode(bytes: &[u8]) -> io::Result<Sample> {
    postcard::from_bytes(bytes).map_err(io::Error::other)
}

fn lost(error: &io::Error) -> Sample {
    Sample {
        error: Some(format!(
            "its timeline could not be read back from the temporary file: {error}"
        )),
        ..Sample::default()
    }
}

impl FromIterator<Sample> for Samples {
    fn from_iter<T: IntoIterator<Item = Sample>>(all: T) -> Self {
        let mut samples = Samples::default();
        let all = all.into_iter().enumerate();
        all.for_each(|(index, sample)| samples.push(index, &sample));
        samples
    }
}

impl From<Vec<Sample>> for Samples {
    fn from(all: Vec<Sample>) -> Self {
        all.into_iter().collect()
    }
}

/// A report on a load in progress.
#[derive(Debug)]
pub enum LoadProgress<'a> {
    /// A request ended, with the number of requests that are still in flight.
    Ended(&'a Sample, usize),
    /// The time, and the timelines so far of all requests in flight, in no order. Reported ten times a second.
    Underway(Nanos, &'a [&'a Sample]),
    /// The generator did not look at the network for too long. Holds the sum of all such times of the run so far.
    Stalled(Nanos),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Moments;
    use proptest::prelude::*;

    fn any_sample() -> impl Strategy<Value = Sample> {
        let times = (any::<[u64; 4]>(), prop::collection::vec(any::<u32>(), 0..20));
        let counts = (
            any::<u64>(),
            any::<Option<u64>>(),
            prop::collection::vec(any::<u32>(), 0..4),
        );
        let texts = (any::<Option<String>>(), any::<Option<(String, Option<u16>)>>());
        (times, counts, texts).prop_map(
            |(([due, ready, sent, end], gaps), (prompt_len, output_tokens, tokens_by_event), (text, error))| {
                let events: Moments = gaps
                    .iter()
                    .scan(sent >> 1, |at, gap| {
                        *at += u64::from(*gap);
                        Some(*at)
                    })
                    .collect();
                Sample {
                    due,
                    ready,
                    sent,
                    events,
                    tokens_by_event,
                    end,
                    prompt_len,
                    output_tokens,
                    class: 7,
                    sequences: 3,
                    audio_s: 0.25,
                    text,
                    error_status: error.as_ref().and_then(|(_, status)| *status),
                    error: error.map(|(said, _)| said),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(all in prop::collection::vec(any_sample(), 0..30), most in 0usize..2000) {
            let mut samples = Samples { spool: Spool::new(most), ..Samples::default() };
            for (index, sample) in all.iter().enumerate().rev() {
                samples.push(index, sample);
            }
            prop_assert_eq!(samples.in_order().collect::<Vec<_>>(), all.clone());
            prop_assert_eq!(samples.iter().collect::<Vec<_>>(), all.into_iter().rev().collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_cannot_be_read_back_has_failed() {
        let mut samples = Samples::from(vec![Sample::default()]);
        samples.count = 3;
        assert_eq!((samples.iter().count(), samples.failed()), (3, 2));
        assert_eq!(samples.in_order().filter(Sample::is_ok).count(), 1);
    }
}
