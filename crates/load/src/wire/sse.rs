//! Parses server-sent events by the WHATWG standard: LF, CR and CRLF line ends, comments, fields with and without a space, several data
//! lines in an event, any split of the stream into reads.
//!
//! The parser departs from the standard in two ways. It does not check that bytes are UTF-8; code that reads them as text does. And it
//! delivers an event that lacks its blank line when the stream ends, because some servers end with a bare `data: [DONE]`.

use memchr::memchr2;
use vsweep_metrics::Nanos;

/// The longest line or event that is accepted, in bytes. Every connection may hold one, so the limit bounds the memory of a run. The longest
/// events of servers repeat a prompt of a million tokens.
pub const LONGEST_EVENT: usize = 16 << 20;
/// Memory that a parser keeps for the next stream, in bytes.
const KEPT: usize = 64 << 10;

/// A stream of events being read.
#[derive(Debug, Default)]
pub struct Parser {
    /// The start of a line whose end has not arrived.
    line: Vec<u8>,
    /// Data lines of the event being read, joined by LF.
    data: Vec<u8>,
    has_data: bool,
    /// Arrival of the last byte of the pending line.
    line_at: Nanos,
    /// Arrival of the last byte of the pending event's data.
    data_at: Nanos,
    /// True if the last line ended in CR, so an LF that follows belongs to it.
    after_cr: bool,
    /// True once the first line was taken, which may begin with a byte order mark.
    past_start: bool,
}

/// The error for a line or an event that is longer than [`LONGEST_EVENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl Parser {
    /// Prepares the parser for another stream. Its memory is kept, unless the last stream had unusually long events.
    pub fn reset(&mut self) {
        for buffer in [&mut self.line, &mut self.data] {
            buffer.clear();
            buffer.shrink_to(KEPT);
        }
        (self.has_data, self.after_cr, self.past_start) = (false, false, false);
    }

    /// Takes bytes that arrived at `now`. Calls `emit` with the data of each event, and the arrival time of the last byte of the data.
    pub fn feed(&mut self, mut bytes: &[u8], now: Nanos, emit: &mut impl FnMut(&[u8], Nanos)) -> Result<(), TooLong> {
        if bytes.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
            bytes = &bytes[1..];
        }
        while !bytes.is_empty() {
            let Some(end) = memchr2(b'\n', b'\r', bytes) else {
                self.line.extend_from_slice(bytes);
                self.line_at = now;
                return if self.line.len() > LONGEST_EVENT {
                    Err(TooLong)
                } else {
                    Ok(())
                };
            };
            let (line, at_end) = (&bytes[..end], &bytes[end..]);
            // Nearly every event is one data line that arrives with its blank line in one read. Such an event is not copied.
            if self.line.is_empty() && !self.has_data && at_end.starts_with(b"\n\n") && line.starts_with(b"data:") {
                emit(value_of(&line[5..]), now);
                self.past_start = true;
                bytes = &at_end[2..];
                continue;
            }
            if self.line.is_empty() {
                self.take_line(line, now, emit)?;
            } else {
                if !line.is_empty() {
                    self.line.extend_from_slice(line);
                    self.line_at = now;
                }
                let whole = std::mem::take(&mut self.line);
                let taken = self.take_line(&whole, self.line_at, emit);
                self.line = whole;
                self.line.clear();
                taken?;
            }
            bytes = &at_end[1..];
            if at_end[0] == b'\r' {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
        }
        Ok(())
    }

    /// Ends the stream, and delivers an event that still lacks its blank line.
    pub fn finish(&mut self, emit: &mut impl FnMut(&[u8], Nanos)) -> Result<(), TooLong> {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, self.line_at, emit)?;
        }
        self.dispatch(emit);
        Ok(())
    }

    fn take_line(&mut self, line: &[u8], at: Nanos, emit: &mut impl FnMut(&[u8], Nanos)) -> Result<(), TooLong> {
        let line = match std::mem::replace(&mut self.past_start, true) {
            true => line,
            false => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
        };
        if line.is_empty() {
            self.dispatch(emit);
            return Ok(());
        }
        // Comments and the fields `event`, `id` and `retry` are not needed.
        let value = match line.strip_prefix(b"data") {
            Some([]) => &[],
            Some([b':', value @ ..]) => value_of(value),
            _ => return Ok(()),
        };
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        (self.has_data, self.data_at) = (true, at);
        match self.data.len() > LONGEST_EVENT {
            true => Err(TooLong),
            false => Ok(()),
        }
    }

    fn dispatch(&mut self, emit: &mut impl FnMut(&[u8], Nanos)) {
        if std::mem::take(&mut self.has_data) {
            emit(&self.data, self.data_at);
            self.data.clear();
        }
    }
}

