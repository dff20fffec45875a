//! Probes: small requests in addition to the load, one after the other. They have their own connection and thread, so that they wait for no
//! slot.

use crate::bench::members;
use crate::load::{Generator, Load, Stop};
use crate::metrics::{Nanos, percentile, seconds};
use crate::plan::Params;
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time limit for opening the connection before the run.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Probes being sent. They end at once when this is dropped, such as after a failure of the run.
pub(in crate::bench) struct Probe {
    ended: Arc<AtomicBool>,
    stop: Stop,
    /// The thread, until its end is awaited.
    thread: Option<JoinHandle<ProbeCounts>>,
}

/// Result of the probes.
#[derive(Debug, Default)]
pub(in crate::bench) struct ProbeCounts {
    latencies_s: Vec<f64>,
    failed: u64,
}

impl Probe {
    /// Sends the one request of `load` every `period`. While an answer is awaited, none is sent.
    pub fn start(mut generator: Generator, load: Load, period: Duration) -> io::Result<Probe> {
        generator.connect(1, CONNECT_TIMEOUT)?;
        let (ended, stop) = (Arc::new(AtomicBool::new(false)), generator.stop_handle());
        let is_over = ended.clone();
        let probing = thread::Builder::new().name("vsweep-probe".to_owned());
        let thread = probing.spawn(move || {
            let (mut counts, began) = (ProbeCounts::default(), Instant::now());
            // At least one probe is sent, however short the run.
            while let Ok(outcome) = generator.drive(&load) {
                for sample in outcome.samples.iter() {
                    match sample.is_ok() {
                        true => counts.latencies_s.push(seconds(sample.latency())),
                        false => counts.failed += 1,
                    }
                }
                thread::park_timeout(until_next(began.elapsed(), period));
                if is_over.load(Relaxed) {
                    break;
                }
            }
            counts
        })?;
        Ok(Probe {
            ended,
            stop,
            thread: Some(thread),
        })
    }

    /// Awaits the probe in flight, and returns the result of all.
    pub fn finish(mut self) -> ProbeCounts {
        let Some(thread) = self.thread.take() else {
            return ProbeCounts::default();
        };
        self.end(&thread);
        thread.join().unwrap_or_default()
    }

    /// Lets the thread end after the probe in flight.
    fn end(&self, thread: &JoinHandle<ProbeCounts>) {
        self.ended.store(true, Relaxed);
        thread.thread().unpark();
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            self.stop.stop();
            self.end(thread);
        }
    }
}

impl ProbeCounts {
    /// Writes the keys of `vllm bench serve`, or none if no probe succeeded.
    pub fn write(&mut self, result: &mut Params) {
        if self.latencies_s.is_empty() {
            return;
        }
        self.latencies_s.sort_by(f64::total_cmp);
        let ms = |percent| percentile(&self.latencies_s, percent) * 1000.0;
        result.extend(members(json!({
            "probe_completed": self.latencies_s.len(),
            "probe_failed": self.failed,
            "probe_median_e2el_ms": ms(50.0),
            "probe_p99_e2el_ms": ms(99.0),
            "probe_max_e2el_ms": ms(100.0),
        })));
    }
}

/// The time from one probe to the next at `rate` a second.
pub(in crate::bench) fn period_at(rate: f64) -> Duration {
    Duration::from_nanos((1e9 / rate) as Nanos)
}

/// Time until the next probe, if the first one was sent `since` ago.
fn until_next(since: Duration, period: Duration) -> Duration {
    let over = since.as_nanos() % period.as_nanos().max(1);
    period.saturating_sub(Duration::from_nanos(over as Nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_answer_does_not_delay_later_probes() {
        let pause = |since| until_next(Duration::from_millis(since), Duration::from_millis(100)).as_millis();
        assert_eq!([0, 30, 99, 250].map(pause), [100, 70, 1, 50]);
    }
}
