//! `vsweep compare` of results in files, and vLLM's dashboard table of them.

use crate::deadline::output;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A row of `benchmark_results.json` as vLLM's scripts write it: the bare `P99` and `Median` are of TPOT.
fn row(tp: u64, concurrency: f64, throughput: f64, ttft: f64, tpot: f64) -> Value {
    json!({
        "Test name": format!("serving_llama8B_tp{tp}_random_concurrency_{concurrency}"), "Model": "m/Llama-3.1-8B",
        "Dataset Name": "random", "Input Len": 1024.0, "Output Len": 128.0, "TP Size": tp, "PP Size": null, "dtype": null,
        "GPU": "2xNVIDIA H100", "# of req.": 200, "qps": "inf", "# of max concurrency.": concurrency,
        "Tput (req/s)": throughput / 128.0, "Total Token Tput (tok/s)": throughput * 9.0, "Output Tput (tok/s)": throughput,
        "Mean TTFT (ms)": ttft / 2.0, "Median TTFT (ms)": ttft / 2.0, "P99 TTFT (ms)": ttft, "STD TTFT (ms)": 1.0,
        "Mean TPOT (ms)": tpot, "Median": tpot - 1.0, "P99": tpot, "STD TPOT (ms)": 0.5,
    })
}

/// Two releases in separate folders. The base measured TP 1 and TP 2, the new one TP 1.
fn files() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    // The row of a latency benchmark has other columns, so Python fills the gaps with NaN.
    let latency =
        r#"{"Test name": "latency_llama8B_tp1", "GPU": "2xNVIDIA H100", "Mean latency (ms)": 812.5, "qps": NaN}"#;
    let write = |name: &str, rows: &[Value]| {
        fs::create_dir(folder.path().join(name)).expect("a folder");
        let mut all = vec![latency.to_owned()];
        all.extend(rows.iter().map(Value::to_string));
        let path = folder.path().join(name).join("benchmark_results.json");
        fs::write(path, format!("[{}]", all.join(","))).expect("written");
    };
    let base = [
        row(1, 12.0, 400.0, 150.0, 10.0),
        row(1, 48.0, 900.0, 3200.0, 24.0),
        row(1, 192.0, 1000.0, 2900.0, 90.0),
        row(2, 12.0, 600.0, 100.0, 8.0),
        row(2, 48.0, 1500.0, 400.0, 15.0),
    ];
    write("base", &base);
    write(
        "new",
        &[row(1, 12.0, 500.0, 120.0, 9.0), row(1, 48.0, 810.0, 1600.0, 120.0)],
    );
    folder
}

