//! Holding servers so that a batch can queue, and letting them go together. A hold that is dropped lets them go too:
//! whatever happens, no server is left asleep.

use super::settings::Hold;
use crate::bench::side::endpoint::Endpoint;
use crate::threads;
use reqwest::StatusCode;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);
/// A server that was just busy with something else gets another chance to wake.
const WAKE_TRIES: usize = 3;

/// Servers that are held.
pub(super) struct Held<'a> {
    endpoints: &'a [Endpoint],
    hold: Hold,
}

impl<'a> Held<'a> {
    /// Holds all of them, or none.
    pub fn begin(endpoints: &'a [Endpoint], hold: Hold) -> Result<Held<'a>, String> {
        let mut held = Held { endpoints: &[], hold };
        let (route, _) = hold.routes();
        for (count, endpoint) in (1..).zip(endpoints) {
            // Counted before the answer: a server whose answer was lost may be held all the same.
            held.endpoints = &endpoints[..count];
            endpoint.post(route, LIMIT).map_err(|error| match error.status == Some(StatusCode::NOT_FOUND) {
                true => format!(
                    "the server at {} has no {}: it is not in development mode; start it with VLLM_SERVER_DEV_MODE=1",
                    endpoint.url,
                    path(route)
                ),
                false => format!("the server at {} refused {}: {error}", endpoint.url, path(route)),
            })?;
        }
        Ok(held)
    }

    /// Lets them go, all at once. Returns when that was asked, and how long the slowest took to answer.
    pub fn end(mut self) -> Result<(Instant, Duration), String> {
        let asked = Instant::now();
        self.wake()?;
        Ok((asked, asked.elapsed()))
    }

    fn wake(&mut self) -> Result<(), String> {
        let (_, route) = self.hold.routes();
        let held = std::mem::take(&mut self.endpoints);
        // Wake all of them before the first error is returned.
        let woken = threads::map(held.len(), held, |endpoint| wake(endpoint, route));
        woken.into_iter().collect()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // The caller already has a worse error to report.
        let _ = self.wake();
    }
}

fn wake(endpoint: &Endpoint, route: &str) -> Result<(), String> {
    let mut failed = String::new();
    for _ in 0..WAKE_TRIES {
        match endpoint.post(route, LIMIT) {
            Ok(_) => return Ok(()),
            Err(error) => failed = error.to_string(),
        }
    }
    let url = &endpoint.url;
    Err(format!(
        "the server at {url} may still be paused: {failed}; resume it with curl -X POST {url}{route}"
    ))
}

fn path(route: &str) -> &str {
    route.split('?').next().unwrap_or(route)
}
