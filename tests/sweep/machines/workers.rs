//! Several workers on one directory: together they measure the same as one `run`, even if some die or stop for a while.

use crate::deadline::ended;
use crate::harness::{Harness, journal_lines, journals, recorded_outcomes, rows, said, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

const PLAN: &str = r#"
version = 1
runs = 2
[serve]
command = "vsweep sim serve tiny-8b --sim-start 200ms --sim-speed 20"
stop_grace = "2s"
[serve.params]
max_num_seqs = [4, 8, 16, 32, 64]
[bench.params]
random_input_len = 32
random_output_len = 8
max_concurrency = [1, 2]
num_prompts = 32
"#;

/// Writes the report, and returns (point, run, outcome) of every row in a fixed order.
fn table(harness: &Harness, directory: &Path) -> Vec<(String, String, String)> {
    let report = harness.run(&["report", directory.to_str().expect("plain")]);
    assert!(report.status.success(), "{}", said(&report));
    let row = |row: BTreeMap<String, String>| {
        // Load on the machine decides whether so short a run is suspect.
        let outcome = row["outcome"].replace("suspect", "ok");
        (row["point"].clone(), row["run"].clone(), outcome)
    };
    let mut table: Vec<_> = rows(&directory.join("summary.csv")).into_iter().map(row).collect();
    table.sort();
    table
}

/// Returns the table of one `run` of the plan, without other workers.
fn alone(harness: &Harness) -> Vec<(String, String, String)> {
    let alone = harness.run(&["run", "plan.toml", "-o", "alone", "--quiet"]);
    assert_eq!(alone.status.code(), Some(0), "{}", said(&alone));
    table(harness, &harness.folder.path().join("alone"))
}

fn submitted(plan: &str) -> Harness {
    let harness = Harness::new();
    harness.write("plan.toml", plan);
    let submit = harness.run(&["submit", "plan.toml", "-o", "out"]);
    assert_eq!(submit.status.code(), Some(0), "{}", said(&submit));
    harness
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).expect("it lives");
}

/// Number of server starts in the journals.
fn starts(directory: &Path) -> usize {
    journals(directory).concat().matches("\"server_starting\"").count()
}

#[test]
fn workers_share_the_starts_out_and_measure_what_one_run_would() {
    let harness = submitted(PLAN);
    let directory = harness.folder.path().join("out");
    let mut workers = [(); 3].map(|()| harness.start(&["worker", "out"]));
    for worker in &mut workers {
        assert_eq!(ended(worker).code(), Some(0));
    }
    assert_eq!(starts(&directory), 5, "each server was started once");
    let results = recorded_outcomes(&directory);
    assert!(
        results.len() == 20 && results.values().all(|count| *count == 1),
        "{results:?}"
    );
    assert!(!directory.join("summary.csv").exists(), "workers write no tables");
    assert_eq!(table(&harness, &directory), alone(&harness));

    let before = journal_lines(&directory);
    for again in [&["worker", "out"][..], &["run", "plan.toml", "-o", "out"]] {
        let again = harness.run(again);
        assert_eq!(again.status.code(), Some(0), "{}", said(&again));
        assert!(said(&again).contains("left to do"), "{}", said(&again));
    }
    assert_eq!(journal_lines(&directory), before, "nothing is recorded twice");
    harness.wait_until_alone();
}