fn value_of(after_colon: &[u8]) -> &[u8] {
    after_colon.strip_prefix(b" ").unwrap_or(after_colon)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(reads: &[&[u8]]) -> Vec<(String, Nanos)> {
        let (mut parser, mut seen) = (Parser::default(), vec![]);
        let mut emit = |data: &[u8], at| seen.push((String::from_utf8_lossy(data).into_owned(), at));
        for (i, read) in reads.iter().enumerate() {
            parser.feed(read, i as Nanos, &mut emit).expect("short events");
        }
        parser.finish(&mut emit).expect("short events");
        seen
    }

    fn data(reads: &[&[u8]]) -> Vec<String> {
        events(reads).into_iter().map(|(data, _)| data).collect()
    }

    #[test]
    fn every_legal_form_is_read() {
        assert_eq!(data(&[b"data: a\n\ndata:b\n\n"]), ["a", "b"]);
        assert_eq!(data(&[b": ping\n\n", b"data: a\n\n"]), ["a"]);
        assert_eq!(
            data(&[b"event: x\r\nid: 1\r\ndata: a\r\n\r\ndata: b\r\n\r\n"]),
            ["a", "b"]
        );
        assert_eq!(data(&[b"data: a\r\rdata: b\r\r"]), ["a", "b"]);
        assert_eq!(data(&[b"data: a\ndata: b\n\n"]), ["a\nb"]);
        assert_eq!(data(&[b"\xef\xbb\xbfdata: a\n\n"]), ["a"]);
        assert_eq!(data(&[b"data\n\ndatax: y\n\n"]), [""]);
        assert_eq!(data(&[b"data: [DONE]"]), ["[DONE]"]);
    }

    #[test]
    fn the_memory_of_an_endless_event_is_limited_and_given_back() {
        let mut parser = Parser::default();
        let piece = vec![b'a'; 1 << 20];
        let fed = (0..).position(|_| parser.feed(&piece, 0, &mut |_, _| {}).is_err());
        assert_eq!(fed, Some(LONGEST_EVENT >> 20));
        parser.reset();
        assert!(parser.line.capacity() + parser.data.capacity() <= 2 * KEPT);
    }

    #[test]
    fn an_event_is_as_old_as_its_last_data_byte() {
        assert_eq!(events(&[b"data: a", b"\n", b"\n"]), [("a".to_owned(), 0)]);
        assert_eq!(events(&[b"data: ", b"a\n\n"]), [("a".to_owned(), 1)]);
    }

    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(vec![
            "data: {\"a\":1}",
            "data:x",
            "data",
            "data: \u{4f60}",
            ": c",
            "event: e",
            "id",
            "\n",
            "\n\n",
            "\r\n",
            "\r",
            "z",
        ]);
        prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(stream in pieces(), cuts in prop::collection::vec(0usize..200, 0..20)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let reads: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
            prop_assert_eq!(data(&reads), data(&[&stream]));
        }

        #[test]
        fn no_bytes_panic(reads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..10)) {
            let reads: Vec<&[u8]> = reads.iter().map(Vec::as_slice).collect();
            events(&reads);
        }
    }
}
