//! `[optimize]` in a plan: the best of many servers is found with few starts, whatever interrupts the sweep, and the record has a reason
//! for every start.

use crate::agreement::assert_sweep_agreed;
use crate::deadline::ended;
use crate::harness::{Harness, journal_files, journal_lines, rows, said};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use vsweep::evidence::OptimizationProgress;
use vsweep::journal::{Entry, Event, LineId, Rank, State};

/// A plan with 25 servers: 24 combinations and the default settings. A script measures them.
fn plan(optimize: &str) -> String {
    format!(
        "version = 1\nruns = 1\n[serve]\nstop_grace = \"1s\"\ncommand = \"vsweep sim serve tiny-8b --sim-start 10ms\"\n[serve.params]\n\
         max_num_seqs = [4, 8, 16, 32, 64, 128]\nmax_num_batched_tokens = [512, 1024, 2048, 4096]\n[optimize]\n{optimize}\n[bench]\n\
         telemetry = false\ncommand = \"sh bench.sh\"\n"
    )
}

/// The figure is computed from the flags of the server at the URL, so load on the machine does not change it: a smooth surface with its
/// best server at 32 sequences and 2,048 tokens.
const SCRIPT: &str = r#"
    port=${VSWEEP_BASE_URL##*:}
    for line in /proc/[0-9]*/cmdline; do tr '\0' ' ' < "$line"; echo; done 2> /dev/null |
        grep -- "sim serve.*--port $port " > "$VSWEEP_RESULT.flags"
    flag() { grep -o -- "--$1 [0-9]*" "$VSWEEP_RESULT.flags" | head -n 1 | cut -d ' ' -f 2; }
    seqs=$(flag max-num-seqs)
    tokens=$(flag max-num-batched-tokens)
    rm "$VSWEEP_RESULT.flags"
    awk -v s="${seqs:-2}" -v t="${tokens:-256}" 'BEGIN {
        value = 1000 * exp(-0.08 * log(s / 32) ^ 2 - 0.1 * log(t / 2048) ^ 2)
        printf "{\"completed\": 60, \"output_throughput\": %f}", value
    }' > "$VSWEEP_RESULT"
"#;

const BEST: &str = "max_num_seqs=32, max_num_batched_tokens=2048";

fn harness(optimize: &str) -> Harness {
    let harness = Harness::new();
    harness.write("bench.sh", SCRIPT);
    harness.write("plan.toml", &plan(optimize));
    harness
}

/// The lines of all journals, in the order of their ranks.
fn entries(directory: &Path) -> Vec<Entry> {
    let mut entries = Vec::new();
    for path in journal_files(directory) {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let journal = name.parse().expect("a journal is named by its nonce");
        let text = std::fs::read_to_string(&path).expect("a readable journal");
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let number = |key: &str| line[key].as_u64().expect("a number");
            entries.push(Entry {
                rank: Rank {
                    lamport: number("lamport"),
                    line: LineId {
                        journal,
                        seq: number("seq"),
                    },
                },
                at: String::new(),
                event: serde_json::from_value(line["event"].clone()).expect("a known event"),
                prev: line["prev"].as_str().expect("text").parse().expect("a sum"),
            });
        }
    }
    entries.sort_by_key(|entry| entry.rank);
    entries
}

/// Names of the servers that were started, each start once. Panics if a start is not the one that the results before it ask for.
fn started(directory: &Path) -> Vec<String> {
    let mut state = State::default();
    let mut names = Vec::new();
    for entry in entries(directory) {
        if let Event::GroupBegun(begun) = &entry.event {
            let optimization = state.optimization().expect("declared by the session").clone();
            let progress = OptimizationProgress::of(&optimization, &state, &[], &|_, _| false);
            let Ok(next) = progress.next(1, &[]) else {
                panic!("{} was started after the end", begun.config.name);
            };
            let asked = &optimization.contestants[next[0].contestant].server;
            assert_eq!(
                (asked, next[0].slot),
                (&begun.server, begun.slot),
                "{}",
                begun.config.name
            );
            assert_eq!(next[0].reason, begun.proposed, "{}", begun.config.name);
            let is_known = state
                .proposals()
                .iter()
                .any(|own| own.server == begun.server && own.slot == begun.slot);
            if !is_known {
                names.push(begun.config.name.clone());
            }
        }
        state.apply(entry);
    }
    names
}

