//! A new experiment assumes the noise that other experiments in its folder measured on this machine, and records it, so that its answer
//! never changes.

use crate::harness::{Harness, journals, said};
use serde_json::Value;
use std::path::Path;

const PLAN: &str = "version = 1\nruns = RUNS\n[serve]\ncommand = \"vsweep sim serve tiny-8b --sim-start 10ms --sim-speed 50\"\nstop_grace = \
                    \"1s\"\n[bench]\ntelemetry = false\n[bench.params]\nrandom_input_len = 16\nrandom_output_len = 8\nmax_concurrency = 2\nnum_prompts = 20\n";

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("readable")).expect("JSON")
}

fn throughput(of: &Value) -> Value {
    let mut noise = of.as_array().expect("a list").iter();
    noise
        .find(|noise| noise["metric"] == "output_throughput")
        .expect("known")
        .clone()
}

/// The noise that each session recorded; null if it knew of none.
fn recorded(root: &Path) -> Vec<Value> {
    let journals = journals(root);
    let lines = journals.iter().flat_map(|journal| journal.lines());
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter_map(|line| Some(line["event"].get("session_started")?["noise"].clone()))
        .collect()
}

#[test]
fn a_new_experiment_assumes_the_noise_of_its_neighbours_and_keeps_it() {
    let harness = Harness::new();
    let begin = |name: &str, runs: &str| {
        harness.write("plan.toml", &PLAN.replace("RUNS", runs));
        let output = harness.run(&["run", "plan.toml", "-o", name]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        harness.folder.path().join(name)
    };
    let first = begin("first", "6");
    assert_eq!(recorded(&first), [Value::Null]);
    let measured = throughput(&read(&first.join("answer.json"))["noise"]);
    assert_eq!(measured["run"]["basis"], "measured", "{measured}");
    let second = begin("second", "1");
    let known = throughput(&recorded(&second)[0]);
    assert_eq!(known["run"], measured["run"]);
    assert_eq!(known["start"]["basis"], "assumed", "one start measures none");
    let answer = std::fs::read(second.join("answer.json")).expect("an answer");
    let assumed = throughput(&read(&second.join("answer.json"))["noise"]);
    assert_eq!(assumed["run"]["basis"], "assumed");
    // The answer stays the same when the other experiment is gone.
    std::fs::remove_dir_all(&first).expect("removed");
    let report = harness.run(&["report", "second"]);
    assert!(report.status.success(), "{}", said(&report));
    assert_eq!(std::fs::read(second.join("answer.json")).expect("an answer"), answer);
}
