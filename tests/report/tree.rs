//! `vsweep export --format vllm`: the tree has vLLM's layout, and is read back as the experiment that it was made from.

use crate::deadline::output;
use crate::experiment::{Experiment, times};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use vsweep::bench::figures_contradiction;
use vsweep::cause::Cause;
use vsweep::plan::ReportOptions;
use vsweep::printable::has_effect;
use vsweep::report::{read_any, read_runs};
use vsweep::validity::Code;

fn vsweep(words: &[&str]) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_vsweep")).args(words))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the files below a folder, with their paths relative to it.
fn files(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            match path.is_dir() {
                true => folders.push(path),
                false => drop(found.insert(path.strip_prefix(root).expect("below").to_string_lossy().into_owned())),
            }
        }
    }
    found
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("readable")).expect("JSON")
}

fn experiment() -> Experiment {
    Experiment {
        servers: vec![
            json!({"_benchmark_name": "tp1", "max_num_seqs": 4}),
            json!({"_benchmark_name": "tp2", "max_num_seqs": 8, "tensor_parallel_size": 2}),
        ],
        loads: times(&[json!({})], "max_concurrency", &[json!(4), json!(8)]),
        runs: 2,
        ..Experiment::default()
    }
}

#[test]
fn an_exported_tree_is_that_of_vllm() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("demo");
    experiment().write(&root);
    let shown = root.to_str().expect("plain");
    let exported = vsweep(&["export", shown, "--format", "vllm"]);
    assert_eq!(exported.status.code(), Some(0), "{}", text(&exported.stderr));
    assert!(
        text(&exported.stdout).contains("8 runs; draw it with `vllm bench sweep plot"),
        "{}",
        text(&exported.stdout)
    );
    let tree = root.join("vllm");

    let combinations =
        ["tp1", "tp2"].map(|serve| [4, 8].map(|load| format!("SERVE--{serve}-BENCH--max_concurrency={load}")));
    let mut expected: BTreeSet<String> = BTreeSet::from(["summary.csv".to_owned()]);
    for combination in combinations.as_flattened() {
        expected.extend(["run=0.json", "run=1.json", "summary.json"].map(|file| format!("{combination}/{file}")));
    }
    assert_eq!(files(&tree), expected);

    let last = tree.join(&combinations[1][1]);
    let runs = [read(&last.join("run=0.json")), read(&last.join("run=1.json"))];
    assert_eq!(read(&last.join("summary.json")), json!(runs));
    let keys: Vec<&String> = runs[1].as_object().expect("an object").keys().collect();
    let tail = [
        "gpu_count",
        "run_number",
        "_benchmark_name",
        "tensor_parallel_size",
        "max_num_seqs",
    ];
    assert_eq!(keys[keys.len() - tail.len()..], tail);
    assert_eq!(
        (&runs[1]["run_number"], &runs[1]["max_concurrency"]),
        (&json!(1), &json!(8))
    );
    assert!(runs[1]["latencies"].is_array() && !keys.contains(&&"vsweep".to_owned()));

    let csv = fs::read_to_string(tree.join("summary.csv")).expect("readable");
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines.len() == 9 && lines[0].starts_with(",date,backend,label,"),
        "{csv}"
    );
    assert!(
        lines[8].starts_with("7,20261120-101309,vllm,,m,16,inf,1.0,8,"),
        "{}",
        lines[8]
    );
    // A column with gaps has decimals, as in pandas.
    assert!(
        lines[1].ends_with(",tp1,4,") && lines[8].ends_with(",tp2,8,2.0"),
        "{csv}"
    );

    let again = vsweep(&["export", shown, "--format", "vllm"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("is there already"));
}

