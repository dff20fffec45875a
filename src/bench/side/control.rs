//! Requests beside the measured ones, over the generator's own connections. They are sent with the headers of the run,
//! before t0 or after the end. A request that was refused is known by its status, never by its text.

use crate::load::{Generator, Load, Reply, RequestOptions};
use reqwest::StatusCode;
use serde_json::Value;
use std::fmt;
use std::time::{Duration, Instant};

/// Requests in flight.
const AT_ONCE: usize = 64;
pub(in crate::bench) const SHORT: Duration = Duration::from_secs(10);
/// Time between tries of a server that is not up yet.
const READY_PAUSE: Duration = Duration::from_secs(1);
/// Starting and stopping a profiler writes traces.
pub(in crate::bench) const PROFILER: Duration = Duration::from_secs(600);

/// The generator and how requests to its server look.
pub(in crate::bench) struct ControlClient<'a> {
    pub generator: &'a mut Generator,
    pub options: &'a RequestOptions,
    /// Path before every route.
    pub base: &'a str,
}

/// Why a request has no answer of use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::bench) struct NoAnswer {
    /// The status that the server answered with, if it answered.
    pub status: Option<StatusCode>,
    reason: String,
}

impl NoAnswer {
    /// Of an answer that cannot be used.
    pub fn because(reason: impl Into<String>) -> NoAnswer {
        NoAnswer {
            status: None,
            reason: reason.into(),
        }
    }

    /// As the generator says it: "HTTP 404: …" of a refusal.
    fn of(error: String) -> NoAnswer {
        let digits = error.strip_prefix("HTTP ").and_then(|rest| rest.get(..3));
        NoAnswer {
            status: digits.and_then(|digits| StatusCode::from_bytes(digits.as_bytes()).ok()),
            reason: error,
        }
    }

    /// Whether the server has no such route, or none for us.
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

impl ControlClient<'_> {
    /// The body of the answer to one request.
    pub fn ask(&mut self, method: &str, path: &str, body: Option<&Value>, limit: Duration) -> Result<String, NoAnswer> {
        let bodies = [body.map(Value::to_string).unwrap_or_default()];
        self.ask_all(method, path, &bodies, limit)?
            .pop()
            .unwrap_or_else(|| Err(NoAnswer::because("no answer")))
    }

    /// The same for several requests to one route.
    pub fn ask_all(
        &mut self,
        method: &str,
        path: &str,
        bodies: &[String],
        limit: Duration,
    ) -> Result<Vec<Result<String, NoAnswer>>, NoAnswer> {
        let path = format!("{}{path}", self.base);
        let requests = bodies
            .iter()
            .map(|body| self.options.aside(method, &path, body.as_bytes()))
            .collect();
        let load = Load {
            requests,
            due: vec![0; bodies.len()],
            limit: Some(AT_ONCE),
            reply: Reply::Text,
            request_timeout: limit,
            silence_timeout: limit,
            ..Load::default()
        };
        let outcome = self
            .generator
            .drive(&load, &mut |_| {})
            .map_err(|error| NoAnswer::because(error.to_string()))?;
        let answers = outcome.samples.in_order().map(|sample| match sample.error {
            Some(error) => Err(NoAnswer::of(error)),
            None => Ok(sample.text.unwrap_or_default()),
        });
        Ok(answers.collect())
    }

    /// Waits until the server answers anything but that it cannot; the error says what it said last.
    pub fn await_answer(&mut self, limit: Duration) -> Result<(), String> {
        let began = Instant::now();
        loop {
            match self.ask("GET", "/health", None, SHORT) {
                Ok(_) => return Ok(()),
                // A server without this route is up as well.
                Err(error) if error.is_refusal() => return Ok(()),
                Err(error) => await_next_try(began, limit, &error)?,
            }
        }
    }

    /// The server's counters as text.
    pub fn metrics(&mut self) -> Result<String, NoAnswer> {
        self.ask("GET", "/metrics", None, SHORT)
    }

    /// Starts or stops the server's profiler.
    pub fn profile(&mut self, path: &str) -> Result<(), NoAnswer> {
        self.ask("POST", path, None, PROFILER).map(drop)
    }
}
