//! Parses HTTP/1.1 responses: a head, then a body by length, by chunks, or until the end of the connection. This module reads no
//! sockets.

use reqwest::StatusCode;

/// The longest head that is accepted, in bytes.
const LONGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 128;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ParseState {
    #[default]
    Head,
    Length(u64),
    UntilClose,
    /// A chunk's size so far, and the number of its hexadecimal digits.
    Size(u64, u8),
    /// A chunk extension or a trailing blank; skipped to the end of the line.
    SizeEnd(u64),
    Chunk(u64),
    /// The line end after a chunk's data.
    ChunkEnd,
    /// Trailer lines; true if the current one is empty so far.
    Trailer(bool),
    Done,
}

/// One response being read.
#[derive(Debug, Default)]
pub struct Response {
    state: ParseState,
    head: Vec<u8>,
    /// Status of the last head; meaningless before that.
    pub status: StatusCode,
    /// Value of the header `metadata`, in which some answers report token counts.
    pub metadata: Vec<u8>,
    /// Value of the header `Content-Type`.
    pub content_type: Vec<u8>,
    /// True if the connection cannot carry another request.
    pub closes: bool,
}

impl Response {
    /// Returns the status, if it is known and not 200.
    pub fn refusal(&self) -> Option<StatusCode> {
        (!matches!(self.state, ParseState::Head) && self.status != StatusCode::OK).then_some(self.status)
    }

    /// Prepares for another response. The memory is kept.
    pub fn reset(&mut self) {
        self.state = ParseState::Head;
        self.head.clear();
        self.metadata.clear();
        self.content_type.clear();
        (self.status, self.closes) = (StatusCode::OK, false);
    }

    /// Returns true if the response is complete.
    pub fn is_done(&self) -> bool {
        self.state == ParseState::Done
    }

    /// Returns true if any byte of the response has arrived.
    pub fn has_begun(&self) -> bool {
        self.state != ParseState::Head || !self.head.is_empty()
    }

    /// Takes bytes; `body` is called with the status and each piece of the body. Bytes after the end make the connection unusable.
    pub fn feed(&mut self, mut bytes: &[u8], body: &mut impl FnMut(StatusCode, &[u8])) -> Result<(), String> {
        while !bytes.is_empty() {
            bytes = match self.state {
                ParseState::Head => self.take_head(bytes)?,
                state @ (ParseState::Length(left) | ParseState::Chunk(left)) => {
                    let (data, rest) = split(bytes, left);
                    body(self.status, data);
                    self.state = match (state, left - data.len() as u64) {
                        (ParseState::Length(_), 0) => ParseState::Done,
                        (ParseState::Length(_), left) => ParseState::Length(left),
                        (_, 0) => ParseState::ChunkEnd,
                        (_, left) => ParseState::Chunk(left),
                    };
                    rest
                }
                ParseState::UntilClose => {
                    body(self.status, bytes);
                    &[]
                }
                ParseState::Done => {
                    self.closes = true;
                    &[]
                }
                state => {
                    self.state = between_chunks(state, bytes[0])?;
                    &bytes[1..]
                }
            };
        }
        Ok(())
    }

    /// Takes note that the connection has ended. Returns true if the response is complete.
    pub fn close(&mut self) -> bool {
        self.closes = true;
        if self.state == ParseState::UntilClose {
            self.state = ParseState::Done;
        }
        self.is_done()
    }

    fn take_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], String> {
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Response::new(&mut headers);
        let length = match parsed.parse(&self.head) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if self.head.len() <= LONGEST_HEAD => return Ok(&[]),
            Ok(httparse::Status::Partial) => return Err("the response's head is too long".to_owned()),
            Err(error) => return Err(format!("the answer is not HTTP/1.1: {error}")),
        };
        self.status = StatusCode::from_u16(parsed.code.unwrap_or(0))
            .map_err(|_| "the answer has a status that HTTP does not know")?;
        let header = |name: &str| {
            let found = parsed
                .headers
                .iter()
                .rfind(|header| header.name.eq_ignore_ascii_case(name));
            found.map(|header| header.value.trim_ascii())
        };
        let says = |name: &str, word: &str| {
            header(name).is_some_and(|value| {
                value
                    .split(|byte| *byte == b',')
                    .any(|item| item.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
            })
        };
        self.metadata.extend_from_slice(header("metadata").unwrap_or_default());
        self.content_type
            .extend_from_slice(header("content-type").unwrap_or_default());
        self.closes = match parsed.version {
            Some(1) => says("connection", "close"),
            _ => !says("connection", "keep-alive"),
        };
        self.state = if self.status.is_informational() {
            ParseState::Head
        } else if matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            ParseState::Done
        } else if says("transfer-encoding", "chunked") {
            ParseState::Size(0, 0)
        } else if let Some(length) = header("content-length") {
            let length = std::str::from_utf8(length).ok().and_then(|length| length.parse().ok());
            match length.ok_or("the answer's Content-Length is not a number")? {
                0 => ParseState::Done,
                length => ParseState::Length(length),
            }
        } else {
            ParseState::UntilClose
        };
        self.head.clear();
        // The head ends within `bytes`, because it was partial before.
        Ok(&bytes[length.saturating_sub(before).min(bytes.len())..])
    }
}