#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn killed_and_stopped_workers_lose_nothing_and_nothing_counts_twice() {
    let harness = submitted(PLAN);
    let directory = harness.folder.path().join("out");
    let mut stopped = harness.start(&["worker", "out"]);
    wait_for("a run", || starts(&directory) > 0 && journal_lines(&directory) > 7);
    signal(&stopped, Signal::SIGSTOP);
    let mut kills = 0;
    for reach in [12, 20, 30, 40] {
        let mut worker = harness.start(&["worker", "out"]);
        let mut end = None;
        wait_for("the next events", || {
            end = worker.try_wait().expect("a child");
            end.is_some() || journal_lines(&directory) >= reach
        });
        if end.is_none() {
            signal(&worker, Signal::SIGKILL);
            worker.wait().expect("reaped");
            kills += 1;
        }
    }
    assert!(kills > 1, "the test has lost its meaning");
    // The two wait until the lease of the stopped worker was not renewed for long enough. Then one of them takes its group.
    let mut workers = [(); 2].map(|()| harness.start(&["worker", "out"]));
    for worker in &mut workers {
        assert_eq!(ended(worker).code(), Some(0));
    }
    assert_eq!(
        recorded_outcomes(&directory).len(),
        20,
        "all is measured without the stopped one"
    );
    signal(&stopped, Signal::SIGCONT);
    assert_eq!(ended(&mut stopped).code(), Some(0));
    assert_eq!(table(&harness, &directory), alone(&harness));
    let verified = harness.run(&["verify", "out"]);
    assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
    harness.wait_until_alone();
}

#[test]
fn what_a_killed_worker_had_is_taken_once_its_server_has_ended() {
    // The server ignores TERM, so the guard takes a while to kill it.
    let plan = PLAN
        .replace("[4, 8, 16, 32, 64]", "4")
        .replace("--sim-speed 20", "--sim-speed 20 --sim-fault ignore-term")
        .replace("stop_grace = \"2s\"", "stop_grace = \"12s\"");
    let harness = submitted(&plan);
    let directory = harness.folder.path().join("out");
    let mut first = harness.start(&["worker", "out"]);
    wait_for("a run", || journals(&directory).concat().contains("\"run_started\""));
    let mut second = harness.start(&["worker", "out"]);
    wait_for("the second to wait", || {
        let journals = journals(&directory);
        journals.len() == 3 && journals.iter().all(|journal| journal.contains("session_started"))
    });
    first.kill().expect("ours");
    first.wait().expect("reaped");
    let servers = || {
        let all = harness.processes().into_iter().map(|(_, command)| command);
        let serving = all.filter(|command| command.contains(" sim serve ") && !command.contains(" guard "));
        let port = |command: String| command.split("--port ").nth(1).map(str::to_owned);
        serving.filter_map(port).collect::<BTreeSet<String>>()
    };
    let mut end = None;
    wait_for("the second to do it", || {
        assert!(servers().len() < 2, "two servers at once: {:?}", servers());
        end = second.try_wait().expect("a child");
        end.is_some()
    });
    assert_eq!(end.and_then(|end| end.code()), Some(0));
    assert_eq!(starts(&directory), 2);
    assert_eq!(table(&harness, &directory).len(), 4);
    harness.wait_until_alone();
}

#[test]
fn a_comparison_is_one_workers() {
    let compare = "[compare]\nmetrics = [\"output_throughput\"]\nmax_starts = 8\n";
    let plan = PLAN.replace("[4, 8, 16, 32, 64]", "[4, 64]") + compare;
    let harness = submitted(&plan);
    let directory = harness.folder.path().join("out");
    let mut workers = [(); 2].map(|()| harness.start(&["worker", "out"]));
    for worker in &mut workers {
        assert_eq!(ended(worker).code(), Some(0));
    }
    let measured = journals(&directory)
        .iter()
        .filter(|journal| journal.contains("server_starting"))
        .count();
    assert_eq!(measured, 1, "one of them did it all");
    let status = harness.run(&["status", "out"]);
    assert!(said(&status).contains("nothing left to do"), "{}", said(&status));
}

/// A plan of two servers whose finals follow two starts of each.
fn with_finals() -> String {
    PLAN.replace("runs = 2", "runs = 1\nstarts = 2")
        .replace("[4, 8, 16, 32, 64]", "[16, 32]")
}

