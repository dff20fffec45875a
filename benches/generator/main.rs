//! What the load generator costs and how far off its figures are, against a server that does no work.
//!
//! `cargo bench --bench generator` prints one line a measurement: capacity at zero delay, and the error of TTFT and ITL
//! at exact pacing. Generator and server are pinned to different cores where there are two.

mod mock;

use mock::Pace;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::time::Duration;
use vsweep::bench::{Job, measure};

const REPEATS: usize = 5;
const PACE: Pace = Pace {
    first: Duration::from_millis(50),
    between: Duration::from_millis(10),
};

fn main() {
    let url = start(None);
    println!("zero delay, 64 streams, 512 000 tokens (medians of {REPEATS})");
    let params = json!({
        "num_prompts": 1000, "max_concurrency": 64, "random_input_len": 8, "random_output_len": 512,
    });
    let runs: Vec<Value> = (0..REPEATS).map(|_| run(&url, &params)).collect();
    let cpu = |run: &Value| number(run, "generator_cpu_share") * number(run, "duration");
    let seconds = median(runs.iter().map(cpu));
    let rate = median(runs.iter().map(|run| number(run, "output_throughput")));
    println!(
        "  {rate:.0} tokens/s, {seconds:.2} CPU s, {:.0} tokens per CPU s, {} MB",
        512_000.0 / seconds,
        peak_mb()
    );

    let url = start(Some(PACE));
    println!("TTFT 50 ms, ITL 10 ms, 100 tokens a stream, all streams at once (medians of {REPEATS})");
    for streams in [32, 256, 1024] {
        let params = json!({
            "num_prompts": streams, "random_input_len": 8, "random_output_len": 100, "num_warmups": streams,
        });
        lateness(&url);
        let runs: Vec<Value> = (0..REPEATS).map(|_| run(&url, &params)).collect();
        let of = |key: &str| median(runs.iter().map(|run| number(run, key)));
        println!(
            "  {streams:>4} streams: TTFT p50 {:.2} p99 {:.2} ms, ITL p50 {:.2} p99 {:.2} ms, {:.2} CPU s; server late p50/p99/max {} ms",
            of("p50_ttft_ms"),
            of("p99_ttft_ms"),
            of("p50_itl_ms"),
            of("p99_itl_ms"),
            median(runs.iter().map(cpu)),
            lateness(&url),
        );
    }
}

/// Starts a server on a core of its own and returns its address.
fn start(pace: Option<Pace>) -> String {
    let (listener, address) = mock::listen().expect("a free port");
    std::thread::spawn(move || {
        pin(1);
        mock::serve(listener, pace).expect("the server goes on");
    });
    pin(0);
    format!("http://{address}")
}

/// Keeps the calling thread, and those it starts, on one core.
fn pin(core: usize) {
    let mut cores = CpuSet::new();
    if cores.set(core).is_ok() {
        // A machine with one core runs both on it.
        let _ = sched_setaffinity(Pid::from_raw(0), &cores);
    }
}

fn run(url: &str, params: &Value) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let job = Job {
        base_url: url.to_owned(),
        served_model: "m".to_owned(),
        model_root: "m".to_owned(),
        params: params.as_object().expect("an object").clone(),
        argv: None,
        env: Default::default(),
        scratch: std::env::temp_dir(),
        warmup_prompts: 0,
        timeout: Duration::from_secs(300),
        counters: Default::default(),
    };
    let measured = runtime.block_on(measure(&job)).expect("the mock answers");
    Value::Object(measured.result)
}

/// How late the server sent its events since the last time this was asked, in milliseconds.
fn lateness(url: &str) -> String {
    let mut stream = std::net::TcpStream::connect(url.trim_start_matches("http://")).expect("the mock listens");
    stream.write_all(b"GET /lateness HTTP/1.1\r\n\r\n").expect("it reads");
    let mut buffer = [0; 512];
    let n = stream.read(&mut buffer).expect("it answers");
    let text = String::from_utf8_lossy(&buffer[..n]).into_owned();
    let nanos = text.lines().last().unwrap_or_default().split(' ');
    let shown: Vec<String> = nanos
        .map(|ns| format!("{:.2}", ns.parse().unwrap_or(0.0) / 1e6))
        .collect();
    shown.join("/")
}

fn number(result: &Value, key: &str) -> f64 {
    result[key].as_f64().unwrap_or(f64::NAN)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Peak resident memory of this process, server included.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) / 1024
}
