//! vLLM's benchmarks without a server as runners of a plan. `vllm` is a script here: it prints results that a real vLLM 0.32 wrote on a
//! CPU; only that of `mm-processor` is invented.

use crate::harness::{Harness, rows, said, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

/// Records each call. The model's name decides whether it fails, hangs or succeeds.
const FAKE: &str = r#"#!/bin/bash
[ "${!#}" = --help=all ] && exit 1
here=$(dirname "$0")
echo "$VLLM_X $*" >> "$here/calls"
while [ $# -gt 0 ]; do
    case $1 in --output-json) out=$2 ;; --model) model=$2 ;; startup | latency | throughput | mm-processor) kind=$1 ;; esac
    shift
done
case $model in
    oom) echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB." >&2; exit 1 ;;
    slow) if [ ! -e "$here/go" ]; then (setsid sleep 1000 &); sleep 1000; fi ;;
esac
cat "$here/$kind.json" > "$out"
"#;

fn harness() -> Harness {
    let harness = Harness::new();
    let program = harness.write("vllm", FAKE);
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("executable");
    harness.write("startup.json", include_str!("../../data/offline/startup.json"));
    harness.write("latency.json", include_str!("../../data/offline/latency.json"));
    harness.write("throughput.json", include_str!("../../data/offline/throughput.json"));
    let made_up = r#"{"completed": 200, "failed": 0, "mean_e2el_ms": 12.5, "percentiles_e2el_ms": [[99.0, 15.0]],
        "mm_processor_stats": {"hf_processor_ms": {"mean": 3.5, "p99.0": 4.5}}, "encoder_summary": {"total_encoder_calls": 7}}"#;
    harness.write("mm-processor.json", made_up);
    harness
}

fn run(harness: &Harness, args: &[&str]) -> Output {
    harness.run(&[&["run", "plan.toml", "-o", "out"], args].concat())
}

