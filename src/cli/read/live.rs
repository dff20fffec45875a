//! `vsweep report --live`: serves the report of a directory during its sweep. The command changes nothing in the directory and needs no
//! connection to the sweep, and continues after the sweep has ended. It uses a small share of one core, for any number of readers.

use super::status::PlanCache;
use crate::cli::{machine, output};
use crate::error::{Error, Result};
use crate::journal::{self, Directory, Follower, Nonce, Session};
use crate::report::{LiveStatus, make_pages};
use crate::run::{Interrupt, host, leases_in_use};
use axum::body::Bytes;
use axum::extract::{Request, State as Shared};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use jiff::Timestamp;
use nix::sys::resource::{Resource, getrlimit};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, Sleep, sleep};

/// Least time between two looks at the directory.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Least time between two new pages.
const BETWEEN_PAGES: Duration = Duration::from_secs(3);
/// Pause after a look or a new page, as a multiple of the time that it took. So looks take at most 1 % of the time, and pages another 1 %.
const PAUSE: u32 = 100;

type Served = Arc<Mutex<LiveReport>>;

/// Serves the report until the user interrupts it. The first page is made before the address is printed.
pub fn serve(directory: &Directory, listen: SocketAddr, price: Option<f64>) -> Result<()> {
    machine::check_clock()?;
    let mut live = LiveReport::open(directory, price)?;
    live.look()?;
    live.draw();
    // The address begins with a secret token, so that only those who were given it can read the page.
    let token = format!("{}{}", Nonce::random(), Nonce::random());
    let app = Router::new()
        .route(&format!("/{token}/"), get(page))
        .route(&format!("/{token}/now.json"), get(now))
        .layer(middleware::from_fn(keep_private))
        .with_state(Arc::new(Mutex::new(live)));
    machine::runtime()?.block_on(async {
        let mut interrupt = Interrupt::install()?;
        let cannot = |error| {
            Error::Usage(format!(
                "cannot listen on {listen}: {error}; choose another address with --listen"
            ))
        };
        let listener = TcpListener::bind(listen).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let mut out = output::text();
        let said = writeln!(out, "http://{address}/{token}/\nCtrl-C ends it; the sweep goes on.");
        said.and_then(|()| out.flush())
            .map_err(Error::io("write", "standard output"))?;
        drop(out);
        tokio::select! {
            ended = axum::serve(Listener::of(listener), app) => ended.map_err(cannot),
            () = interrupt.requested() => Ok(()),
        }
    })
}

/// The state of a directory when it was last looked at. A request causes the next look, unless the last one is too recent.
struct LiveReport {
    directory: Directory,
    price: Option<f64>,
    known: PlanCache,
    follower: Follower,
    now: LiveStatus,
    next_look: Instant,
    /// The last page, shared by all answers that are being sent.
    page: Bytes,
    /// Lamport clock and number of runs of the state that the page shows.
    drawn: (u64, usize),
    next_page: Instant,
}

impl LiveReport {
    fn open(directory: &Directory, price: Option<f64>) -> Result<LiveReport> {
        let follower = Follower::open(directory)?;
        let now = LiveStatus::of(directory, follower.state(), None, false, &|_| false, Timestamp::now());
        Ok(LiveReport {
            directory: directory.clone(),
            price,
            known: PlanCache::default(),
            follower,
            now,
            next_look: Instant::now(),
            page: Bytes::new(),
            drawn: (0, 0),
            next_page: Instant::now(),
        })
    }

    /// Looks at the directory if it is time for that. Then makes a new page if something has changed and it is time for a page.
    fn refresh(&mut self) {
        if Instant::now() < self.next_look {
            return;
        }
        let began = Instant::now();
        let looked = self.look();
        self.next_look = Instant::now() + BETWEEN_LOOKS.max(began.elapsed() * PAUSE);
        if let Err(error) = looked {
            // An error does not end the command, because a disk may be unavailable for a while.
            self.now.count = format!("the directory cannot be read now: {error}");
        } else if self.drawn != self.seen() && Instant::now() >= self.next_page {
            self.draw();
        }
    }

    /// Lamport clock and number of runs of the state as last read.
    fn seen(&self) -> (u64, usize) {
        let state = self.follower.state();
        (state.lamport(), state.runs().count())
    }

    /// Reads new lines of the journals, and updates the status.
    fn look(&mut self) -> Result<()> {
        let is_whole = self.follower.refresh().is_ok() && self.follower.damage().is_empty();
        if !is_whole {
            self.follower = Follower::open(&self.directory)?;
        }
        let state = self.follower.state();
        let running = journal::holders(&self.directory)?;
        let leases = leases_in_use(&self.directory);
        let working = !running.is_empty() || !leases.is_empty();
        self.known.options(&self.directory, state, self.price);
        let work = self.known.work(&self.directory, state);
        let left = work.and_then(|work| work.seconds_left(state, running.len(), &leases));
        // The owner of a lease is a process, and ends with its id and start.
        let has_lease = |session: &Session| {
            let process = format!("-{}-{}", session.pid, session.started);
            leases.values().any(|lease| lease.owner.ends_with(&process))
        };
        let is_alive = |session: &Session| running.contains(&session.pid) || has_lease(session);
        self.now = LiveStatus {
            version: self.now.version,
            ..LiveStatus::of(&self.directory, state, left, working, &is_alive, Timestamp::now())
        };
        Ok(())
    }

