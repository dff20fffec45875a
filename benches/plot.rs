//! Time and peak memory of `vsweep plot` and `vsweep plot pareto` on trees of many runs, of vsweep and of vLLM, compared with vLLM's own
//! commands on the same trees: `cargo bench --bench plot [-- RUNS...]`. vLLM is measured if `vllm` is on the PATH or the variable `VLLM`
//! names it.

#[path = "../tests/support/experiment.rs"]
mod experiment;

use experiment::{Experiment, times};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Repetitions of each load, so that medians and spreads are computed.
const REPEATS: u32 = 5;
/// Number of times that each vsweep command is run. The median is printed.
const ROUNDS: usize = 5;

/// The commands, as both programs have them.
const COMMANDS: [(&str, &str, &[&str]); 2] = [
    (
        "plot",
        "plot",
        &[
            "--var-x",
            "max_concurrency",
            "--var-y",
            "p99_ttft_ms",
            "--curve-by",
            "max_num_seqs",
            "--fig-dpi",
            "150",
        ],
    ),
    ("pareto", "plot_pareto", &["--label-by", "max_concurrency"]),
];

fn main() {
    let sizes: Vec<u32> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() {
        vec![100, 1_000, 10_000]
    } else {
        sizes
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut theirs = Vec::new();
    println!(
        "{:>6}  {:8} {:8} {:>8} {:>10}",
        "runs", "tree", "command", "seconds", "peak so far"
    );
    for runs in sizes {
        let ours = folder.path().join(format!("vsweep-{runs}"));
        let tree = folder.path().join(format!("vllm-{runs}"));
        experiment(runs).write(&ours);
        write_tree(&experiment(runs), &tree);
        for (name, their_name, args) in COMMANDS {
            for (kind, root) in [("vsweep", &ours), ("vllm", &tree)] {
                let mut seconds: Vec<f64> = (0..ROUNDS)
                    .filter_map(|_| {
                        run(Command::new(env!("CARGO_BIN_EXE_vsweep"))
                            .arg(name)
                            .arg(root)
                            .args(args))
                    })
                    .collect();
                seconds.sort_by(f64::total_cmp);
                let seconds = seconds[ROUNDS / 2];
                println!("{runs:>6}  {kind:8} {name:8} {seconds:8.2} {:>7} MB", peak_megabytes());
                if kind == "vllm" {
                    theirs.push((runs, name, their_name, args, tree.clone(), seconds));
                }
            }
        }
    }
    // vLLM comes last, because the system only reports the peak memory of all children so far.
    let vllm = std::env::var("VLLM").unwrap_or_else(|_| "vllm".into());
    for (runs, name, their_name, args, tree, ours) in theirs {
        let mut command = Command::new(&vllm);
        command.args(["bench", "sweep", their_name]).arg(&tree).args(args);
        let Some(seconds) = run(&mut command) else {
            println!("there is no `{vllm}`, so nothing to compare with; name one with the variable VLLM");
            return;
        };
        println!(
            "{runs:>6}  {name:8} vLLM's {seconds:.2} s, ours {ours:.2} s: {:.0} times faster (vLLM's peak {} MB)",
            seconds / ours,
            peak_megabytes()
        );
    }
}

/// Makes an experiment with this many runs.
fn experiment(runs: u32) -> Experiment {
    let points = runs.div_ceil(REPEATS);
    let servers = [8, 16, 32, 64, 128, 256, 512, 1024].map(Value::from);
    let loads = points.div_ceil(servers.len() as u32).max(1);
    let loads: Vec<Value> = (1..=loads).map(Value::from).collect();
    Experiment {
        servers: times(&[json!({})], "max_num_seqs", &servers),
        loads: times(&[json!({})], "max_concurrency", &loads),
        runs: REPEATS,
        requests: 200,
        ..Experiment::default()
    }
}

/// Writes the same runs as `vllm bench sweep serve` does: a folder for each combination, with a list of its runs.
fn write_tree(experiment: &Experiment, root: &Path) {
    for server in &experiment.servers {
        for load in &experiment.loads {
            let (seqs, users) = (&server["max_num_seqs"], &load["max_concurrency"]);
            let folder = root.join(format!("SERVE--max_num_seqs={seqs}-BENCH--max_concurrency={users}"));
            fs::create_dir_all(&folder).expect("created");
            let record = |run| {
                let mut record = experiment.result(server, load, run);
                record.insert("max_num_seqs".into(), seqs.clone());
                record
            };
            let records: Vec<_> = (0..experiment.runs).map(record).collect();
            let text = serde_json::to_vec(&records).expect("JSON");
            fs::write(folder.join("summary.json"), text).expect("written");
        }
    }
}

/// Seconds that a command takes. Panics if it fails; `None` if the program does not exist.
fn run(command: &mut Command) -> Option<f64> {
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    assert!(status.success(), "{command:?}: {status}");
    Some(start.elapsed().as_secs_f64())
}

fn peak_megabytes() -> i64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).expect("known").max_rss() / 1024
}
