//! Reads the server, its GPUs and the machine during a run, about once a second. A separate thread does this, so that neither the load
//! generator nor the supervision of the server ever waits for a reading. Each reading is appended to the run's file at once, for observers
//! of the sweep. After the run, its final readings replace that file.

use crate::files;
use crate::server::http::Http;
use crate::telemetry::csv::Columns;
use crate::telemetry::host::HostWatch;
use crate::telemetry::nvml::GpuReading;
use crate::telemetry::prometheus::Scrape;
use crate::telemetry::series::{Reading, Series};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// Mean time between two readings. A scrape costs vLLM's front end some milliseconds, so more frequent readings would disturb the run.
const PERIOD: Duration = Duration::from_secs(1);
/// Time limit for a scrape. A server in trouble must not delay the sweep.
const LIMIT: Duration = Duration::from_secs(2);

/// Time limit for the last reading: one scrape, and GPUs that answer late.
const LAST_LIMIT: Duration = Duration::from_secs(10);

/// Returns the pause after this number of readings, between 0.5 and 1.5 times the mean. Equal users send in waves of about a second, and
/// readings at equal intervals would meet every wave at the same moment.
fn pause(readings: usize) -> Duration {
    const GOLDEN_RATIO: f64 = 0.618_033_988_749_894_9;
    PERIOD.mul_f64(0.5 + (readings as f64 * GOLDEN_RATIO).fract())
}

/// A running sampler; dropping it stops the readings.
#[derive(Debug)]
pub(super) struct Sampler {
    stop: oneshot::Sender<()>,
    series: oneshot::Receiver<Series>,
}

/// Starts a sampler that writes its readings to `file`. Without `http` it reads only the GPUs and the host.
pub(super) fn start(http: Option<Http>, gpus: impl Fn() -> Vec<GpuReading> + Send + 'static, file: PathBuf) -> Sampler {
    let (stop, stopped) = oneshot::channel();
    let (report, series) = oneshot::channel();
    let thread = thread::Builder::new().name("vsweep-telemetry".into());
    // Without the thread, `finish` returns an empty series.
    let _ = thread.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let _ = report.send(runtime.map_or_else(
            |_| Series::default(),
            |runtime| runtime.block_on(sample(http, gpus, stopped, &file)),
        ));
    });
    Sampler { stop, series }
}

impl Sampler {
    /// Takes the last reading and returns all. The series is empty if a reading does not return in time, as may happen with a GPU that fell
    /// off its bus.
    pub async fn finish(self) -> Series {
        self.finish_within(LAST_LIMIT).await
    }

    async fn finish_within(self, limit: Duration) -> Series {
        let _ = self.stop.send(());
        let series = timeout(limit, self.series).await;
        series.ok().and_then(Result::ok).unwrap_or_default()
    }
}

/// The telemetry file of a run in progress. Its seconds count from the first reading, because the beginning of the measurement is not known
/// yet. The file's modification time is that of its last reading.
struct GrowingFile {
    file: File,
    columns: Columns,
    first: Instant,
}

impl GrowingFile {
    /// Creates the file; `None` if that fails. The readings are then not visible before the run has ended.
    fn create(path: &Path, first: &Reading) -> Option<GrowingFile> {
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        let file = files::open_with(path, &mut options).ok()?;
        file.set_len(0).ok()?;
        let mut growing = GrowingFile {
            file,
            columns: Columns::of(std::slice::from_ref(first)),
            first: first.at,
        };
        growing.file.write_all(growing.columns.head().as_bytes()).ok()?;
        Some(growing)
    }

    fn append(&mut self, reading: &Reading) {
        let seconds = (reading.at - self.first).as_secs_f64();
        let _ = self.file.write_all(self.columns.row(reading, seconds).as_bytes());
    }
}

async fn sample(
    http: Option<Http>,
    gpus: impl Fn() -> Vec<GpuReading>,
    mut stopped: oneshot::Receiver<()>,
    path: &Path,
) -> Series {
    let mut series = Series::default();
    let mut growing = None;
    let mut host = HostWatch::start();
    loop {
        let wait = match series.0.len() {
            0 => Duration::ZERO,
            readings => pause(readings),
        };
        let is_last = tokio::select! {
            // The series is wanted if the run ended, and not if it was given up.
            stop = &mut stopped => match stop {
                Ok(()) => true,
                Err(_) => {
                    let _ = fs::remove_file(path);
                    return series;
                }
            },
            () = sleep(wait) => false,
        };
        let (at, host, gpus) = (Instant::now(), host.read(), gpus());
        let answer = match &http {
            Some(http) => http.page("/metrics", LIMIT).await,
            None => None,
        };
        let reading = Reading {
            at,
            server: answer.and_then(|answer| Scrape::read(&answer.body)),
            gpus,
            host,
        };
        if series.0.is_empty() {
            growing = GrowingFile::create(path, &reading);
        }
        if let Some(growing) = &mut growing {
            growing.append(&reading);
        }
        series.0.push(reading);
        if is_last {
            return series;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    /// Answers each request with a number of running requests that grows by one.
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

    #[test]
    fn readings_meet_every_moment_of_a_wave() {
        for wave_ms in [400, 500, 700, 1000, 1300, 2000] {
            let mut at = Duration::ZERO;
            let mut quarters = [0; 4];
            for readings in 1..=40 {
                at += pause(readings);
                quarters[(at.as_millis() % wave_ms * 4 / wave_ms) as usize] += 1;
            }
            assert!(quarters.iter().all(|count| *count >= 4), "{wave_ms} ms: {quarters:?}");
        }
    }

    #[tokio::test]
    async fn the_first_and_the_last_moment_are_read() {
        let gpu = GpuReading {
            power_watts: Some(700.0),
            ..GpuReading::default()
        };
        let expected = gpu.clone();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("0.telemetry.csv");
        let sampler = start(
            Some(Http::new(&server(), None)),
            move || vec![gpu.clone()],
            file.clone(),
        );
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
        // The file during the run is equal, except for the zero of its seconds.
        let written = fs::read_to_string(file).expect("written as it went");
        let window = crate::telemetry::series::Window {
            from: series.0[0].at,
            to: last.at,
        };
        assert_eq!(written, series.to_csv(window));
    }

    #[tokio::test]
    async fn a_gpu_that_never_answers_does_not_hold_up_the_sweep() {
        let (_answers, answer) = std::sync::mpsc::channel::<Vec<GpuReading>>();
        let gpus = move || answer.recv().unwrap_or_default();
        let sampler = start(
            Some(Http::new("http://127.0.0.1:1", None)),
            gpus,
            PathBuf::from("/dev/null/nowhere"),
        );
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
        let series = start(Some(http), Vec::new, PathBuf::from("/dev/null/nowhere"))
            .finish()
            .await;
        let last = series.0.last().expect("a last reading");
        assert_eq!(last.server, None);
        assert!(last.host.load.is_some());
    }
}
