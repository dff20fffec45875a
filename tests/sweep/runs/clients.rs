//! One load through several clients, as an axis: each client gets the parameters in its own form, and its result is understood.

use crate::harness::{Harness, rows, said};
use std::fs;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/clients");

fn plan(harness: &Harness) {
    let recorded = |name: &str| format!("{DATA}/{name}.json");
    harness.write("file.sh", "test \"$3\" = 4 && test \"$4\" = 16 && cp \"$1\" \"$2\"");
    harness.write(
        "folder.sh",
        "mkdir \"$2\" && cp \"$1\" \"$2\"/profile_export_aiperf.json",
    );
    harness.write(
        "other.sh",
        "echo '{\"out\": {\"rps\": 3.5, \"ttft_s\": [0.01, 0.02]}}' >\"$1\"",
    );
    let rust =
        "while [ $# -gt 0 ]; do case $1 in --result-dir) dir=$2 ;; --result-filename) name=$2 ;; esac; shift; done; cp";
    harness.write(
        "vllm-rs",
        &format!("{rust} {} \"$dir/$name\"", recorded("vllm-rs-0.32.0")),
    );
    let text = format!(
        r#"
runs = 1
[serve]
command = "vsweep sim serve tiny --sim-speed 20"
[bench]
warmup_prompts = 0
[bench.command]
own = "vsweep bench --dataset-name random --random-input-len 64 --random-output-len 16"
guidellm = "sh file.sh {} {{result}} {{max_concurrency}} {{num_prompts}}"
aiperf = "sh folder.sh {} {{result}} {{max_concurrency}} {{num_prompts}}"
vllm-rs = "sh vllm-rs bench serve --backend openai --dataset-name random"
other = "sh other.sh {{result}} {{max_concurrency}} {{num_prompts}}"
[bench.result]
request_throughput = "/out/rps"
p99_ttft_ms = {{ at = "/out/ttft_s/1", times = 1000 }}
[bench.params]
max_concurrency = 4
num_prompts = 16
"#,
        recorded("guidellm-0.8.1"),
        recorded("aiperf-0.13.0")
    );
    harness.write("plan.toml", &text);
}

#[test]
fn one_load_goes_through_every_client() {
    let harness = Harness::new();
    plan(&harness);
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert!(output.status.success(), "{}", said(&output));
    let runs = rows(&harness.folder.path().join("out/summary.csv"));
    let of = |client: &str| {
        runs.iter()
            .find(|row| row["command"] == client)
            .unwrap_or_else(|| panic!("{client} in {runs:?}"))
    };
    let number = |client: &str, name: &str| {
        of(client)[name]
            .parse::<f64>()
            .unwrap_or_else(|_| panic!("{name} of {client}"))
    };
    for client in ["own", "guidellm", "aiperf", "vllm-rs"] {
        assert_eq!(
            (number(client, "completed"), number(client, "total_output_tokens")),
            (16.0, 256.0),
            "{client}"
        );
        assert!(
            number(client, "mean_tpot_ms") > 0.0 && number(client, "p99_ttft_ms") > 0.0,
            "{client}"
        );
    }
    assert_eq!(
        (number("other", "request_throughput"), number("other", "p99_ttft_ms")),
        (3.5, 20.0)
    );
    assert_eq!(of("guidellm")["client"], "guidellm 0.8.1");
    harness.wait_until_alone();
}

#[test]
fn a_place_without_a_figure_fails_the_run() {
    let harness = Harness::new();
    plan(&harness);
    harness.write("other.sh", "echo '{\"out\": {\"rps\": 3.5}}' >\"$1\"");
    let output = harness.run(&["run", "plan.toml", "-o", "out", "--only", "command=other"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let runs = rows(&harness.folder.path().join("out/summary.csv"));
    assert!(
        runs[0]["detail"].contains("its result has nothing at /out/ttft_s/1 for `p99_ttft_ms` of [bench.result]"),
        "{runs:?}"
    );
}

#[test]
fn results_of_other_clients_are_imported_and_drawn() {
    let harness = Harness::new();
    for (client, tokens) in [
        ("guidellm-0.8.1", 96),
        ("aiperf-0.13.0", 1024),
        ("vllm-rs-0.32.0", 1024),
    ] {
        let output = harness.run(&["import", &format!("{DATA}/{client}.json"), "-o", client]);
        assert!(output.status.success(), "{}", said(&output));
        let text = fs::read_to_string(harness.folder.path().join(client).join("summary.json")).expect("a record");
        let record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(record[0]["total_input_tokens"], tokens);
        let drawn = harness.run(&["plot", client, "--var-x", "max_concurrency", "--var-y", "mean_tpot_ms"]);
        assert!(drawn.status.success(), "{}", said(&drawn));
    }
    harness.write("strange.json", "{\"a\": 1}");
    let output = harness.run(&["import", "strange.json", "-o", "strange"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output)
            .contains("is not a result of vLLM's benchmarks or its dashboard, of guidellm or aiperf (it has a...)"),
        "{}",
        said(&output)
    );
}