#[test]
fn finals_are_taken_when_all_else_is_measured() {
    let harness = submitted(&with_finals());
    let directory = harness.folder.path().join("out");
    let mut workers = [(); 3].map(|()| harness.start(&["worker", "out"]));
    for worker in &mut workers {
        assert_eq!(ended(worker).code(), Some(0));
    }
    let starts = starts(&directory);
    assert!(
        starts == 4 || starts == 8,
        "two of each server, and as many of the finalists: {starts}"
    );
    let run = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert!(said(&run).contains("nothing left to do"), "{}", said(&run));
}

#[test]
fn finals_that_wait_for_the_next_submission_are_left() {
    let harness = submitted(&with_finals());
    let submit = ["submit", "plan.toml", "-o", "out"];
    let listed = harness.run(&[&submit[..], &["--dry-run"]].concat());
    let listed = String::from_utf8(listed.stdout).expect("text");
    for group in listed.lines().filter_map(|line| Some(line.split_once("  ")?.0)) {
        let worker = harness.run(&["worker", "out", "--group", group]);
        assert_eq!(worker.status.code(), Some(0), "{}", said(&worker));
    }
    let is_done = |args: &[&str]| said(&harness.run(args)).contains("nothing left to do");
    assert_eq!(is_done(&["status", "out"]), is_done(&submit));
    harness.wait_until_alone();
}

#[test]
fn one_group_alone_is_taken_and_a_drained_one_goes_on_elsewhere() {
    let harness = submitted(&PLAN.replace("num_prompts = 32", "num_prompts = 400"));
    let directory = harness.folder.path().join("out");
    let mut drained = harness.start(&["worker", "out"]);
    wait_for("a run", || journals(&directory).concat().contains("\"run_started\""));
    signal(&drained, Signal::SIGUSR1);
    assert_eq!(ended(&mut drained).code(), Some(130));
    let results = recorded_outcomes(&directory);
    assert_eq!(
        results.len(),
        1,
        "the run that was under way was finished, and no other was begun"
    );
    let folder = fs::read_dir(directory.join("leases")).expect("leases").flatten().next();
    let group = folder.expect("one").file_name().into_string().expect("plain");
    let rest = harness.run(&["worker", "out", "--group", &group]);
    assert_eq!(rest.status.code(), Some(0), "{}", said(&rest));
    assert_eq!(recorded_outcomes(&directory).len(), 4, "this server and no other");
    let again = harness.run(&["worker", "out", "--group", &group]);
    assert!(said(&again).contains("nothing left to do"), "{}", said(&again));
    harness.wait_until_alone();
}

#[test]
fn what_no_worker_could_do_is_refused_with_the_remedy() {
    let harness = submitted(PLAN);
    let refused = |args: &[&str], code: i32, why: &str| {
        let output = harness.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?} {}", said(&output));
        assert!(said(&output).contains(why), "{args:?} {}", said(&output));
    };
    refused(&["worker", "nowhere"], 2, "there is no directory nowhere");
    refused(&["worker", "out", "--group", "3f-0"], 2, "the plan has no start 3f-0");
    refused(
        &["worker", "out", "--group", "compare"],
        2,
        "the plan has no start compare",
    );
    let secret = PLAN.replace(
        "[serve.params]",
        "env = { HF_TOKEN = \"hf_abcdefgh12345678\" }\n[serve.params]",
    );
    harness.write("secret.toml", &secret);
    refused(&["submit", "secret.toml"], 2, "a secret is written in the plan");
    harness.write("url.toml", "[serve]\nurl = \"http://127.0.0.1:9\"\n");
    refused(&["submit", "url.toml"], 2, "use `vsweep run`");
    // The value of a variable decides what the plan means.
    harness.write("variable.toml", &PLAN.replace("tiny-8b", "${MODEL}"));
    let submit = |model: &str| {
        harness
            .vsweep(&["submit", "variable.toml", "-o", "other"])
            .env("MODEL", model)
            .output()
    };
    assert!(submit("tiny-8b").expect("it runs").status.success());
    let elsewhere = harness
        .vsweep(&["worker", "other"])
        .env("MODEL", "llama-8b")
        .output()
        .expect("it runs");
    assert_eq!(elsewhere.status.code(), Some(1), "{}", said(&elsewhere));
    assert!(
        said(&elsewhere).contains("means something else here"),
        "{}",
        said(&elsewhere)
    );
    refused(&["worker", "other"], 2, "MODEL");

    let endless = PLAN
        .replace("--sim-speed 20", "--sim-speed 20 --sim-fault hang-after:1")
        .replace("[serve]\n", "[serve]\nanswer_check = false\n");
    harness.write("endless.toml", &endless);
    refused(&["submit", "endless.toml", "-o", "busy"], 0, "5 server starts");
    let mut worker = harness.start(&["worker", "busy"]);
    let directory = harness.folder.path().join("busy");
    wait_for("a run", || journals(&directory).concat().contains("\"run_started\""));
    refused(
        &["run", "endless.toml", "-o", "busy"],
        1,
        "workers or shards are at work",
    );
    signal(&worker, Signal::SIGINT);
    assert_eq!(ended(&mut worker).code(), Some(130));
    harness.wait_until_alone();
}

