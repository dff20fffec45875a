//! `vsweep bench iterations` against simulated servers: exact counts, the step times of the engine model, several servers, and no server left
//! asleep, whatever happens.

use crate::deadline::ended;
use crate::harness::{Harness, rows, said, wait_for};
use crate::standing::{Standing, truth};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::Path;
use vsweep::plan::BenchRunner;
use vsweep::report::columns;
use vsweep::sim::engine::cost::{CostModel, Work};
use vsweep::sim::flags::Flags;
use vsweep::sim::settings::ServerSettings;

/// The engine model of `vsweep sim serve demo-8b` at this speed.
fn model(speed: f64) -> CostModel {
    let args = ["demo-8b".to_owned(), format!("--sim-speed={speed}")];
    let flags = Flags::parse(&args).expect("known flags");
    ServerSettings::resolve(&flags, &|_| None).expect("usable").cost
}

fn measured(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("the rows were written");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    document["results"].as_array().expect("rows").clone()
}

fn number(row: &Value, key: &str) -> f64 {
    row[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} is a number in {row}"))
}

fn assert_near(found: f64, expected: f64, tolerance: f64, what: &str) {
    let ratio = found / expected;
    let near = (1.0 - tolerance..1.0 + tolerance).contains(&ratio);
    assert!(near, "{what}: {found} is not within {tolerance} of {expected}");
}

