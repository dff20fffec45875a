//! One server of a benchmark: its address, the form of requests to it, and a separate generator for requests outside the measured load. A
//! refusal is recognised by its status, never by its text.

use super::counters::ServerCounters;
use crate::bench::params::ServerParams;
use crate::bench::worker::{self, GivenUp};
use crate::bench::{Job, broken};
use crate::cause::Failure;
use crate::load::{BodyOptions, Generator, Load, Reply, RequestOptions, ServerAddress, Stop, Tls};
use reqwest::StatusCode;
use serde_json::Value;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Limit for opening the connections of a load.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the connection outside the load.
const CONNECT_BESIDE: Duration = Duration::from_secs(10);
/// Requests in flight.
const AT_ONCE: usize = 64;
pub(in crate::bench) const SHORT: Duration = Duration::from_secs(10);
/// Time between tries of a server that is not up yet.
const READY_PAUSE: Duration = Duration::from_secs(1);
/// Starting and stopping a profiler writes traces.
pub(in crate::bench) const PROFILER: Duration = Duration::from_secs(600);

/// One server.
pub(in crate::bench) struct Endpoint {
    pub url: String,
    pub target: ServerAddress,
    /// Form of requests to it.
    pub options: RequestOptions,
    addresses: Vec<SocketAddr>,
    tls: Option<Tls>,
    /// Generator for requests outside the load.
    control: Mutex<Generator>,
}

/// Reason why a request has no useful answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::bench) struct NoAnswer {
    /// The status that the server answered with, if it answered.
    pub status: Option<StatusCode>,
    reason: String,
}

impl NoAnswer {
    /// An answer that cannot be used, for this reason.
    pub fn because(reason: impl Into<String>) -> NoAnswer {
        NoAnswer {
            status: None,
            reason: reason.into(),
        }
    }

