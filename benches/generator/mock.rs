//! A server that does no work: every token of an answer is one SSE event in vLLM's chunk format. Tokens are written without delay, or one
//! by one at exact times (an absolute schedule). `GET /truth` returns how late they really were.
//!
//! It shares no code with the generator, because a shared mistake would be invisible.

use memchr::memmem;
use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::clock_gettime;
use serde_json::json;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

const LISTENER: Token = Token(usize::MAX);
const TIMER: Token = Token(usize::MAX - 1);
/// Most tokens that are written before new requests are read. Few, so that requests are read soon after they arrive.
const TOKENS_A_TURN: usize = 32;
/// Most events that are handled before tokens are written. Few, so that a burst of requests does not delay tokens that are due.
const EVENTS_A_TURN: usize = 32;
const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nserver: mock\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
const START: &str =
    r#"{"id":"cmpl-9947541c8e799276","object":"text_completion","created":1795167060,"model":"m","choices":["#;
const WORDS: [&str; 8] = [" the", " of", " a", " server", " that", " does", " no", " work"];

/// The times at which the tokens of a request are sent.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    /// Without delay, with so many tokens in a write.
    AtOnce(usize),
    /// One token in a write. The first comes `first` after the request was read, each other one `between` after the one before.
    Exact { first: Duration, between: Duration },
}

/// The server's measurements since the last query.
struct Truth {
    since: Instant,
    cpu_before: Duration,
    /// Nanoseconds: `ttft` from reading a request to writing its first token, `late` from due to written, `gaps` between two tokens of a
    /// request.
    ttft: Vec<u64>,
    late: Vec<u64>,
    gaps: Vec<u64>,
    connections: usize,
    in_flight: usize,
    most_in_flight: usize,
}

struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    /// Bytes that the system has not accepted yet.
    output: Vec<u8>,
    sent: usize,
    wanted: usize,
    began: Instant,
    last: Instant,
}

/// Serves forever.
pub fn serve(listener: std::net::TcpListener, pace: Pace) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    // Accepted connections inherit the congestion control. If the system's default is BBR, it would delay even loopback traffic by timers.
    let _ = setsockopt(&listener, sockopt::TcpCongestion, &OsString::from("reno"));
    let mut listener = TcpListener::from_std(listener);
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(EVENTS_A_TURN));
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK)?;
    let fd = timer.as_fd().as_raw_fd();
    poll.registry()
        .register(&mut SourceFd(&fd), TIMER, Interest::READABLE)?;
    let tokens: Vec<Vec<u8>> = WORDS.iter().map(|word| chunk(&token(word, "null"))).collect();
    let mut clients: Vec<Option<Client>> = vec![];
    let mut due: BinaryHeap<Reverse<(Instant, usize)>> = BinaryHeap::new();
    // Without a pace: clients whose answers are being written, in turn.
    let mut active: Vec<usize> = vec![];
    let mut armed_for = None;
    let mut truth = Truth::new();
    let mut buffer = vec![0; 64 << 10];
    let mut is_behind = false;
    loop {
        let is_busy = is_behind || !active.is_empty();
        poll.poll(&mut events, is_busy.then_some(Duration::ZERO))?;
        for event in &events {
            match event.token() {
                TIMER => continue,
                LISTENER => {
                    while let Ok((mut stream, _)) = listener.accept() {
                        stream.set_nodelay(true)?;
                        let slot = clients.iter().position(Option::is_none).unwrap_or(clients.len());
                        if slot == clients.len() {
                            clients.push(None);
                        }
                        let interest = Interest::READABLE | Interest::WRITABLE;
                        poll.registry().register(&mut stream, Token(slot), interest)?;
                        clients[slot] = Some(Client::new(stream));
                        truth.connections += 1;
                    }
                    continue;
                }
                Token(slot) => {
                    let Some(client) = &mut clients[slot] else { continue };
                    if !client.read(&mut buffer, event.is_read_closed()) {
                        truth.in_flight = truth.in_flight.saturating_sub(usize::from(client.is_answering()));
                        clients[slot] = None;
                        continue;
                    }
                    if client.take_request(&mut truth) {
                        truth.in_flight += 1;
                        truth.most_in_flight = truth.most_in_flight.max(truth.in_flight);
                        match pace {
                            Pace::Exact { first, .. } => due.push(Reverse((client.began + first, slot))),
                            Pace::AtOnce(_) => active.push(slot),
                        }
                    }
                    client.flush();
                }
            }
        }
        active.retain(|slot| {
            let Some(client) = &mut clients[*slot] else {
                return false;
            };
            client.flush();
            if let (Pace::AtOnce(tokens_a_write), true) = (pace, client.output.is_empty()) {
                for _ in 0..tokens_a_write.min(client.wanted - client.sent) {
                    client.add_token(&tokens);
                }
                client.flush();
            }
            truth.in_flight = truth.in_flight.saturating_sub(usize::from(!client.is_answering()));
            client.is_answering()
        });
        let Pace::Exact { between, .. } = pace else { continue };
        is_behind = false;
        for written in 0.. {
            let Some(Reverse((at, slot))) = due.peek().copied() else {
                break;
            };
            let now = Instant::now();
            if at > now {
                if armed_for != Some(at) {
                    timer.set(Expiration::OneShot((at - now).into()), TimerSetTimeFlags::empty())?;
                    armed_for = Some(at);
                }
                break;
            }
            if written == TOKENS_A_TURN {
                is_behind = true;
                break;
            }
            due.pop();
            let Some(client) = clients[slot].as_mut().filter(|client| client.is_answering()) else {
                continue;
            };
            client.add_token(&tokens);
            client.flush();
            truth.late.push((now - at).as_nanos() as u64);
            match client.sent {
                1 => truth.ttft.push((now - client.began).as_nanos() as u64),
                _ => truth.gaps.push((now - client.last).as_nanos() as u64),
            }
            client.last = now;
            if client.is_answering() {
                due.push(Reverse((at + between, slot)));
            } else {
                truth.in_flight = truth.in_flight.saturating_sub(1);
            }
        }
    }
}

