//! Measures the cost of the simulator: `cargo bench --bench sim_server`.
//!
//! Three figures: nanoseconds per token of the engine model alone; tokens per second of CPU time of the server with steps of no time, so
//! that neither the client nor the number of cores matters; and ten thousand streams at once, each of which must get all its tokens.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use vsweep::sim::engine::memory::kv_blocks;
use vsweep::sim::engine::{Engine, SequenceRequest};
use vsweep::sim::flags::Flags;
use vsweep::sim::settings::ServerSettings;

const STREAMS: usize = 10_000;

fn main() -> ExitCode {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    for running in [16, 256] {
        println!("engine, {running} running: {:.0} ns a token", engine(running));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let rate = runtime.block_on(zero_step_time(64, 6, 2000));
    println!("server at zero step time, 64 streams: {rate:.0} tokens a second of processor time (wanted: 300000)");
    let complete = runtime.block_on(many_streams());
    ExitCode::from(u8::from(complete != STREAMS))
}

/// Nanoseconds per token of an engine with so many running requests, including their prompts.
fn engine(running: usize) -> f64 {
    let flags = Flags::parse(&["demo-8b".into(), "--max-num-seqs".into(), running.to_string()]).expect("known flags");
    let mut settings = ServerSettings::resolve(&flags, &|_| None).expect("usable");
    settings.limits.num_blocks = kv_blocks(&settings.cost, &settings.limits).expect("it fits");
    let mut engine: Engine = settings.engine(1000, 0);
    let (mut now, mut tokens, mut number) = (0.0, 0, 0u64);
    let start = Instant::now();
    while tokens < 2_000_000 {
        while engine.running() + engine.waiting() < running {
            number += 1;
            let prompt = (0..128).map(|place| (number * 131 + place) as u32 % 1000).collect();
            engine.add(
                now,
                SequenceRequest {
                    prompt,
                    output_len: 256,
                    seed: number,
                    ..SequenceRequest::default()
                },
            );
        }
        now += engine.begin_step(now).expect("always busy");
        tokens += engine.end_step(now).len();
    }
    start.elapsed().as_nanos() as f64 / tokens as f64
}

/// A server for this benchmark. It is stopped at the end.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(args: &[&str]) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_vsweep"))
            .args(["sim", "serve", "demo-8b", "--port", "0", "--sim-start", "10ms"])
            .arg("--disable-uvicorn-access-log")
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut port = None;
        let mut lines = lines.map_while(Result::ok);
        for line in lines.by_ref() {
            if let Some((_, url)) = line.split_once("Starting vLLM server on http://127.0.0.1:") {
                port = url.parse().ok();
            }
            if line.contains("Application startup complete") {
                break;
            }
        }
        // The rest of the output is read and dropped, so that the server never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Server {
            child,
            port: port.expect("the line names the port"),
        }
    }

    /// CPU time that the server has used, in seconds.
    fn used_s(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it lives");
        let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
        let ticks = |place: usize| fields[place].parse::<f64>().expect("ticks");
        (ticks(11) + ticks(12)) / 100.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(self.child.id() as i32),
            nix::sys::signal::Signal::SIGTERM,
        );
        let _ = self.child.wait();
    }
}

/// Reads one streamed answer to its end. Returns true if it was complete.
async fn stream(port: u16, tokens: usize) -> bool {
    let body = format!(r#"{{"prompt":"w0001 w0002","max_tokens":{tokens},"ignore_eos":true,"stream":true}}"#);
    let head = "POST /v1/completions HTTP/1.1\r\nhost: sim\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let Ok(mut socket) = TcpStream::connect(("127.0.0.1", port)).await else {
        return false;
    };
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    if socket.write_all(request.as_bytes()).await.is_err() {
        return false;
    }
    let (mut buffer, mut end) = (vec![0; 64 << 10], Vec::new());
    while let Ok(count @ 1..) = socket.read(&mut buffer).await {
        end.extend_from_slice(&buffer[count.saturating_sub(64)..count]);
        let excess = end.len().saturating_sub(64);
        end.drain(..excess);
    }
    String::from_utf8_lossy(&end).contains("data: [DONE]")
}

async fn zero_step_time(streams: usize, rounds: usize, tokens: usize) -> f64 {
    let server = Server::start(&["--sim-zero"]);
    let port = server.port;
    let before = server.used_s();
    for _ in 0..rounds {
        let all = (0..streams).map(|_| stream(port, tokens));
        let whole = futures_util::future::join_all(all).await;
        assert!(whole.into_iter().all(|whole| whole), "an answer was cut");
    }
    (streams * rounds * tokens) as f64 / (server.used_s() - before)
}

async fn many_streams() -> usize {
    let most = STREAMS.to_string();
    let server = Server::start(&["--max-num-seqs", &most, "--max-num-batched-tokens", "32768"]);
    let port = server.port;
    let (start, before) = (Instant::now(), server.used_s());
    let whole = futures_util::future::join_all((0..STREAMS).map(|_| stream(port, 50))).await;
    let complete = whole.into_iter().filter(|whole| *whole).count();
    println!(
        "{STREAMS} streams at once: {complete} whole, {:.1} s, {:.1} s of processor time",
        start.elapsed().as_secs_f64(),
        server.used_s() - before
    );
    complete
}
