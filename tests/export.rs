//! What a report hands on to other programs: the winners' configuration files and the runs as Parquet.

#[path = "support/experiment.rs"]
mod experiment;

use experiment::{Experiment, times};
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use vsweep::cause::Cause;
use vsweep::journal::{self, Directory};
use vsweep::plan::ReportOptions;
use vsweep::report::write_all;

fn written(experiment: &Experiment) -> (TempDir, Directory) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = experiment.write(&folder.path().join("demo"));
    report(&directory);
    (folder, directory)
}

fn report(directory: &Directory) {
    let state = journal::load(directory).expect("a sound journal");
    write_all(directory, &state, &ReportOptions::default()).expect("written");
}

fn files_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The command line that `vllm serve --config` makes of a file: a flag for each key, a word for each value.
fn words(yaml: &str) -> Vec<String> {
    let settings: serde_json::Map<String, Value> = serde_saphyr::from_str(yaml).expect("YAML");
    let mut words = Vec::new();
    for (name, value) in settings {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match value {
            Value::Bool(true) => words.push(format!("--{name}")),
            Value::Array(items) => {
                words.push(format!("--{name}"));
                words.extend(items.iter().map(text));
            }
            value => words.extend([format!("--{name}"), text(&value)]),
        }
    }
    words
}

#[test]
fn a_winners_file_is_read_back_as_its_command_line() {
    let odd = json!({
        "quantization": "no", "revision": "0x10", "gpu_memory_utilization": 0.9, "enforce_eager": true,
        "enable_prefix_caching": false, "served_model_name": ["a b", "true", "1e5"], "seed": 7,
        "hf_overrides": {"a": "it's: #1"}, "chat_template": "{{ é }}\n-", "compilation_config.pass_config.x": false,
    });
    let (_folder, directory) = written(&Experiment {
        servers: times(&[odd], "max_num_seqs", &[json!(16), json!(64)]),
        loads: times(&[json!({})], "max_concurrency", &[json!(1), json!(4), json!(64)]),
        ..Experiment::default()
    });
    assert_eq!(
        files_in(&directory.best()),
        ["highest-throughput.yaml", "lowest-latency.yaml"]
    );
    let text = fs::read_to_string(directory.best().join("highest-throughput.yaml")).expect("readable");
    let expected = [
        "--model",
        "meta-llama/Llama-3.1-8B-Instruct",
        "--quantization",
        "no",
        "--revision",
        "0x10",
        "--gpu-memory-utilization",
        "0.9",
        "--enforce-eager",
        "--no-enable-prefix-caching",
        "--served-model-name",
        "a b",
        "true",
        "1e5",
        "--seed",
        "7",
        "--hf-overrides",
        r#"{"a": "it's: #1"}"#,
        "--chat-template",
        "{{ é }}\n-",
        "--compilation-config.pass_config.x",
        "false",
        "--max-num-seqs",
        "64",
    ];
    assert_eq!(words(&text), expected, "{text}");
    insta::assert_snapshot!("winner", text);
}

#[test]
fn a_winner_that_is_none_any_more_is_removed() {
    let (_folder, directory) = written(&Experiment {
        fails: |_, _| Some(Cause::OomAtLoad),
        ..Experiment::default()
    });
    assert!(!directory.best().exists());
    fs::create_dir(directory.best()).expect("created");
    for name in ["lowest-latency.yaml", "notes.txt"] {
        fs::write(directory.best().join(name), "old").expect("written");
    }
    report(&directory);
    assert_eq!(files_in(&directory.best()), ["notes.txt"]);
}

#[test]
fn parquet_and_csv_tell_the_same() {
    let (_folder, directory) = written(&Experiment {
        servers: times(&[json!({})], "max_num_seqs", &[json!(16), json!("auto")]),
        loads: times(&[json!({})], "max_concurrency", &[json!(1), json!(null)]),
        fails: |server, load| (server == 1 && load == 1).then_some(Cause::OomUnderLoad),
        ..Experiment::default()
    });
    let file = fs::File::open(directory.summary_parquet()).expect("readable");
    let file = SerializedFileReader::new(file).expect("Parquet");
    let rows = file
        .get_row_iter(None)
        .expect("rows")
        .map(|row| row.expect("a row").to_json_value());
    let rows: Vec<Value> = rows.collect();
    let mut csv = csv::Reader::from_path(directory.summary_csv()).expect("readable");
    let heads = csv.headers().expect("a header").clone();
    let records: Vec<csv::StringRecord> = csv.records().map(|record| record.expect("a record")).collect();
    assert_eq!((rows.len(), records.len()), (12, 12));
    for (row, record) in rows.iter().zip(&records) {
        assert_eq!(row.as_object().expect("a record").len(), heads.len());
        for (name, told) in heads.iter().zip(record) {
            let same = match &row[name] {
                Value::Null => told.is_empty(),
                Value::Number(number) => told.parse::<f64>().ok() == number.as_f64(),
                Value::String(text) => told == text,
                other => told.parse::<bool>().ok() == other.as_bool(),
            };
            // JSON has no infinite number.
            assert!(same || told == "inf", "{name}: {} is not {told}", row[name]);
        }
    }
}
