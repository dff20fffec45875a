//! The least possible work of a client: one `epoll` loop that records the time of every read and counts events without parsing them. It is
//! not a product, but a bound for the costs of the other clients.

use memchr::memmem;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde_json::{Value, json};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

struct Stream {
    socket: TcpStream,
    sent: Option<Instant>,
    last: Option<Instant>,
    /// The last bytes of the previous read, because the end of an answer may span two reads.
    tail: Vec<u8>,
}

/// Sends `requests` of `tokens` each over `streams` connections. Returns the figures with the keys of `vllm bench serve`.
pub fn run(address: SocketAddr, requests: usize, streams: usize, tokens: usize) -> io::Result<Value> {
    let body =
        format!(r#"{{"model":"m","prompt":[300,301,302,303,304,305,306,307],"max_tokens":{tokens},"stream":true}}"#);
    let request = format!(
        "POST /v1/completions HTTP/1.1\r\nHost: m\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(1024));
    let mut all = vec![];
    for slot in 0..streams {
        let socket = std::net::TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let mut socket = TcpStream::from_std(socket);
        poll.registry().register(&mut socket, Token(slot), Interest::READABLE)?;
        all.push(Stream {
            socket,
            sent: None,
            last: None,
            tail: vec![],
        });
    }
    let (mut ttft, mut gaps): (Vec<u64>, Vec<u64>) = (vec![], vec![]);
    let (mut started, mut finished, mut buffer) = (0, 0, vec![0; 64 << 10]);
    let t0 = Instant::now();
    for stream in &mut all {
        if started < requests {
            started += 1;
            stream.send(request.as_bytes())?;
        }
    }
    while finished < requests {
        poll.poll(&mut events, None)?;
        for event in &events {
            let stream = &mut all[event.token().0];
            loop {
                let n = match stream.socket.read(&mut buffer) {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(n) => n,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                };
                let (now, bytes) = (Instant::now(), &buffer[..n]);
                for _ in memmem::find_iter(bytes, b"\"index\":") {
                    let since = stream.last.or(stream.sent).unwrap_or(t0);
                    let times = if stream.last.is_none() { &mut ttft } else { &mut gaps };
                    times.push((now - since).as_nanos() as u64);
                    stream.last = Some(now);
                }
                stream.tail.extend_from_slice(&bytes[n.saturating_sub(5)..]);
                if stream.tail.ends_with(b"0\r\n\r\n") {
                    finished += 1;
                    if started < requests {
                        started += 1;
                        stream.send(request.as_bytes())?;
                    }
                }
                let before = stream.tail.len().saturating_sub(5);
                stream.tail.drain(..before);
                // A short read has emptied the socket.
                if n < buffer.len() {
                    break;
                }
            }
        }
    }
    let duration = t0.elapsed().as_secs_f64();
    let mut result = json!({"completed": finished, "output_throughput": (ttft.len() + gaps.len()) as f64 / duration});
    for (name, values) in [("ttft", &mut ttft), ("itl", &mut gaps)] {
        values.sort_unstable();
        for percent in [50, 99] {
            let value = values.get(values.len().saturating_sub(1) * percent / 100);
            result[format!("p{percent}_{name}_ms")] = json!(value.map_or(0.0, |nanos| *nanos as f64 / 1e6));
        }
    }
    Ok(result)
}

impl Stream {
    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        (self.sent, self.last) = (Some(Instant::now()), None);
        self.tail.clear();
        self.socket.write_all(request)
    }
}