/// The script and the plan of two workloads. The best server of the second has four times as many sequences.
fn of_two_workloads() -> (String, String) {
    let script = SCRIPT
        .replace(
            "rm \"",
            "case \" $* \" in *\" 16 \"*) best=16;; *) best=64;; esac\n    rm \"",
        )
        .replace("-v s=", "-v b=$best -v s=")
        .replace("log(s / 32)", "log(s / b)");
    let plan = plan("starts = 14") + "[bench.params]\nrandom_input_len = [16, 64]\n";
    (script, plan)
}

#[test]
fn of_two_workloads_the_best_compromise_is_found() {
    let harness = Harness::new();
    let (script, plan) = of_two_workloads();
    harness.write("bench.sh", &script);
    harness.write("plan.toml", &plan);
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let starts = started(&harness.folder.path().join("out"));
    assert!(starts.contains(&BEST.to_owned()), "{starts:?}");
    let answer = answer(&harness, "out");
    let together = &answer["together"][0];
    assert_eq!(answer["optimization"]["best"], together["config"], "{answer}");
    // The best compromise: it reaches 96 % of the best of each workload.
    assert!(
        said(&output)
            .contains("seqs 32, batched tokens 2048 is within 1 % of the best of all 25 for all workloads together"),
        "{}",
        said(&output)
    );
    assert_sweep_agreed(&harness, "out");
}

#[test]
fn of_two_workloads_the_lowest_latency_is_found() {
    let harness = Harness::new();
    let (script, plan) = of_two_workloads();
    let script = script.replace(
        "\\\"output_throughput\\\": %f}\", value",
        "\\\"output_throughput\\\": 1, \\\"mean_e2el_ms\\\": %f}\", 100000 / value",
    );
    assert!(script.contains("mean_e2el_ms"));
    harness.write("bench.sh", &script);
    harness.write(
        "plan.toml",
        &plan.replace("starts = 14", "starts = 14\nobjective = \"mean_e2el_ms\""),
    );
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let starts = started(&harness.folder.path().join("out"));
    assert!(starts.contains(&BEST.to_owned()), "{starts:?}");
    // The joint value of a server is its share of the best.
    for row in rows(&harness.folder.path().join("out/optimize.csv")) {
        let value: f64 = row["value"].parse().unwrap_or(0.0);
        assert!(value <= 1.0 + 1e-9, "{row:?}");
    }
}

