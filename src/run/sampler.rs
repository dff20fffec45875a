//! Reads the server, its GPUs and the machine while a run is on, once a second, on a thread of its own: neither the load
//! generator nor the loop that watches the server ever waits for it.

use crate::server::http::Http;
use crate::telemetry::host::HostWatch;
use crate::telemetry::nvml::{GpuReading, Gpus};
use crate::telemetry::scrape::Scrape;
use crate::telemetry::series::{Reading, Series};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Time between two readings. A scrape costs vLLM's front end some milliseconds, so more would disturb what is measured.
const PERIOD: Duration = Duration::from_secs(1);
/// How long a server may take to answer one: one that is in trouble must not hold up the sweep.
const LIMIT: Duration = Duration::from_secs(2);

/// How long the readings may take to end: one scrape, and GPUs that answer late.
const LAST: Duration = Duration::from_secs(10);

/// Readings in the making. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Sampler {
    stop: oneshot::Sender<()>,
    series: oneshot::Receiver<Series>,
}

/// Begins to read; without a server only GPUs and host.
pub(super) fn start(http: Option<Http>, gpus: Arc<Gpus>) -> Sampler {
    start_with(http, move || gpus.read())
}

fn start_with(http: Option<Http>, gpus: impl Fn() -> Vec<GpuReading> + Send + 'static) -> Sampler {
    let (stop, stopped) = oneshot::channel();
    let (report, series) = oneshot::channel();
    let thread = thread::Builder::new().name("vsweep-telemetry".into());
    // Without the thread there is no series, which `finish` takes for an empty one.
    let _ = thread.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let _ = report.send(runtime.map_or_else(
            |_| Series::default(),
            |runtime| runtime.block_on(sample(http, gpus, stopped)),
        ));
    });
    Sampler { stop, series }
}

impl Sampler {
    /// Takes the last reading and returns all; none if a reading does not return, as those of a GPU that fell off its bus
    /// may not.
    pub async fn finish(self) -> Series {
        self.finish_within(LAST).await
    }

    async fn finish_within(self, limit: Duration) -> Series {
        let _ = self.stop.send(());
        let series = timeout(limit, self.series).await;
        series.ok().and_then(Result::ok).unwrap_or_default()
    }
}

async fn sample(http: Option<Http>, gpus: impl Fn() -> Vec<GpuReading>, mut stopped: oneshot::Receiver<()>) -> Series {
    let mut series = Series::default();
    let mut host = HostWatch::start();
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_last = tokio::select! {
            // Whether the run ended well or was given up decides if the series is wanted.
            stop = &mut stopped => match stop {
                Ok(()) => true,
                Err(_) => return series,
            },
            _ = ticks.tick() => false,
        };
        let (at, host, gpus) = (Instant::now(), host.look(), gpus());
        let answer = match &http {
            Some(http) => http.get("/metrics", LIMIT).await.ok(),
            None => None,
        };
        let text = answer.filter(|answer| answer.is_success());
        series.0.push(Reading {
            at,
            server: text.and_then(|answer| Scrape::read(&answer.body)),
            gpus,
            host,
        });
        if is_last {
            return series;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    /// Answers every request with one more running request than the one before.
    fn server() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        thread::spawn(move || {
            for (count, stream) in listener.incoming().enumerate() {
                let mut stream = stream.expect("a connection");
                let lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
                lines.map_while(Result::ok).find(String::is_empty);
                let body = format!("vllm:num_requests_running {count}\n");
                let length = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
            }
        });
        format!("http://{address}")
    }

    #[tokio::test]
    async fn the_first_and_the_last_moment_are_read() {
        let gpu = GpuReading {
            power_watts: Some(700.0),
            ..GpuReading::default()
        };
        let expected = gpu.clone();
        let sampler = start_with(Some(Http::new(&server(), None)), move || vec![gpu.clone()]);
        let series = sampler.finish().await;
        let last = series.0.last().expect("a last reading");
        assert_eq!(last.gpus, [expected]);
        let running: Vec<_> = series
            .0
            .iter()
            .map(|reading| reading.server.expect("an answer").running)
            .collect();
        let counted: Vec<_> = (0..series.0.len()).map(|count| Some(count as f64)).collect();
        assert_eq!(running, counted);
    }

    #[tokio::test]
    async fn a_gpu_that_never_answers_does_not_hold_up_the_sweep() {
        let (_answers, answer) = std::sync::mpsc::channel::<Vec<GpuReading>>();
        let gpus = move || answer.recv().unwrap_or_default();
        let sampler = start_with(Some(Http::new("http://127.0.0.1:1", None)), gpus);
        let series = sampler.finish_within(Duration::from_millis(1)).await;
        assert_eq!(series.0.len(), 0);
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_leaves_the_machine() {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .expect("a free port")
            .port();
        let http = Http::new(&format!("http://127.0.0.1:{port}"), None);
        let series = start_with(Some(http), Vec::new).finish().await;
        let last = series.0.last().expect("a last reading");
        assert_eq!(last.server, None);
        assert!(last.host.load.is_some());
    }
}