fn compare(folder: &Path, args: &str) -> (Option<i32>, String) {
    let found = output(
        Command::new(env!("CARGO_BIN_EXE_vsweep"))
            .current_dir(folder)
            .arg("compare")
            .args(args.split(' ')),
    );
    let said = [found.stdout, found.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    (found.status.code(), said.concat())
}

fn assert_said(found: &(Option<i32>, String), code: i32, parts: &[&str]) {
    assert_eq!(found.0, Some(code), "{}", found.1);
    for part in parts {
        assert!(found.1.contains(part), "{part} is not in:\n{}", found.1);
    }
}

#[test]
fn releases_stand_side_by_side() {
    let folder = files();
    let found = compare(folder.path(), "base new/benchmark_results.json --format dashboard");
    assert_said(
        &found,
        0,
        &[
            "### tensor\\_parallel\\_size 1",
            "| max_concurrency | base | new/benchmark\\_results.json | Ratio 1 vs 2 |",
            // The ratio is above 1 for a latency that falls, as for a throughput that rises.
            "| 12 | 400 | 500 | 1.25 |\n| 48 | 900 | 810 | 0.90 |\n| 192 | 1,000 | - | - |",
            "| 12 | **150** | **120** | 1.25 |\n| 48 | 3,200 | **1,600** | 2.00 |",
            "| TTFT up to 3000 ms | 192 | 48 |\n| TPOT up to 100 ms | 192 | 12 |\n| both | 192 | 12 |",
            "| Output throughput (tokens/s) at both | 1,000 | 500 |",
            "base: TTFT is already above 3000 ms at 48.",
        ],
    );
    let found = compare(
        folder.path(),
        "base new --format dashboard --latency median --ttft-max-ms 70 --tpot-max-ms 20",
    );
    assert_said(
        &found,
        0,
        &["Median TTFT (ms), bold up to 70 ms", "| 12 | 75 | **60** | 1.25 |"],
    );
}

#[test]
fn one_file_is_compared_by_parallel_sizes() {
    let folder = files();
    let found = compare(folder.path(), "base --format dashboard");
    assert_said(
        &found,
        0,
        &[
            "| max_concurrency | base TP 1 PP 1 | base TP 2 PP 1 | Ratio 1 vs 2 |",
            "| 12 | 400 | 600 | 1.50 |",
            "| both | 192 | 48 |",
        ],
    );
    // Two parallel sizes are two sides, so verdicts can compare them too.
    let found = compare(folder.path(), "base --metric output_throughput");
    assert_said(
        &found,
        0,
        &[
            "changed: serve.tensor_parallel_size: 1 -> 2",
            "output_throughput   400  600",
        ],
    );
    let found = compare(folder.path(), "new");
    assert_said(&found, 2, &["new has one tensor and pipeline parallel size"]);
}

#[test]
fn the_dashboards_json_is_a_side_of_verdicts() {
    let folder = files();
    let found = compare(folder.path(), "base new --fail-on p99_tpot_ms:+5%");
    assert_said(&found, 4, &["noise between starts is assumed", "p99_tpot_ms:+5% at"]);
}

#[test]
fn files_of_results_are_sides() {
    let folder = files();
    let result = |rate: Value, throughput: f64| {
        json!({
            "date": "20261120-101112", "model_id": "m", "tokenizer_id": "m", "backend": "vllm", "num_prompts": 200, "request_rate": rate,
            "max_concurrency": 16, "completed": 200, "failed": 0, "request_throughput": throughput / 128.0,
            "output_throughput": throughput, "p99_ttft_ms": 100.0, "ttfts": [0.1, 0.2],
        })
    };
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).expect("written");
    // One result after another, as `--append-result` writes them.
    write(
        "old.json",
        format!("{}\n{}\n", result(json!(4), 400.0), result(json!("inf"), 900.0)),
    );
    let records = [result(json!(4), 390.0), result(json!("inf"), 910.0)];
    write("new.json", json!(records).to_string());
    let found = compare(folder.path(), "old.json new.json --metric output_throughput");
    assert_said(
        &found,
        0,
        &["rate 4\n", "rate inf\n", "output_throughput   400  390  -2.5 %"],
    );
    fs::create_dir(folder.path().join("loose")).expect("a folder");
    write("loose/a.json", result(json!(4), 420.0).to_string());
    write("loose/b.json", result(json!(8), 520.0).to_string());
    let found = compare(folder.path(), "old.json loose --metric output_throughput");
    assert_said(
        &found,
        0,
        &["output_throughput   400  420  +5.0 %", "1 point without a counterpart"],
    );
    let wrong: [(&str, &str, &str); 3] = [
        (
            "wrong.json",
            "{\"port\": 8000}",
            "wrong.json is not a result of vLLM's benchmarks",
        ),
        ("wrong.json", "[1, 2]", "holds something other than JSON objects"),
        ("wrong.json", "{", "wrong.json is not JSON"),
    ];
    for (name, text, said) in wrong {
        write(name, text.to_owned());
        assert_said(&compare(folder.path(), "old.json wrong.json"), 2, &[said]);
    }
    let cases = [
        (
            "old.json new.json base",
            "old.json and base have no measured point in common",
        ),
        ("old.json new.json --ttft-max-ms 100", "of --format dashboard; add it"),
        (
            "old.json new.json --format dashboard --fail-on p99_ttft_ms:+5%",
            "has no verdicts",
        ),
        ("old.json nowhere", "there is no directory nowhere"),
    ];
    for (args, said) in cases {
        assert_said(&compare(folder.path(), args), 2, &[said]);
    }
}
