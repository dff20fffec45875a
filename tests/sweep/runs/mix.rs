//! Loads of several classes end to end on the simulated server: columns, targets of one class, and killed sweeps.

use crate::agreement::assert_sweep_agreed;
use crate::harness::{Harness, journal_lines, rows, said};
use std::collections::BTreeMap;
use std::path::Path;
use vsweep::journal::{self, Check, Directory};
use vsweep::metrics::Histogram;

const PLAN: &str = r#"
version = 1
runs = 2

[serve]
command = "vsweep sim serve tiny-8b --sim-start 20ms"
stop_grace = "2s"

[bench.params]
random_output_len = 8
num_prompts = 40
max_concurrency = [2, 4]

[[bench.mix]]
name = "chat"
share = 70
random_input_len = 16

[[bench.mix]]
name = "documents"
share = 30
random_input_len = 200
"#;

/// Numbers of requests and tokens of each class, by point and run.
fn asked(directory: &Path) -> BTreeMap<(String, String), Vec<String>> {
    let figures = [
        "chat.completed",
        "documents.completed",
        "chat.total_input_tokens",
        "documents.total_input_tokens",
    ];
    let rows = rows(&directory.join("summary.csv")).into_iter();
    rows.map(|row| {
        let figures = figures.map(|name| row[name].clone()).to_vec();
        ((row["point"].clone(), row["run"].clone()), figures)
    })
    .collect()
}

#[test]
fn every_table_has_the_figures_of_each_class() {
    let harness = Harness::new();
    let plot = "[[report.plot]]\nx = \"max_concurrency\"\ny = \"chat.p99_ttft_ms\"\n[[assert]]\nclass = \"documents\"\np99_ttft_ms = \"<=60000\"\n";
    let plan = harness.write("plan.toml", &[PLAN, plot].concat());
    let run = harness.run(&["run", plan.to_str().expect("a plain path"), "-o", "out", "--quiet"]);
    assert!(run.status.success(), "{}", said(&run));
    let directory = harness.folder.path().join("out");
    for row in rows(&directory.join("summary.csv")) {
        let number = |name: &str| row[name].parse::<f64>().expect("a number");
        assert_eq!(number("chat.completed") + number("documents.completed"), 40.0);
        assert_eq!(number("chat.share"), number("chat.completed") / 40.0);
        assert!(number("documents.p99_ttft_ms") > 0.0 && number("chat.p50_e2el_ms") > 0.0);
    }
    for row in rows(&directory.join("points.csv")) {
        let number = |name: &str| row[name].parse::<f64>().expect("a number");
        assert!(
            number("chat.p99_ttft_ms_low") < number("chat.p99_ttft_ms_high"),
            "the answer judges it"
        );
    }
    let state = journal::load(&Directory::open(&directory).expect("an experiment"), Check::Lengths).expect("sound");
    for run in state.runs() {
        let file = run.file.as_ref().expect("a file");
        let content = std::fs::read_to_string(directory.join(&*file.path)).expect("readable");
        let content: serde_json::Value = serde_json::from_str(&content).expect("JSON");
        let counted = |name: &str| {
            let histogram = serde_json::from_value::<Histogram>(content["histograms"][name].clone());
            histogram.expect("a histogram").count()
        };
        for latency in ["ttft", "e2el"] {
            let of_class = |class: &str| {
                let count = counted(&format!("{class}.{latency}"));
                assert_eq!(Some(count), content[format!("{class}.completed")].as_u64());
                count
            };
            assert_eq!(of_class("chat") + of_class("documents"), counted(latency));
        }
    }
    let verify = harness.run(&["verify", "out"]);
    assert!(verify.status.success(), "{}", said(&verify));
    assert_sweep_agreed(&harness, "out");
    let report = std::fs::read_to_string(directory.join("report.md")).expect("a report");
    assert!(report.contains("chat: p99 TTFT (ms)"), "{report}");
    let page = std::fs::read_to_string(directory.join("report.html")).expect("a page");
    assert!(page.contains("\"of_classes\":[\"chat.p99_ttft_ms\""));
    let text = harness.run(&["report", "out"]);
    assert!(said(&text).contains("documents: p99 TTFT"), "{}", said(&text));
    assert!(
        !said(&text).contains("chat: p99 TTFT"),
        "no goal is about it: {}",
        said(&text)
    );
    let plot = harness.run(&[
        "plot",
        "out",
        "--var-x",
        "max_concurrency",
        "--var-y",
        "documents.p99_ttft_ms",
    ]);
    assert!(plot.status.success(), "{}", said(&plot));
}

#[test]
fn a_killed_sweep_sends_the_classes_that_were_missing() {
    let harness = Harness::new();
    let plan = harness.write("plan.toml", PLAN);
    let plan = plan.to_str().expect("a plain path");
    let whole = harness.run(&["run", plan, "-o", "whole", "--quiet"]);
    assert!(whole.status.success(), "{}", said(&whole));
    let directory = harness.folder.path().join("killed");
    let mut kills = 0;
    for reach in 1.. {
        let before = journal_lines(&directory);
        let vsweep = harness.start(&["run", plan, "-o", "killed", "--quiet"]);
        if !harness.kill_when(vsweep, || journal_lines(&directory) >= before + 2 * reach) {
            break;
        }
        kills += 1;
    }
    assert!(kills > 1, "only {kills} kills: the test has lost its meaning");
    assert_eq!(asked(&directory), asked(&harness.folder.path().join("whole")));
    harness.wait_until_alone();
}

#[test]
fn a_target_may_be_about_a_class() {
    let harness = Harness::new();
    let plan = PLAN.replace("runs = 2\n", "").replace("max_concurrency = [2, 4]\n", "");
    let sla = "[sla]\nvary = \"max_concurrency\"\nmax = 4\n\
               [[sla.target]]\nname = \"easy\"\nclass = \"chat\"\np99_ttft_ms = \"<=60000\"\n\
               [[sla.target]]\nname = \"share\"\nclass = \"chat\"\nattainment = \">=90%\"\ne2el_ms = \"<60000\"\n\
               [[sla.target]]\nname = \"impossible\"\nclass = \"documents\"\np99_ttft_ms = \"<=0.000001\"\n";
    let plan = harness.write("plan.toml", &[plan.as_str(), sla].concat());
    let run = harness.run(&["run", plan.to_str().expect("a plain path"), "-o", "out", "--quiet"]);
    assert!(run.status.success(), "{}", said(&run));
    let answers = rows(&harness.folder.path().join("out/sla.csv"));
    let answer = |target: &str| {
        let row = answers.iter().find(|row| row["target"] == target).expect("a row");
        (row["answer"].clone(), row["binding"].clone())
    };
    assert_eq!(
        answer("easy"),
        ("beyond".to_owned(), "chat.p99_ttft_ms<=60000".to_owned())
    );
    assert_eq!(
        answer("share"),
        ("beyond".to_owned(), "chat.share(e2el_ms<60000)>=0.9".to_owned())
    );
    assert_eq!(
        answer("impossible"),
        ("none".to_owned(), "documents.p99_ttft_ms<=0.000001".to_owned())
    );
    let verify = harness.run(&["verify", "out"]);
    assert!(verify.status.success(), "{}", said(&verify));
    assert_sweep_agreed(&harness, "out");
}