/// A simple random generator: the moments only need to differ.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Builds a library that makes clocks differ and directory entries appear late. Returns its path.
fn skewing(harness: &Harness) -> String {
    let library = harness.folder.path().join("skewed.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/skewed.c");
    let mut built = std::process::Command::new("cc");
    let built = built.args(["-shared", "-fPIC", "-o"]);
    let built = built
        .arg(&library)
        .args([source, "-ldl"])
        .status()
        .expect("a C compiler");
    assert!(built.success());
    library.to_str().expect("plain").to_owned()
}

/// Longest time, in milliseconds, after which an entry of a directory appears.
const LATEST_MS: u64 = 3000;

/// The long test of everything that can happen to workers. `.ci/night workers` runs it. It uses the file system that TMPDIR names.
#[test]
#[ignore = "takes minutes to an hour; .ci/night runs it"]
fn eight_workers_with_clocks_hours_apart_and_late_directories_killed_and_stopped_at_random() {
    let rounds = std::env::var("VSWEEP_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds: u32 = rounds.unwrap_or(50);
    let mut draw = Draw(u64::from(std::process::id()));
    let (mut kills, mut stops, mut spare, mut begun) = (0, 0, 0, 0);
    let reference = {
        let harness = Harness::new();
        harness.write("plan.toml", PLAN);
        alone(&harness)
    };
    for round in 1..=rounds {
        let harness = submitted(PLAN);
        let directory = harness.folder.path().join("out");
        let library = skewing(&harness);
        // A worker that does not see the submitted plan yet is refused.
        let submitted_at = Instant::now();
        wait_for("the plan to be seen by all", || {
            submitted_at.elapsed() > Duration::from_millis(LATEST_MS)
        });
        let mut start = |draw: &mut Draw| {
            begun += 1;
            let mut worker = harness.vsweep(&["worker", "out"]);
            let hours = draw.below(25) as i64 - 12;
            worker
                .env("LD_PRELOAD", &library)
                .env("VSWEEP_SKEW_S", (hours * 3600).to_string())
                .env("VSWEEP_LATE_MS", draw.below(LATEST_MS).to_string());
            let quiet = worker
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null());
            quiet.spawn().expect("the binary starts")
        };
        let mut workers: Vec<(Child, bool)> = (0..8).map(|_| (start(&mut draw), false)).collect();
        let mut blows = 12;
        let mut lines = 0;
        // A worker is killed, stopped or continued after every few new lines, 12 times at most; then all may finish.
        while blows > 0 {
            let reach = lines + 1 + draw.below(8) as usize;
            let mut are_done = false;
            wait_for("the next events", || {
                lines = journal_lines(&directory);
                let is_over = |(worker, _): &mut (Child, bool)| worker.try_wait().expect("a child").is_some();
                are_done = workers.iter_mut().all(|worker| worker.1 || is_over(worker));
                are_done || lines >= reach
            });
            if are_done {
                break;
            }
            blows -= 1;
            let at = draw.below(8) as usize;
            let (worker, is_stopped) = &mut workers[at];
            match (draw.below(3), *is_stopped) {
                (_, true) => {
                    signal(worker, Signal::SIGCONT);
                    *is_stopped = false;
                }
                (0, false) => {
                    let _ = kill(Pid::from_raw(worker.id() as i32), Signal::SIGSTOP);
                    (*is_stopped, stops) = (worker.try_wait().expect("a child").is_none(), stops + 1);
                }
                (_, false) => {
                    worker.kill().expect("ours");
                    worker.wait().expect("reaped");
                    kills += 1;
                    workers[at] = (start(&mut draw), false);
                }
            }
        }
        for (worker, is_stopped) in &mut workers {
            if *is_stopped {
                signal(worker, Signal::SIGCONT);
            }
            assert_eq!(ended(worker).code(), Some(0), "round {round}");
        }
        assert_eq!(table(&harness, &directory), reference, "round {round}");
        let verified = harness.run(&["verify", "out"]);
        assert_eq!(verified.status.code(), Some(0), "round {round}: {}", said(&verified));
        let status = harness.run(&["status", "out"]);
        assert!(said(&status).contains("nothing left to do"), "{}", said(&status));
        let results = recorded_outcomes(&directory);
        spare += results.values().map(|count| count - 1).sum::<usize>();
        harness.wait_until_alone();
        println!("round {round}: {kills} kills, {stops} stops, {spare} runs measured twice so far");
    }
    println!(
        "{rounds} rounds, {begun} workers, {kills} kills, {stops} stops: every table as one run alone makes it; {spare} runs measured twice"
    );
}

