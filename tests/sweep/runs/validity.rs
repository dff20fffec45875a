//! Runs that did not measure what they claim are marked wherever their figures are used, and servers are warmed up before they are
//! measured.

use crate::harness::{Harness, rows, said, wait_for};
use crate::standing::Standing;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// A plan of one workload on the running server. `bench` is added to `[bench]`, `load` to `[bench.params]`.
fn plan(server: &Standing, bench: &str, load: &str) -> String {
    format!(
        r#"
version = 1
runs = 2
[serve]
url = "{}"
reset = "none"
answer_check = false # requests are counted
[bench]
{bench}
[bench.params]
random_input_len = 16
random_output_len = 16
{load}
"#,
        server.url()
    )
}

fn summary(harness: &Harness, file: &str) -> Vec<BTreeMap<String, String>> {
    rows(&harness.folder.path().join("out").join(file))
}

/// Returns true if the codes of a row contain one of these.
fn has(row: &BTreeMap<String, String>, codes: &[&str]) -> bool {
    row["codes"].split(' ').any(|code| codes.contains(&code))
}

#[test]
fn a_load_that_was_never_there_wins_nothing() {
    let harness = Harness::new();
    let server = Standing::start(&harness, &[], false);
    // The first load has more slots than requests. Its answers are the fastest of all.
    let plan = plan(&server, "", "max_concurrency = 8\nnum_prompts = [2, 24]");
    harness.write("plan.toml", &plan);
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert!(
        said(&output).contains("Doubts: 2 runs are invalid (load not reached)"),
        "{}",
        said(&output)
    );
    for point in summary(&harness, "points.csv") {
        let is_there = point["num_prompts"] == "24";
        assert_eq!(has(&point, &["load_not_reached"]), !is_there, "{point:?}");
        assert_eq!(point["validity"] == "invalid", !is_there, "{point:?}");
        if !is_there {
            let users: f64 = point["user_count_estimate"].parse().expect("a number");
            assert!(users <= 2.0, "two requests are two users at most: {users}");
        }
    }
    let report = fs::read_to_string(harness.folder.path().join("out/report.md")).expect("a report");
    let answers: Vec<&str> = report.lines().filter(|line| line.contains(" at prompts ")).collect();
    assert!(!answers.is_empty(), "{report}");
    assert!(
        answers.iter().all(|line| line.contains(" at prompts 24")),
        "{answers:?}"
    );
    let drawn = harness.run(&["plot", "pareto", "out", "--format", "json"]);
    let drawn: serde_json::Value = serde_json::from_slice(&drawn.stdout).expect("JSON");
    assert_eq!(drawn["points"].as_array().map(Vec::len), Some(1), "{drawn}");
}

#[test]
fn a_run_in_which_vsweep_was_stopped_is_marked() {
    let harness = Harness::new();
    let server = Standing::start(&harness, &[], false);
    let plan = plan(&server, "warmup_prompts = 0", "max_concurrency = 2\nnum_prompts = 60");
    harness.write("plan.toml", &plan.replace("runs = 2", "runs = 1"));
    let mut vsweep = harness.start(&["run", "plan.toml", "-o", "out"]);
    wait_for("requests to run", || server.metric("vllm:num_requests_running") > 0.0);
    let pid = Pid::from_raw(vsweep.id() as i32);
    kill(pid, Signal::SIGSTOP).expect("alive");
    std::thread::sleep(Duration::from_secs(2));
    kill(pid, Signal::SIGCONT).expect("alive");
    assert_eq!(vsweep.wait().expect("reaped").code(), Some(0));
    let run = &summary(&harness, "summary.csv")[0];
    assert!(has(run, &["generator_stopped", "generator_stalled"]), "{run:?}");
    assert_ne!(run["validity"], "valid");
}

#[test]
fn a_load_is_warmed_up_once_on_each_start_of_a_server() {
    for (warmup, unmeasured) in [("", 4.0), ("warmup_prompts = 0", 0.0), ("warmup_prompts = 3", 3.0)] {
        let harness = Harness::new();
        let server = Standing::start(&harness, &[], false);
        harness.write(
            "plan.toml",
            &plan(&server, warmup, "max_concurrency = 4\nnum_prompts = 8"),
        );
        let output = harness.run(&["run", "plan.toml", "-o", "out"]);
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(
            server.metric("vllm:time_to_first_token_seconds_count"),
            16.0 + unmeasured,
            "{warmup}"
        );
        let cold: Vec<bool> = summary(&harness, "summary.csv")
            .iter()
            .map(|run| has(run, &["cold_server"]))
            .collect();
        assert_eq!(cold, [unmeasured == 0.0, false], "{warmup}");
    }
}

