//! What the HTTP server counts about itself, under the names of the Python middleware that vLLM uses: requests, sizes and
//! durations by route. Health checks and scrapes are not counted there, so not here either.

use super::page::{Labels, Page};
use crate::sim::engine::stats::Histogram;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

const UNCOUNTED: [&str; 6] = ["/metrics", "/health", "/load", "/ping", "/version", "/server_info"];
const FEW: [f64; 3] = [0.1, 0.5, 1.0];
const MANY: [f64; 21] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0, 30.0, 60.0,
];

struct Route {
    handler: String,
    method: String,
    statuses: Vec<(u16, u64)>,
    received: f64,
    sent: f64,
    seconds: Histogram,
}

struct RouteCounts {
    routes: Vec<Route>,
    seconds: Histogram,
}

/// Everything counted so far.
pub struct Traffic(Mutex<RouteCounts>);

impl Default for Traffic {
    fn default() -> Self {
        let seconds = Histogram::new(&MANY);
        Traffic(Mutex::new(RouteCounts {
            routes: Vec::new(),
            seconds,
        }))
    }
}

/// One request on its way; it is counted when the last holder lets go, so a stream counts until its end.
pub struct Visit {
    traffic: Arc<Traffic>,
    handler: String,
    method: String,
    start: Instant,
    received: f64,
    status: AtomicU16,
    sent: AtomicU64,
}

impl Visit {
    /// Starts counting, if this route is counted at all. `received` is the stated length of the request.
    pub fn start(traffic: &Arc<Traffic>, handler: &str, method: &str, received: u64) -> Option<Arc<Visit>> {
        (!UNCOUNTED.contains(&handler)).then(|| {
            Arc::new(Visit {
                traffic: traffic.clone(),
                handler: handler.into(),
                method: method.into(),
                start: Instant::now(),
                received: received as f64,
                status: AtomicU16::new(500),
                sent: AtomicU64::new(0),
            })
        })
    }

    /// Notes how the answer begins: its status and its stated length, 0 for a stream.
    pub fn answered(&self, status: u16, sent: u64) {
        self.status.store(status, Ordering::Relaxed);
        self.sent.store(sent, Ordering::Relaxed);
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let seconds = self.start.elapsed().as_secs_f64();
        let mut counts = self.traffic.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.seconds.observe(seconds);
        let known = counts
            .routes
            .iter()
            .position(|route| route.handler == self.handler && route.method == self.method);
        let place = known.unwrap_or_else(|| {
            counts.routes.push(Route {
                handler: self.handler.clone(),
                method: self.method.clone(),
                statuses: Vec::new(),
                received: 0.0,
                sent: 0.0,
                seconds: Histogram::new(&FEW),
            });
            counts.routes.len() - 1
        });
        let route = &mut counts.routes[place];
        route.received += self.received;
        route.sent += self.sent.load(Ordering::Relaxed) as f64;
        route.seconds.observe(seconds);
        let class = self.status.load(Ordering::Relaxed) / 100;
        match route.statuses.iter_mut().find(|(known, _)| *known == class) {
            Some((_, count)) => *count += 1,
            None => route.statuses.push((class, 1)),
        }
    }
}

impl Traffic {
    /// Writes everything down.
    pub fn write(&self, page: &mut Page) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let routes = &counts.routes;
        let requests: Vec<(Labels, f64)> = routes
            .iter()
            .flat_map(|route| {
                let labels = |class: u16| {
                    let (handler, method) = (&route.handler, &route.method);
                    Labels::new(
                        format!("handler=\"{handler}\""),
                        format!("method=\"{method}\",status=\"{class}xx\""),
                    )
                };
                route
                    .statuses
                    .iter()
                    .map(move |(class, count)| (labels(*class), *count as f64))
            })
            .collect();
        page.counter(
            "http_requests",
            "Total number of requests by method, status and handler.",
            &requests,
        );
        let of = |route: &Route| Labels::new(format!("handler=\"{}\"", route.handler), "");
        let sizes = |size: fn(&Route) -> f64| -> Vec<(Labels, u64, f64)> {
            routes
                .iter()
                .map(|route| (of(route), route.seconds.count(), size(route)))
                .collect()
        };
        page.summary(
            "http_request_size_bytes",
            "Content length of incoming requests by handler.",
            &sizes(|route| route.received),
        );
        page.summary(
            "http_response_size_bytes",
            "Content length of outgoing responses by handler.",
            &sizes(|route| route.sent),
        );
        page.histogram(
            "http_request_duration_highr_seconds",
            "Latency with many buckets but no API specific labels.",
            &[(Labels::default(), &counts.seconds)],
        );
        let durations: Vec<(Labels, &Histogram)> = routes
            .iter()
            .map(|route| {
                let labels = Labels::new(
                    format!("handler=\"{}\"", route.handler),
                    format!("method=\"{}\"", route.method),
                );
                (labels, &route.seconds)
            })
            .collect();
        page.histogram(
            "http_request_duration_seconds",
            "Latency with only few buckets by handler.",
            &durations,
        );
    }
}
