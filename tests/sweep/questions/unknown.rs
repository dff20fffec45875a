//! Sweeps of servers that the engine model does not know: behind a URL, or started by an unknown program. Every strategy ends there,
//! although no forecast is possible.

use crate::harness::{Harness, rows, said};
use crate::standing::Standing;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const PARAMS: &str = "[bench.params]\nrandom_input_len = 8\nrandom_output_len = 4\n";
const STRATEGIES: [(&str, &str); 3] = [
    ("grid", "num_prompts = 8\nmax_concurrency = [1, 2]\n"),
    (
        "search",
        "[sla]\nvary = \"max_concurrency\"\nmax = 16\nmax_probes = 4\n[[sla.target]]\np99_ttft_ms = \"<=1000\"\n",
    ),
    (
        "exploration",
        "[explore]\nvary = \"max_concurrency\"\nlevels = 3\nmax_concurrency = 8\n",
    ),
];

/// Performs every strategy, natively and with a command, on the server that `serve` declares.
fn sweep(harness: &Harness, serve: &str) {
    for (name, strategy) in STRATEGIES {
        for (runner, bench) in [("native", ""), ("command", "command = \"vsweep bench\"\n")] {
            let plan = format!("runs = 1\n[serve]\n{serve}reset = \"none\"\n[bench]\n{bench}{PARAMS}{strategy}");
            harness.write("plan.toml", &plan);
            let out = format!("{name}-{runner}");
            let output = harness.run(&["run", "plan.toml", "-o", &out, "--format", "plain"]);
            assert_eq!(output.status.code(), Some(0), "{out}: {}", said(&output));
            let runs = rows(&harness.folder.path().join(&out).join("summary.csv"));
            let outcomes: Vec<&str> = runs.iter().map(|run| run["outcome"].as_str()).collect();
            assert!(
                !outcomes.is_empty() && !outcomes.contains(&"failed"),
                "{out}: {outcomes:?}"
            );
        }
    }
}

#[test]
fn every_strategy_ends_behind_a_url() {
    let harness = Harness::new();
    let server = Standing::start(&harness, &["--sim-speed", "20"], true);
    sweep(&harness, &format!("url = \"{}\"\n", server.url()));
}

#[test]
fn every_strategy_ends_on_an_unknown_program() {
    let harness = Harness::new();
    let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_vsweep"));
    let wrapped = harness.write("wrapped", &script);
    fs::set_permissions(wrapped, fs::Permissions::from_mode(0o755)).expect("ours");
    sweep(
        &harness,
        "command = \"./wrapped sim serve demo-8b --sim-start 20ms --sim-speed 20\"\nstop_grace = \"2s\"\n",
    );
}
