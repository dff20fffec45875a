//! A server that does no work: every request gets one SSE event a token in vLLM's chunk format, at once or at exact
//! times, and the server says how late it really was.
//!
//! Written apart from the generator (blocking reads of the request, an own event loop for pacing), so that a mistake
//! in one does not hide in the other.

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const LISTENER: Token = Token(usize::MAX);

/// When the tokens of a request are sent.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub first: Duration,
    pub between: Duration,
}

struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Tokens sent and asked for by the request being answered.
    sent: usize,
    wanted: usize,
    began: Instant,
    is_answering: bool,
}

/// Serves for ever; the lateness of paced events in nanoseconds goes to `report` when a client says `GET /lateness`.
pub fn serve(listener: std::net::TcpListener, pace: Option<Pace>) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut listener = TcpListener::from_std(listener);
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(1024));
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut clients: Vec<Option<Client>> = vec![];
    let mut due: BinaryHeap<Reverse<(Instant, usize)>> = BinaryHeap::new();
    // Without a pace: clients that are being answered, one event each in turn.
    let mut active: Vec<usize> = vec![];
    let mut lateness: Vec<u64> = vec![];
    let mut buffer = vec![0; 64 << 10];
    loop {
        let now = Instant::now();
        // The last millisecond is spun away: epoll's own timer is coarser than the figures measured here.
        let wait = due.peek().map(|Reverse((at, _))| at.saturating_duration_since(now));
        let wait = wait.map(|wait| wait.saturating_sub(Duration::from_micros(1200)));
        poll.poll(&mut events, if active.is_empty() { wait } else { Some(Duration::ZERO) })?;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    let token = Token(clients.len());
                    poll.registry()
                        .register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
                    clients.push(Some(Client::new(stream)));
                }
                continue;
            }
            let slot = event.token().0;
            let Some(client) = &mut clients[slot] else { continue };
            if !client.read(&mut buffer) {
                clients[slot] = None;
                continue;
            }
            if let Some(asked_lateness) = client.take_request() {
                if asked_lateness {
                    client.answer_lateness(&mut lateness);
                } else {
                    match pace {
                        Some(pace) => due.push(Reverse((client.began + pace.first, slot))),
                        None => active.push(slot),
                    }
                }
            }
            client.flush();
        }
        active.retain(|slot| {
            let Some(client) = &mut clients[*slot] else {
                return false;
            };
            if client.output.is_empty() || client.sent == 0 {
                client.emit_token();
            }
            client.flush();
            client.is_answering
        });
        let Some(pace) = pace else { continue };
        while let Some(Reverse((at, slot))) = due.peek().copied() {
            let now = Instant::now();
            if at > now {
                break;
            }
            due.pop();
            lateness.push((now - at).as_nanos() as u64);
            let Some(client) = &mut clients[slot] else { continue };
            client.emit_token();
            client.flush();
            if client.is_answering {
                due.push(Reverse((at + pace.between, slot)));
            }
        }
    }
}

impl Client {
    fn new(stream: TcpStream) -> Self {
        Client {
            stream,
            input: vec![],
            output: vec![],
            sent: 0,
            wanted: 0,
            began: Instant::now(),
            is_answering: false,
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> bool {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return false,
                Ok(n) => self.input.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
    }

    /// Takes a whole request off the input; says whether it asks for the lateness rather than for tokens.
    fn take_request(&mut self) -> Option<bool> {
        let head = memchr::memmem::find(&self.input, b"\r\n\r\n")? + 4;
        let text = String::from_utf8_lossy(&self.input[..head]).to_ascii_lowercase();
        let number = |text: &str, after: &str| -> Option<usize> {
            let digits = text.split_once(after)?.1.trim_start();
            digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        let length = number(&text, "content-length:").unwrap_or(0);
        if self.input.len() < head + length {
            return None;
        }
        let body = String::from_utf8_lossy(&self.input[head..head + length]).into_owned();
        let tokens = number(&body, "tokens\":").unwrap_or(16);
        self.input.drain(..head + length);
        if text.starts_with("get /lateness") {
            return Some(true);
        }
        (self.sent, self.wanted, self.began, self.is_answering) = (0, tokens, Instant::now(), true);
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
        self.output.extend_from_slice(head.as_bytes());
        Some(false)
    }

    fn emit(&mut self, event: &str) {
        let length = event.len() + 8;
        let _ = write!(self.output, "{length:x}\r\ndata: {event}\n\n\r\n");
    }

    fn emit_token(&mut self) {
        const START: &str =
            r#"{"id":"cmpl-83a9c3f6a4f94e0d","object":"text_completion","created":1792143000,"model":"m""#;
        self.sent += 1;
        let finish = if self.sent == self.wanted { "\"length\"" } else { "null" };
        self.emit(&format!(
            r#"{START},"choices":[{{"index":0,"text":" word{}","logprobs":null,"finish_reason":{finish},"stop_reason":null,"token_ids":null}}],"usage":null}}"#,
            self.sent
        ));
        if self.sent >= self.wanted {
            self.emit(&format!(
                r#"{START},"choices":[],"usage":{{"prompt_tokens":8,"total_tokens":{},"completion_tokens":{}}}}}"#,
                8 + self.sent,
                self.sent
            ));
            self.emit("[DONE]");
            self.output.extend_from_slice(b"0\r\n\r\n");
            self.is_answering = false;
        }
    }

    fn answer_lateness(&mut self, lateness: &mut Vec<u64>) {
        lateness.sort_unstable();
        let at = |percent: usize| {
            lateness
                .get(lateness.len().saturating_sub(1) * percent / 100)
                .copied()
                .unwrap_or(0)
        };
        let body = format!("{} {} {}", at(50), at(99), at(100));
        lateness.clear();
        let _ = write!(
            self.output,
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
    }

    fn flush(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(n) => drop(self.output.drain(..n)),
                Err(_) => return,
            }
        }
    }
}

/// A free port of this machine, already listening.
pub fn listen() -> std::io::Result<(std::net::TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
