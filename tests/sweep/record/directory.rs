//! The content of an experiment directory decides what a command does there: files of other people do not matter, lost and damaged results
//! do, and one address must not have two models.

use crate::harness::{Harness, journal_files, rows, run_files, said};
use crate::standing::Standing;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

const PLAN: &str = r#"
version = 1
runs = 2

[serve]
TARGET

[bench.params]
random_input_len = 32
random_output_len = 8
max_concurrency = [1, 2]
num_prompts = 4
"#;

fn plan(harness: &Harness, target: &str) -> String {
    let path = harness.write("plan.toml", &PLAN.replace("TARGET", target));
    path.to_str().expect("a plain path").to_owned()
}

const SIMULATED: &str = "command = \"vsweep sim serve tiny-8b --sim-start 50ms --sim-speed 50\"";

#[test]
fn files_of_others_do_not_lock_an_experiment() {
    let harness = Harness::new();
    let plan = plan(&harness, SIMULATED);
    fs::create_dir(harness.folder.path().join("out")).expect("a folder");
    harness.write("out/notes.txt", "mine");
    let args = ["run", plan.as_str(), "-o", "out"];
    let refused = harness.run(&args);
    assert!(said(&refused).contains("no experiment"), "{}", said(&refused));
    fs::remove_file(harness.folder.path().join("out/notes.txt")).expect("it is there");

    assert!(harness.run(&args).status.success());
    let drawn = harness.run(&["plot", "pareto", "out"]);
    assert!(drawn.status.success(), "{}", said(&drawn));
    harness.write("out/notes.txt", "mine");
    let again = harness.run(&args);
    assert!(said(&again).contains("nothing left to do"), "{}", said(&again));
}

#[test]
fn a_damaged_run_is_left_to_do_wherever_one_looks() {
    let harness = Harness::new();
    let plan = plan(&harness, SIMULATED);
    assert!(harness.run(&["run", &plan, "-o", "out"]).status.success());
    let out = harness.folder.path().join("out");
    let damaged = &run_files(&out)[0];
    fs::write(damaged, "{").expect("it is there");
    let point = damaged
        .parent()
        .and_then(Path::file_name)
        .and_then(OsStr::to_str)
        .expect("a point");

    let status = harness.run(&["status", "out"]);
    assert!(said(&status).contains("3 of 4 runs done"), "{}", said(&status));
    assert!(
        said(&status).contains("1 run file is missing or damaged"),
        "{}",
        said(&status)
    );
    let dry = harness.run(&["run", &plan, "-o", "out", "--dry-run"]);
    assert!(
        said(&dry).contains("left to do: 1 server start, 1 run; recorded in out: 3 runs"),
        "{}",
        said(&dry)
    );
    let text = said(&dry);
    let mut left = text.lines().filter(|line| line.ends_with("  #0"));
    assert!(left.next().is_some_and(|line| line.contains(point)), "{text}");
    assert_eq!(left.next(), None, "{text}");
}

#[test]
fn results_without_their_journal_are_not_taken_for_a_new_experiment() {
    let harness = Harness::new();
    let plan = plan(&harness, SIMULATED);
    assert!(harness.run(&["run", &plan, "-o", "out"]).status.success());
    let journal = harness.folder.path().join("out/journal");
    fs::write(&journal_files(&harness.folder.path().join("out"))[0], "").expect("it is there");
    let told = |args: &[&str]| {
        let output = harness.run(args);
        assert!(!output.status.success(), "{}", said(&output));
        assert!(
            said(&output).contains("its journal is missing or empty"),
            "{}",
            said(&output)
        );
    };
    for args in [&["status", "out"][..], &["report", "out"], &["run", &plan, "-o", "out"]] {
        told(args);
    }
    told(&["run", &plan, "-o", "out", "--dry-run"]);
    fs::remove_dir_all(journal).expect("it is there");
    told(&["run", &plan, "-o", "out", "--dry-run"]);
}

#[test]
fn what_the_plan_asks_of_a_report_is_known_without_the_files_it_was_made_of() {
    let harness = Harness::new();
    plan(&harness, SIMULATED);
    harness.write("settings.json", r#"[{"max_num_seqs": 4}]"#);
    let text =
        "extends = \"plan.toml\"\n[serve]\nparams_file = \"settings.json\"\n[report]\nprice_per_gpu_hour = 3.6\n";
    let path = harness.write("child.toml", text);
    let output = harness.run(&["run", path.to_str().expect("plain"), "-o", "out"]);
    assert!(output.status.success(), "{}", said(&output));
    for file in ["plan.toml", "child.toml", "settings.json"] {
        fs::remove_file(harness.folder.path().join(file)).expect("it is there");
    }
    let table = harness.folder.path().join("out/summary.csv");
    let costs = || {
        rows(&table)
            .into_iter()
            .map(|row| row["cost_per_million_tokens"].clone())
            .collect::<Vec<_>>()
    };
    let before = costs();
    assert!(before.iter().all(|cost| !cost.is_empty()), "{before:?}");
    let output = harness.run(&["report", "out"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(costs(), before);
    let cost = || -> f64 {
        let output = harness.run(&["status", "out", "--format", "json"]);
        let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        status["usage"]["cost"].as_f64().expect("a cost")
    };
    let cost_before = cost();
    let output = harness.run(&["report", "out", "--price-per-gpu-hour", "7.2"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!((cost() / cost_before - 2.0).abs() < 1e-9, "the report's price counts");
}

#[test]
fn another_model_at_the_same_address_does_not_continue_the_first_ones_experiment() {
    let harness = Harness::new();
    let first = Standing::start(&harness, &["--served-model-name", "alpha"], true);
    let port = first.port;
    let target = format!("url = \"{}\"", first.url());
    let path = plan(&harness, &target);
    let only = ["run", path.as_str(), "-o", "out", "--only", "max_concurrency=1"];
    let output = harness.run(&only);
    assert!(output.status.success(), "{}", said(&output));
    drop(first);

    let _second = Standing::start_at(port, &harness, &["--served-model-name", "beta"], true);
    let output = harness.run(&["run", &path, "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let told = said(&output);
    assert!(
        told.contains("another server answers now: model alpha became beta"),
        "{told}"
    );
    let runs = rows(&harness.folder.path().join("out/summary.csv"));
    assert_eq!(runs.len(), 4, "{runs:?}");
    let retired = rows(&harness.folder.path().join("out/duplicates.csv"));
    assert_eq!(retired.len(), 2, "{retired:?}");
    assert!(retired.iter().all(|row| row["why"].contains("model alpha became beta")));
    assert!(retired.iter().all(|row| row["start"] == "0"), "named as in starts.csv");
    let answer = std::fs::read(harness.folder.path().join("out/answer.json")).expect("an answer");
    let answer: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
    assert_eq!(
        answer["configs"][0]["facts"]["retries"], 0,
        "retired is not tried again"
    );
}

#[test]
fn a_model_that_the_server_does_not_offer_is_not_measured_under_its_name() {
    let harness = Harness::new();
    let plan = plan(&harness, SIMULATED);
    let measured = |model: &str, out: &str| {
        let set = format!("bench.params.model=\"{model}\"");
        harness.run(&["run", &plan, "-o", out, "--set", &set])
    };
    let output = measured("tiny-8b", "right");
    assert!(output.status.success(), "{}", said(&output));
    let output = measured("other-8b", "wrong");
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    for row in rows(&harness.folder.path().join("wrong/summary.csv")) {
        assert_eq!(
            (row["outcome"].as_str(), row["cause"].as_str()),
            ("failed", "wrong_server")
        );
    }
}
