//! The first part of the page as text: what to run, what limits it, and what failed.

use super::write;
use crate::experiment::{Experiment, times};
use serde_json::{Value, json};
use std::fs;
use vsweep::cause::Cause;

/// The recommendations of a page.
fn picks(page: &str) -> Vec<&str> {
    let ends = |part: &'_ str| part.find("</dl>").unwrap_or(part.len());
    page.split("<div class=\"pick\"")
        .skip(1)
        .map(|part| &part[..ends(part)])
        .collect()
}

#[test]
fn each_workload_has_the_limit_that_its_own_server_reaches() {
    let figures = |_: &Value, load: &Value| match load["random_output_len"].as_u64() {
        Some(64) => json!({"bound_by": "arithmetic", "mfu": 0.6, "mbu": 0.2}),
        _ => json!({"bound_by": "memory_bandwidth", "mfu": 0.1, "mbu": 0.7}),
    };
    let load = [json!({"dataset_name": "random", "random_input_len": 1024, "max_concurrency": 8})];
    let (_folder, directory) = write(&Experiment {
        servers: times(&[json!({})], "tensor_parallel_size", &[json!(1), json!(2)]),
        loads: times(&load, "random_output_len", &[json!(64), json!(256)]),
        figures,
        ..Experiment::default()
    });
    let page = fs::read_to_string(directory.report_html()).expect("readable");
    let limits = ["Compute binds", "Memory bandwidth binds"];
    let shown: Vec<[bool; 2]> = picks(&page)
        .iter()
        .map(|pick| limits.map(|limit| pick.contains(limit)))
        .collect();
    assert_eq!(shown, [[true, false], [false, true]]);
    assert_eq!(
        limits.map(|limit| page.matches(limit).count()),
        [1, 1],
        "and nowhere else"
    );
    let markdown = fs::read_to_string(directory.report_markdown()).expect("readable");
    for limit in limits {
        let line = markdown.lines().find(|line| line.contains(limit)).expect("a line");
        assert!(!line.starts_with(limit) && line.contains(" out: "), "{line}");
    }
}

#[test]
fn settings_that_differ_together_at_few_servers_are_all_named() {
    let (_folder, directory) = write(&Experiment {
        servers: vec![
            json!({"tensor_parallel_size": 1, "max_num_seqs": 128}),
            json!({"tensor_parallel_size": 2, "max_num_seqs": 64}),
        ],
        loads: times(&[json!({})], "max_concurrency", &[json!(8), json!(16)]),
        ..Experiment::default()
    });
    let markdown = fs::read_to_string(directory.report_markdown()).expect("readable");
    let names = ["TP 1, seqs 128", "TP 2, seqs 64"];
    assert!(names.iter().any(|name| markdown.contains(name)), "{markdown}");
}

#[test]
fn a_sweep_in_which_everything_failed_says_why_at_once() {
    let (_folder, directory) = write(&Experiment {
        fails: |_, _| Some(Cause::OomUnderLoad),
        ..Experiment::default()
    });
    let page = fs::read_to_string(directory.report_html()).expect("readable");
    let (_, answer) = page.split_once("id=\"answer\"").expect("an answer");
    let (answer, _) = answer.split_once("id=\"explore\"").expect("it ends");
    assert!(
        answer.contains("No run was measured, so there is no answer."),
        "{answer}"
    );
    assert!(answer.contains("3 runs (out of memory while serving)"), "{answer}");
    assert!(page.contains("<details class=\"part\" id=\"failures\" open>"));
}
