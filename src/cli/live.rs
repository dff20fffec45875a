//! `vsweep report --live`: the report of a directory, served while it grows. It reads what a sweep records and never writes, so it needs
//! no link with the sweep and outlives it. It spends a small share of one core, however many look at it.

use super::experiment::options;
use super::machine;
use super::output;
use super::remaining::Remaining;
use crate::error::{Error, Result};
use crate::journal::{self, Directory, Follower, Nonce, State};
use crate::plan::ReportOptions;
use crate::report::{Now, ReportForm, render_report};
use crate::run::Interrupt;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::http::{Method, Response, StatusCode, header};
use jiff::Timestamp;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// Least time between two looks at the directory, and between two pages.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
const BETWEEN_PAGES: Duration = Duration::from_secs(3);
/// After some work it rests so many times as long as that took: 1 % of a core for looks, and 1 % for pages.
const REST: u32 = 100;

/// What is served.
struct Served {
    /// The address has it before everything else, so that nobody reads on who was not given it.
    token: String,
    page: Mutex<Arc<str>>,
    now: Mutex<Arc<str>>,
    /// Whether anybody looked since it was asked last.
    is_read: AtomicBool,
}

/// Serves until it is interrupted. The first page is made before the address is told.
pub fn serve(directory: &Directory, listen: SocketAddr, price: Option<f64>) -> Result<()> {
    let served = Arc::new(Served {
        token: format!("{}{}", Nonce::random(), Nonce::random()),
        page: Mutex::new("".into()),
        now: Mutex::new("".into()),
        is_read: AtomicBool::new(false),
    });
    let mut options = options(directory);
    options.price_per_gpu_hour = price.or(options.price_per_gpu_hour);
    let mut watch = PageWatch::open(directory.clone(), options)?;
    watch.look(&served)?;
    watch.draw(&served);
    let of_thread = Arc::clone(&served);
    thread::spawn(move || watch.go_on(&of_thread));
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
        let said = writeln!(
            out,
            "http://{address}/{}/\nCtrl-C ends it; the sweep goes on.",
            served.token
        );
        said.and_then(|()| out.flush())
            .map_err(Error::io("write", "standard output"))?;
        drop(out);
        let app = Router::new().fallback(answer).with_state(served);
        tokio::select! {
            ended = axum::serve(listener, app) => ended.map_err(cannot),
            () = interrupt.requested() => Ok(()),
        }
    })
}

/// The directory as it was seen last.
struct PageWatch {
    directory: Directory,
    options: ReportOptions,
    follower: Follower,
    /// Lines and results of what was seen, and of what the page shows.
    seen: (u64, usize),
    drawn: Option<(u64, usize)>,
    version: u64,
    rest: Option<Remaining>,
}

impl PageWatch {
    fn open(directory: Directory, options: ReportOptions) -> Result<PageWatch> {
        let follower = Follower::open(&directory)?;
        Ok(PageWatch {
            directory,
            options,
            follower,
            seen: (0, 0),
            drawn: None,
            version: 0,
            rest: None,
        })
    }

    fn go_on(mut self, served: &Served) {
        let mut next_page = Instant::now();
        loop {
            let mut pause = BETWEEN_LOOKS;
            if served.is_read.swap(false, Ordering::Relaxed) {
                let began = Instant::now();
                if let Err(error) = self.look(served) {
                    // A disk that is away for a while is asked again.
                    tell(served, &error);
                    served.is_read.store(true, Ordering::Relaxed);
                }
                pause = pause.max(began.elapsed() * REST);
                if self.drawn != Some(self.seen) && began >= next_page {
                    let began = Instant::now();
                    self.draw(served);
                    next_page = Instant::now() + BETWEEN_PAGES.max(began.elapsed() * REST);
                }
            }
            thread::sleep(pause);
        }
    }

    /// Reads on, and says what goes on.
    fn look(&mut self, served: &Served) -> Result<()> {
        let is_whole = self.follower.refresh().is_ok() && self.follower.damage().is_empty();
        if !is_whole {
            self.follower = Follower::open(&self.directory)?;
        }
        let state = self.follower.state();
        self.seen = (state.lamport(), state.runs().count());
        let working = !journal::holders(&self.directory)?.is_empty();
        self.rest = self.rest.take().or_else(|| Remaining::of(&self.directory, state));
        let left = self.rest.as_mut().and_then(|rest| rest.seconds_left(state, working));
        let now = Now {
            version: self.version,
            ..Now::of(&self.directory, state, left, working, Timestamp::now())
        };
        *hold(&served.now) = encode(&now);
        Ok(())
    }

    fn draw(&mut self, served: &Served) {
        self.version += 1;
        let state: &State = self.follower.state();
        let page = render_report(&self.directory, state, &self.options, ReportForm::Live(self.version));
        *hold(&served.page) = page.into();
        self.drawn = Some(self.seen);
    }
}

fn encode(now: &Now) -> Arc<str> {
    serde_json::to_string(now).expect("plain data always serialises").into()
}

/// Says in the place of the counts that nothing can be read.
fn tell(served: &Served, error: &Error) {
    let mut now = hold(&served.now);
    if let Ok(mut last) = serde_json::from_str::<serde_json::Value>(&now) {
        last["count"] = format!("the directory cannot be read now: {error}").into();
        *now = last.to_string().into();
    }
}

fn hold(of: &Mutex<Arc<str>>) -> MutexGuard<'_, Arc<str>> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(Shared(served): Shared<Arc<Served>>, request: Request) -> Response<Body> {
    let head = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    // A page of another origin may not ask in its reader's name.
    let is_foreign = head(header::ORIGIN).is_some_and(|origin| {
        let own = head(header::HOST).map(|host| format!("http://{host}"));
        Some(origin) != own.as_deref()
    });
    let path = request
        .uri()
        .path()
        .strip_prefix('/')
        .and_then(|path| path.strip_prefix(served.token.as_str()));
    let refused = |status| respond(status, "text/plain", Body::empty());
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return refused(StatusCode::METHOD_NOT_ALLOWED);
    }
    if is_foreign {
        return refused(StatusCode::FORBIDDEN);
    }
    let (kind, text) = match path {
        Some("/") => ("text/html; charset=utf-8", Arc::clone(&hold(&served.page))),
        Some("/now.json") => ("application/json", Arc::clone(&hold(&served.now))),
        _ => return refused(StatusCode::NOT_FOUND),
    };
    served.is_read.store(true, Ordering::Relaxed);
    respond(StatusCode::OK, kind, Body::from(text.to_string()))
}

/// An answer that nobody keeps, frames, or passes the address of on.
fn respond(status: StatusCode, kind: &str, body: Body) -> Response<Body> {
    let built = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, kind)
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::REFERRER_POLICY, "no-referrer")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(header::X_FRAME_OPTIONS, "DENY")
        .header("cross-origin-resource-policy", "same-origin")
        .body(body);
    built.expect("the headers are fixed")
}
