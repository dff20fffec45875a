//! Searches end to end on the simulated server: the answers are true, and a search that is killed at several of its probes asks the same
//! questions and gives the same answers as one that was never killed.

use crate::agreement::assert_sweep_agreed;
use crate::harness::{Harness, journal_files, journal_lines, rows, said, wait_for};
use crate::standing::Standing;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use vsweep::cause::{Cause, Outcome};
use vsweep::journal::{self, Check, Directory, SearchEnd, SearchRecord, State};
use vsweep::matrix::Matrix;
use vsweep::metrics::Histogram;
use vsweep::plan;
use vsweep::search::{Answer, Search, SeedBasis, Settings};

/// Three servers that die at their 24th, 60th and 150th request. Each run has a fresh server and sends two requests for each unit of load,
/// without warm-up. So time does not decide which loads pass.
const PLAN: &str = r#"
version = 1

[serve]
command = "vsweep sim serve tiny-8b --sim-start 20ms --sim-speed 1"
stop_grace = "2s"
reset = "restart"
answer_check = false # requests are counted

[serve.params]
sim_fault = ["crash-after:24", "crash-after:60", "crash-after:150"]

[bench]
warmup_prompts = 0

[bench.params]
random_input_len = 16
random_output_len = 32
num_prompts = { per = "max_concurrency", times = 2 }

[sla]
vary = "max_concurrency"
max = 64
tolerance = 0.1

[[sla.target]]
name = "alive"
failed = "<=0"

[[sla.target]]
name = "impossible"
p99_ttft_ms = "<=0.000001"
"#;

const DIES_AT: [f64; 3] = [24.0, 60.0, 150.0];

fn state(directory: &Path) -> State {
    journal::load(&Directory::open(directory).expect("an experiment"), Check::Lengths).expect("sound")
}

/// Asserts that every search asked exactly the questions that follow from its earlier probes, and that its answers follow from all of them.
fn assert_questions_follow(state: &State, settings: &[Settings]) {
    assert_eq!(state.searches().count(), settings.len());
    for (record, settings) in state.searches().zip(settings) {
        let mut search = Search::new(settings.clone(), record.started.seed).against(&record.started.rivals);
        for probe in state.probes(&record.started.search, record.started.slot) {
            assert_eq!(search.ask(), Err(probe.question.clone()));
            search.add(probe);
        }
        if let Some(SearchEnd::Answered(answers)) = &record.ended {
            assert_eq!(search.ask(), Ok(answers.clone()));
        }
    }
}

/// Each start has its own search, even if vsweep is killed during the second one.
#[test]
fn each_start_has_a_search_of_its_own() {
    let harness = Harness::new();
    let plan = PLAN
        .replace("version = 1", "version = 1\nstarts = 2")
        .replace(", \"crash-after:60\", \"crash-after:150\"", "")
        .replace("max = 64", "max = 16")
        .replace(
            "[[sla.target]]\nname = \"impossible\"\np99_ttft_ms = \"<=0.000001\"\n",
            "",
        );
    harness.write("plan.toml", &(plan + "\n[report]\ngpus = 2\n"));
    let directory = harness.folder.path().join("out");
    let mut vsweep = harness.start(&["run", "plan.toml", "-o", "out", "--quiet"]);
    let on_second = |state: &State| state.searches().filter(|record| record.started.slot == 1).count();
    wait_for("a second start", || {
        directory.join("journal").is_dir() && journal_lines(&directory) > 0 && on_second(&state(&directory)) > 0
    });
    vsweep.kill().expect("alive until now");
    vsweep.wait().expect("reaped");
    harness.wait_until_alone();
    let status = said(&harness.run(&["status", "out"]));
    assert!(status.contains("of 2 searches"), "{status}");
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let state = state(&directory);
    let begun: Vec<(u32, bool)> = state
        .searches()
        .map(|record| (record.started.slot, record.ended.is_some()))
        .collect();
    assert_eq!(begun, [(0, true), (1, true)]);
    state.searches().for_each(|record| assert_alive(record, DIES_AT[0]));
    let table = rows(&directory.join("sla.csv"));
    assert_eq!(table.len(), 1, "a row for each server");
    let number = |name: &str| table[0][name].parse::<f64>().expect("a number");
    let answer = (table[0]["starts"].as_str(), table[0]["answer"].as_str());
    assert_eq!(answer, ("2", "met"));
    assert_eq!(
        (number("replicas"), number("value_of_replicas")),
        (2.0, 2.0 * number("value"))
    );
    assert!(table[0]["notes"].starts_with("by start: "), "{table:?}");
    let all = format!("up to {} concurrent requests", number("value_of_replicas"));
    let is_all = |line: &str| line.contains(&all) && line.contains(" on 2 GPUs (scaled from one server");
    assert!(said(&output).lines().any(is_all), "{all}: {}", said(&output));
    // The searches measured different loads, so the report makes no statement about the lowest latency.
    let best = fs::read_dir(directory.join("best"))
        .expect("recommendations")
        .map(|file| file.expect("a file").file_name());
    assert_eq!(best.collect::<Vec<_>>(), ["target-alive.yaml"]);
    let markdown = fs::read_to_string(directory.join("report.md")).expect("written");
    assert!(!markdown.to_lowercase().contains("latency"), "{markdown}");
    let has_doubtful = markdown
        .lines()
        .any(|line| line.starts_with('|') && line.contains("alive?"));
    assert_eq!(markdown.contains("?: met once"), has_doubtful, "{markdown}");
    assert!(
        number("low") <= number("value") && number("value") < number("high"),
        "{table:?}"
    );
    let again = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert!(said(&again).contains("nothing left to do"), "{}", said(&again));
    assert!(harness.run(&["verify", "out"]).status.success());
    assert_sweep_agreed(&harness, "out");
}