#[test]
fn no_text_of_a_tree_acts_on_its_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("demo");
    let evil = Experiment {
        servers: vec![
            json!({"_benchmark_name": "=1+1\u{1b}[31m\u{202e}\u{9b}"}),
            json!({"_benchmark_name": "@SUM(A1)"}),
        ],
        loads: vec![json!({"max_concurrency": 4})],
        runs: 1,
        ..Experiment::default()
    };
    evil.write(&root);
    let exported = vsweep(&["export", root.to_str().expect("plain"), "--format", "vllm"]);
    assert_eq!(exported.status.code(), Some(0), "{}", text(&exported.stderr));
    let tree = root.join("vllm");
    for file in files(&tree) {
        assert!(!file.contains(has_effect), "{file:?}");
        let content = fs::read_to_string(tree.join(&file)).expect("text");
        assert!(!content.replace('\n', "").contains(has_effect), "{content:?}");
    }
    let mut csv = csv::Reader::from_path(tree.join("summary.csv")).expect("readable");
    let names = csv
        .records()
        .map(|record| record.expect("a record").iter().rev().take(2).collect::<String>());
    let names: Vec<String> = names.collect();
    assert!(names[0].contains("'=1+1\\u{1b}[31m\\u{202e}\\u{9b}"), "{names:?}");
    assert!(names[1].contains("'@SUM(A1)"), "{names:?}");
}

#[test]
fn a_tree_reads_back_as_the_experiment() {
    let folder = tempfile::tempdir().expect("a folder");
    let (root, tree) = (folder.path().join("demo"), folder.path().join("tree"));
    // Other invented rates do not fit the duration, which contradicts the run.
    let figures = |_: &Value, _: &Value| json!({"duration": null});
    // Every server is given one GPU, also the one that its flags give two.
    let given = Experiment {
        figures,
        gpus: 4,
        ..experiment()
    };
    let directory = given.write(&root);
    let words = [
        "export",
        root.to_str().expect("plain"),
        "--format",
        "vllm",
        "-o",
        tree.to_str().expect("plain"),
    ];
    assert!(vsweep(&words).status.success());
    let state = vsweep::journal::load(&directory, vsweep::journal::Check::Hashes).expect("loaded");
    let (own, back) = (
        read_runs(&directory, &state),
        read_any(&tree, &figures_contradiction, |_| ReportOptions::default()).expect("a tree"),
    );
    assert_eq!((own.damaged, &back.damaged), (vec![], &vec![]));
    assert_eq!(back.table.rows(), own.table.rows());
    let columns = [
        "max_num_seqs",
        "max_concurrency",
        "output_throughput",
        "p99_ttft_ms",
        "tokens_per_user",
        "tokens_per_gpu",
        "gpu_count",
    ];
    for name in columns {
        let values = |table: &vsweep::table::Table| -> Vec<String> {
            (0..table.rows()).map(|row| table.cell(name, row).to_string()).collect()
        };
        assert_eq!(values(&back.table), values(&own.table), "{name}");
    }
    let compared = vsweep(&["compare", words[1], words[5]]);
    assert!(
        !text(&compared.stdout).contains("improved"),
        "{}",
        text(&compared.stdout)
    );
    assert!(matches!(compared.status.code(), Some(0)), "{}", text(&compared.stderr));
}

#[test]
fn a_start_without_neighbours_is_no_run_of_a_point_that_has_others() {
    for (runs, expected) in [(3, 2), (1, 1)] {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("demo");
        let packed = Experiment {
            runs,
            alone: true,
            ..Experiment::default()
        };
        packed.write(&root);
        let exported = vsweep(&["export", root.to_str().expect("plain"), "--format", "vllm"]);
        assert!(exported.status.success(), "{}", text(&exported.stderr));
        let written = files(&root.join("vllm"));
        let of_point = written.iter().filter(|file| file.contains("/run=")).count();
        assert_eq!(of_point, expected, "{written:?}");
    }
}