fn split(bytes: &[u8], at_most: u64) -> (&[u8], &[u8]) {
    bytes.split_at(usize::try_from(at_most).unwrap_or(usize::MAX).min(bytes.len()))
}

/// Returns the state after one byte between the data of chunks.
fn between_chunks(state: ParseState, byte: u8) -> Result<ParseState, String> {
    let bad = || Err("the answer's chunked encoding is broken".to_owned());
    Ok(match (state, byte) {
        (ParseState::Size(size, digits), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
            let digit = char::from(byte).to_digit(16).unwrap_or(0);
            if digits >= 15 {
                return bad();
            }
            ParseState::Size(size * 16 + u64::from(digit), digits + 1)
        }
        (ParseState::Size(_, 0), _) => return bad(),
        (ParseState::Size(0, _) | ParseState::SizeEnd(0), b'\n') => ParseState::Trailer(true),
        (ParseState::Size(size, _) | ParseState::SizeEnd(size), b'\n') => ParseState::Chunk(size),
        (ParseState::Size(size, _), b'\r' | b';' | b' ' | b'\t') | (ParseState::SizeEnd(size), _) => {
            ParseState::SizeEnd(size)
        }
        (ParseState::ChunkEnd, b'\r') => ParseState::ChunkEnd,
        (ParseState::ChunkEnd, b'\n') => ParseState::Size(0, 0),
        (ParseState::Trailer(true), b'\n') => ParseState::Done,
        (ParseState::Trailer(_), b'\n') => ParseState::Trailer(true),
        (ParseState::Trailer(empty), b'\r') => ParseState::Trailer(empty),
        (ParseState::Trailer(_), _) => ParseState::Trailer(false),
        _ => return bad(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(reads: &[&[u8]]) -> Result<(u16, Vec<u8>, bool), String> {
        let (mut response, mut body) = (Response::default(), vec![]);
        for read in reads {
            response.feed(read, &mut |_, piece| body.extend_from_slice(piece))?;
        }
        let done = response.is_done() || response.close();
        Ok((response.status.as_u16(), body, done))
    }

    const CHUNKED: &[u8] =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nA: b\r\n\r\n";

    #[test]
    fn bodies_of_each_kind_are_read() {
        let ok = |body: &str| Ok((200, body.as_bytes().to_vec(), true));
        assert_eq!(read(&[CHUNKED]), ok("hello world"));
        assert_eq!(read(&[b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"]), ok("hi"));
        assert_eq!(read(&[b"HTTP/1.0 200 OK\r\n\r\nuntil the end"]), ok("until the end"));
        assert_eq!(
            read(&[b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]),
            ok("")
        );
    }

    #[test]
    fn a_body_cut_short_is_not_done() {
        let cut = &CHUNKED[..CHUNKED.len() - 12];
        assert_eq!(read(&[cut]).map(|(_, _, done)| done), Ok(false));
        assert!(read(&[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz"]).is_err());
        assert!(read(&[b"garbage without end\r\n"]).is_err());
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_body(cuts in prop::collection::vec(0usize..CHUNKED.len(), 0..10)) {
            let mut cuts = cuts;
            cuts.extend([0, CHUNKED.len()]);
            cuts.sort_unstable();
            let reads: Vec<&[u8]> = cuts.windows(2).map(|cut| &CHUNKED[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&reads), read(&[CHUNKED]));
        }

        #[test]
        fn no_bytes_panic(tail in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = read(&[&tail]);
            let _ = read(&[&CHUNKED[..47], &tail]);
        }
    }
}