/// Two servers have the same limit, a third a lower one. Each of the two is surely within one user of the best, so there is no final. The
/// plainer one wins unless the other's throughput was higher, which depends on timing.
#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn one_of_two_equal_searches_wins_without_a_final() {
    let harness = Harness::new();
    let axis = "[serve.params]\nsim_fault = [\"crash-after:24\", \"crash-after:60\", \"crash-after:150\"]\n";
    let combos = [
        ("fancy", "crash-after:60\"\nmax_num_seqs = 64"),
        ("plain", "crash-after:60\""),
        ("low", "crash-after:24\""),
    ]
    .map(|(name, rest)| format!("[[serve.combos]]\nname = \"{name}\"\nsim_fault = \"{rest}\n"));
    let plan = PLAN
        .replace("version = 1", "version = 1\nstarts = 2")
        // So narrow that no final is needed.
        .replace("tolerance = 0.1", "tolerance = 0.04")
        .replace(axis, &combos.concat());
    harness.write("plan.toml", &plan);
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let directory = harness.folder.path().join("out");
    let table = rows(&directory.join("sla.csv"));
    let alive = table.iter().filter(|row| row["target"] == "alive");
    let starts: Vec<(&str, &str)> = alive
        .map(|row| (row["combo"].as_str(), row["starts"].as_str()))
        .collect();
    assert_eq!(starts, [("fancy", "2"), ("plain", "2"), ("low", "2")]);
    let best = fs::read_to_string(directory.join("best/target-alive.yaml")).expect("a winner");
    assert!(best.contains("crash-after:60"), "one of two equals wins: {best}");
    let again = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert!(said(&again).contains("nothing left to do"), "{}", said(&again));
    assert!(harness.run(&["verify", "out"]).status.success());
    assert_sweep_agreed(&harness, "out");
}

fn assert_true(record: &SearchRecord, dies_at: f64) {
    assert_alive(record, dies_at);
    let impossible = &answers(record)[1];
    assert_eq!((impossible.found.word(), impossible.found.value()), ("none", None));
}

fn answers(record: &SearchRecord) -> &[Answer] {
    match &record.ended {
        Some(SearchEnd::Answered(answers)) => answers,
        _ => panic!("{record:?} has no answers"),
    }
}