    /// Makes a new page from the state as last read.
    fn draw(&mut self) {
        let began = Instant::now();
        self.now.version += 1;
        let version = Some(self.now.version);
        let state = self.follower.state();
        let options = self.known.options(&self.directory, state, self.price);
        let pages = make_pages(&self.directory, state, options, version);
        self.page = pages.page.into();
        self.drawn = self.seen();
        self.next_page = Instant::now() + BETWEEN_PAGES.max(began.elapsed() * PAUSE);
    }
}

/// Refreshes the report if it is time for that, and returns a part of it.
async fn read_refreshed<T: Send + 'static>(live: Served, read: fn(&LiveReport) -> T) -> Result<T, StatusCode> {
    let looking = spawn_blocking(move || {
        let mut live = live.lock().unwrap_or_else(PoisonError::into_inner);
        live.refresh();
        read(&live)
    });
    looking.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

async fn page(Shared(live): Shared<Served>) -> Result<Html<Bytes>, StatusCode> {
    read_refreshed(live, |live| live.page.clone()).await.map(Html)
}

async fn now(Shared(live): Shared<Served>) -> Result<Json<LiveStatus>, StatusCode> {
    read_refreshed(live, |live| live.now.clone()).await.map(Json)
}

/// Headers of each answer: among others, no caching, no framing and no referrer.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::CACHE_CONTROL, "no-store"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Refuses foreign requests ([`is_foreign`]), and adds [`HEADERS`] to each answer.
async fn keep_private(request: Request, next: Next) -> Response {
    let answer = match request.headers().get_all(header::HOST).iter().nth(1) {
        Some(_) => StatusCode::BAD_REQUEST.into_response(),
        None if is_foreign(request.headers(), &host()) => {
            let remedy = "another name or page asks for it: open it by this machine's short name or its address\n";
            (StatusCode::FORBIDDEN, remedy).into_response()
        }
        None => next.run(request).await,
    };
    (HEADERS, answer).into_response()
}

/// Returns true if the request comes from a page of another origin, or names another machine as its host. The check of the host defeats DNS
/// rebinding: if the name of a foreign page later resolves to this machine, its requests still have that name as the host.
fn is_foreign(headers: &HeaderMap, machine: &str) -> bool {
    let head = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(asked) = head(header::HOST) else { return true };
    let name = match asked.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => asked,
    };
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    // The short name counts only without a domain: with a foreign domain, it may be another machine.
    let short = machine.split('.').next().unwrap_or_default();
    let is_name = ["localhost", machine, short]
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own));
    let is_own = is_address || is_name;
    let own = format!("http://{asked}");
    !is_own || head(header::ORIGIN).is_some_and(|origin| origin != own)
}

// The number of connections is limited, and silent ones are closed. So a client that does not know the secret address of the page cannot
// keep others from reading it.

/// Maximum number of connections. A further one closes the oldest, which harms no reader, because each request takes milliseconds.
const MOST_CONNECTIONS: usize = 256;
/// Time without reads and writes after which a connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Accepts connections, with limits on their number and silence.
pub struct Listener {
    tcp: TcpListener,
    /// One sender for each open connection, oldest first. Dropping it closes the connection.
    open: VecDeque<oneshot::Sender<()>>,
    most: usize,
    idle: Duration,
}

impl Listener {
    /// Returns a listener on a bound address. At most half of the allowed open files are connections.
    pub fn of(tcp: TcpListener) -> Listener {
        let allowed = getrlimit(Resource::RLIMIT_NOFILE).map_or(MOST_CONNECTIONS, |(soft, _)| soft as usize);
        Listener {
            tcp,
            open: VecDeque::new(),
            most: MOST_CONNECTIONS.min(allowed / 2),
            idle: IDLE_TIMEOUT,
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

/// A connection that ends when it is silent for too long, or when its sender is dropped.
pub struct Connection {
    tcp: TcpStream,
    ended: oneshot::Receiver<()>,
    silence: Pin<Box<Sleep>>,
    idle: Duration,
}

impl Connection {
    /// Returns the result of a read or a write, or an error if the connection has to end.
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

    // Without this method and the next, the whole page would be copied for each answer.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.tcp).poll_write_vectored(cx, parts);
        self.watch(cx, moved)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
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

    #[test]
    fn only_this_machine_is_asked_and_only_by_its_own_page() {
        let is_refused = |host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().expect("a value"));
            origin.map(|origin| headers.insert(header::ORIGIN, origin.parse().expect("a value")));
            is_foreign(&headers, "node7.cluster")
        };
        for host in [
            "127.0.0.1:80",
            "[::1]:80",
            "[::1]",
            "localhost",
            "node7:8000",
            "node7.cluster:1",
            "10.0.0.7",
        ] {
            assert!(!is_refused(host, None), "{host}");
            assert!(!is_refused(host, Some(&format!("http://{host}"))), "{host}");
            assert!(is_refused(host, Some("http://evil.example")), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:80",
            "localhost.evil.example",
            "node7.evil.example",
            "",
        ] {
            assert!(is_refused(host, Some(&format!("http://{host}"))), "{host}");
        }
        assert!(is_foreign(&HeaderMap::new(), "node7"));
    }
}

#[cfg(test)]
mod listener_tests {
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
