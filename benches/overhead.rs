//! Measures the time that vsweep adds to a run beyond the benchmark itself: `cargo bench --bench overhead`.
//!
//! It runs a sweep of many short runs against a simulated server that takes no time. The overhead is the time from the first run's start to
//! the last one's end, minus the durations that the benchmarks measured themselves: resets, health checks, connections, files, fsyncs,
//! tables and everything else that a run costs.

use std::fs;
use std::process::{Command, ExitCode};

const POINTS: usize = 20;
const RUNS: usize = 10;

const PLAN: &str = r#"
version = 1
name = "overhead"
runs = 10
[serve]
command = "vsweep sim serve tiny-8b --sim-zero --sim-start 10ms"
[bench.params]
random_input_len = { from = 16, to = 35, step = 1 }
random_output_len = 16
num_prompts = 16
max_concurrency = 4
"#;

fn main() -> ExitCode {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, PLAN).expect("writable");
    let out = folder.path().join("out");
    let vsweep = Command::new(env!("CARGO_BIN_EXE_vsweep"))
        .args(["run", "--quiet"])
        .arg(&plan)
        .arg("-o")
        .arg(&out)
        .status()
        .expect("the binary starts");
    if !vsweep.success() {
        eprintln!("the sweep failed: {vsweep}");
        return ExitCode::FAILURE;
    }
    let mut journals = fs::read_dir(out.join("journal")).expect("a folder");
    let journal = journals.next().expect("one session").expect("readable").path();
    let journal = fs::read_to_string(journal).expect("a journal");
    let entries: Vec<serde_json::Value> = journal
        .lines()
        .map(|line| serde_json::from_str(line).expect("an entry"))
        .collect();
    let at_s = |entry: &serde_json::Value| -> f64 {
        let at: jiff::Timestamp = entry["at"].as_str().expect("a time").parse().expect("RFC 3339");
        at.as_millisecond() as f64 / 1000.0
    };
    let first = entries.iter().find(|entry| entry["event"].get("run_started").is_some());
    let ended = || {
        entries
            .iter()
            .filter(|entry| entry["event"].get("run_finished").is_some())
    };
    let wall_s = at_s(ended().next_back().expect("runs")) - at_s(first.expect("runs"));
    let durations = ended().map(|entry| {
        let path = entry["event"]["run_finished"]["file"]["path"].as_str().expect("a file");
        let text = fs::read(out.join(path)).expect("readable");
        let file: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        file["duration"].as_f64().expect("a duration")
    });
    let measured_s: f64 = durations.sum();
    let runs = (POINTS * RUNS) as f64;
    assert_eq!(ended().count() as f64, runs);
    println!("{runs} runs in {wall_s:.2} s, of which the benchmarks took {measured_s:.2} s by their own clocks");
    println!("overhead per run: {:.1} ms", (wall_s - measured_s) / runs * 1000.0);
    ExitCode::SUCCESS
}