fn assert_alive(record: &SearchRecord, dies_at: f64) {
    let alive = &answers(record)[0];
    // A load sends two requests for each unit, so the server dies at half of this number; the highest load that passes is just below.
    let limit = dies_at / 2.0;
    let value = alive.found.value();
    if limit > 64.0 {
        assert_eq!((alive.found.word(), value), ("beyond", Some(64.0)));
    } else {
        assert_eq!(alive.found.word(), "met", "{alive:?}");
        let value = value.expect("met has a value");
        assert!(
            value <= limit && value >= 0.75 * limit,
            "{value} for a limit of {limit}"
        );
        assert!(
            alive.low <= limit && limit <= alive.high + 1.0,
            "{alive:?} lacks {limit}"
        );
    }
}

#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn killed_at_its_probes_a_search_asks_and_answers_the_same() {
    let harness = Harness::new();
    let path = harness.write("plan.toml", PLAN);
    let plan = plan::load(&path, &[]).expect("a valid plan");
    let matrix = Matrix::expand(&plan).expect("it expands");
    let settings: Vec<Settings> = matrix
        .servers()
        .flat_map(|server| matrix.searches_of(&server).collect::<Vec<_>>())
        .map(|search| search.settings)
        .collect();
    assert_eq!(settings.len(), 3);
    let path = path.to_str().expect("a plain path");
    let directory = harness.folder.path().join("killed");
    let mut kills = 0;
    for reach in (3..).step_by(4) {
        let before = journal_lines(&directory);
        let vsweep = harness.start(&["run", path, "-o", "killed", "--quiet"]);
        if !harness.kill_when(vsweep, || journal_lines(&directory) >= before + reach) {
            break;
        }
        kills += 1;
        if journal_lines(&directory) > 0 {
            assert_questions_follow_so_far(&state(&directory), &settings);
        }
    }
    assert!(kills > 4, "only {kills} kills: the test has lost its meaning");
    let killed = state(&directory);
    assert_questions_follow(&killed, &settings);
    for (record, dies_at) in killed.searches().zip(DIES_AT) {
        assert_true(record, dies_at);
    }

    // A search that was never killed may ask in another order, because latencies guide it too, but it finds the same answers.
    let whole = harness.run(&["run", path, "-o", "whole", "--quiet"]);
    assert_eq!(whole.status.code(), Some(0), "{}", said(&whole));
    let whole = state(&harness.folder.path().join("whole"));
    for (record, dies_at) in whole.searches().zip(DIES_AT) {
        assert_true(record, dies_at);
    }

    let table = rows(&directory.join("sla.csv"));
    assert_eq!(table.len(), 6);
    assert_eq!(table[0]["target"], "alive");
    assert_eq!(table[0]["sim_fault"], "crash-after:24");
    assert_eq!(table[1]["answer"], "none");
    for row in table.iter().filter(|row| row["target"] == "alive") {
        let limit: f64 = row["value"].parse().expect("a load");
        let points = rows(&directory.join("points.csv")).into_iter();
        let load = |point: &BTreeMap<String, String>| point["max_concurrency"].parse::<f64>().expect("a load");
        let own: Vec<_> = points.filter(|point| point["sim_fault"] == row["sim_fault"]).collect();
        // A probe that was cut because of the other target is neither true nor false for this one.
        let said = |answer| own.iter().filter(move |point| point["meets_alive"] == answer);
        assert!(said("true").any(|point| load(point) == limit), "{own:?}");
        assert!(said("true").all(|point| load(point) <= limit), "{own:?}");
        assert!(said("false").all(|point| load(point) > limit), "{own:?}");
    }
    let before = std::fs::read(directory.join("sla.csv")).expect("written");
    std::fs::remove_file(directory.join("sla.csv")).expect("removed");
    let report = harness.run(&["report", "killed"]);
    assert!(report.status.success(), "{}", said(&report));
    assert_eq!(std::fs::read(directory.join("sla.csv")).expect("written again"), before);

    let again = harness.run(&["run", path, "-o", "killed"]);
    assert!(
        String::from_utf8_lossy(&again.stdout).contains("nothing left to do"),
        "{}",
        said(&again)
    );
    harness.wait_until_alone();
    assert_open_searches_are_told(&harness, "whole");
}