    /// Returns true if the server has no such route, or none for us.
    pub fn is_refusal(&self) -> bool {
        self.status
            .is_some_and(|status| status.is_client_error() || status == StatusCode::NOT_IMPLEMENTED)
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Pauses before a server that gave this error is asked again, unless the time for that is over.
pub(in crate::bench) fn await_next_try(
    began: Instant,
    limit: Duration,
    error: &dyn fmt::Display,
) -> Result<(), String> {
    let left = limit.saturating_sub(began.elapsed());
    if left.is_zero() {
        return Err(format!(
            "the server was not ready within {} s: {error}",
            limit.as_secs_f64()
        ));
    }
    std::thread::sleep(left.min(READY_PAUSE));
    Ok(())
}

impl Endpoint {
    /// Finds the server at `url` for a job whose requests go to `path` below it.
    pub async fn open(
        job: &Job,
        url: &str,
        server: &ServerParams,
        path: &str,
        body: BodyOptions,
    ) -> Result<Endpoint, Failure> {
        let target = ServerAddress::parse(url).map_err(broken)?;
        let resolving = target.clone();
        let resolve = move || resolving.resolve().map_err(broken);
        let addresses = worker::perform(vec![], || job.timeout, GivenUp::Left, resolve).await?;
        let tls = target.is_https.then(|| Tls::new(&target.host, server.insecure));
        let tls = tls.transpose().map_err(broken)?;
        Ok(Endpoint {
            url: url.to_owned(),
            options: RequestOptions {
                host: target.authority(),
                path: format!("{}{path}", target.path),
                headers: server.all_headers(job.api_key.as_deref()),
                body,
            },
            control: Mutex::new(generator(&addresses, tls.as_ref())?),
            target,
            addresses,
            tls,
        })
    }

    /// A generator for measured requests to it.
    pub fn generator(&self) -> Result<Generator, Failure> {
        generator(&self.addresses, self.tls.as_ref())
    }

    /// Opens connections of a generator to it, as many as will be in flight.
    pub fn connect(&self, generator: &mut Generator, count: usize) -> Result<(), Failure> {
        let connections = if count == 1 { "a connection" } else { "connections" };
        let opened = generator.connect(count, CONNECT_TIMEOUT);
        opened.map_err(|error| broken(self.target.unopened(connections, &error, CONNECT_TIMEOUT)))
    }

    /// The means to end what is asked of it from another thread.
    pub fn stop_handle(&self) -> Stop {
        self.control().stop_handle()
    }

    /// Returns the body of the answer to a GET request.
    pub fn get(&self, path: &str, limit: Duration) -> Result<String, NoAnswer> {
        self.ask("GET", path, String::new(), limit)
    }

    /// The body of the answer to a request that says nothing.
    pub fn post(&self, path: &str, limit: Duration) -> Result<String, NoAnswer> {
        self.ask("POST", path, String::new(), limit)
    }

    /// The body of the answer to a question about the model.
    pub fn question(&self, path: &str, question: Value) -> Result<String, NoAnswer> {
        let question = self.about_model(question);
        self.ask("POST", path, question, SHORT)
    }

    /// Sends several requests; each may fail by itself.
    pub fn questions(
        &self,
        path: &str,
        questions: impl Iterator<Item = Value>,
    ) -> Result<Vec<Result<String, NoAnswer>>, NoAnswer> {
        let questions: Vec<String> = questions.map(|question| self.about_model(question)).collect();
        self.ask_all("POST", path, &questions, SHORT)
    }

    fn about_model(&self, mut question: Value) -> String {
        question["model"] = self.options.body.model.as_str().into();
        question.to_string()
    }

    fn ask(&self, method: &str, path: &str, body: String, limit: Duration) -> Result<String, NoAnswer> {
        let answer = self.ask_all(method, path, &[body], limit)?.pop();
        answer.unwrap_or_else(|| Err(NoAnswer::because("no answer")))
    }

    fn ask_all(
        &self,
        method: &str,
        path: &str,
        bodies: &[String],
        limit: Duration,
    ) -> Result<Vec<Result<String, NoAnswer>>, NoAnswer> {
        // Replaces a connection that the server has closed since it was last used.
        let mut control = self.control();
        control
            .connect(1, CONNECT_BESIDE)
            .map_err(|error| NoAnswer::because(self.target.unopened("a connection", &error, CONNECT_BESIDE)))?;
        let path = format!("{}{path}", self.target.path);
        let requests = bodies
            .iter()
            .map(|body| self.options.aside(method, &path, body.as_bytes()));
        let load = Load {
            requests: requests.collect(),
            due: vec![0; bodies.len()],
            limit: Some(AT_ONCE),
            reply: Reply::Text,
            request_timeout: limit,
            silence_timeout: limit,
            ..Load::default()
        };
        let outcome = control.drive(&load, &mut |_| {});
        let outcome = outcome.map_err(|error| NoAnswer::because(error.to_string()))?;
        let answers = outcome.samples.in_order().map(|sample| match sample.error {
            Some(reason) => Err(NoAnswer {
                status: sample.error_status.and_then(|status| StatusCode::from_u16(status).ok()),
                reason,
            }),
            None => Ok(sample.text.unwrap_or_default()),
        });
        Ok(answers.collect())
    }

    fn control(&self) -> MutexGuard<'_, Generator> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the server answers anything but that it cannot; the error says what it said last.
    pub fn await_answer(&self, limit: Duration) -> Result<(), String> {
        let began = Instant::now();
        loop {
            match self.get("/health", SHORT) {
                Ok(_) => return Ok(()),
                // A server without this route is up as well.
                Err(error) if error.is_refusal() => return Ok(()),
                Err(error) => await_next_try(began, limit, &error)?,
            }
        }
    }

    /// Empties the prefix cache, so that prompts of an earlier run are not found there. A server that will not is noticed
    /// by what it then finds.
    pub fn forget_prefixes(&self) {
        let _ = self.post("/reset_prefix_cache", SHORT);
    }

    /// Current counters of the server.
    pub fn counters(&self) -> Result<ServerCounters, NoAnswer> {
        Ok(ServerCounters::read(&self.get("/metrics", SHORT)?))
    }
}

fn generator(addresses: &[SocketAddr], tls: Option<&Tls>) -> Result<Generator, Failure> {
    Generator::new(addresses.to_vec(), tls.cloned()).map_err(|error| {
        broken(format!(
            "cannot start the generator: {error}; raise the limit of open files"
        ))
    })
}
