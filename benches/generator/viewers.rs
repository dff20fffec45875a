//! Measures what many readers of a live report cost the load generator: 1024 paced streams without readers and with 100 of them, in turn,
//! and the CPU time of the process that serves them. Client and server have a core each. So on a machine with two cores, the serving
//! process and the readers compete with the client.

use super::client::{Client, Figures, Workload};
use super::process::Server;
use super::{median, number};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const READERS: usize = 100;
/// Interval between the requests of a reader, as on the page.
const BETWEEN: Duration = Duration::from_secs(2);
const WORKLOAD: Workload = Workload {
    requests: 3 * 1024,
    streams: 1024,
    tokens: 128,
};
/// The experiment that the report shows.
const PLAN: &str = r#"
version = 1
runs = 2
[serve]
command = "vsweep sim serve tiny-8b --sim-zero --sim-start 10ms"
[bench.params]
random_input_len = { from = 16, to = 35, step = 1 }
random_output_len = 16
num_prompts = 16
max_concurrency = 4
"#;

/// A served report. It ends when the value is dropped.
struct Live {
    child: Child,
    host: String,
    path: String,
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Live {
    fn start(folder: &std::path::Path) -> io::Result<Live> {
        let vsweep = || Command::new(env!("CARGO_BIN_EXE_vsweep"));
        fs::write(folder.join("plan.toml"), PLAN)?;
        let ran = vsweep()
            .args(["-q", "run", "plan.toml", "-o", "out"])
            .current_dir(folder)
            .status()?;
        if !ran.success() {
            return Err(io::Error::other("the experiment to look at failed"));
        }
        let mut command = vsweep();
        command
            .args(["report", "--live", "out"])
            .current_dir(folder)
            .stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line)?;
        let address = line.trim().trim_start_matches("http://");
        let (host, path) = address.split_once('/').ok_or_else(|| io::Error::other("no address"))?;
        let (host, path) = (host.to_owned(), format!("/{path}"));
        Ok(Live { child, host, path })
    }

    /// CPU time so far, in seconds.
    fn cpu_s(&self) -> io::Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
        Ok(ticks.iter().sum::<f64>() / 100.0)
    }

    fn ask(&self, what: &str) -> io::Result<usize> {
        let mut stream = TcpStream::connect(&self.host)?;
        write!(
            stream,
            "GET {}{what} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            self.path, self.host
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)
    }

    /// Sends the requests of `READERS` readers, evenly spread, until the end. Each reader loads the page once, and then asks for
    /// `now.json`.
    fn read(&self, is_over: &AtomicBool, answers: &AtomicUsize) {
        let began = Instant::now();
        for turn in 0_u32.. {
            thread::sleep((BETWEEN / READERS as u32 * turn).saturating_sub(began.elapsed()));
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            let what = if (turn as usize) < READERS { "" } else { "now.json" };
            answers.fetch_add(usize::from(self.ask(what).is_ok()), Ordering::Relaxed);
        }
    }
}

/// Measures both cases `repeats` times, after one round to warm up, and prints the figures.
pub fn compare(repeats: usize) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let live = Live::start(folder.path())?;
    let server = Server::start(&super::PACE)?;
    let (mut alone, mut read) = (Vec::new(), Vec::new());
    let (mut cpu_s, mut wall_s) = (0.0, 0.0);
    let answers = AtomicUsize::new(0);
    for round in 0..=repeats {
        alone.extend(Client::Vsweep.run(&server, WORKLOAD)?.filter(|_| round > 0));
        let is_over = AtomicBool::new(false);
        let (began, before) = (Instant::now(), live.cpu_s()?);
        let run = thread::scope(|scope| {
            scope.spawn(|| live.read(&is_over, &answers));
            let run = Client::Vsweep.run(&server, WORKLOAD);
            is_over.store(true, Ordering::Relaxed);
            run
        })?;
        cpu_s += live.cpu_s()? - before;
        wall_s += began.elapsed().as_secs_f64();
        read.extend(run.filter(|_| round > 0));
    }
    println!("1024 streams, with and without {READERS} readers of a live report (medians of {repeats})");
    println!("  readers  p99 TTFT error ms  p99 ITL error ms  generator lag p99 ms");
    for (readers, runs) in [(0, &alone), (READERS, &read)] {
        let error =
            |run: &Figures, key: &str, truth: &str| number(run, key) - run.truth[truth][1].as_f64().unwrap_or(f64::NAN);
        println!(
            "  {readers:7} {:18.3} {:17.3} {:21.3}",
            median(runs, |run| error(run, "p99_ttft_ms", "ttft_ms")),
            median(runs, |run| error(run, "p99_itl_ms", "itl_ms")),
            median(runs, |run| number(run, "generator_lag_p99_ms")),
        );
    }
    println!(
        "  the server of the report took {:.2} % of a core for {:.0} answers a second",
        100.0 * cpu_s / wall_s,
        answers.load(Ordering::Relaxed) as f64 / wall_s
    );
    Ok(())
}
