//! Moments in ascending order, kept compactly: the first, then the nanoseconds from each to the next as LEB128, which has seven bits per
//! byte, low bits first. A token after 10 ms takes four bytes, and a token that arrived in the same read as the previous one takes one byte.

use serde::{Deserialize, Serialize};

/// A moment of a run: nanoseconds of the monotonic clock since the run's start (t0).
pub type Nanos = u64;

/// Converts nanoseconds to seconds.
pub fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

/// Ascending moments. A moment that is pushed after a later one is replaced by the later one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moments {
    first: Nanos,
    last: Nanos,
    count: usize,
    /// The gaps between the moments, encoded.
    #[serde(with = "serde_bytes")]
    gaps: Vec<u8>,
}

impl Moments {
    /// Adds a moment at the end.
    pub fn push(&mut self, at: Nanos) {
        if self.count == 0 {
            (self.first, self.last) = (at, at);
        } else {
            let mut gap = at.saturating_sub(self.last);
            while gap >= 0x80 {
                self.gaps.push(gap as u8 | 0x80);
                gap >>= 7;
            }
            self.gaps.push(gap as u8);
            self.last = self.last.max(at);
        }
        self.count += 1;
    }

    /// Number of moments.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there are no moments.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first moment.
    pub fn first(&self) -> Option<Nanos> {
        (self.count > 0).then_some(self.first)
    }

    /// The last moment.
    pub fn last(&self) -> Option<Nanos> {
        (self.count > 0).then_some(self.last)
    }

    /// Returns all moments.
    pub fn iter(&self) -> impl Iterator<Item = Nanos> {
        let later = self.gaps().scan(self.first, |at, gap| {
            *at += gap;
            Some(*at)
        });
        self.first().into_iter().chain(later)
    }

    /// Returns the nanoseconds from each moment to the next.
    pub fn gaps(&self) -> impl Iterator<Item = Nanos> {
        decode(self.gaps.iter().copied())
    }

    /// Like `gaps`, but consumes the moments.
    pub fn into_gaps(self) -> impl Iterator<Item = Nanos> {
        decode(self.gaps.into_iter())
    }
}

fn decode(mut bytes: impl Iterator<Item = u8>) -> impl Iterator<Item = Nanos> {
    std::iter::from_fn(move || {
        let (mut gap, mut shift) = (0, 0);
        for byte in &mut bytes {
            gap |= Nanos::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(gap);
            }
            shift += 7;
        }
        None
    })
}

impl FromIterator<Nanos> for Moments {
    fn from_iter<T: IntoIterator<Item = Nanos>>(all: T) -> Self {
        let mut moments = Moments::default();
        moments.extend(all);
        moments
    }
}

impl Extend<Nanos> for Moments {
    fn extend<T: IntoIterator<Item = Nanos>>(&mut self, all: T) {
        all.into_iter().for_each(|at| self.push(at));
    }
}

impl From<Vec<Nanos>> for Moments {
    fn from(all: Vec<Nanos>) -> Self {
        all.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(gaps in prop::collection::vec(prop_oneof![0..300u64, any::<u32>().prop_map(u64::from), 0..1u64 << 56], 0..50)) {
            let mut at = 0;
            let all: Vec<Nanos> = gaps.iter().map(|gap| { at += gap; at }).collect();
            let moments = Moments::from(all.clone());
            prop_assert_eq!(moments.iter().collect::<Vec<_>>(), all.clone());
            prop_assert_eq!(moments.gaps().collect::<Vec<_>>(), gaps.get(1..).unwrap_or_default());
            prop_assert_eq!((moments.len(), moments.first(), moments.last()), (all.len(), all.first().copied(), all.last().copied()));
        }
    }

    #[test]
    fn time_does_not_run_backwards() {
        let moments = Moments::from(vec![5, 3, 6]);
        assert_eq!(moments.iter().collect::<Vec<_>>(), [5, 5, 6]);
    }
}
