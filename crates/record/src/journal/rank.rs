//! Names of sessions and lines, and the rank of a line among all lines.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::str::FromStr;
use vsweep_base::ids::{digest_start, read_text};

/// 64 bits, written as 16 hex digits: a session's nonce, or the sum of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hex64(pub u64);

/// Names a session and its journal.
pub type Nonce = Hex64;

/// The first 64 bits of the SHA-256 of a line.
pub type Sum = Hex64;

impl Hex64 {
    /// The nonce of events that a rehearsal or a forecast imagines.
    pub const IMAGINED: Nonce = Hex64(u64::MAX);

    /// Returns a random nonce, which no other session has.
    pub fn random() -> Nonce {
        // The keys of a new `RandomState` come from the system. 0 and `IMAGINED` name no real session.
        Hex64(RandomState::new().build_hasher().finish().clamp(1, u64::MAX - 1))
    }

    /// Returns the checksum of some bytes.
    pub fn of(bytes: &[u8]) -> Sum {
        Hex64(digest_start(bytes))
    }
}

impl From<u64> for Hex64 {
    fn from(bits: u64) -> Hex64 {
        Hex64(bits)
    }
}

impl fmt::Display for Hex64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Hex64 {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Hex64, Self::Err> {
        let is_canonical = text.len() == 16 && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        let bits = u64::from_str_radix(text, 16).ok().filter(|_| is_canonical);
        bits.map(Hex64).ok_or("no 16 hex digits")
    }
}

/// A line of a journal, written `<nonce>-<seq>`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineId {
    /// The session that wrote it.
    pub journal: Nonce,
    /// Number of the line in its journal, from 0.
    pub seq: u64,
}

impl fmt::Display for LineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.journal, self.seq)
    }
}

impl FromStr for LineId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<LineId, Self::Err> {
        let (journal, seq) = text.split_once('-').ok_or("no `<nonce>-<seq>`")?;
        Ok(LineId {
            journal: journal.parse()?,
            seq: seq.parse().map_err(|_| "no `<nonce>-<seq>`")?,
        })
    }
}

/// One server process that was started, written `<nonce>-<n>`. Runs on one launch share its noise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Launch {
    /// The session that started the process.
    pub session: Nonce,
    /// Number of the launch in its session, from 1.
    pub n: u32,
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.session, self.n)
    }
}

/// Serialises a type as its text.
macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                read_text(from, str::parse)
            }
        }
    )*};
}
as_text!(Hex64, LineId);

/// Position of a line in the total order of all lines of a directory. No clock is part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank {
    /// One more than the greatest lamport number that the session had read.
    pub lamport: u64,
    /// The line. Orders lines of equal `lamport`, from sessions that had not seen each other.
    pub line: LineId,
}
