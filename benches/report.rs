//! Time and peak memory of `vsweep report` on a directory of many runs: `cargo bench --bench report [-- RUNS]`.

#[path = "../tests/support/experiment.rs"]
mod experiment;

use experiment::{Experiment, times};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::Instant;

fn main() {
    let runs = std::env::args()
        .filter_map(|argument| argument.parse::<u32>().ok())
        .next()
        .unwrap_or(10_000);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tps = times(
        &[json!({})],
        "tensor_parallel_size",
        &[json!(1), json!(2), json!(4), json!(8)],
    );
    let seqs: Vec<Value> = [64, 128, 256, 512, 1024].map(Value::from).into();
    let loads: Vec<Value> = (0..10).map(|i| json!(1 << i)).collect();
    let experiment = Experiment {
        servers: times(&tps, "max_num_seqs", &seqs),
        loads: times(&[json!({})], "max_concurrency", &loads),
        runs: runs.div_ceil(200),
        requests: 1000,
        ..Experiment::default()
    };
    let directory = experiment.write(&folder.path().join("bench"));
    let mut cpu_before = 0.0;
    for round in ["cold", "warm", "warm"] {
        let start = Instant::now();
        let status = Command::new(env!("CARGO_BIN_EXE_vsweep"))
            .arg("report")
            .arg(directory.root())
            .stdout(Stdio::null())
            .status()
            .expect("started");
        assert!(status.success());
        let seconds = start.elapsed().as_secs_f64();
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("known");
        let cpu = [usage.user_time(), usage.system_time()].map(|time| time.num_milliseconds() as f64 / 1000.0);
        let cpu_now = cpu.iter().sum::<f64>();
        println!(
            "{round}: {} runs in {seconds:.2} s, {:.2} s of CPU, peak {} MB",
            experiment.runs * 200,
            cpu_now - cpu_before,
            usage.max_rss() / 1024
        );
        cpu_before = cpu_now;
    }
}
