//! A line of a journal: its event, its position among all lines, and its text with the checksum. See `docs/formats.md`. Nothing here reads
//! files or folds events.

use super::event::Event;
use super::rank::{Rank, Sum};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A line with its event.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its rank.
    pub rank: Rank,
    /// Time of writing, RFC 3339 in UTC. No decision depends on it, except how much of `max_time` is left.
    pub at: String,
    /// The event.
    pub event: Event,
    /// Sum of the previous line; the journal's nonce in the first line.
    pub prev: Sum,
}

/// A line as it is written, without its sum.
#[derive(Debug, Serialize, Deserialize)]
pub struct Line<A, E> {
    /// Number of the line in its journal, from 0.
    pub seq: u64,
    /// Its lamport number.
    pub lamport: u64,
    /// Time of writing.
    pub at: A,
    /// The event.
    pub event: E,
    /// Sum of the previous line.
    pub prev: Sum,
}

impl<A, E> Line<A, E> {
    fn map<F>(self, event: impl FnOnce(E) -> F) -> Line<A, F> {
        Line {
            seq: self.seq,
            lamport: self.lamport,
            at: self.at,
            event: event(self.event),
            prev: self.prev,
        }
    }
}

/// Text between a line and its checksum, and text after the checksum.
const BEFORE_SUM: &str = ",\"sum\":\"";
const AFTER_SUM: &str = "\"}";

/// Appends the sum of the bytes as the last member of a JSON object, and its closing brace. `bytes` are the object without that brace.
pub fn sealed(mut bytes: Vec<u8>) -> (Vec<u8>, Sum) {
    let sum = Sum::of(&bytes);
    bytes.extend_from_slice(format!("{BEFORE_SUM}{sum}{AFTER_SUM}").as_bytes());
    (bytes, sum)
}

/// Returns the sum of a sealed object; `None` if its bytes were changed since.
pub fn sum_of(bytes: &[u8]) -> Option<Sum> {
    let at = bytes.len().checked_sub(BEFORE_SUM.len() + 16 + AFTER_SUM.len())?;
    let (before, seal) = bytes.split_at(at);
    let sum = seal
        .strip_prefix(BEFORE_SUM.as_bytes())?
        .strip_suffix(AFTER_SUM.as_bytes())?;
    let sum: Sum = std::str::from_utf8(sum).ok()?.parse().ok()?;
    (Sum::of(before) == sum).then_some(sum)
}

impl Entry {
    /// Returns the line with its line feed, and its sum.
    pub fn encode(&self) -> (Vec<u8>, Sum) {
        let line = Line {
            seq: self.rank.line.seq,
            lamport: self.rank.lamport,
            at: &*self.at,
            event: &self.event,
            prev: self.prev,
        };
        let mut bytes = serde_json::to_vec(&line).expect("an event is plain data, which always serialises");
        bytes.pop();
        let (mut bytes, sum) = sealed(bytes);
        bytes.push(b'\n');
        (bytes, sum)
    }

    /// Returns the line without its line feed, as `--format json` shows it.
    pub fn to_text(&self) -> String {
        let (mut bytes, _) = self.encode();
        bytes.pop();
        String::from_utf8(bytes).expect("JSON is UTF-8")
    }
}

/// A decoded line. An event that only a newer version knows is replaced by a description of the problem.
pub type DecodedLine = Line<String, Result<Event, String>>;

/// Lamport number that no experiment reaches. A line with it is damaged: it would leave no number for the next line.
const IMPOSSIBLE_LAMPORT: u64 = 1 << 53;

/// Reads a line without its line feed, with its sum; `None` if it is damaged.
pub fn decode(bytes: &[u8]) -> Option<(DecodedLine, Sum)> {
    let sum = sum_of(bytes)?;
    let text = std::str::from_utf8(bytes).ok()?;
    let line = match serde_json::from_str::<Line<String, Event>>(text) {
        Ok(line) => line.map(Ok),
        Err(error) => {
            let line: Line<String, Value> = serde_json::from_str(text).ok()?;
            line.map(|_| Err(without_position(&error)))
        }
    };
    (line.lamport < IMPOSSIBLE_LAMPORT).then_some((line, sum))
}

/// Returns the message of an error without its position, because users do not see the text of the line.
fn without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message
        .rsplit_once(" at line ")
        .map_or(&*message, |(what, _)| what)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::rank::{Hex64, LineId};
    use proptest::prelude::*;

    fn entry(reason: &str) -> Entry {
        let line = LineId {
            journal: Hex64(0xab),
            seq: 3,
        };
        Entry {
            rank: Rank { lamport: 9, line },
            at: "2026-11-22T05:00:00Z".into(),
            event: Event::SessionEnded { reason: reason.into() },
            prev: Hex64(7),
        }
    }

    #[test]
    fn a_line_says_what_it_is_and_ends_in_its_sum() {
        let (bytes, sum) = entry("finished").encode();
        let text = String::from_utf8(bytes).expect("text");
        let start =
            r#"{"seq":3,"lamport":9,"at":"2026-11-22T05:00:00Z","event":{"session_ended":{"reason":"finished"}},"#;
        assert_eq!(
            text,
            format!("{start}\"prev\":\"0000000000000007\",\"sum\":\"{sum}\"}}\n")
        );
        let before = text.split(",\"sum\":").next().expect("a part");
        assert_eq!(sum.to_string(), vsweep_base::ids::sha256_hex(before.as_bytes())[..16]);
        assert_eq!("00000000000000ab-3".parse(), Ok(entry("").rank.line));
    }

    #[test]
    fn an_event_that_is_not_known_is_no_damage() {
        let read = |event: &str| {
            let line = format!(r#"{{"seq":3,"lamport":9,"at":"","event":{event},"prev":"0000000000000007""#);
            decode(&sealed(line.into_bytes()).0).map(|(line, _)| (line.seq, line.event))
        };
        let known = Event::SessionEnded { reason: "r".into() };
        assert_eq!(
            read(r#"{"session_ended":{"later":[1],"reason":"r"}}"#),
            Some((3, Ok(known)))
        );
        let (seq, event) = read(r#"{"tea_made":{"cups":2}}"#).expect("intact");
        let error = event.expect_err("not known");
        assert!(
            seq == 3 && error.starts_with("unknown variant `tea_made`, expected one of") && !error.contains("column"),
            "{error}"
        );
        let (_, event) = read(r#"{"session_ended":{"reason":5}}"#).expect("intact");
        assert_eq!(event, Err("invalid type: integer `5`, expected a string".to_owned()));
        for damaged in [
            "{",
            "1e999",
            r#"{"tea_made":"\ud800"}"#,
            r#"{"session_ended":{"reason":"r"}"#,
            "",
        ] {
            assert_eq!(read(damaged), None, "{damaged}");
        }
        let mut last = entry("r");
        last.rank.lamport = u64::MAX;
        let (mut bytes, _) = last.encode();
        bytes.pop();
        assert_eq!(
            decode(&bytes).map(|(line, _)| line.lamport),
            None,
            "nothing can follow it"
        );
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_no_flipped_bit_passes(reason: String, at: prop::sample::Index, bit in 0..8u8) {
            let entry = entry(&reason);
            let (mut bytes, sum) = entry.encode();
            bytes.pop();
            let (decoded, own) = decode(&bytes).expect("intact");
            prop_assert_eq!((decoded.seq, decoded.lamport, decoded.prev, own), (3, 9, Hex64(7), sum));
            prop_assert_eq!(decoded.event, Ok(entry.event));
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(decode(&bytes).is_none());
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            decode(&bytes);
            decode(&sealed(bytes).0);
        }
    }
}
