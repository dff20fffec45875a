//! `vsweep import` of command lines: the plan starts the same servers and sends the same loads as vLLM's sweep.

use crate::deadline::output;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const SERVE: &str = "vllm serve m --max-model-len 2048";
const BENCH: &str = "vllm bench serve --dataset-name random --random-input-len 32";

fn vsweep(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vsweep"));
    // With this PATH no installed vLLM is found.
    output(command.args(words).current_dir(folder).env("PATH", "/nowhere"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn folder_with(files: &[(&str, Value)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, content) in files {
        fs::write(folder.path().join(name), content.to_string()).expect("written");
    }
    folder
}

/// Imports a command line of vLLM. Returns the plan and the messages.
fn import(folder: &Path, words: &[&str]) -> (String, String) {
    let output = vsweep(folder, &[&["import", "-o", "plan.toml", "--"], words].concat());
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output.stderr));
    let plan = fs::read_to_string(folder.join("plan.toml")).expect("a plan");
    let check = vsweep(folder, &["check", "plan.toml"]);
    assert_eq!(check.status.code(), Some(0), "{}\n{plan}", text(&check.stderr));
    (plan, text(&output.stderr))
}

/// Returns the expanded plan.
fn planned(folder: &Path) -> Value {
    let output = vsweep(folder, &["plan", "plan.toml", "--format", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn refuse(folder: &Path, words: &[&str]) -> String {
    let output = vsweep(folder, &[&["import", "--"], words].concat());
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "", "{words:?}");
    text(&output.stderr)
}

#[test]
fn a_recorded_sweep_has_the_same_command_lines_and_rows() {
    let recorded: Value = serde_json::from_str(include_str!("../data/vllm-sweep-command.json")).expect("JSON");
    let files = recorded["files"].as_object().expect("files").iter();
    let files: Vec<(&str, Value)> = files.map(|(name, content)| (name.as_str(), content.clone())).collect();
    let folder = folder_with(&files);
    let words: Vec<&str> = recorded["command"]
        .as_array()
        .expect("words")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let (plan, said) = import(folder.path(), &words);
    assert!(
        !said.contains("note:") && plan.contains("name = \"tiny\""),
        "{said}\n{plan}"
    );

    let planned = planned(folder.path());
    let servers = planned["servers"].as_array().expect("servers");
    let of_vllm = recorded["servers"].as_array().expect("servers");
    assert_eq!(servers.len(), of_vllm.len());
    for (ours, theirs) in servers.iter().zip(of_vllm) {
        assert_eq!(ours["argv"], theirs["argv"]);
        let points = planned["points"].as_array().expect("points").iter();
        let points = points.filter(|point| point["server"] == ours["id"]);
        let runs =
            points.flat_map(|point| vec![point["argv"].clone(); point["runs"].as_u64().expect("a count") as usize]);
        assert_eq!(Value::Array(runs.collect()), theirs["loads"]);
    }
    let script = vsweep(folder.path(), &["plan", "plan.toml", "--format", "sh"]);
    let line = "vllm serve LAB/tiny-wl --served-model-name tiny --host 127.0.0.1 --port 8100 --dtype bfloat16";
    assert!(text(&script.stdout).contains(line));
}

#[test]
fn options_become_keys_and_what_has_none_is_told() {
    let folder = folder_with(&[
        (
            "s.json",
            json!({"small": {"max_num_seqs": 4, "tp": 1}, "large": {"max_num_seqs": 8}}),
        ),
        (
            "b.json",
            json!([{"max_concurrency": 4}, {"max_concurrency": 8, "request_rate": 1.5}]),
        ),
    ]);
    let words = [
        "uv",
        "run",
        "vllm",
        "bench",
        "sweep",
        "serve",
        "--serve_cmd",
        SERVE,
        "--bench-cmd=vllm bench serve --percentile-metrics ttft",
        "--serve-params",
        "s.json",
        "--bench-params",
        "b.json",
        "--link-vars",
        "max_num_seqs = max_concurrency",
        "--num-runs",
        "5",
        "--warmup-num-prompts",
        "7",
        "--server-ready-timeout",
        "90",
        "--after-bench-cmd",
        "./reset 'a b'",
        "-o",
        "elsewhere",
        "-e",
        "night/1",
        "--show-stdout",
        "--resume",
        "--dry-run",
    ];
    let (plan, said) = import(folder.path(), &words);
    for line in [
        "runs = 5",
        "on_failure = \"continue\"",
        "ready_timeout = \"90s\"",
        "reset = [\"./reset\", \"a b\"]",
        "warmup_prompts = 7",
        "name = \"small\"",
        "tensor_parallel_size = 1",
        "request_rate = 1.5",
        "equal = [[\"serve.max_num_seqs\", \"bench.max_concurrency\"]]",
    ] {
        assert!(plan.lines().any(|have| have == line), "{line} in {plan}");
    }
    let notes = [
        "--output-dir elsewhere",
        "--show-stdout",
        "--resume",
        "--dry-run",
        "the name `night/1`",
        "--after-bench-cmd is `reset`",
        "--warmup-num-prompts 7: the warm-up",
        "`tp` is written `tensor_parallel_size`",
        "--bench-cmd: `--percentile-metrics` is left out",
        "vLLM's sweep runs vllm serve m --max-model-len 2048 --max-num-seqs 4 --tp 1; this plan runs",
    ];
    for note in notes {
        assert!(said.contains(note), "{note} in {said}");
        assert!(
            plan.lines().any(|line| line.starts_with("# - ") && line.contains(note)),
            "{note} in {plan}"
        );
    }
    let planned = planned(folder.path());
    let pairs: Vec<Value> = planned["points"]
        .as_array()
        .expect("points")
        .iter()
        .map(|point| point["argv"].clone())
        .collect();
    let expected = [
        json!(["vllm", "bench", "serve", "--max-concurrency", "4"]),
        json!([
            "vllm",
            "bench",
            "serve",
            "--max-concurrency",
            "8",
            "--request-rate",
            "1.5"
        ]),
    ];
    assert_eq!(pairs, expected);
}

#[test]
fn a_script_as_benchmark_gets_a_note() {
    let folder = folder_with(&[]);
    let sweep = ["import", "--", "vllm", "bench", "sweep", "serve"];
    let commands = ["--serve-cmd", SERVE, "--bench-cmd", "./load.sh --quick"];
    let output = vsweep(folder.path(), &[&sweep[..], &commands].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let note = "# - --bench-cmd: a program other than `vllm bench serve` gets no flags from vsweep; write {host}, {port} and {result}";
    assert!(text(&output.stdout).contains(note), "{}", text(&output.stdout));
}

#[test]
fn values_reach_the_command_line_as_vllm_passes_them() {
    let odd = json!({
        "a": null, "b": ["x", 1], "c": {"d": null, "e": [true]}, "f": {"mode": 3}, "g.h": true, "i": "${HOME} #1", "j": 1e-7,
        "k": false, "l": "", "m": "é\n",
    });
    let folder = folder_with(&[("s.json", json!([odd]))]);
    fs::write(folder.path().join("b.json"), "[{\"burstiness\": Infinity, \"x\": NaN}]").expect("written");
    let words = [
        "vllm",
        "bench",
        "sweep",
        "serve",
        "--serve-cmd",
        "./start m '#2' \"a\\$b\"",
        "--bench-cmd",
        BENCH,
    ];
    let files = ["--serve-params", "s.json", "--bench-params", "b.json"];
    let (plan, said) = import(folder.path(), &[&words[..], &files].concat());
    assert!(!said.contains("vLLM's sweep runs"), "{said}");
    // A table stays a table, so that an export names its folder as vLLM does. A table with null becomes a text, because TOML has no null.
    assert!(plan.contains("f = { value = { mode = 3 } }"), "{plan}");
    assert!(
        said.contains("`c` is written as text") && !said.contains("`f` is written"),
        "{said}"
    );
    let planned = planned(folder.path());
    let expected = [
        "./start",
        "m",
        "#2",
        "a\\$b",
        "--a",
        "None",
        "--b",
        "['x', 1]",
        "--c",
        "{\"d\": null, \"e\": [true]}",
        "--f",
        "{\"mode\": 3}",
        "--g.h=true",
        "--i",
        "${HOME} #1",
        "--j",
        "1e-07",
        "--no-k",
        "--l",
        "",
        "--m",
        "é\n",
    ];
    assert_eq!(planned["servers"][0]["argv"], json!(expected));
    let load = planned["points"][0]["argv"].as_array().expect("words");
    assert_eq!(
        load[load.len() - 4..],
        [json!("--burstiness"), json!("inf"), json!("--x"), json!("nan")]
    );
}

#[test]
fn searches_and_explorations_of_every_release_are_vsweeps_own() {
    let folder = folder_with(&[
        (
            "sla.json",
            json!([{"p99_e2el_ms": "<=500"}, {"p99_ttft_ms": "<200", "request_throughput": ">=2"}]),
        ),
        (
            "b.json",
            json!([{"random_output_len": 8}, {"random_output_len": 16, "num_prompts": 50}]),
        ),
        ("dashed.json", json!([{"num-prompts": 50}])),
    ]);
    let commands = ["--serve-cmd", SERVE, "--bench-cmd", BENCH];
    let import = |name: &str, more: &[&str]| {
        let _ = fs::remove_file(folder.path().join("plan.toml"));
        import(
            folder.path(),
            &[&["vllm", "bench", "sweep", name], &commands[..], more].concat(),
        )
        .0
    };
    let has = |plan: &str, lines: &[&str]| {
        for line in lines {
            assert!(plan.lines().any(|have| have == *line), "{line} in {plan}");
        }
    };
    let plan = import(
        "serve_workload",
        &[
            "--bench-params",
            "b.json",
            "--workload-var",
            "max_concurrency",
            "--workload-iters",
            "6",
        ],
    );
    has(
        &plan,
        &[
            "[explore]",
            "vary = \"max_concurrency\"",
            "levels = 6",
            "spacing = \"linear\"",
            "max_concurrency = 1000",
        ],
    );
    has(&plan, &["num_prompts = 1000", "num_prompts = 50", "runs = 3"]);
    let last_sla = import("serve_sla", &["--sla-variable", "request_rate", "--sla-iters", "4"]);
    has(&last_sla, &["[explore]", "vary = \"request_rate\"", "levels = 4"]);
    let first_sla = import(
        "serve_sla",
        &[
            "--sla-params",
            "sla.json",
            "--sla-variable",
            "max_concurrency",
            "--resume",
            "20251101_120000",
        ],
    );
    has(
        &first_sla,
        &[
            "[sla]",
            "vary = \"max_concurrency\"",
            "p99_e2el_ms = \"<=500\"",
            "request_throughput = \">=2\"",
            "max = 1000",
        ],
    );
    assert!(
        first_sla.contains("# - the search ends at max_concurrency = 1000, the fewest requests of a load"),
        "{first_sla}"
    );
    assert!(!first_sla.contains("runs = "), "{first_sla}");
    let few = [
        "--bench-params",
        "dashed.json",
        "--sla-params",
        "sla.json",
        "--sla-variable",
        "max_concurrency",
    ];
    has(&import("serve_sla", &few), &["[sla]", "max = 50"]);
    let rate = import(
        "serve_sla",
        &["--sla-params", "sla.json", "--sla-variable", "request_rate"],
    );
    assert!(
        rate.contains("# - from request_rate = 333 on, the fewest requests of a load (1000) are sent within 3 s"),
        "{rate}"
    );
}

#[test]
fn what_cannot_be_had_is_refused_with_the_reason() {
    let folder = folder_with(&[
        ("empty.json", json!([])),
        ("name.json", json!([{"name": "x"}])),
        (
            "twice.json",
            json!([{"_benchmark_name": "x"}, {"_benchmark_name": "x", "a": 1}]),
        ),
        ("load.json", json!([{"request_rate": 4}])),
        ("command.json", json!([{"command": "x"}])),
    ]);
    let own = [
        "vllm",
        "bench",
        "sweep",
        "serve",
        "--serve-cmd",
        SERVE,
        "--bench-cmd",
        BENCH,
    ];
    let refuse = |words: &[&str]| refuse(folder.path(), words);
    let with = |more: &[&str]| refuse(&[&own[..], more].concat());
    let explored = [
        &["vllm", "bench", "sweep", "serve_workload"],
        &own[4..],
        &["--bench-params", "load.json"],
    ]
    .concat();
    for (said, expected) in [
        (refuse(&["ls", "-l"]), "not a command line of `vllm bench sweep`"),
        (
            refuse(&[
                "vllm",
                "bench",
                "sweep",
                "startup",
                "--serve-params",
                "load.json",
                "--strict-params",
            ]),
            "`vllm bench startup` has no option request_rate",
        ),
        (
            refuse(&["vllm", "bench", "sweep", "plot", "x"]),
            "draw it with `vsweep plot DIR`",
        ),
        (refuse(&own[..6]), "--bench-cmd"),
        (with(&["--frobnicate"]), "--frobnicate"),
        (with(&["--num-runs", "0"]), "--num-runs is 0; give 1 or more"),
        (with(&["--serve-params", "none.json"]), "cannot read none.json"),
        (with(&["--serve-params", "empty.json"]), "holds no combination"),
        (with(&["--serve-params", "name.json"]), "sets a parameter `name`"),
        (
            with(&["--serve-params", "twice.json"]),
            "two combinations are called `x`",
        ),
        (with(&["--link-vars", "a=b=c"]), "ties no two parameters"),
        (with(&["--link-vars", "a=b"]), "--link-vars a=b keeps no pair"),
        (
            with(&["--serve-cmd", "vllm 'serve"]),
            "--serve-cmd has a quote that is never closed",
        ),
        (with(&["--bench-params", "command.json"]), "--> the imported plan:"),
        (refuse(&explored), "[explore] decides `request_rate`"),
    ] {
        let flat = said.replace("\n |\n = help: ", "; ");
        assert!(flat.contains(expected), "{expected} in {said}");
    }
    fs::write(folder.path().join("plan.toml"), "mine").expect("written");
    let output = vsweep(
        folder.path(),
        &[&["import", "-o", "plan.toml", "--"], &own[..]].concat(),
    );
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        fs::read_to_string(folder.path().join("plan.toml")).expect("kept"),
        "mine"
    );
}

#[test]
fn a_sweep_of_starts_has_the_same_command_lines_and_rows() {
    let folder = folder_with(&[
        (
            "serve.json",
            json!([{"_benchmark_name": "tp1", "tensor_parallel_size": 1, "port": 9}, {"optimization_level": 2}]),
        ),
        (
            "startup.json",
            json!({"short": {"num_iters_cold": 1}, "long": {"num_iters_cold": 5, "num_iters_warm": 7, "output_json": "a.json"}}),
        ),
    ]);
    let words = [
        "vllm",
        "bench",
        "sweep",
        "startup",
        "--startup-cmd",
        "vllm bench startup --model org/m --num-iters-warm 2 --enforce-eager",
        "--serve-params",
        "serve.json",
        "--startup_params=startup.json",
        "--num-runs",
        "2",
    ];
    let (_, said) = import(folder.path(), &words);
    assert!(
        said.contains("--serve-params: port left out, as vLLM's sweep does"),
        "{said}"
    );
    assert!(
        said.contains("--startup-params: output_json left out: vLLM's sweep replaces it too"),
        "{said}"
    );
    assert_eq!(said.matches("note: ").count(), 2, "{said}");
    let planned = planned(folder.path());
    let points = planned["points"].as_array().expect("points").iter();
    let lines: Vec<String> = points
        .map(|point| {
            let words = point["argv"].as_array().expect("words").iter();
            words
                .map(|word| word.as_str().expect("a word"))
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    let start = "vllm bench startup --model org/m --enforce-eager";
    assert_eq!(
        lines,
        [
            format!("{start} --tensor-parallel-size 1 --num-iters-warm 2 --num-iters-cold 1"),
            format!("{start} --tensor-parallel-size 1 --num-iters-warm 7 --num-iters-cold 5"),
            format!("{start} --optimization-level 2 --num-iters-warm 2 --num-iters-cold 1"),
            format!("{start} --optimization-level 2 --num-iters-warm 7 --num-iters-cold 5"),
        ]
    );
}

#[test]
fn a_suite_of_the_performance_ci_becomes_a_plan_for_each_test() {
    let serving = json!({
    "defaults": {"qps_list": [1, "inf"], "server_parameters": {"model": "org/m", "disable_log_stats": ""},
                 "client_parameters": {"backend": "vllm", "model": "org/m", "dataset_name": "random", "num_prompts": 200}},
    "tests": [
        {"test_name": "serving_m_tp1", "server_parameters": {"tensor_parallel_size": 1, "served_model_name": ["a", "b"]}},
        {"test_name": "serving_m_tp2", "server_parameters": {"tensor_parallel_size": 2}, "max_concurrency_list": [8, 16],
         "server_environment_variables": {"VLLM_X": 1}},
    ]});
    let latency = json!([{"test_name": "latency_m_tp1", "parameters": {"model": "org/m", "tensor_parallel_size": 1,
        "load_format": "dummy", "num_iters_warmup": 5, "num_iters": 15}}]);
    let folder = folder_with(&[
        ("serving.json", serving),
        ("latency.json", latency),
        ("none.json", json!([])),
    ]);
    let lines = |suite: &str, test: &str| -> Vec<String> {
        let out = format!("plans-{suite}-{test}");
        let output = vsweep(folder.path(), &["import", &format!("{suite}.json"), "-o", &out]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let plan = format!("{out}/{test}.toml");
        let check = vsweep(folder.path(), &["check", &plan]);
        assert_eq!(check.status.code(), Some(0), "{}", text(&check.stderr));
        let output = vsweep(folder.path(), &["plan", &plan, "--format", "json"]);
        let planned: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let line = |value: &Value| {
            let words = value["argv"].as_array().expect("words").iter();
            words
                .map(|word| word.as_str().expect("a word"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let all = planned["servers"].as_array().expect("servers").iter();
        all.chain(planned["points"].as_array().expect("points"))
            .map(line)
            .collect()
    };
    let client = "vllm bench serve --backend vllm --model org/m --dataset-name random --num-prompts 200";
    assert_eq!(
        lines("serving", "serving_m_tp1"),
        [
            "vllm serve org/m --disable-log-stats --tensor-parallel-size 1 --served-model-name a b".to_owned(),
            format!("{client} --request-rate 1 --max-concurrency 200"),
            format!("{client} --request-rate inf --max-concurrency 200"),
        ]
    );
    assert_eq!(lines("serving", "serving_m_tp2").len(), 5);
    assert_eq!(
        lines("latency", "latency_m_tp1")[1],
        "vllm bench latency --model org/m --tensor-parallel-size 1 --load-format dummy --num-iters-warmup 5 --num-iters 15"
    );
    let refused = vsweep(folder.path(), &["import", "none.json", "-o", "none"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("none.json has no tests"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn a_list_of_results_is_no_suite() {
    let result = json!({"completed": 32, "failed": 0, "request_throughput": 2.0, "max_concurrency": 4});
    let folder = folder_with(&[("results.json", json!([result, result]))]);
    let output = vsweep(folder.path(), &["import", "results.json", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("wrote 2 results"),
        "{}",
        text(&output.stdout)
    );
}