fn token(text: &str, finish: &str) -> String {
    format!(
        r#"{START}{{"index":0,"text":"{text}","logprobs":null,"finish_reason":{finish},"stop_reason":null,"prompt_token_ids":null,"token_ids":null}}]}}"#
    )
}

fn chunk(event: &str) -> Vec<u8> {
    format!("{:x}\r\ndata: {event}\n\n\r\n", event.len() + 8).into_bytes()
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
            last: Instant::now(),
        }
    }

    fn is_answering(&self) -> bool {
        self.sent < self.wanted
    }

    /// Reads what has arrived. Returns false if the client is gone.
    fn read(&mut self, buffer: &mut [u8], has_ended: bool) -> bool {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return false,
                Ok(n) => {
                    self.input.extend_from_slice(&buffer[..n]);
                    // A short read has emptied the socket.
                    if n < buffer.len() && !has_ended {
                        return true;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
    }

    /// Removes a complete request from the input. Returns true if it asks for tokens.
    fn take_request(&mut self, truth: &mut Truth) -> bool {
        let Some(head) = memmem::find(&self.input, b"\r\n\r\n").map(|at| at + 4) else {
            return false;
        };
        let text = self.input[..head].to_ascii_lowercase();
        let length = number(&text, b"content-length:").unwrap_or(0);
        if self.input.len() < head + length {
            return false;
        }
        let wanted = number(&self.input[head..head + length], b"_tokens\":");
        self.input.drain(..head + length);
        if !text.starts_with(b"post") || wanted.is_none() {
            let (status, body) = match text.starts_with(b"get /truth") {
                true => ("200 OK", std::mem::replace(truth, Truth::new()).text()),
                false => ("404 Not Found", String::new()),
            };
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            self.output.extend_from_slice(answer.as_bytes());
            return false;
        }
        (self.sent, self.wanted, self.began) = (0, wanted.unwrap_or(0), Instant::now());
        true
    }

    fn add_token(&mut self, tokens: &[Vec<u8>]) {
        self.sent += 1;
        if self.sent == 1 {
            self.output.extend_from_slice(HEAD);
        }
        if self.sent < self.wanted {
            self.output.extend_from_slice(&tokens[self.sent % tokens.len()]);
            return;
        }
        let (sent, total) = (self.sent, 8 + self.sent);
        let usage =
            format!(r#"{START}],"usage":{{"prompt_tokens":8,"total_tokens":{total},"completion_tokens":{sent}}}}}"#);
        for event in [&token(" end", "\"length\""), &usage, "[DONE]"] {
            self.output.extend_from_slice(&chunk(event));
        }
        self.output.extend_from_slice(b"0\r\n\r\n");
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

/// CPU time of this thread.
fn cpu() -> Duration {
    clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

impl Truth {
    fn new() -> Truth {
        Truth {
            since: Instant::now(),
            cpu_before: cpu(),
            ttft: vec![],
            late: vec![],
            gaps: vec![],
            connections: 0,
            in_flight: 0,
            most_in_flight: 0,
        }
    }

    fn text(self) -> String {
        let of = |mut values: Vec<u64>| {
            values.sort_unstable();
            let at = |percent: usize| {
                let last = values.len().saturating_sub(1);
                values
                    .get(last * percent / 100)
                    .map_or(0.0, |nanos| *nanos as f64 / 1e6)
            };
            json!([at(50), at(99), at(100)])
        };
        let busy = (cpu() - self.cpu_before).as_secs_f64() / self.since.elapsed().as_secs_f64();
        json!({
            "ttft_ms": of(self.ttft), "late_ms": of(self.late), "itl_ms": of(self.gaps),
            "connections": self.connections, "most_in_flight": self.most_in_flight,
            "busy": busy,
        })
        .to_string()
    }
}

/// Returns the number after a name.
fn number(text: &[u8], after: &[u8]) -> Option<usize> {
    let digits = text[memmem::find(text, after)? + after.len()..].trim_ascii_start();
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}
