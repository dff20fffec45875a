//! Exports of a report for other programs: the winners' configuration files and the runs as Parquet.

use crate::deadline::ended;
use crate::experiment::{Experiment, times};
use crate::harness::{Harness, rows, said};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use tempfile::TempDir;
use vsweep::cause::Cause;
use vsweep::ids::SearchId;
use vsweep::journal::{self, Check, Directory, Event, FORMAT, LineId, Log, Nonce, RecordedPlan, RunRecord};
use vsweep::plan::ReportOptions;
use vsweep::report::{make_pages, write_all};

fn written(experiment: &Experiment) -> (TempDir, Directory) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = experiment.write(&folder.path().join("demo"));
    report(&directory);
    (folder, directory)
}

fn report(directory: &Directory) {
    let state = journal::load(directory, Check::Hashes).expect("a sound journal");
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

/// Returns the arguments that `vllm serve --config` makes from a file: a flag for each key, a word for each value.
fn words(yaml: &str) -> Vec<String> {
    let settings: serde_json::Map<String, Value> = serde_yaml_ng::from_str(yaml).expect("YAML");
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
fn the_report_links_a_winners_file_and_carries_its_text() {
    let (_folder, directory) = written(&Experiment {
        loads: times(&[json!({})], "max_concurrency", &[json!(1), json!(8)]),
        ..Experiment::default()
    });
    let page = fs::read_to_string(directory.report_html()).expect("readable");
    let markdown = fs::read_to_string(directory.report_markdown()).expect("readable");
    let files = files_in(&directory.best());
    assert!(!files.is_empty());
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    let elsewhere = make_pages(&directory, &state, &ReportOptions::default(), None);
    for file in files {
        assert!(!elsewhere.page.contains("href=\"best/"), "{file}");
        assert!(
            elsewhere.markdown.contains(&format!("`best/{file}`")),
            "{}",
            elsewhere.markdown
        );
        assert!(page.contains(&format!("href=\"best/{file}\"")), "{file}");
        assert!(markdown.contains(&format!("(best/{file})")), "{markdown}");
        let text = fs::read_to_string(directory.best().join(&file)).expect("readable");
        let settings = text.split("\n\n").last().expect("settings below the comments").trim();
        assert!(page.contains(settings), "{settings}");
    }
}

#[test]
fn a_winners_envelope_is_what_the_points_say() {
    let (_folder, directory) = written(&Experiment {
        servers: times(&[json!({})], "max_num_seqs", &[json!(16), json!(64)]),
        loads: times(&[json!({})], "max_concurrency", &[json!(1), json!(8), json!(64)]),
        ..Experiment::default()
    });
    let text = fs::read_to_string(directory.best().join("highest-throughput.yaml")).expect("readable");
    let points = rows(&directory.points_csv());
    let columns = [
        "output_throughput",
        "tokens_per_gpu",
        "tokens_per_user",
        "p99_ttft_ms",
        "p99_tpot_ms",
    ];
    let mut told = 0;
    for point in points.iter().filter(|point| point["max_num_seqs"] == "64") {
        let starts = |line: &&str| line.split_whitespace().nth(1) == Some(point["max_concurrency"].as_str());
        let line = text.lines().find(starts).expect("a line for each load");
        let numbers = line
            .replace(',', "")
            .replace(['(', ')', '-'], " ")
            .replace("<  this", "");
        let numbers = numbers.split_whitespace().skip(2);
        let numbers: Vec<f64> = numbers.map(|number| number.parse().expect("a number")).collect();
        let spread = |name: &&str| ["", "_low", "_high"].map(|end| format!("{name}{end}"));
        let names = columns.iter().flat_map(spread).chain(["runs_ok".to_owned()]);
        let expected: Vec<f64> = names.map(|name| point[&name].parse().expect("a number")).collect();
        assert_eq!(numbers.len(), expected.len(), "{text}");
        for (number, expected) in numbers.iter().zip(expected) {
            assert!(
                (number / expected - 1.0).abs() < 0.0051,
                "{number} is not {expected}: {text}"
            );
        }
        told += 1;
    }
    assert_eq!(told, 3);
}

/// Returns the settings that a simulated server logs at its start, without its address and its model.
fn settings_in(line: &str) -> Option<serde_json::Map<String, Value>> {
    let (_, settings) = line.split_once("non-default args: ")?;
    let json = settings
        .replace('\'', "\"")
        .replace("True", "true")
        .replace("False", "false");
    let mut settings: serde_json::Map<String, Value> = serde_json::from_str(&json).expect("a dictionary");
    settings.retain(|name, _| !["host", "port", "model", "model_tag"].contains(&name.as_str()));
    Some(settings)
}

/// Starts the server as the comments of a file say, and returns the settings that it logs.
fn start_from(harness: &Harness, best: &Path, file: &str) -> serde_json::Map<String, Value> {
    let text = fs::read_to_string(best.join(file)).expect("readable");
    let start = text.lines().skip_while(|line| !line.ends_with("Start it with:")).nth(1);
    let start = shell_words::split(start.expect("a command").trim_start_matches("# ")).expect("a command line");
    assert_eq!(start[0], "vsweep");
    let mut args: Vec<&str> = start[1..].iter().map(String::as_str).collect();
    args.extend(["--port", "0"]);
    let mut command = harness.vsweep(&args);
    let mut server: Child = command
        .current_dir(best)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let output = BufReader::new(server.stdout.take().expect("a pipe")).lines();
    let mut settings = None;
    let is_up = output.map_while(Result::ok).any(|line| {
        settings = settings_in(&line).or(settings.take());
        line.contains("Application startup complete.")
    });
    assert!(is_up, "{file} starts no server");
    // The server is stopped with TERM, because a killed server leaves its engine behind, as vLLM's does.
    let pid = Pid::from_raw(server.id().cast_signed());
    signal::kill(pid, Signal::SIGTERM).expect("it runs");
    assert!(ended(&mut server).success(), "{file}");
    settings.expect("its settings")
}

#[test]
fn a_winner_starts_again_from_its_file_with_its_settings() {
    let harness = Harness::new();
    let plan = r#"
version = 1
runs = 1
[serve]
command = "vsweep sim serve demo-8b --sim-speed 20"
ready_timeout = "2m"
[serve.params]
max_num_seqs = [2, 32]
compilation_config = { value = { mode = 3 } }
[[serve.combos]]
name = "small steps"
max_num_batched_tokens = 512
enable_prefix_caching = false
[[serve.combos]]
name = "large steps"
max_num_batched_tokens = 4096
[bench]
runner = "native"
[bench.params]
dataset_name = "random"
random_input_len = 64
random_output_len = 8
max_concurrency = 8
num_prompts = 16
"#;
    let path = harness.write("plan.toml", plan);
    let output = harness.run(&["run", path.to_str().expect("plain"), "-o", "out"]);
    assert!(output.status.success(), "{}", said(&output));
    let directory = Directory::open(harness.folder.path().join("out")).expect("a directory");
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    let of_point = |point: &str| -> &RunRecord { state.runs().find(|run| &*run.point.0 == point).expect("a run") };
    let mut points = rows(&directory.points_csv());
    // On a loaded machine the generator may be stopped during a run. Such a run is invalid and never wins.
    points.retain(|point| point["validity"] != "invalid");
    for (file, figure, best) in [
        (
            "highest-throughput.yaml",
            "output_throughput",
            f64::max as fn(f64, f64) -> f64,
        ),
        ("lowest-latency.yaml", "p99_e2el_ms", f64::min),
    ] {
        let value = |point: &BTreeMap<String, String>| point[figure].parse::<f64>().expect("a number");
        let wanted = points.iter().map(value).reduce(best).expect("a point");
        let started = start_from(&harness, &directory.best(), file);
        // Of servers within the margin, the one with fewer changes from the defaults wins.
        let close = points
            .iter()
            .filter(|point| (value(point) / wanted - 1.0).abs() < 0.011);
        let measured = close.map(|point| {
            let run = of_point(&point["point"]);
            let log = directory.server_log(&run.server, run.launch.expect("it was measured"));
            let log = fs::read_to_string(log).expect("the server's log");
            let measured = log.lines().find_map(settings_in).expect("its settings");
            for name in ["max_num_seqs", "max_num_batched_tokens"] {
                assert_eq!(measured[name].to_string(), point[name], "{file}");
            }
            assert!(!measured["compilation_config"].is_null(), "{log}");
            measured
        });
        let measured: Vec<_> = measured.collect();
        assert!(measured.contains(&started), "{file}: {started:?} of {measured:?}");
    }
    harness.wait_until_alone();
}

/// Writes the journal of one server's searches under two workloads. In the first, the highest load meets the target, in a run that was cut
/// as soon as that was certain. In the second, no load does.
fn write_searches(directory: &Directory) {
    let nonce = Nonce::from(1);
    let line = |seq: usize| {
        LineId {
            journal: nonce,
            seq: seq as u64,
        }
        .to_string()
    };
    let server = "aaaaaaaaaaaaaaaa";
    let searches = ["aaaaaaaaaaaaaaa1", "aaaaaaaaaaaaaaa2"].map(|id| SearchId(id.into()));
    let mut events = vec![
        json!({"journal_created": {"format": format!("{}.{}", FORMAT.0, FORMAT.1), "vsweep": "0.1.0", "shard": "1-of-1"}}),
        json!({"session_started": {"host": "", "boot": "", "pid": 1, "started": 0,
            "plan": RecordedPlan::new("demo", String::new(), &[], &searches), "servers": 1, "points": 0, "runs": 0, "searches": 2,
            "seen": {}}}),
        json!({"group_begun": {"server": server, "slot": 0, "config": {"name": "seqs", "argv": ["vllm", "serve", "m",
            "--max-num-seqs", "8"], "env": {}, "params": {"max_num_seqs": 8}}}}),
    ];
    let mut search = |id: &SearchId, length: u32, (point, load, stopped): (&str, u32, &str), answer: Value| {
        let (begun, asked) = (line(events.len()), events.len() + 1);
        let reading = json!({"ratio": 0.5, "met": stopped == "pass", "low": 0.4, "high": 0.6});
        events.extend([
            json!({"search_started": {"search": id, "server": server, "slot": 0, "name": format!("random_input_len={length}"),
                "params": {"random_input_len": length}, "vary": "max_concurrency",
                "targets": [{"name": "chat", "criteria": ["p99_ttft_ms<=200"]}],
                "seed": {"value": 8.0, "factor": 6.0, "basis": "nothing"}}}),
            json!({"run_started": {"point": point, "server": server, "slot": 0, "run": 0, "launch": 1, "name": "x",
                "params": {"random_input_len": length, "max_concurrency": load},
                "search": {"id": id, "after": begun, "step": 0, "draw": 0}}}),
            json!({"run_finished": {"started": asked, "outcome": "cut", "validity": "valid", "cause": null, "detail": "stopped early",
                "seconds": 1.0, "file": null, "learned": {"probe": {
                    "question": {"target": "chat", "value": f64::from(load), "requests": 9, "confirm": false, "draw": 0},
                    "stopped": stopped, "readings": {"p99_ttft_ms<=200": reading}}}}}),
            json!({"search_finished": {"search": id, "after": line(asked), "cause": null, "detail": "", "answers": [answer]}}),
        ]);
    };
    let answer = |found: Value, low: f64, high: Value| json!({"target": "chat", "found": found, "low": low, "high": high, "binding": "p99_ttft_ms<=200", "probes": 1, "notes": []});
    let beyond = answer(json!({"verdict": "beyond", "value": 256.0}), 256.0, Value::Null);
    search(&searches[0], 64, ("bbbbbbbbbbbbbbb1", 256, "pass"), beyond);
    let none = answer(json!({"verdict": "none"}), 0.0, json!(1.0));
    search(&searches[1], 512, ("bbbbbbbbbbbbbbb2", 1, "fail"), none);
    events.push(json!({"session_ended": {"reason": "finished"}}));
    let mut log = Log::create(&directory.journal_folder(), nonce).expect("new");
    for (event, lamport) in events.into_iter().zip(1..) {
        let event: Event = serde_json::from_value(event).expect("an event");
        log.append(lamport, event).expect("appended");
    }
}

#[test]
fn each_load_has_its_winner_even_one_whose_run_was_cut() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = Directory::at(folder.path().join("demo"));
    directory.create().expect("created");
    write_searches(&directory);
    report(&directory);
    let page = fs::read_to_string(directory.report_html()).expect("readable");
    for sentence in [
        "Target chat, random_input_len=64: 256 concurrent requests or more, the highest load allowed.",
        "Target chat, random_input_len=512: no server meets it, even at concurrency 1",
    ] {
        let at = page.find(sentence).unwrap_or_else(|| panic!("{sentence}"));
        assert!(
            at < page.find("class=\"cards\"").expect("cards"),
            "the sentence comes first"
        );
    }
    let card = |title: &str| {
        let (_, card) = page.split_once(&format!("<h3>{title}</h3>")).expect("a card");
        card.split_once("</article>").expect("it ends").0
    };
    let held = card("Target chat, random_input_len=64");
    assert!(
        held.contains("<b>&gt;= 256</b>") && held.contains("cut short"),
        "{held}"
    );
    let none = card("Target chat, random_input_len=512");
    assert!(
        none.contains("It asks for p99 TTFT &lt;= 200 ms: no server meets it, even at concurrency 1"),
        "{none}"
    );
    assert!(
        !page.contains("sla.max_probes"),
        "no answer is less precise than was asked for"
    );
    let markdown = fs::read_to_string(directory.report_markdown()).expect("readable");
    let sentence =
        "Target chat, random\\_input\\_len=512: no server meets it, even at concurrency 1, with p99 TTFT about 100 ms.";
    assert!(markdown.contains(sentence), "{markdown}");
    let file = "target-chat--random_input_len-64.yaml";
    assert_eq!(files_in(&directory.best()), [file]);
    let text = fs::read_to_string(directory.best().join(file)).expect("readable");
    assert!(
        text.contains("<- this, cut short") && text.contains("max-num-seqs: 8"),
        "{text}"
    );
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
    fs::write(directory.written(), "best/lowest-latency.yaml\n").expect("written");
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