#[test]
fn decode_steps_are_those_of_the_model() {
    let harness = Harness::new();
    let path = harness.folder.path().join("truth.jsonl");
    let truth_path = path.to_str().expect("a plain path");
    let server = Standing::start(
        &harness,
        &["--sim-noise", "0", "--sim-speed", "0.5", "--sim-truth", truth_path],
        true,
    );
    let output = harness.run(&[
        "bench",
        "iterations",
        "--base-url",
        &server.url(),
        "--mode=decode",
        "--context-len=257",
        "--batch-size=1,6",
        "--iterations=20",
        "--repeats=3",
        "--output=rows.json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(!server.is_held());
    let rows = measured(&harness.folder.path().join("rows.json"));
    let keys: Vec<&String> = rows[0].as_object().expect("an object").keys().take(11).collect();
    let theirs = "endpoint mode context_len input_len batch_size iteration total_latency_ms latency_per_iter_ms \
        tokens_per_second prompt_tokens completion_tokens";
    assert_eq!(keys, theirs.split_whitespace().collect::<Vec<&str>>());
    let truth = truth(&path);
    for (row, batch) in rows.iter().zip([1, 6]) {
        assert_eq!(
            (number(row, "prompt_tokens"), number(row, "completion_tokens")),
            (257.0 * batch as f64, 20.0 * batch as f64)
        );
        assert_eq!(
            number(row, "cached_tokens"),
            256.0 * batch as f64,
            "whole blocks of the contexts"
        );
        assert_eq!(number(row, "engine_steps"), 20.0, "the batch ran as one");
        // In steps 2 to 20 each sequence attends to its context and to the tokens it has generated.
        let step = |done: usize| {
            let mut work = Work::default();
            (0..batch).for_each(|_| work.add(1, 257 + done, 1));
            model(0.5).seconds(&work) * 1000.0
        };
        let expected = (0..19).map(step).sum::<f64>() / 19.0;
        assert_near(
            number(row, "server_step_ms"),
            expected,
            0.03,
            "the server's own count against its model",
        );
    }
    // The client's measurement against the server's. Load on the machine delays the steps in both.
    let batches: Vec<f64> = truth
        .iter()
        .filter(|sequence| sequence.output_tokens == 20)
        .map(|sequence| (sequence.token_ms[19] - sequence.token_ms[0]) / 19.0)
        .collect();
    assert_eq!(batches.len(), 4 + 4 * 6, "one warm-up and three batches of each shape");
    let mut single: Vec<f64> = batches[1..4].to_vec();
    single.sort_by(f64::total_cmp);
    assert_near(
        number(&rows[0], "step_ms"),
        single[1],
        0.1,
        "the measured step against the truth",
    );
}

#[test]
fn prefill_batches_have_exact_counts_and_the_models_time() {
    let harness = Harness::new();
    let server = Standing::start(
        &harness,
        &["--sim-noise", "0", "--max-num-batched-tokens", "2048"],
        true,
    );
    let output = harness.run(&[
        "bench",
        "iterations",
        "--base-url",
        &server.url(),
        "--mode",
        "prefill",
        "--context-len",
        "0,160",
        "--input-len",
        "100",
        "--batch-size",
        "4,30",
        "--pause",
        "pause",
        "--profile",
        "--output",
        "rows.json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("Profiler: start done"), "{}", said(&output));
    let rows = measured(&harness.folder.path().join("rows.json"));
    let shape = |row: &Value| (number(row, "context_len") as usize, number(row, "batch_size") as usize);
    assert_eq!(
        rows.iter().map(shape).collect::<Vec<_>>(),
        [(0, 4), (0, 30), (160, 4), (160, 30)]
    );
    for row in &rows {
        let (context, batch) = shape(row);
        assert_eq!(number(row, "prompt_tokens"), ((context + 100) * batch) as f64);
        assert_eq!(number(row, "cached_tokens"), (context * batch) as f64);
        assert_eq!(number(row, "completion_tokens"), batch as f64);
        assert_eq!(
            number(row, "engine_steps"),
            if batch == 30 { 2.0 } else { 1.0 },
            "{row}"
        );
        assert!(number(row, "total_latency_ms") >= number(row, "first_token_ms"));
        if batch == 4 {
            let mut work = Work::default();
            (0..batch).for_each(|_| work.add(100, context, 1));
            let expected = model(1.0).seconds(&work) * 1000.0;
            assert_near(
                number(row, "server_prefill_ms"),
                expected,
                0.01,
                "the prefill against the model",
            );
        }
    }
}

#[test]
fn a_batch_that_came_apart_is_tried_again_with_prompts_that_no_cache_holds() {
    let harness = Harness::new();
    let server = Standing::start(
        &harness,
        &["--sim-speed", "20", "--max-num-batched-tokens", "131072"],
        true,
    );
    let url = server.url();
    let shape = [
        "--mode=prefill",
        "--batch-size=128",
        "--input-len=512",
        "--settle-ms=1",
        "--warmups=0",
    ];
    let output = harness.run(
        &[
            &["bench", "iterations", "--base-url", &url, "--output=rows.json"],
            &shape[..],
        ]
        .concat(),
    );
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(server.metric("vllm:prefix_cache_hits_total"), 0.0);
}

#[test]
fn servers_share_a_batch() {
    let harness = Harness::new();
    let servers = [(); 2].map(|()| Standing::start(&harness, &["--sim-speed", "20"], true));
    let urls = servers.each_ref().map(Standing::url).join(",");
    let output = harness.run(&[
        "bench",
        "iterations",
        "--endpoints",
        &urls.replace("http://", ""),
        "--mode=prefill",
        "--batch-size=3",
        "--input-len=40",
        "--output=rows.json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rows = measured(&harness.folder.path().join("rows.json"));
    assert_eq!(
        (number(&rows[0], "engines"), number(&rows[0], "global_batch_size")),
        (2.0, 6.0)
    );
    assert_eq!(number(&rows[0], "prompt_tokens"), 240.0);
    for server in &servers {
        assert_eq!(
            server.metric("vllm:prompt_tokens_total"),
            4.0 * 3.0 * 40.0,
            "a share of each batch"
        );
        assert!(!server.is_held());
    }
}

#[test]
fn every_engine_of_a_server_gets_its_batch() {
    let harness = Harness::new();
    let server = Standing::start(&harness, &["--sim-speed", "20", "--data-parallel-size", "2"], true);
    let output = harness.run(&[
        "bench",
        "iterations",
        "--base-url",
        &server.url(),
        "--mode=decode",
        "--context-len=64",
        "--batch-size=3",
        "--iterations=5",
        "--output=rows.json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let row = &measured(&harness.folder.path().join("rows.json"))[0];
    assert_eq!((number(row, "engines"), number(row, "global_batch_size")), (2.0, 6.0));
    assert_eq!(number(row, "engine_steps"), 5.0, "of each engine: {row}");
    assert_eq!(
        number(row, "cached_tokens"),
        6.0 * 48.0,
        "each sequence met its context: {row}"
    );
}

#[test]
fn what_cannot_be_measured_is_said() {
    let harness = Harness::new();
    let plain = Standing::start(&harness, &["--sim-zero"], false);
    let dev = Standing::start(
        &harness,
        &["--sim-zero", "--max-num-seqs", "8", "--max-model-len", "2048"],
        true,
    );
    let without_cache = Standing::start(&harness, &["--sim-zero", "--no-enable-prefix-caching"], true);
    let (plain_url, dev_url, uncached_url) = (plain.url(), dev.url(), without_cache.url());
    for (args, code, text) in [
        (
            vec!["--base-url", &plain_url, "--mode=prefill", "--batch-size=1,2,3"],
            1,
            "is not in development mode; start it with VLLM_SERVER_DEV_MODE=1",
        ),
        (
            vec!["--base-url", &dev_url, "--mode=prefill", "--batch-size=9"],
            1,
            "above the server's max_num_seqs 8",
        ),
        (
            vec!["--base-url", &dev_url, "--mode=decode", "--context-len=2040"],
            1,
            "longer than the server's max_model_len 2048",
        ),
        (
            vec!["--base-url", &uncached_url, "--mode=decode", "--context-len=64"],
            1,
            "start it with --enable-prefix-caching",
        ),
        (
            vec!["--base-url", &dev_url, "--mode=prefill", "--batch-size=2,9"],
            3,
            "above the server's max_num_seqs 8",
        ),
        (
            vec!["--mode=both"],
            2,
            "mode is \"both\"; it must be \"prefill\" or \"decode\"",
        ),
        (vec!["--mode=decode"], 2, "a decode batch needs a context"),
        (vec!["--mode=prefill", "--batch-size=1,x"], 2, "batch_size is \"x\""),
        (
            vec!["--base-url=http://127.0.0.1:9", "--mode=prefill"],
            1,
            "cannot ask http://127.0.0.1:9/v1/models",
        ),
    ] {
        let output = harness.run(&[vec!["bench", "iterations"], args.clone()].concat());
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(text), "{args:?}: {}", said(&output));
    }
    assert!(!dev.is_held());
}

#[test]
fn an_interrupt_leaves_the_servers_awake() {
    let harness = Harness::new();
    let servers = [(); 2].map(|()| Standing::start(&harness, &[], true));
    let urls = servers.each_ref().map(Standing::url).join(",");
    // Once while the servers are held, and once during a batch that takes long.
    for (signal, settle_ms, iterations) in [(Signal::SIGINT, "600000", "1"), (Signal::SIGTERM, "1", "100000")] {
        let args = [
            "bench",
            "iterations",
            "--endpoints",
            &urls,
            "--mode=decode",
            "--context-len=64",
            "--settle-ms",
            settle_ms,
            "--iterations",
            iterations,
        ];
        let mut child = harness.start(&args);
        wait_for("the batch to be on its way", || match iterations {
            "1" => servers.iter().all(Standing::is_held),
            _ => servers
                .iter()
                .all(|server| server.metric("vllm:num_requests_running") > 0.0),
        });
        kill(Pid::from_raw(child.id() as i32), signal).expect("alive");
        assert_eq!(ended(&mut child).code(), Some(130));
        for server in &servers {
            assert!(!server.is_held(), "{signal} left a server asleep");
            wait_for("the server to be idle", || {
                server.metric("vllm:num_requests_running") == 0.0
            });
        }
    }
}

#[test]
fn a_batch_that_fails_leaves_no_profiler_on() {
    let harness = Harness::new();
    let server = Standing::start(&harness, &["--sim-zero", "--sim-fault", "error-rate:1"], true);
    let output = harness.run(&[
        "bench",
        "iterations",
        "--base-url",
        &server.url(),
        "--mode=prefill",
        "--batch-size=2",
        "--warmups=0",
        "--profile",
    ]);
    assert_ne!(output.status.code(), Some(0), "{}", said(&output));
    for note in ["Profiler: start done", "Profiler: stop done"] {
        assert!(said(&output).contains(note), "{}", said(&output));
    }
}

#[test]
fn a_plan_sweeps_shapes() {
    let harness = Harness::new();
    let plan = r#"
        version = 1
        name = "steps"
        runs = 1
        [serve]
        command = "vsweep sim serve demo-8b --sim-start 20ms --sim-speed 20"
        stop_grace = "2s"
        [serve.params]
        max_num_seqs = 8
        [bench]
        runner = "iterations"
        [bench.params]
        mode = "decode"
        context_len = 64
        batch_size = [1, 4, 9]
        iterations = 4
        repeats = 1
        [[report.plot]]
        x = "batch_size"
        y = "latency_per_iter_ms"
    "#;
    harness.write("plan.toml", plan);
    let output = harness.run(&["run", "plan.toml", "-o", "results"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    harness.wait_until_alone();
    let folder = harness.folder.path().join("results");
    let rows = rows(&folder.join("summary.csv"));
    let outcomes: Vec<&str> = rows.iter().map(|row| row["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["ok", "ok", "failed"]);
    assert_eq!(rows[2]["cause"], "bench_failed");
    let params = [
        "max_num_seqs",
        "mode",
        "context_len",
        "batch_size",
        "iterations",
        "repeats",
    ];
    for name in rows[0].keys().filter(|name| !params.contains(&name.as_str())) {
        let is_known = columns::is_known(&BenchRunner::Iterations, name);
        assert!(is_known, "{name} is a column that no plan may name");
    }
    for row in &rows[..2] {
        assert_eq!(
            (
                row["mode"].as_str(),
                row["context_len"].as_str(),
                row["engine_steps"].as_str()
            ),
            ("decode", "64", "4.0")
        );
        assert!(row["total_latency_ms"].parse::<f64>().expect("a number") > 0.0);
    }
    assert!(folder.join("charts").read_dir().expect("charts").count() > 0);
    let script = harness.run(&["plan", "plan.toml", "--format", "sh"]);
    let script = said(&script);
    assert!(
        script.contains("bench iterations --base-url") && script.contains("--batch-size 4"),
        "{script}"
    );

    harness.write("wrong.toml", &plan.replace("iterations = 4", "num_prompts = 4"));
    let checked = harness.run(&["check", "wrong.toml"]);
    assert_eq!(checked.status.code(), Some(2));
    assert!(
        said(&checked).contains("the iterations benchmark has no parameter \"num_prompts\""),
        "{}",
        said(&checked)
    );
}