fn answer(harness: &Harness, directory: &str) -> Value {
    let path = harness.folder.path().join(directory).join("answer.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("an answer")).expect("JSON")
}

#[test]
fn the_best_of_many_is_found_with_half_of_the_starts_across_kills() {
    let harness = harness("starts = 12");
    let out = harness.folder.path().join("out");
    for lines in [12, 31] {
        let child = harness.start(&["run", "plan.toml", "-o", "out", "--quiet"]);
        harness.kill_when(child, || journal_lines(&out) >= lines);
        harness.wait_until_alone();
        let status = harness.run(&["status", "out"]);
        assert!(said(&status).contains("of 25 servers"), "{}", said(&status));
    }
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let starts = started(&out);
    assert!(starts.len() <= 12, "{starts:?}");
    assert_eq!(starts[0], "default", "{starts:?}");
    assert!(starts.contains(&BEST.to_owned()), "{starts:?}");
    let found = &answer(&harness, "out")["optimization"];
    let named = |id: &Value| {
        let candidates = found["candidates"].as_array().expect("a list");
        let own = candidates.iter().find(|own| own["config"] == *id).expect("listed");
        own["name"].as_str().expect("text").to_owned()
    };
    assert!(named(&found["best"]).contains("seqs 32"), "{found}");
    assert!(found["over_defaults"].as_f64().expect("measured") > 1.5, "{found}");
    assert!(found["ended"].is_string(), "{found}");
    let said_so = format!("Started {} of 25 servers", distinct(&starts));
    assert!(said(&output).contains(&said_so), "{}", said(&output));
    let table = rows(&out.join("optimize.csv"));
    assert_eq!(table.len(), 25);
    let measured = table.iter().filter(|row| row["state"] == "measured").count();
    assert_eq!(measured, distinct(&starts));
    let again = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert!(said(&again).contains("nothing left to do"), "{}", said(&again));
    let dry = harness.run(&["run", "plan.toml", "-o", "out", "--dry-run"]);
    assert!(said(&dry).contains("nothing left to do"), "{}", said(&dry));
    assert!(harness.run(&["verify", "out"]).status.success());
    assert_sweep_agreed(&harness, "out");
}

/// Predictions of the engine model are recorded before the first start, and the answer says how far off they were.
#[test]
fn figures_are_predicted_and_the_predictions_scored() {
    let harness = Harness::new();
    let load = "params = { random_input_len = 64, random_output_len = 8, num_prompts = 30 }";
    let plan = plan("starts = 3")
        .replace("[512, 1024, 2048, 4096]", "[512, 2048]")
        .replace("command = \"sh bench.sh\"", load);
    harness.write("plan.toml", &plan);
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let table = rows(&harness.folder.path().join("out/optimize.csv"));
    assert_eq!(table.len(), 13);
    let is_predicted = |row: &BTreeMap<String, String>| row["predicted"].parse::<f64>().is_ok();
    assert!(table.iter().all(is_predicted), "{table:?}");
    let found = &answer(&harness, "out")["optimization"];
    assert!(found["prediction_error"].as_f64().is_some(), "{found}");
    let report = std::fs::read_to_string(harness.folder.path().join("out/report.md")).expect("a report");
    assert!(report.contains("redictions were off by"), "{report}");
    assert_sweep_agreed(&harness, "out");
}

fn distinct(names: &[String]) -> usize {
    names.iter().collect::<BTreeSet<_>>().len()
}

#[test]
fn a_budget_ends_it_and_a_larger_one_goes_on() {
    let harness = harness("starts = 3");
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("the budget is spent"), "{}", said(&output));
    let report = std::fs::read_to_string(harness.folder.path().join("out/report.md")).expect("a report");
    assert!(report.contains("are not ruled out"), "{report}");
    assert_eq!(started(&harness.folder.path().join("out")).len(), 3);
    harness.write("plan.toml", &plan("starts = 5"));
    let output = harness.run(&["run", "plan.toml", "-o", "out", "--dry-run"]);
    assert!(
        said(&output).contains("which of 25 servers follow"),
        "{}",
        said(&output)
    );
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(started(&harness.folder.path().join("out")).len(), 5);
    // Without work, no time is missing.
    harness.write(
        "plan.toml",
        &(String::from("max_time = \"1ms\"\n") + &plan("starts = 5")),
    );
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert!(said(&output).contains("nothing left to do"), "{}", said(&output));
    harness.write("plan.toml", &plan("budget = \"1s\""));
    let output = harness.run(&["run", "plan.toml", "-o", "short"]);
    assert!(said(&output).contains("the budget is spent"), "{}", said(&output));
}

