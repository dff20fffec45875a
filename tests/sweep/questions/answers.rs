//! The fixed questions: a config whose answers differ is invalid wherever it is shown, but differences by the noise of batches do not
//! count.

use crate::harness::{Harness, journals, rows, said};
use std::collections::BTreeMap;
use std::path::Path;

const PLAN: &str = r#"
version = 1
runs = 1
[serve]
command = "vsweep sim serve tiny-8b --sim-start 50ms --sim-speed 50"
KEY
[[serve.combos]]
name = "plain"
[[serve.combos]]
name = "wrong"
sim_fault = "wrong-tokens:0.1"
[[serve.combos]]
name = "cut"
sim_fault = "cut-answers:8"
[[serve.combos]]
name = "repeated"
sim_fault = "repeated-tokens:0.1"
[[serve.combos]]
name = "truncated"
sim_fault = "truncated-prompts:200"
[[serve.combos]]
name = "noisy"
sim_fault = "batch-noise:0.1"
[bench.params]
random_input_len = 32
random_output_len = 8
num_prompts = 16
max_concurrency = 4
"#;

/// Values of a column for each combination.
fn seen(directory: &Path, column: &str) -> BTreeMap<String, String> {
    let rows = rows(&directory.join("points.csv"));
    rows.iter()
        .map(|row| (row["combo"].clone(), row[column].clone()))
        .collect()
}

fn is_doubted(codes: &str) -> bool {
    codes.split(' ').any(|code| code == "answers_differ")
}

#[test]
fn a_config_that_answers_otherwise_is_invalid_everywhere() {
    let harness = Harness::new();
    let plan = harness.write("plan.toml", &PLAN.replace("KEY", ""));
    let directory = harness.folder.path().join("out");
    let output = harness.run(&["run", plan.to_str().expect("a plain path"), "-o", "out"]);
    assert!(output.status.success(), "{}", said(&output));
    let codes = seen(&directory, "codes");
    let doubted: Vec<&str> = codes
        .iter()
        .filter(|(_, codes)| is_doubted(codes))
        .map(|(name, _)| &**name)
        .collect();
    assert_eq!(doubted, ["cut", "repeated", "truncated", "wrong"], "{}", said(&output));
    let validity = seen(&directory, "validity");
    assert!(doubted.iter().all(|name| validity[*name] == "invalid"), "{validity:?}");
    assert!(
        !codes["noisy"].contains("answers_differ"),
        "noise of batches is no other answer"
    );
    assert!(
        said(&output).contains("the runs of wrong will be invalid: answers differ: against plain"),
        "{}",
        said(&output)
    );
    let page = std::fs::read_to_string(directory.join("report.html")).expect("a page");
    assert!(page.contains("answers_differ"), "the page tells");
    // On a busy machine the other runs may be in doubt too. Then there is no winner.
    for file in std::fs::read_dir(directory.join("best"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let text = std::fs::read_to_string(file.path()).expect("text");
        let faults = ["wrong-tokens", "cut-answers", "repeated-tokens", "truncated-prompts"];
        assert!(faults.iter().all(|fault| !text.contains(fault)), "{text}");
    }
    // Run files and journals stay as they were written: whether answers differ is computed from all starts.
    assert!(!journals(&directory).concat().contains("answers_differ"));
}

#[test]
fn who_does_not_want_the_questions_is_not_asked() {
    let harness = Harness::new();
    let plan = harness.write("plan.toml", &PLAN.replace("KEY", "answer_check = false"));
    let directory = harness.folder.path().join("out");
    let output = harness.run(&["run", plan.to_str().expect("a plain path"), "-o", "out"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(!journals(&directory).concat().contains("\"answers\""));
    assert!(seen(&directory, "codes").values().all(|codes| !is_doubted(codes)));
}

#[test]
fn a_search_on_a_server_that_answers_otherwise_has_no_answer() {
    let harness = Harness::new();
    let plan = r#"
version = 1
[serve]
command = "vsweep sim serve tiny-8b --sim-start 50ms --sim-speed 50"
[[serve.combos]]
name = "plain"
[[serve.combos]]
name = "cut"
sim_fault = "cut-answers:2"
[bench.params]
random_input_len = 32
random_output_len = 8
[sla]
vary = "max_concurrency"
min = 1
max = 4
[[sla.target]]
name = "chat"
p90_ttft_ms = "<1000"
"#;
    let plan = harness.write("plan.toml", plan);
    let directory = harness.folder.path().join("out");
    let output = harness.run(&["run", plan.to_str().expect("a plain path"), "-o", "out"]);
    assert!(output.status.success(), "{}", said(&output));
    let rows = rows(&directory.join("sla.csv"));
    let answers: Vec<(&str, &str)> = rows.iter().map(|row| (&*row["combo"], &*row["answer"])).collect();
    assert_eq!(answers, [("plain", "beyond"), ("cut", "invalid")], "{}", said(&output));
    let best = std::fs::read_to_string(directory.join("best/target-chat.yaml")).expect("a winner");
    assert!(!best.contains("sim-fault"), "{best}");
}