#[test]
fn failed_runs_are_measured_again_by_a_worker_that_is_asked_to() {
    let broken = PLAN
        .replace("[4, 8, 16, 32, 64]", "4")
        .replace("--sim-speed 20", "--sim-speed 20 --sim-fault crash-at-start");
    let harness = submitted(&broken);
    let directory = harness.folder.path().join("out");
    let listed = |args: &[&str]| harness.run(&[&["submit", "plan.toml", "-o", "out", "--dry-run"], args].concat());
    let group = String::from_utf8(listed(&[]).stdout).expect("text");
    let group = group.split("  ").next().expect("an id").to_owned();
    let work = |args: &[&str]| harness.run(&[&["worker", "out", "--group", &group], args].concat());
    assert_eq!(work(&[]).status.code(), Some(0));
    assert_eq!(starts(&directory), 1);
    assert!(said(&work(&[])).contains("nothing left to do") && said(&listed(&[])).contains("nothing left to do"));

    assert!(said(&listed(&["--retry-failed"])).contains("--retry-failed --group ID"));
    let again = work(&["--retry-failed"]);
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    assert_eq!(starts(&directory), 2, "it was started once more");
    let all = harness.run(&["worker", "out", "--retry-failed"]);
    assert_eq!(all.status.code(), Some(2), "{}", said(&all));
    harness.wait_until_alone();
}

#[test]
fn a_worker_that_stops_at_a_failure_leaves_the_rest_and_says_so() {
    let failing = PLAN
        .replace("runs = 2", "runs = 1\non_failure = \"stop\"")
        .replace("[4, 8, 16, 32, 64]", "[4, 8, 16]")
        .replace("--sim-start 200ms", "--sim-start 200ms --gpu-memory-utilization 0.01");
    let harness = submitted(&failing);
    let worker = harness.run(&["worker", "out"]);
    let said = said(&worker);
    assert!(said.contains("on_failure = \"stop\""), "{said}");
    assert!(!said.contains("nothing left to do"), "{said}");
}