/// With a budget, a grid becomes an optimisation that ends with the time of its sessions. Without one, the rest of the grid follows.
#[test]
fn a_grid_with_a_budget_begins_with_what_promises_most() {
    let harness = Harness::new();
    harness.write("bench.sh", SCRIPT);
    let grid = plan("")
        .replace("[optimize]\n", "")
        .replace("[4, 8, 16, 32, 64, 128]", "[4, 32]")
        .replace("[512, 1024, 2048, 4096]", "[512, 2048]");
    harness.write("plan.toml", &grid);
    let output = harness.run(&["run", "plan.toml", "-o", "out", "--budget", "1ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("Started 1 of 5 servers"), "{}", said(&output));
    assert!(said(&output).contains("the budget is spent"), "{}", said(&output));
    assert_eq!(started(&harness.folder.path().join("out")), ["default"]);
    let output = harness.run(&["run", "plan.toml", "-o", "out", "--budget", "1h"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        said(&output).contains("seqs 32, batched tokens 2048"),
        "{}",
        said(&output)
    );
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let found = answer(&harness, "out");
    assert!(found["optimization"].is_null(), "{found}");
    assert_eq!(rows(&harness.folder.path().join("out/summary.csv")).len(), 4);
    let output = harness.run(&["run", "plan.toml", "-o", "out", "--budget", "1h", "--confirm"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

/// With targets, loads are predicted too, even for servers that a search in the order of the plan would skip. Kills change no proposal.
#[test]
fn the_highest_load_is_an_objective_too() {
    let harness = Harness::new();
    let text = plan("starts = 4")
        .replace(
            "command = \"sh bench.sh\"\n",
            "[bench.params]\nrandom_input_len = 16\nrandom_output_len = 16\nnum_prompts = 64\n",
        )
        .replace("[4, 8, 16, 32, 64, 128]", "[2, 16]")
        + "[sla]\nvary = \"max_concurrency\"\nmax = 32\nmax_probes = 5\nskip_beaten = true\n[[sla.target]]\nname = \
           \"chat\"\nmedian_ttft_ms = \"<=40\"\n";
    harness.write("plan.toml", &text);
    let out = harness.folder.path().join("out");
    let child = harness.start(&["run", "plan.toml", "-o", "out", "--quiet"]);
    harness.kill_when(child, || journal_lines(&out) >= 18);
    harness.wait_until_alone();
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let table = rows(&out.join("optimize.csv"));
    let is_predicted = |row: &BTreeMap<String, String>| row["predicted"].parse::<f64>().is_ok();
    assert_eq!(table.iter().filter(|row| is_predicted(row)).count(), 9, "{table:?}");
    let found = &answer(&harness, "out")["optimization"];
    assert_eq!(found["question"], "Target chat", "{found}");
    assert!(found["prediction_error"].as_f64().is_some(), "{found}");
    assert!(found["starts"].as_u64().expect("a number") <= 4, "{found}");
    let states = found["candidates"].as_array().expect("a list").iter();
    let states: BTreeSet<&str> = states.filter_map(|own| own["state"].as_str()).collect();
    assert!(states.contains("measured"), "{found}");
    started(&out);
}

#[test]
fn a_worker_takes_the_whole_of_it() {
    let harness = harness("starts = 3");
    let output = harness.run(&["submit", "plan.toml", "-o", "out"]);
    assert!(
        said(&output).contains("1 server start to be taken"),
        "{}",
        said(&output)
    );
    let mut workers = [(); 2].map(|()| harness.start(&["worker", "out"]));
    for worker in &mut workers {
        assert_eq!(ended(worker).code(), Some(0));
    }
    assert_eq!(started(&harness.folder.path().join("out")).len(), 3);
    harness.wait_until_alone();
}

#[test]
fn several_servers_run_at_once() {
    let harness = harness("starts = 6");
    harness.write("plan.toml", &(plan("starts = 6") + "[exec]\nparallel = 3\n"));
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let entries = entries(&harness.folder.path().join("out"));
    let before = entries
        .iter()
        .take_while(|entry| !matches!(entry.event, Event::RunFinished(_)))
        .filter(|entry| matches!(entry.event, Event::GroupBegun(_)));
    assert_eq!(before.count(), 3, "three begin before one ends");
    let found = &answer(&harness, "out")["optimization"];
    assert_eq!(found["starts"], 6, "{found}");
}

#[test]
fn a_winner_that_does_not_start_alone_is_retried_once() {
    let harness = harness("");
    let folder = harness.folder.path().display();
    // The first two benchmarks run at the same time, and no third server starts.
    let meet = format!("echo >> {folder}/runs; until [ $(wc -l < {folder}/runs) -gt 1 ]; do sleep 0.05; done");
    harness.write("bench.sh", &(meet + SCRIPT));
    let vsweep = env!("CARGO_BIN_EXE_vsweep");
    let serve = format!(
        "#!/bin/sh\necho >> {folder}/starts\n[ $(wc -l < {folder}/starts) -gt 2 ] && exit 1\nexec {vsweep} \"$@\"\n"
    );
    let serve = harness.write("serve.sh", &serve);
    std::fs::set_permissions(&serve, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let text = plan("starts = 2")
        .replace("command = \"vsweep", &format!("command = \"{}", serve.display()))
        .replace("[4, 8, 16, 32, 64, 128]", "[4]")
        .replace("[512, 1024, 2048, 4096]", "[512]");
    harness.write("plan.toml", &(text + "[exec]\nparallel = 2\n"));
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("is measured once alone"), "{}", said(&output));
    let starts =
        || std::fs::read_to_string(harness.folder.path().join("starts")).map_or(0, |text| text.lines().count());
    let before = starts();
    let retried = harness.run(&["run", "plan.toml", "-o", "out", "--retry-failed"]);
    assert_eq!(retried.status.code(), Some(3), "{}", said(&retried));
    assert_eq!(starts(), before + 1, "{}", said(&retried));
}

#[test]
fn a_wrong_plan_is_refused_with_all_problems() {
    let harness = Harness::new();
    let wrong = plan("objective = \"output_througput\"\ncertainty = 2\nbudget = \"0s\"\nstarts = 0")
        .replace("runs = 1\n", "runs = 1\nstarts = 2\nrepeat_first = true\n")
        + "[compare]\nmetrics = [\"output_throughput\"]\n";
    harness.write("plan.toml", &wrong);
    let output = harness.run(&["check", "plan.toml"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    for problem in [
        "no metric is called `output_througput`",
        "`optimize.certainty` must be",
        "`optimize.budget` must be longer than 0",
        "`optimize.starts` must be",
        "it does not go with `starts`",
        "it does not go with `repeat_first`",
        "it does not go with [compare]",
    ] {
        assert!(said(&output).contains(problem), "{problem}: {}", said(&output));
    }
    let one = plan("")
        .replace("[4, 8, 16, 32, 64, 128]", "4")
        .replace("[512, 1024, 2048, 4096]", "512");
    harness.write("one.toml", &one);
    let output = harness.run(&["check", "one.toml"]);
    assert!(
        said(&output).contains("there is nothing to choose"),
        "{}",
        said(&output)
    );
    let latency = plan("objective = \"mean_ttft_ms\"")
        + "[[exclude]]\n\"serve.max_num_seqs\" = 4\n\"bench.max_concurrency\" = 4\n";
    let latency = latency.replace(
        "command = \"sh bench.sh\"\n",
        "[bench.params]\nmax_concurrency = [4, 8]\nnum_prompts = 8\n",
    );
    harness.write("latency.toml", &latency);
    let output = harness.run(&["check", "latency.toml"]);
    let differ = "the servers differ in their lowest `max_concurrency`";
    assert!(said(&output).contains(differ), "{}", said(&output));
    let workloads = |more: &str| {
        let bench = "[[bench.combos]]\nname = \"short\"\nrandom_input_len = 16\n[[bench.combos]]\nname = \"long\"\n\
                     random_input_len = 64\n[bench.params]\nnum_prompts = 8\nmax_concurrency = 4\n";
        plan("").replace("command = \"sh bench.sh\"\n", bench) + more
    };
    harness.write("whole.toml", &workloads(""));
    let output = harness.run(&["check", "whole.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let exclude = "[[exclude]]\n\"serve.max_num_seqs\" = 4\n\"bench.random_input_len\" = 64\n";
    harness.write("lacking.toml", &workloads(exclude));
    let output = harness.run(&["check", "lacking.toml"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let lacking = "links or exclusions leave 4 servers without one of them";
    assert!(said(&output).contains(lacking), "{}", said(&output));
    harness.write("part.toml", &plan("starts = 3"));
    let output = harness.run(&["run", "part.toml", "--budget", "soon"]);
    assert!(
        said(&output).contains("'soon' for '--budget <TIME>': not a duration"),
        "{}",
        said(&output)
    );
    for command in [&["run"][..], &["plan", "--rehearse"]] {
        let output = harness.run(&[command, &["part.toml", "--shard", "1/2"]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    }
    let output = harness.run(&["plan", "part.toml", "--rehearse"]);
    let condition = "if every server were started, predicted: about";
    assert!(said(&output).contains(condition), "{}", said(&output));
}
