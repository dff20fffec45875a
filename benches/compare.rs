//! Time of `vsweep compare` on two directories of many runs each: `cargo bench --bench compare [-- RUNS]`.

#[path = "../tests/support/experiment.rs"]
mod experiment;

use experiment::{Experiment, times};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Repetitions of each point.
const REPEATS: u32 = 5;

fn main() {
    let runs = std::env::args()
        .find_map(|argument| argument.parse::<u32>().ok())
        .unwrap_or(10_000);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let servers = [8, 16, 32, 64, 128, 256, 512, 1024].map(Value::from);
    let loads: Vec<Value> = (1..=runs.div_ceil(8 * REPEATS)).map(Value::from).collect();
    let experiment = Experiment {
        servers: times(&[json!({})], "max_num_seqs", &servers),
        loads: times(&[json!({})], "max_concurrency", &loads),
        runs: REPEATS,
        requests: 1000,
        ..Experiment::default()
    };
    let sides = ["base", "new"].map(|name| experiment.write(&folder.path().join(name)));
    for format in ["text", "markdown", "html", "json", "dashboard"] {
        let mut seconds = [0.0; 3].map(|_: f64| {
            let start = Instant::now();
            let status = Command::new(env!("CARGO_BIN_EXE_vsweep"))
                .arg("compare")
                .args(sides.each_ref().map(|side| side.root()))
                .args(["--format", format])
                .stdout(Stdio::null())
                .status()
                .expect("started");
            assert!(status.success());
            start.elapsed().as_secs_f64()
        });
        seconds.sort_by(f64::total_cmp);
        println!("{format:>9}: 2 x {runs} runs in {:.2} s", seconds[1]);
    }
}