#[test]
fn what_has_no_figures_is_a_failure_and_names_that_are_none_are_ids() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("demo");
    let many: serde_json::Map<String, Value> = (0..25).map(|i| (format!("a_parameter_{i}"), json!(i))).collect();
    let experiment = Experiment {
        servers: vec![
            json!({"m": "a/b"}),
            json!({"m": "a_b"}),
            Value::Object(many),
            json!({"x": 1}),
        ],
        runs: 1,
        fails: |server, _| (server == 1).then_some(Cause::RequestErrors),
        doubts: |server, _| (server == 3).then_some(Code::LoadNotReached),
        ..Experiment::default()
    };
    experiment.write(&root);
    let exported = vsweep(&["export", root.to_str().expect("plain"), "--format", "vllm"]);
    let found: Vec<String> = files(&root.join("vllm")).into_iter().collect();
    let of = |server: usize| format!("SERVE--{server:016x}-BENCH--{server:08x}00000000");
    assert!(
        found.contains(&"SERVE--m=a_b-BENCH--max_concurrency=8/run=0.json".to_owned()),
        "{found:?}"
    );
    assert!(found.contains(&format!("{}/run=0.failure.json", of(1))), "{found:?}");
    assert!(!found.contains(&format!("{}/summary.json", of(1))), "{found:?}");
    assert!(found.contains(&format!("{}/summary.json", of(2))), "{found:?}");
    let failure = read(&root.join("vllm").join(of(1)).join("run=0.failure.json"));
    assert_eq!(
        (&failure["error_type"], &failure["serve_overrides"]),
        (&json!("request_errors"), &json!({"m": "a_b"}))
    );
    assert!(
        text(&exported.stdout).contains("2 runs without figures"),
        "{}",
        text(&exported.stdout)
    );
    let invalid = read(&root.join("vllm/SERVE--x=1-BENCH--max_concurrency=8/run=0.failure.json"));
    assert_eq!(
        (&invalid["error_type"], &invalid["error"]),
        (&json!("invalid"), &json!("seen"))
    );
    let empty = vsweep(&["export", folder.path().to_str().expect("plain"), "--format", "vllm"]);
    assert_eq!(empty.status.code(), Some(2), "{}", text(&empty.stderr));
}

/// Writes a tree with one run for each number of requests in flight.
fn write_tree(root: &Path, runs: &[Value]) {
    for (load, run) in runs.iter().enumerate() {
        let folder = root.join(format!("SERVE--tp1-BENCH--{load}"));
        fs::create_dir_all(&folder).expect("a folder");
        let mut record =
            json!({"num_prompts": 32, "completed": 32, "failed": 0, "output_throughput": 9.0, "p99_ttft_ms": 5.0});
        let record = record.as_object_mut().expect("an object");
        for (name, value) in run.as_object().expect("an object") {
            record.insert(name.clone(), value.clone());
        }
        record.retain(|_, value| !value.is_null());
        record.insert("run_number".into(), json!(0));
        record.insert("max_concurrency".into(), json!(load + 1));
        fs::write(folder.join("summary.json"), json!([record]).to_string()).expect("written");
    }
}

#[test]
fn vanished_requests_are_a_doubt() {
    let folder = tempfile::tempdir().expect("a folder");
    write_tree(folder.path(), &[json!({}), json!({"failed": null, "completed": 2})]);
    let runs = read_any(folder.path(), &figures_contradiction, |_| ReportOptions::default()).expect("a tree");
    let cells = |name: &str| [0, 1].map(|row| runs.table.cell(name, row).to_string());
    assert_eq!(cells("outcome"), ["ok", "suspect"]);
    assert_eq!(cells("codes")[1], "request_errors");
}

#[test]
fn what_contradicts_itself_or_is_a_link_is_left_out_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (base, new) = (folder.path().join("base"), folder.path().join("new"));
    write_tree(&base, &[json!({}), json!({})]);
    write_tree(&new, &[json!({}), json!({"p99_ttft_ms": -5.0})]);
    let compare = || {
        let compared = vsweep(&["compare", base.to_str().expect("plain"), new.to_str().expect("plain")]);
        (compared.status.code(), text(&compared.stderr))
    };
    let (code, said) = compare();
    let refused = "SERVE--tp1-BENCH--1/summary.json: run 0 has a negative p99_ttft_ms (-5.0); it is left out";
    assert!(code == Some(3) && said.contains(refused), "{code:?}: {said}");
    let summary = new.join("SERVE--tp1-BENCH--1/summary.json");
    fs::remove_file(&summary).expect("removed");
    std::os::unix::fs::symlink(base.join("SERVE--tp1-BENCH--1/summary.json"), &summary).expect("a link");
    let (code, said) = compare();
    let refused = format!(
        "{} is a link or another special file, and is left out",
        summary.display()
    );
    assert!(code == Some(3) && said.contains(&refused), "{code:?}: {said}");
}
