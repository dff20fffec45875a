//! `vsweep bench phases` against simulated servers: lengths from the server's own KV cache, rates that agree with the server's records, the files
//! of the report, and no request left in flight.

use crate::deadline::ended;
use crate::harness::{Harness, rows, said, wait_for};
use crate::standing::{Standing, truth};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use vsweep::plan::BenchRunner;
use vsweep::report::columns;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

fn number(row: &Value, key: &str) -> f64 {
    row[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} is a number in {row}"))
}

#[test]
fn rates_are_those_of_the_server_and_the_report_is_whole() {
    let harness = Harness::new();
    let folder = harness.folder.path().to_path_buf();
    let path = folder.join("truth.jsonl");
    let truth_path = path.to_str().expect("a plain path");
    let server = Standing::start(&harness, &["--sim-noise", "0", "--sim-truth", truth_path], true);
    let output = harness.run(&[
        "bench",
        "phases",
        "--base-url",
        &server.url(),
        "--concurrency-levels=2,8",
        "--ratios=0.25",
        "--kv-cache-tokens=800",
        "--warmup=0.3",
        "--duration=2",
        "--output-dir=report",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(
        server.metric("vllm:num_requests_running"),
        0.0,
        "what was in flight was cut"
    );
    let report = folder.join("report");
    let document: Value =
        serde_json::from_slice(&std::fs::read(report.join("demo-8b.json")).expect("written")).expect("JSON");
    assert_eq!(document["simulated"], true);
    let (prefill, decode) = (&document["prefill"], &document["decode"]);
    let theirs = "ratio concurrency input_len output_len output_tokens elapsed_s output_throughput total_throughput \
        requests_started requests_completed errors";
    let keys: Vec<&String> = decode[0].as_object().expect("a row").keys().take(11).collect();
    assert_eq!(keys, theirs.split_whitespace().collect::<Vec<&str>>());
    let lengths = |row: &Value| {
        (
            number(row, "input_len"),
            number(row, "output_len"),
            number(row, "errors"),
        )
    };
    assert_eq!(lengths(&prefill[0]), (399.0, 1.0, 0.0));
    assert_eq!(lengths(&prefill[1]), (99.0, 1.0, 0.0));
    assert_eq!(lengths(&decode[0]), (100.0, 300.0, 0.0));
    assert_eq!(lengths(&decode[1]), (25.0, 75.0, 0.0));

    // The last level ran until the end. So its window is the last two seconds of the server's records, except for the requests that were
    // cut, one for each slot.
    let row = &decode[1];
    let ended: Vec<_> = truth(&path)
        .into_iter()
        .filter(|sequence| sequence.prompt_tokens == 25)
        .collect();
    assert!(
        ended.iter().any(|sequence| sequence.output_tokens < 75),
        "the first round is graded"
    );
    let last = ended
        .iter()
        .filter_map(|sequence| sequence.token_ms.last())
        .fold(0.0, |a: f64, b| a.max(*b));
    let span = 1200.0;
    let tokens = ended.iter().flat_map(|sequence| &sequence.token_ms);
    let tokens = tokens
        .filter(|at| (last - span - 600.0..last - 600.0).contains(*at))
        .count();
    let ratio = number(row, "output_throughput") / (tokens as f64 / span * 1000.0);
    assert!((0.85..1.15).contains(&ratio), "{ratio} of the truth: {row}");
    let extrapolated = number(row, "output_throughput") * 100.0 / 75.0;
    assert!((number(row, "total_throughput") / extrapolated - 1.0).abs() < 0.001);
    assert!(row.get("warnings").is_none(), "no prompt came from the cache: {row}");

    let page = std::fs::read_to_string(report.join("demo-8b.md")).expect("written");
    assert!(
        page.contains("## Prefill") && page.contains("### 25% input / 75% output"),
        "{page}"
    );
    assert!(page.contains("| KV Cache Tokens | 800 |"), "{page}");
    for picture in ["demo-8b_prefill.png", "demo-8b_decode.png"] {
        let bytes = std::fs::read(report.join(picture)).expect("drawn");
        assert!(bytes.starts_with(PNG) && bytes.len() > 10_000, "{picture}");
    }
}

#[test]
fn the_capacity_is_the_servers_and_the_warm_up_automatic() {
    let harness = Harness::new();
    let server = Standing::start(&harness, &["--sim-speed", "20", "--max-model-len", "256"], false);
    let args = [
        "bench",
        "phases",
        "--base-url",
        &server.url(),
        "--phase=decode",
        "--max-concurrency=4",
        "--ratio=0.5",
        "--duration=0.6",
        "--output-dir=report",
    ];
    let output = harness.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = std::fs::read(harness.folder.path().join("report/demo-8b.json")).expect("written");
    let document: Value = serde_json::from_slice(&text).expect("JSON");
    let row = &document["decode"][0];
    let page = server.ask("GET", "/metrics");
    let told = page
        .split("kv_cache_size_tokens=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    assert_eq!(
        number(row, "kv_capacity_tokens").to_string(),
        told.expect("the server says it")
    );
    assert_eq!(
        (number(row, "input_len"), number(row, "output_len")),
        (128.0, 128.0),
        "the model's longest"
    );
    let (primed, warmup) = (number(row, "primed_s"), number(row, "warmup_s"));
    assert!(
        warmup >= 0.2 && warmup >= 1.49 * primed,
        "opened at {warmup}, primed at {primed}"
    );
    assert_eq!(number(row, "window_s"), 0.6);
}

#[test]
fn what_cannot_be_measured_is_said() {
    let harness = Harness::new();
    let failing = Standing::start(&harness, &["--sim-zero", "--sim-fault", "error-rate:1"], false);
    let good = Standing::start(&harness, &["--sim-speed", "20"], false);
    let (failing_url, good_url) = (failing.url(), good.url());
    let short = [
        "--duration=0.2",
        "--warmup=0.1",
        "--phase=prefill",
        "--output-dir=report",
    ];
    for (args, code, text) in [
        (
            vec![
                "--base-url",
                &failing_url,
                "--concurrency-levels=2",
                "--kv-cache-tokens=64",
            ],
            1,
            "the run ended after many failed requests",
        ),
        (
            vec![
                "--base-url",
                &good_url,
                "--concurrency-levels=2,50",
                "--kv-cache-tokens=64",
            ],
            3,
            "leave 1 token for each; lower max_concurrency",
        ),
        (vec!["--concurrency-levels=0"], 2, "max_concurrency is \"0\""),
        (vec!["--kv-cache-tokens=many"], 2, "kv_cache_tokens is \"many\""),
    ] {
        let output = harness.run(&[&["bench", "phases"], &short[..], &args].concat());
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(text), "{args:?}: {}", said(&output));
    }
    let both = harness.run(&["bench", "phases", "--phase=both"]);
    assert_eq!(both.status.code(), Some(2), "{}", said(&both));
}

#[test]
fn a_window_without_a_token_is_a_failure() {
    let harness = Harness::new();
    let server = Standing::start(&harness, &["--sim-noise", "0", "--sim-speed", "0.001"], false);
    let output = harness.run(&[
        "bench",
        "phases",
        "--base-url",
        &server.url(),
        "--phase=prefill",
        "--concurrency-levels=2",
        "--kv-cache-tokens=40000",
        "--warmup=0.1",
        "--duration=0.1",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let told = "no output token came within the window of 0.1 s; raise duration";
    assert!(said(&output).contains(told), "{}", said(&output));
}

#[test]
fn an_interrupt_leaves_nothing_in_flight() {
    let harness = Harness::new();
    let server = Standing::start(&harness, &[], false);
    let url = server.url();
    let args = [
        "bench",
        "phases",
        "--base-url",
        &url,
        "--concurrency-levels=8",
        "--kv-cache-tokens=4000",
        "--duration=9999",
    ];
    let mut child = harness.start(&args);
    wait_for("requests to run", || server.metric("vllm:num_requests_running") > 0.0);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("alive");
    assert_eq!(ended(&mut child).code(), Some(130));
    wait_for("the server to be idle", || {
        server.metric("vllm:num_requests_running") == 0.0
    });
}

#[test]
fn a_plan_sweeps_phases() {
    let harness = Harness::new();
    let plan = r#"
        version = 1
        runs = 1
        [serve]
        command = "vsweep sim serve demo-8b --sim-start 20ms --sim-speed 20"
        stop_grace = "2s"
        [bench]
        runner = "phases"
        [bench.params]
        phase = ["prefill", "decode"]
        max_concurrency = [2, 4]
        kv_cache_tokens = 512
        warmup = 0.1
        duration = 0.3
    "#;
    harness.write("plan.toml", plan);
    let output = harness.run(&["run", "plan.toml", "-o", "results"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    harness.wait_until_alone();
    let rows = rows(&harness.folder.path().join("results/summary.csv"));
    assert_eq!(rows.len(), 4);
    let params = ["phase", "max_concurrency", "kv_cache_tokens", "warmup", "duration"];
    for name in rows[0].keys().filter(|name| !params.contains(&name.as_str())) {
        let is_known = columns::is_known(&BenchRunner::Phases, name);
        assert!(is_known, "{name} is a column that no plan may name");
    }
    for row in &rows {
        // Load on the machine may delay the generator, which makes a run suspect.
        assert!(["ok", "suspect"].contains(&&*row["outcome"]), "{row:?}");
        assert!(row["output_throughput"].parse::<f64>().expect("a number") > 0.0);
        let sequence = row["seq_len"].parse::<u64>().expect("a count");
        assert_eq!(sequence * row["max_concurrency"].parse::<u64>().expect("a count"), 512);
    }
    let again = harness.run(&["run", "plan.toml", "-o", "results"]);
    assert_eq!(again.status.code(), Some(0), "nothing is left: {}", said(&again));

    harness.write("wrong.toml", &plan.replace("[bench]", "[bench]\nwarmup_prompts = 3"));
    let checked = harness.run(&["check", "wrong.toml"]);
    assert_eq!(checked.status.code(), Some(2));
    assert!(
        said(&checked).contains("this runner warms up by itself"),
        "{}",
        said(&checked)
    );
}

#[test]
fn a_search_finds_the_concurrency_that_meets_a_target() {
    let harness = Harness::new();
    let plan = r#"
        version = 1
        [serve]
        command = "vsweep sim serve demo-8b --sim-start 20ms --sim-speed 20"
        stop_grace = "2s"
        [bench]
        runner = "phases"
        [bench.params]
        phase = "decode"
        kv_cache_tokens = 2048
        warmup = 0.1
        duration = 0.3
        [sla]
        vary = "max_concurrency"
        max = 8
        [[sla.target]]
        name = "flowing"
        median_itl_ms = "<=10000"
    "#;
    harness.write("plan.toml", plan);
    let output = harness.run(&["run", "plan.toml", "-o", "results"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let answers = rows(&harness.folder.path().join("results/sla.csv"));
    assert_eq!(
        (answers[0]["answer"].as_str(), answers[0]["value"].as_str()),
        ("beyond", "8")
    );

    harness.write("wrong.toml", &plan.replace("max_concurrency", "request_rate"));
    let checked = harness.run(&["check", "wrong.toml"]);
    assert_eq!(checked.status.code(), Some(2));
    assert!(said(&checked).contains("it has no request rate"), "{}", said(&checked));
}
