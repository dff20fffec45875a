//! Connections to the live page. There are only so many, and a silent one is closed: who reaches the port without the address of the page
//! keeps nobody else from reading it.

use nix::sys::resource::{Resource, getrlimit};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// Most connections at once; with one more the oldest is closed. A reader's requests take milliseconds, each.
const MOST: usize = 256;
/// A connection on which nothing moves is closed after so long.
const IDLE: Duration = Duration::from_secs(30);

/// Accepts connections within these limits.
pub struct Listener {
    tcp: TcpListener,
    /// The ends of the open ones, oldest first: dropping one closes its connection.
    open: VecDeque<oneshot::Sender<()>>,
    most: usize,
    idle: Duration,
}

impl Listener {
    /// Listener on a bound address.
    pub fn of(tcp: TcpListener) -> Listener {
        let allowed = getrlimit(Resource::RLIMIT_NOFILE).map_or(MOST, |(soft, _)| soft as usize);
        Listener {
            tcp,
            open: VecDeque::new(),
            most: MOST.min(allowed / 2),
            idle: IDLE,
        }
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (tcp, address) = axum::serve::Listener::accept(&mut self.tcp).await;
        self.open.retain(|end| !end.is_closed());
        if self.open.len() >= self.most {
            self.open.pop_front();
        }
        let (end, ended) = oneshot::channel();
        self.open.push_back(end);
        let connection = Connection {
            tcp,
            ended,
            silence: Box::pin(sleep(self.idle)),
            idle: self.idle,
        };
        (connection, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// A connection that ends when it is silent, or when there are too many.
pub struct Connection {
    tcp: TcpStream,
    ended: oneshot::Receiver<()>,
    silence: Pin<Box<Sleep>>,
    idle: Duration,
}

impl Connection {
    /// Passes on a read or a write, unless the connection is over.
    fn watch<T>(&mut self, cx: &mut Context<'_>, moved: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if Pin::new(&mut self.ended).poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if moved.is_ready() {
            self.silence.as_mut().reset(Instant::now() + self.idle);
            return moved;
        }
        self.silence
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let moved = Pin::new(&mut self.tcp).poll_read(cx, buffer);
        self.watch(cx, moved)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.tcp).poll_write(cx, bytes);
        self.watch(cx, moved)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn served(most: usize, idle: Duration) -> SocketAddr {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = tcp.local_addr().expect("bound");
        let listener = Listener {
            most,
            idle,
            ..Listener::of(tcp)
        };
        let app = Router::new().route("/", get(|| async { "read" }));
        tokio::spawn(async move { axum::serve(listener, app).await });
        address
    }

    async fn connect(address: SocketAddr) -> TcpStream {
        TcpStream::connect(address).await.expect("accepted")
    }

    /// Returns true if the other side closes the connection.
    async fn is_closed(stream: &mut TcpStream) -> bool {
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut [0; 64])).await;
        matches!(read, Ok(Ok(0) | Err(_)))
    }

    #[tokio::test]
    async fn silent_connections_lock_nobody_out_and_are_closed() {
        let address = served(4, Duration::from_secs(60)).await;
        let mut silent = Vec::new();
        for _ in 0..12 {
            let mut stream = connect(address).await;
            stream.write_all(b"GET / HT").await.expect("written");
            silent.push(stream);
        }
        let mut reader = connect(address).await;
        reader
            .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .await
            .expect("written");
        let mut text = String::new();
        reader.read_to_string(&mut text).await.expect("text");
        assert!(text.ends_with("read"), "{text}");
        for stream in &mut silent[..8] {
            assert!(is_closed(stream).await);
        }
        let address = served(4, Duration::from_millis(50)).await;
        assert!(is_closed(&mut connect(address).await).await);
    }
}