#[test]
fn answers_of_another_length_and_prompts_found_in_the_cache_are_marked() {
    let faults: [(&[&str], &str); 3] = [
        (&["--sim-fault", "cut-answers:8"], "output_lengths_differ"),
        (&["--sim-fault", "wrong-counts:1"], "too_many_output_tokens"),
        (&[], "prefix_cache_hits"),
    ];
    for (flags, code) in faults {
        let harness = Harness::new();
        let server = Standing::start(&harness, &[&["--sim-speed", "20"], flags].concat(), false);
        // Both points have the same prompts, and the cache is not reset between them.
        let load = "max_concurrency = [4, 5]\nnum_prompts = 20";
        let plan = plan(&server, "warmup_prompts = 0", load).replace("runs = 2", "runs = 1");
        let plan = plan.replace("random_input_len = 16", "random_input_len = 128");
        harness.write("plan.toml", &plan);
        let output = harness.run(&["run", "plan.toml", "-o", "out"]);
        assert!(output.status.success(), "{}", said(&output));
        let runs = summary(&harness, "summary.csv");
        assert!(has(&runs[1], &[code]), "{code}: {}", said(&output));
        let others = ["output_lengths_differ", "too_many_output_tokens", "prefix_cache_hits"]
            .into_iter()
            .filter(|other| *other != code);
        assert!(!has(&runs[0], &others.collect::<Vec<_>>()), "{}", said(&output));
    }
}

/// The first point is measured again at the end, which shows whether the server became slower.
#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn a_server_that_slows_down_from_run_to_run_is_marked() {
    for (slowing, is_told) in [("0", false), ("1.5", true)] {
        let harness = Harness::new();
        let plan = format!(
            r#"
version = 1
runs = 1
repeat_first = true
[serve]
command = "vsweep sim serve tiny-8b --sim-start 50ms --sim-slowing {slowing}"
answer_check = false
[bench]
warmup_prompts = 0
[bench.params]
random_input_len = 16
random_output_len = 64
max_concurrency = [4, 8]
num_prompts = {{ per = "max_concurrency", times = 14 }}
"#
        );
        harness.write("plan.toml", &plan);
        let output = harness.run(&["run", "plan.toml", "-o", "out"]);
        assert!(output.status.success(), "{}", said(&output));
        let runs = summary(&harness, "summary.csv");
        assert_eq!(runs.len(), 3, "two points, and the first once more: {runs:?}");
        for point in summary(&harness, "points.csv") {
            assert_eq!(has(&point, &["server_drifts"]), is_told, "{point:?}");
        }
        let report = std::fs::read_to_string(harness.folder.path().join("out/report.md")).expect("written");
        assert_eq!(report.contains("changed while it was measured"), is_told, "{report}");
        let again = harness.run(&["run", "plan.toml", "-o", "out"]);
        assert!(
            again.status.success() && summary(&harness, "summary.csv").len() == 3,
            "{}",
            said(&again)
        );
    }
}

/// Draft tokens are accepted less and less often. This is measured once a second during the run.
#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn speculation_whose_guesses_become_worse_is_marked() {
    for (falling, is_told) in [("0", false), ("1.2", true)] {
        let harness = Harness::new();
        let plan = format!(
            r#"
version = 1
runs = 1
[serve]
command = "vsweep sim serve tiny-8b --sim-start 50ms --sim-acceptance-falling {falling}"
answer_check = false
[serve.params]
speculative_config = '{{"method": "ngram", "num_speculative_tokens": 3}}'
[bench]
warmup_prompts = 0
[bench.params]
random_input_len = 16
random_output_len = 64
request_rate = 8
num_prompts = 200
"#
        );
        harness.write("plan.toml", &plan);
        let output = harness.run(&["run", "plan.toml", "-o", "out"]);
        assert!(output.status.success(), "{}", said(&output));
        let run = &summary(&harness, "summary.csv")[0];
        assert_eq!(has(run, &["acceptance_drifts"]), is_told, "{run:?}");
        assert!(
            run["spec_decode_acceptance_rate"].parse::<f64>().expect("a number") > 0.0,
            "{run:?}"
        );
    }
}