fn calls(harness: &Harness) -> Vec<String> {
    let text = fs::read_to_string(harness.folder.path().join("calls")).unwrap_or_default();
    text.lines()
        .map(|line| line.split(" --output-json ").next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn every_benchmark_of_an_engine_is_a_runner_whose_json_is_a_row() {
    for (runner, own, column, value) in [
        (
            "startup",
            "num_iters_cold = 1",
            "warm_startup_share",
            "0.24614096248824177",
        ),
        (
            "throughput",
            "num_prompts = 50",
            "total_token_throughput",
            "16702.024853306408",
        ),
        ("latency", "batch_size = 8", "mean_e2el_ms", "29.18991900041874"),
        ("mm_processor", "num_prompts = 200", "p99_hf_processor_ms", "4.5"),
    ] {
        let harness = harness();
        harness.write(
            "plan.toml",
            &format!(
                "runs = 2\n[serve]\ncommand = \"./vllm serve org/m --port 8000\"\nenv = {{ VLLM_X = [\"a\", \"b\"] }}\n\
                 [serve.params]\noptimization_level = [0, 2]\n[bench]\nrunner = \"{runner}\"\n[bench.params]\n{own}\n"
            ),
        );
        let output = run(&harness, &[]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(
            said(&output).contains("Run env.VLLM_X a, optimization_level 0"),
            "{}",
            said(&output)
        );
        assert!(!said(&output).contains("  Stop "), "{}", said(&output));
        let table = rows(&harness.folder.path().join("out/summary.csv"));
        assert_eq!(table.len(), 8);
        assert!(
            table
                .iter()
                .all(|row| row[column] == value && row["outcome"] != "failed"),
            "{table:?}"
        );
        let flag = own.replace('_', "-").replace(" = ", " ");
        let word = runner.replace('_', "-");
        let expected = ["a", "b"].map(|env| {
            let line = |level| format!("{env} bench {word} --model org/m --optimization-level {level} --{flag}");
            [line(0), line(0), line(2), line(2)]
        });
        let mut expected: Vec<String> = expected.concat();
        let mut calls = calls(&harness);
        expected.sort();
        calls.sort();
        assert_eq!(calls, expected);
        let exported = harness.run(&["export", "out", "--format", "vllm", "-o", "tree"]);
        assert_eq!(exported.status.code(), Some(0), "{}", said(&exported));
        let side = if runner == "startup" { "STARTUP" } else { "BENCH" };
        let folders = fs::read_dir(harness.folder.path().join("tree"))
            .expect("a tree")
            .flatten();
        let folders: Vec<String> = folders
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        let end = format!("-{side}--{}", own.replace(' ', ""));
        let named = folders
            .iter()
            .filter(|name| name.starts_with("SERVE--") && name.ends_with(&end));
        assert_eq!(named.count(), 4, "{folders:?}");
        let again = run(&harness, &[]);
        assert_eq!(again.status.code(), Some(0), "{}", said(&again));
        assert_eq!(self::calls(&harness).len(), 8, "nothing is measured twice");
    }
}

#[test]
fn a_failed_engine_is_a_row_with_its_cause() {
    let harness = harness();
    let plan = "runs = 1\n[serve]\ncommand = \"./vllm serve\"\n[serve.params]\nmodel = [\"oom\", \"m\"]\n[bench]\nrunner = \"latency\"\n";
    harness.write("plan.toml", plan);
    let output = run(&harness, &[]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let table = rows(&harness.folder.path().join("out/summary.csv"));
    let row = |model: &str| table.iter().find(|row| row["model"] == model).expect("a row");
    assert_eq!(row("oom")["cause"], "oom_at_load");
    assert_eq!(row("m")["outcome"], "ok");
}

#[test]
fn a_killed_sweep_leaves_no_process_and_goes_on() {
    for signal in [Signal::SIGKILL, Signal::SIGINT] {
        let harness = harness();
        let plan = "runs = 1\n[serve]\ncommand = \"./vllm serve\"\n[serve.params]\nmodel = [\"m\", \"slow\"]\n[bench]\nrunner = \"startup\"\n";
        harness.write("plan.toml", plan);
        let mut sweep = harness.start(&["run", "plan.toml", "-o", "out"]);
        wait_for("the slow engine", || {
            let sleeping = harness.processes();
            sleeping
                .iter()
                .filter(|(_, command)| command.starts_with("sleep 1000"))
                .count()
                == 2
        });
        kill(Pid::from_raw(sweep.id() as i32), signal).expect("it runs");
        sweep.wait().expect("it ends");
        harness.wait_until_alone();
        harness.write("go", "");
        let output = run(&harness, &[]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert_eq!(calls(&harness).len(), 3, "what was measured is not measured again");
    }
}

#[test]
fn what_needs_a_server_is_refused() {
    let harness = harness();
    let plan = "[serve]\ncommand = \"./vllm serve m\"\nreset = \"none\"\n[serve.params]\nport = [1, 2]\n[bench]\nrunner = \"startup\"\n\
                warmup_prompts = 1\nenv = { A = \"1\" }\n[bench.params]\nnum_iter_cold = 1\n[sla]\nvary = \"max_concurrency\"\n\
                [[sla.target]]\np99_ttft_ms = \"<1\"\n";
    harness.write("plan.toml", plan);
    let output = harness.run(&["check", "plan.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    for key in ["reset", "warmup_prompts", "env", "sla"] {
        let message = format!("runner startup has no server that `{key}` could be about");
        assert!(told.contains(&message), "{told}");
    }
    assert!(told.contains("did you mean `--num-iters-cold`?"), "{told}");
    harness.write(
        "plan.toml",
        "[serve]\ncommand = \"./vllm serve m\"\n[serve.params]\nport = [1, 2]\n[bench]\nrunner = \"startup\"\n",
    );
    let output = harness.run(&["check", "plan.toml"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("`port=1` and `port=2` are the same server"), "{told}");
}

#[test]
fn a_sweep_of_servers_draws_start_up_against_throughput() {
    let harness = Harness::new();
    harness.write(
        "plan.toml",
        "runs = 1\n[serve]\ncommand = \"vsweep sim serve demo-8b\"\n[serve.params]\nsim_start = [\"300ms\", \"6s\"]\n\
         [bench.params]\ndataset_name = \"random\"\nrandom_input_len = 16\nrandom_output_len = 4\nmax_concurrency = 4\nnum_prompts = 40\n",
    );
    let output = run(&harness, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    for row in rows(&harness.folder.path().join("out/summary.csv")) {
        let seconds = |column: &str| row[column].parse::<f64>().expect("seconds");
        assert!(seconds("startup_s") >= seconds("startup_engine_s"), "{row:?}");
        assert!(seconds("startup_engine_s") >= seconds("startup_compile_s"), "{row:?}");
        assert!(
            seconds("startup_weights_s") > 0.0 && seconds("startup_model_s") > 0.0,
            "{row:?}"
        );
    }
    assert!(harness.folder.path().join("out/charts/startup.png").is_file());
}

#[test]
fn half_a_tree_of_starts_is_taken_over_and_finished() {
    let harness = harness();
    harness.write(
        "serve.json",
        r#"[{"_benchmark_name": "a", "seed": 1}, {"_benchmark_name": "b", "seed": 2}]"#,
    );
    let run = harness.folder.path().join("tree/SERVE--a");
    fs::create_dir_all(&run).expect("a folder");
    fs::write(run.join("run=0.json"), include_str!("../../data/offline/startup.json")).expect("written");
    let sweep = [
        "vllm",
        "bench",
        "sweep",
        "startup",
        "--startup-cmd",
        "./vllm bench startup --model m",
    ];
    let import = [
        &["import", "tree", "-o", "out", "--"],
        &sweep[..],
        &["--serve-params", "serve.json"],
    ]
    .concat();
    let output = harness.run(&import);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let output = harness.run(&["run", "out/plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let calls = calls(&harness);
    assert_eq!(calls, [" bench startup --model m --seed 2"]);
    let table = rows(&harness.folder.path().join("out/summary.csv"));
    assert_eq!(table.len(), 2);
    assert!(
        table
            .iter()
            .all(|row| row["warm_startup_share"] == "0.24614096248824177"),
        "{table:?}"
    );
}
