//! Synthetic servers with a known limit: latency curves in closed form, with seeded noise from request to request and from run to run.

use crate::random::Random;

/// Growth of p99 with load, relative to the boundary.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// A straight line, as if prefills shared the server evenly.
    Line { slope: f64 },
    /// Flat up to the `knee`, then a queue that grows with `steepness`.
    HockeyStick { slope: f64, knee: f64, steepness: f64 },
    /// One over the idle share: a queue with open arrivals below `capacity`, and overload above it.
    Queue { capacity: f64 },
    /// A line that jumps by `factor` just above the boundary, as with preemption or a full cache.
    Cliff { slope: f64, margin: f64, factor: f64 },
}

impl Shape {
    fn at(self, load: f64) -> f64 {
        match self {
            Shape::Line { slope } => 1.0 + slope * load,
            Shape::HockeyStick { slope, knee, steepness } => 1.0 + slope * load + steepness * (load - knee).max(0.0),
            Shape::Queue { capacity } => {
                let busy = load / capacity;
                if busy < 0.98 {
                    1.0 / (1.0 - busy)
                } else {
                    50.0 * busy / 0.98
                }
            }
            Shape::Cliff { slope, margin, factor } => {
                let line = (1.0 + slope * load) / (1.0 + slope) * margin;
                if load > 1.0 { line * factor } else { line }
            }
        }
    }
}

/// A server with a known boundary.
#[derive(Debug, Clone)]
pub struct Server {
    shape: Shape,
    /// The highest load whose true p99 is within the limit.
    pub boundary: f64,
    /// Relative spread of latency from request to request, and from run to run.
    request_spread: f64,
    run_spread: f64,
    /// Load at which throughput saturates, and seconds a request takes there.
    saturation: f64,
    service_s: f64,
    random: Random,
}

/// The limit of p99 in every search.
pub const LIMIT_MS: f64 = 500.0;

/// Standard normal quantile of 99 %.
const Z99: f64 = 2.326_347_9;

impl Server {
    /// Draws a server. Its boundary lies between `low` and `high`.
    pub fn new(seed: u64, low: f64, high: f64) -> Server {
        let mut random = Random(seed);
        let boundary = random.log_between(low, high);
        let kind = random.between(0.0, 1.0);
        let shape = match kind {
            k if k < 0.45 => Shape::HockeyStick {
                slope: random.between(0.2, 2.0),
                knee: random.between(0.4, 0.98),
                steepness: random.log_between(3.0, 60.0),
            },
            k if k < 0.7 => Shape::Queue {
                capacity: random.between(1.05, 2.0),
            },
            k if k < 0.85 => Shape::Line {
                slope: random.log_between(0.5, 20.0),
            },
            _ => Shape::Cliff {
                slope: random.between(0.1, 2.0),
                margin: random.between(0.4, 0.9),
                factor: random.log_between(3.0, 30.0),
            },
        };
        Server {
            shape,
            boundary,
            request_spread: random.between(0.05, 0.15),
            run_spread: random.between(0.01, 0.03),
            saturation: boundary * random.between(0.7, 1.5),
            service_s: random.log_between(1.0, 10.0),
            random,
        }
    }

    /// The p99 of infinitely many requests in an average run, in ms.
    pub fn true_p99_ms(&self, load: f64) -> f64 {
        let u = load / self.boundary;
        let limit = if matches!(self.shape, Shape::Cliff { .. }) {
            1.0
        } else {
            self.shape.at(1.0)
        };
        LIMIT_MS * self.shape.at(u) / limit
    }

    /// True if fewer than 98 % of requests are truly within the limit at `load`. The target is 99 %.
    pub fn clearly_fails(&self, load: f64) -> bool {
        let z98 = 2.053_748_9;
        (self.true_p99_ms(load) / LIMIT_MS).ln() > (Z99 - z98) * self.request_spread
    }

    /// Latencies in ms of one run, in the order of completion.
    pub fn run(&mut self, load: f64, requests: u64) -> Vec<f64> {
        let median = self.true_p99_ms(load) * (-Z99 * self.request_spread).exp();
        let this_run = median * (self.run_spread * self.random.normal()).exp();
        (0..requests)
            .map(|_| this_run * (self.request_spread * self.random.normal()).exp())
            .collect()
    }

    /// Seconds that `requests` take with `load` in flight.
    pub fn seconds(&self, load: f64, requests: u64) -> f64 {
        let busy = load / self.saturation;
        let latency_s = self.service_s * if busy < 1.0 { 0.4 + 0.6 * busy } else { busy };
        // A run takes at least the latency of one request.
        latency_s * (requests as f64 / load).max(1.0)
    }

    /// Load that the server reaches when it is offered more than it can serve.
    pub fn reached(&self) -> f64 {
        self.saturation
    }
}

/// p99 with numpy's interpolation.
pub fn p99(latencies: &[f64]) -> f64 {
    let mut sorted = latencies.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = 0.99 * (sorted.len() - 1) as f64;
    let below = position as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}