/// Cuts the journal before its first answer: a report of the rest has no answer, and says so.
fn assert_open_searches_are_told(harness: &Harness, name: &str) {
    let directory = harness.folder.path().join(name);
    let [journal] = &journal_files(&directory)[..] else {
        panic!("one session")
    };
    let text = std::fs::read_to_string(journal).expect("a text");
    let before = text.lines().take_while(|line| !line.contains("\"search_finished\""));
    std::fs::write(journal, before.map(|line| format!("{line}\n")).collect::<String>()).expect("cut");
    let report = harness.run(&["report", name]);
    // No journal line names the files of later runs any more.
    assert_eq!(report.status.code(), Some(3), "{}", said(&report));
    assert!(said(&report).contains("in no journal"), "{}", said(&report));
    let table = rows(&directory.join("sla.csv"));
    assert_eq!(table.len(), 2, "{table:?}");
    for row in &table {
        assert_eq!((&*row["answer"], &*row["value"]), ("not finished", ""));
        assert!(row["notes"].starts_with("after "), "{row:?}");
    }
    for page in ["report.md", "report.html"] {
        let page = std::fs::read_to_string(directory.join(page)).expect("written");
        assert!(page.contains("left: 3 of 3 searches"), "{page}");
        assert!(!page.contains("No server is known"), "{page}");
    }
}

/// Checks the searches that have begun. The others begin later.
fn assert_questions_follow_so_far(state: &State, settings: &[Settings]) {
    let begun = state.searches().count();
    assert_questions_follow(state, &settings[..begun]);
}

