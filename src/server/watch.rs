//! Watches a ready server: its process, its health, and the progress of requests in flight.

use super::Server;
use super::http::{Http, Silence};
use crate::cause::{Cause, Failure};
use crate::telemetry::prometheus;
use crate::units::show_duration;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Time limit of one request.
const PROBE: Duration = Duration::from_secs(5);
/// Longest time between two health checks: short enough to notice a failure, long enough not to disturb the measurement.
const PAUSE: Duration = Duration::from_secs(2);
/// Time between two health checks of a server that should become idle.
const IDLE_POLL: Duration = Duration::from_millis(50);
/// Time in which a server recovers or ends after it reports an error or refuses connections. If the server ends, its log has the reason.
const DYING: Duration = Duration::from_secs(8);

/// Counters of which at least one grows when the engine does anything at all.
const COUNTERS: [&str; 4] = [
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:iteration_tokens_total_count",
    "vllm:request_success_total",
];
/// Message for a server that does not answer at all.
const SILENT: &str = "no answer from /health and /metrics";
/// Gauges whose sum is the number of requests in flight.
const IN_FLIGHT: [&str; 2] = ["vllm:num_requests_running", "vllm:num_requests_waiting"];

impl Server {
    /// Waits until the server dies, loses its engine or hangs, and returns the failure. The future may be dropped and the method called
    /// again.
    pub async fn failed(&mut self) -> Failure {
        let Some(process) = &mut self.process else {
            return distress(&self.http, &mut self.progress).await;
        };
        tokio::select! {
            biased;
            failure = process.ended() => failure,
            failure = distress(&self.http, &mut self.progress) => match failure.cause {
                // The log may have the cause.
                Cause::CrashedUnderLoad => Some(process.diagnose(None))
                    .filter(|diagnosed| diagnosed.cause != failure.cause)
                    .unwrap_or(failure),
                _ => failure,
            },
        }
    }

    /// Returns true if the server reports now that its engine is dead, or no longer listens. [`Server::failed`] may need some seconds more
    /// to find the reason.
    pub async fn is_unhealthy(&self) -> bool {
        matches!(check_health(&self.http).await, Health::Ill(_))
    }

    /// Waits until the server has no requests in flight, or until the limit has passed. Does not wait if the server does not report them.
    pub async fn idle(&self, limit: Duration) {
        let start = Instant::now();
        while let Health::Work { in_flight, .. } = check_health(&self.http).await
            && in_flight > 0.0
            && start.elapsed() < limit
        {
            sleep(IDLE_POLL).await;
        }
    }

    /// Checks that the server continues or drops requests for which the benchmark no longer waits. Returns the failure if it has done
    /// neither, or has not answered, when the limit has passed.
    pub async fn hang(&self, limit: Duration) -> Option<Failure> {
        let start = Instant::now();
        let mut first = None;
        loop {
            let what = match check_health(&self.http).await {
                Health::Work { in_flight, counted } if in_flight > 0.0 && *first.get_or_insert(counted) == counted => {
                    format!("{in_flight} requests in flight that the benchmark gave up")
                }
                Health::Silent => SILENT.to_owned(),
                _ => return None,
            };
            if start.elapsed() >= limit {
                let waited = show_duration(limit);
                let detail = format!("{what}, no progress for {waited}");
                return Some(Failure::new(Cause::Hung, detail));
            }
            sleep(IDLE_POLL).await;
        }
    }
}

/// Waits until the server's answers, or their absence, show that it has failed, and returns the failure.
async fn distress(http: &Http, progress: &mut Progress) -> Failure {
    let mut ill_since = None;
    loop {
        match check_health(http).await {
            Health::Ill(what) => {
                let since: &mut Instant = ill_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= DYING {
                    return Failure::new(Cause::CrashedUnderLoad, what);
                }
            }
            health => {
                ill_since = None;
                if let Some(stuck) = progress.record(&health, Instant::now()) {
                    return Failure::new(Cause::Hung, stuck);
                }
            }
        }
        sleep(PAUSE.min(progress.limit / 4)).await;
    }
}

/// Result of one health check.
#[derive(Debug, Clone, PartialEq)]
enum Health {
    /// The server reports that its engine is dead, or no longer listens.
    Ill(String),
    /// Number of requests in flight and sum of the counters, from `/metrics`.
    Work { in_flight: f64, counted: f64 },
    /// The server answers, but does not report these figures; or this machine could not ask it.
    Unknown,
    /// Neither the health route nor `/metrics` answers.
    Silent,
}

