//! Measures the speed of the simulated engine in virtual time: `cargo bench --bench sim`.
//!
//! Plays loads of a whole day and prints simulated seconds per second, with and without leaps over several steps, and the time per token.
//! In that day the demo model on eight GPUs serves each load for an equal share of 24 hours. Then it rehearses `plans/h100.toml`, a real
//! sweep with its server starts, and prints the time for a day of such a sweep.

use std::process::Command;
use std::time::Instant;
use vsweep::sim::engine::SequenceRequest;
use vsweep::sim::flags::Flags;
use vsweep::sim::settings::ServerSettings;
use vsweep::sim::virtual_time::{VirtualLoad, VirtualResult, VirtualServer};

/// Users, prompt tokens, output tokens, spread of the lengths.
const LOADS: [(usize, usize, usize, f64); 8] = [
    (1, 512, 256, 0.0),
    (4, 4096, 256, 0.1),
    (16, 512, 1024, 0.1),
    (64, 512, 256, 0.0),
    (64, 512, 256, 0.5),
    (128, 1024, 128, 0.1),
    (256, 512, 256, 0.1),
    (256, 512, 1024, 0.5),
];
const DAY_S: f64 = 86_400.0;

fn main() {
    println!(
        "{:>6} {:>7} {:>7} {:>7} {:>14} {:>10} {:>14} {:>8}",
        "users", "prompt", "output", "spread", "sim s per s", "ns/token", "step by step", "ratio"
    );
    let (mut day, mut tokens, mut spent) = (0.0, 0u64, 0.0);
    for (users, prompt, output, spread) in LOADS {
        let share = DAY_S / LOADS.len() as f64;
        let (fast, fast_s) = timed(users, prompt, output, spread, 40 * users, false);
        let (slow, slow_s) = timed(users, prompt, output, spread, 40 * users, true);
        assert_eq!(fast, slow, "leaps are exact");
        let seconds = fast.duration as f64 / 1e9;
        let count: u64 = fast.samples.iter().map(|sample| sample.output_len()).sum();
        let (leaping, stepping) = (seconds / fast_s, seconds / slow_s);
        let per_token = fast_s / count as f64 * 1e9;
        println!(
            "{users:>6} {prompt:>7} {output:>7} {spread:>7} {leaping:>14.0} {per_token:>10.1} {stepping:>14.0} {:>8.1}",
            leaping / stepping
        );
        day += share / leaping;
        tokens += (count as f64 * share / seconds) as u64;
        spent += share;
    }
    println!(
        "{:.1} h of these loads ({:.0} million tokens) take {day:.2} s",
        spent / 3600.0,
        tokens as f64 / 1e6
    );
    sweep();
}

/// Measures the duration of a rehearsal of a real sweep's day.
fn sweep() {
    let began = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_vsweep"))
        .args(["plan", "plans/h100.toml", "--rehearse", "--fresh", "--format", "json"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("vsweep starts");
    let took = began.elapsed().as_secs_f64();
    let forecast: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a forecast");
    let hours = forecast["seconds"]["likely"].as_f64().expect("a number") / 3600.0;
    println!(
        "plans/h100.toml, {hours:.1} h and {} runs, is rehearsed in {took:.2} s: a day in {:.2} s",
        forecast["runs"],
        took / hours * 24.0
    );
}

fn timed(
    users: usize,
    prompt: usize,
    output: usize,
    spread: f64,
    count: usize,
    step_by_step: bool,
) -> (VirtualResult, f64) {
    let line = [
        "demo-8b",
        "--tensor-parallel-size",
        "8",
        "--max-num-seqs",
        "256",
        "--no-enable-prefix-caching",
    ];
    let flags = Flags::parse(&line.map(str::to_owned)).unwrap_or_default();
    let settings = ServerSettings::resolve(&flags, &|_| None).expect("usable settings");
    let mut server = VirtualServer::start(&settings).expect("the model fits");
    if step_by_step {
        server = server.step_by_step();
    }
    let vary = |mean: usize, place: usize| {
        let part = (place as f64 * 0.618_034).fract() * 2.0 - 1.0;
        ((mean as f64 * (1.0 + spread * part)) as usize).max(1)
    };
    let requests = (0..count).map(|place| SequenceRequest {
        prompt: vec![0; vary(prompt, place)],
        output_len: vary(output, place + 7),
        seed: place as u64,
        ..SequenceRequest::default()
    });
    let load = VirtualLoad {
        requests: requests.collect(),
        due: vec![0; count],
        classes: Vec::new(),
        limit: Some(users),
        sending: None,
        deadline: None,
        every_token: false,
        delay: 400_000,
    };
    let began = Instant::now();
    let simulated = server.drive(load);
    (simulated, began.elapsed().as_secs_f64())
}