#[test]
fn a_search_does_not_start_without_its_dataset() {
    let harness = Harness::new();
    let text = PLAN.replace(
        "random_input_len = 16",
        "dataset_name = \"sharegpt\"\ndataset-path = \"nowhere.json\"",
    );
    let plan = harness.write("plan.toml", &text.replace("random_output_len = 32\n", ""));
    let output = harness.run(&["run", plan.to_str().expect("a plain path"), "-o", "out"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(
        said(&output).contains("there is no dataset file nowhere.json"),
        "{}",
        said(&output)
    );
    assert!(!harness.folder.path().join("out/journal").exists());
}

#[test]
fn prompts_that_cannot_be_drawn_are_found_before_a_server_starts() {
    let harness = Harness::new();
    let of_file = |path: &str| {
        let file = format!("dataset_name = \"custom\"\ndataset_path = \"{path}\"");
        PLAN.replace("random_input_len = 16", &file)
            .replace("random_output_len", "custom_output_len")
    };
    let no_token = PLAN.replace("random_input_len = 16", "random_input_len = 0");
    harness.write("empty.jsonl", "");
    harness.write("other.jsonl", "{\"prompt\": \"one\"}\n{\"text\": \"two\"}\n");
    for (plan, problem) in [
        (of_file("empty.jsonl"), "empty.jsonl holds no rows"),
        (of_file("other.jsonl"), "other.jsonl, line 2: no column \"prompt\""),
        (no_token, "random_input_len 0 leaves no token for the prompt"),
    ] {
        harness.write("plan.toml", &plan);
        for command in [&["check", "plan.toml"][..], &["run", "plan.toml", "-o", "out"]] {
            let output = harness.run(command);
            assert_eq!(output.status.code(), Some(2), "{}", said(&output));
            assert!(said(&output).contains(problem), "{problem}: {}", said(&output));
        }
        assert!(!harness.folder.path().join("out/journal").exists());
    }
}

#[test]
fn a_server_that_never_starts_ends_its_search_with_the_cause() {
    let harness = Harness::new();
    let text = PLAN.replace(
        "\"crash-after:24\", \"crash-after:60\", \"crash-after:150\"",
        "\"oom-at-load\"",
    );
    let plan = harness.write("plan.toml", &text);
    let output = harness.run(&["run", plan.to_str().expect("a plain path"), "-o", "out"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let table = rows(&harness.folder.path().join("out/sla.csv"));
    assert_eq!(table[0]["answer"], "given up");
    assert!(table[0]["notes"].contains("memory"), "{table:?}");
    harness.wait_until_alone();
}

#[test]
fn a_probe_whose_verdict_is_certain_is_cut_and_keeps_its_figures() {
    let harness = Harness::new();
    let faults = r#"sim_fault = ["crash-after:24", "crash-after:60", "crash-after:150"]"#;
    let text = PLAN
        .replace(faults, "max_num_seqs = 64")
        .replace("reset = \"restart\"\n", "")
        .replace("times = 2 }", "times = 2, min = 400 }")
        .replace("[[sla.target]]\nname = \"alive\"\nfailed = \"<=0\"\n", "")
        // Only a request that has ended has a time per output token, so a probe that is cut has figures.
        .replace("p99_ttft_ms", "p99_tpot_ms");
    let plan = harness.write("plan.toml", &text);
    let output = harness.run(&["run", plan.to_str().expect("a plain path"), "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let directory = harness.folder.path().join("out");
    let state = state(&directory);
    assert!(state.runs().count() > 0);
    for run in state.runs() {
        assert_eq!(run.outcome, Outcome::Cut, "{run:?}");
        let file = run.file.as_ref().expect("a file");
        let content = std::fs::read_to_string(directory.join(&*file.path)).expect("readable");
        let content: serde_json::Value = serde_json::from_str(&content).expect("JSON");
        for name in ["ttft", "itl", "e2el"] {
            let histogram = serde_json::from_value::<Histogram>(content["histograms"][name].clone());
            let counted = histogram.expect("a histogram").count();
            assert!(
                counted >= content["completed"].as_u64().expect("a count"),
                "{name}: {content}"
            );
        }
        assert!(run.detail.contains("of 400 requests"), "{run:?}");
    }
    assert_eq!(rows(&directory.join("sla.csv"))[0]["answer"], "none");
    for row in rows(&directory.join("summary.csv")) {
        assert_eq!(row["outcome"], "cut");
        assert!(!row["p99_ttft_ms"].is_empty(), "{row:?}");
    }
    assert!(
        rows(&directory.join("points.csv"))
            .iter()
            .all(|row| row["outcome"] == "cut" && !row["p99_ttft_ms"].is_empty())
    );
    // The server stays up between probes, because the plan does not say `reset = "restart"`.
    let starts: Vec<usize> = state.servers.values().map(|server| server.launches.len()).collect();
    assert_eq!(starts, [1]);
    harness.wait_until_alone();
}

/// A search ends such a probe itself, because requests that never end are late.
#[test]
fn a_probe_that_is_cut_on_a_hung_server_has_failed() {
    let harness = Harness::new();
    let faults = r#"sim_fault = ["crash-after:24", "crash-after:60", "crash-after:150"]"#;
    let alive = "[[sla.target]]\nname = \"alive\"\nfailed = \"<=0\"\n";
    let text = PLAN
        .replace(faults, "sim_fault = \"hang-after:6\"")
        .replace("reset = \"restart\"", "reset = \"restart\"\nhang_timeout = \"3s\"")
        .replace("max = 64", "max = 4")
        .replace(alive, "")
        .replace("p99_ttft_ms = \"<=0.000001\"", "p99_e2el_ms = \"<=1000\"");
    let plan = harness.write("plan.toml", &text);
    let output = harness.run(&["run", plan.to_str().expect("a plain path"), "-o", "out"]);
    let state = state(&harness.folder.path().join("out"));
    let is_ended = |outcome: Outcome| matches!(outcome, Outcome::Failed | Outcome::Cut);
    let ended: Vec<_> = state.runs().filter(|run| is_ended(run.outcome)).collect();
    assert!(!ended.is_empty(), "{}", said(&output));
    for run in ended {
        assert_eq!(
            (run.outcome, run.cause),
            (Outcome::Failed, Some(Cause::Hung)),
            "{run:?}"
        );
    }
    harness.wait_until_alone();
}

/// Two servers that die at their 60th and 24th request, the better one first, and one target.
fn plan_with_a_loser(max: u32) -> String {
    let impossible = "[[sla.target]]\nname = \"impossible\"\np99_ttft_ms = \"<=0.000001\"\n";
    PLAN.replace(impossible, "")
        .replace(
            "\"crash-after:24\", \"crash-after:60\", \"crash-after:150\"",
            "\"crash-after:60\", \"crash-after:24\"",
        )
        .replace("max = 64", &format!("max = {max}\nskip_beaten = true"))
}

#[test]
fn a_server_that_cannot_win_is_left_with_the_reason() {
    let harness = Harness::new();
    let plan = harness.write("plan.toml", &plan_with_a_loser(64));
    let plan = plan.to_str().expect("a plain path");
    let output = harness.run(&["run", plan, "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let directory = harness.folder.path().join("out");
    let table = rows(&directory.join("sla.csv"));
    assert_eq!(
        [&table[0]["answer"], &table[1]["answer"]],
        ["met", "skipped"],
        "{table:?}"
    );
    assert_eq!(
        [&table[0]["seed_from"], &table[1]["seed_from"]],
        ["forecast", "neighbour"],
        "{table:?}"
    );
    let (holds, bound) = (&table[0]["value"], &table[1]["high"]);
    assert!(table[1]["value"].is_empty(), "{table:?}");
    let number = |text: &String| text.parse::<f64>().expect("a number");
    // A run of 12 in flight sends the 24th request, a run of 11 does not.
    assert!((11.0..=number(holds)).contains(&number(bound)), "{table:?}");
    let reason = format!("sim_fault=crash-after:60 holds {holds}, and this one holds at most {bound}");
    assert!(table[1]["notes"].contains(&reason), "{table:?}");
    let again = harness.run(&["run", plan, "-o", "out"]);
    assert!(said(&again).contains("nothing left to do"), "{}", said(&again));

    // A plan that wants all answers gets the one that was skipped.
    let text = plan_with_a_loser(64).replace("skip_beaten = true", "skip_beaten = false");
    harness.write("plan.toml", &(text + "\n[report]\ngpus = 2\n"));
    let whole = harness.run(&["run", plan, "-o", "out"]);
    assert_eq!(whole.status.code(), Some(0), "{}", said(&whole));
    let is_of_all = |line: &str| line.contains("2 × sim_fault crash-after:60: up to ") && line.contains(" on 2 GPUs");
    assert!(said(&whole).lines().any(is_of_all), "{}", said(&whole));
    let searched = state(&directory);
    for (record, dies_at) in searched.searches().zip([60.0, 24.0]) {
        assert_alive(record, dies_at);
    }
    harness.wait_until_alone();
}

#[test]
fn a_small_server_competes_with_all_its_replicas() {
    let harness = Harness::new();
    let servers = "tensor_parallel_size = [4, 1]\nsim_fault = [\"crash-after:60\", \"crash-after:24\"]\n\n[report]\ngpus = 4\n\n\
                   [link]\nzip = [[\"serve.tensor_parallel_size\", \"serve.sim_fault\"]]\n";
    let text = plan_with_a_loser(64).replace("sim_fault = [\"crash-after:60\", \"crash-after:24\"]\n", servers);
    let plan = harness.write("plan.toml", &text);
    let output = harness.run(&["run", plan.to_str().expect("a plain path"), "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let table = rows(&harness.folder.path().join("out/sla.csv"));
    let answers: Vec<&str> = table.iter().map(|row| row["answer"].as_str()).collect();
    assert_eq!(answers, ["met", "met"], "{table:?}");
    let wins = |line: &str| line.contains("Run: 4 × TP 1") && line.contains(" on 4 GPUs");
    assert!(said(&output).lines().any(wins), "{}", said(&output));
    harness.wait_until_alone();
}

#[test]
fn a_server_beaten_by_the_highest_load_is_not_started() {
    let harness = Harness::new();
    let plan = harness.write("plan.toml", &plan_with_a_loser(20));
    let output = harness.run(&["run", plan.to_str().expect("a plain path"), "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let directory = harness.folder.path().join("out");
    let table = rows(&directory.join("sla.csv"));
    assert_eq!(
        [&table[0]["answer"], &table[1]["answer"]],
        ["beyond", "skipped"],
        "{table:?}"
    );
    assert!(table[1]["notes"].contains("no higher load is tried"), "{table:?}");
    assert_eq!(table[1]["probes"], "0");
    let report = said(&harness.run(&["report", "out"]));
    let marked: Vec<&str> = report.lines().filter(|line| line.starts_with("> ")).collect();
    assert!(marked[0].contains(" beyond "), "{report}");
    assert!(!marked.iter().any(|line| line.contains("skipped")), "{report}");
    let starts: Vec<bool> = state(&directory)
        .servers
        .values()
        .map(|server| server.launches.is_empty())
        .collect();
    assert_eq!(starts.iter().filter(|is_empty| **is_empty).count(), 1, "{starts:?}");
    harness.wait_until_alone();
}

#[test]
fn a_goodput_that_no_run_reports_is_told_before_anything_starts() {
    let harness = Harness::new();
    let bounded = PLAN.replace("failed = \"<=0\"", "request_goodput = \">=1\"");
    let check = |text: &str| {
        let plan = harness.write("plan.toml", text);
        harness.run(&["check", plan.to_str().expect("a plain path")])
    };
    let refused = check(&bounded);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(
        said(&refused).contains("not every run will report `request_goodput`"),
        "{}",
        said(&refused)
    );
    let told = check(&bounded.replace("[bench.params]", "[bench.params]\ngoodput = [\"ttft:500\"]"));
    assert_eq!(told.status.code(), Some(0), "{}", said(&told));
}

#[test]
fn a_shard_knows_what_another_has_found() {
    let harness = Harness::new();
    let plan = harness.write("plan.toml", &plan_with_a_loser(20));
    for shard in ["1/2", "2/2"] {
        let output = harness.run(&[
            "run",
            plan.to_str().expect("a plain path"),
            "-o",
            "out",
            "--shard",
            shard,
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    let table = rows(&harness.folder.path().join("out/sla.csv"));
    let of = |row: &BTreeMap<String, String>| {
        [
            row["sim_fault"].clone(),
            row["answer"].clone(),
            row["seed_from"].clone(),
        ]
    };
    assert_eq!(of(&table[0]), ["crash-after:60", "beyond", "forecast"], "{table:?}");
    assert_eq!(of(&table[1]), ["crash-after:24", "skipped", "neighbour"], "{table:?}");
    harness.wait_until_alone();
}

#[test]
fn a_server_that_nothing_is_known_of_is_asked_for_its_kv_cache() {
    let harness = Harness::new();
    let server = Standing::start(&harness, &["--sim-speed", "4"], true);
    let text = PLAN
        .replace(
            "command = \"vsweep sim serve tiny-8b --sim-start 20ms --sim-speed 1\"",
            &format!("url = \"{}\"", server.url()),
        )
        .replace("reset = \"restart\"\n", "")
        .replace(
            "[serve.params]\nsim_fault = [\"crash-after:24\", \"crash-after:60\", \"crash-after:150\"]\n",
            "",
        );
    let plan = harness.write("plan.toml", &text);
    let output = harness.run(&["run", plan.to_str().expect("a plain path"), "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let directory = harness.folder.path().join("out");
    let seed = state(&directory).searches().next().expect("one search").started.seed;
    assert_eq!(seed.basis, SeedBasis::KvCapacity);
    // The plan may try 64 concurrent requests. Far more fit into the cache, with 16 input tokens and half of the 32 output tokens each.
    assert_eq!(seed.value, 64.0);
    let told = said(&output);
    assert!(told.contains("first guess 64 (its KV cache holds as many)"), "{told}");
    assert_eq!(rows(&directory.join("sla.csv"))[0]["seed_from"], "kv_capacity");
}

#[test]
fn the_search_of_each_workload_starts_from_its_forecast() {
    let harness = Harness::new();
    let plan = "version = 1\n[serve]\ncommand = \"vsweep sim serve tiny-8b --sim-start 20ms --sim-speed 20\"\nstop_grace = \"2s\"\n\
                [[bench.combos]]\nname = \"short\"\nrandom_input_len = 16\n[[bench.combos]]\nname = \"long\"\nrandom_input_len = 128\n\
                [bench.params]\nrandom_output_len = 8\nnum_prompts = 20\n[sla]\nvary = \"max_concurrency\"\nmax = 4\n\
                [[sla.target]]\nname = \"easy\"\np99_ttft_ms = \"<=60000\"\n";
    let plan = harness.write("plan.toml", plan);
    let run = harness.run(&["run", plan.to_str().expect("a plain path"), "-o", "out", "--quiet"]);
    assert!(run.status.success(), "{}", said(&run));
    let table = rows(&harness.folder.path().join("out/sla.csv"));
    let seeds: Vec<&str> = table.iter().map(|row| row["seed_from"].as_str()).collect();
    assert_eq!(seeds, ["forecast"; 2], "{table:?}");
    assert_sweep_agreed(&harness, "out");
}