async fn check_health(http: &Http) -> Health {
    let (health, route) = (http.health(PROBE).await, http.health_route());
    match &health {
        Ok(answer) if answer.status.is_server_error() => {
            return Health::Ill(format!("{route} answers {}", answer.status.as_u16()));
        }
        Err(Silence::NoConnection(error)) => return Health::Ill(format!("{route}: {error}")),
        Err(Silence::OutOfFiles(_)) => return Health::Unknown,
        Ok(_) | Err(Silence::TimedOut | Silence::TooLong) => {}
    }
    match http.get("/metrics", PROBE).await {
        Ok(answer) if answer.status.is_success() => work(&answer.body),
        Err(_) if health.is_err() => Health::Silent,
        _ => Health::Unknown,
    }
}

fn work(metrics: &str) -> Health {
    let sum = |names: &[&str]| {
        let samples = prometheus::samples(metrics).filter(|sample| names.contains(&sample.name));
        samples.map(|sample| sample.value).reduce(|a, b| a + b)
    };
    match (sum(&IN_FLIGHT), sum(&COUNTERS)) {
        (Some(in_flight), Some(counted)) => Health::Work { in_flight, counted },
        _ => Health::Unknown,
    }
}

/// The last progress of a server. It is kept between calls of [`Server::failed`].
#[derive(Debug)]
pub(super) struct Progress {
    /// Time without progress after which the server counts as hung.
    limit: Duration,
    /// Sum of the counters at the last check.
    counted: f64,
    /// Time of the last progress.
    progressed: Instant,
    /// Time of the last check.
    checked: Instant,
}

impl Progress {
    /// Starts the clock. The server counts as hung after `limit` without progress.
    pub(super) fn new(limit: Duration) -> Progress {
        let now = Instant::now();
        Progress {
            limit,
            counted: f64::NAN,
            progressed: now,
            checked: now,
        }
    }

    /// Records a health check. Returns the reason if the server counts as hung.
    fn record(&mut self, health: &Health, now: Instant) -> Option<String> {
        // After a pause in checking (between two runs), the clock starts anew.
        if now.duration_since(self.checked) > 2 * (PAUSE + 2 * PROBE) {
            self.progressed = now;
        }
        self.checked = now;
        let what = match health {
            Health::Work { in_flight, counted } => {
                if *in_flight == 0.0 || *counted != self.counted {
                    self.progressed = now;
                }
                self.counted = *counted;
                format!("{in_flight} requests in flight")
            }
            Health::Silent => SILENT.to_owned(),
            Health::Unknown | Health::Ill(_) => {
                self.progressed = now;
                return None;
            }
        };
        let still = now.duration_since(self.progressed);
        (still >= self.limit).then(|| format!("{what}, no progress for {}", show_duration(still)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    /// Records a health for each second. Returns the second at which the server counted as hung.
    fn hung_at(sights: impl Fn(u64) -> Health) -> Option<u64> {
        let mut progress = Progress::new(LIMIT);
        let start = Instant::now();
        (0..60).find(|&second| {
            progress
                .record(&sights(second), start + Duration::from_secs(second))
                .is_some()
        })
    }

    #[test]
    fn requests_without_progress_mean_hung() {
        assert_eq!(
            hung_at(|s| Health::Work {
                in_flight: 2.0,
                counted: s.min(5) as f64
            }),
            Some(15)
        );
        assert_eq!(hung_at(|_| Health::Silent), Some(10));
    }

    #[test]
    fn work_idleness_and_ignorance_do_not() {
        assert_eq!(
            hung_at(|s| Health::Work {
                in_flight: 2.0,
                counted: s as f64
            }),
            None
        );
        assert_eq!(
            hung_at(|_| Health::Work {
                in_flight: 0.0,
                counted: 7.0
            }),
            None
        );
        assert_eq!(hung_at(|_| Health::Unknown), None);
    }

    #[test]
    fn a_pause_in_watching_is_no_hang() {
        let mut progress = Progress::new(LIMIT);
        let stuck = Health::Work {
            in_flight: 1.0,
            counted: 3.0,
        };
        let start = Instant::now();
        assert_eq!(progress.record(&stuck, start), None);
        assert_eq!(progress.record(&stuck, start + 10 * LIMIT), None);
    }

    #[test]
    fn vllm_metrics_show_its_work() {
        let metrics = "vllm:num_requests_running{engine=\"0\"} 2.0\nvllm:num_requests_waiting{engine=\"0\"} 1.0\n\
                       vllm:prompt_tokens_total{engine=\"0\"} 51.0\nvllm:generation_tokens_total{engine=\"0\"} 36.0\n";
        assert_eq!(
            work(metrics),
            Health::Work {
                in_flight: 3.0,
                counted: 87.0
            }
        );
        assert_eq!(work("other_total 1"), Health::Unknown);
    }
}
