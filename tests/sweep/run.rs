//! `vsweep run` as a user sees it: failures become rows, an interrupted or edited sweep continues, no run is measured twice, and no process
//! is left.

use crate::deadline::{ended, output, output_of};
use crate::harness::{
    Harness, journal_files, journal_lines, journals, recorded_outcomes, rows, run_files, said, wait_for,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};

/// A plan with one simulated server. `serve` and `bench` are added to the tables `[serve]` and `[bench.params]`.
fn plan(serve: &str, bench: &str) -> String {
    format!(
        r#"
version = 1
runs = 1
[serve]
command = "vsweep sim serve tiny-8b --sim-start 50ms --sim-speed 50"
stop_grace = "1s"
ready_timeout = "15s"
hang_timeout = "5s"
{serve}
[bench]
timeout = "60s"
[bench.params]
random_input_len = 32
random_output_len = 8
num_prompts = 8
{bench}
"#
    )
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).expect("alive");
}

/// Returns outcome and cause of each row, by the given column. Runs of eight requests are too short to be valid, so a suspect run counts as
/// ok.
fn causes(directory: &Path, column: &str) -> BTreeMap<String, String> {
    let cause = |row: &BTreeMap<String, String>| {
        let outcome = row["outcome"].replace("suspect", "ok");
        format!("{outcome} {}", row["cause"]).trim().to_owned()
    };
    rows(&directory.join("summary.csv"))
        .iter()
        .map(|row| (row[column].clone(), cause(row)))
        .collect()
}

#[test]
fn every_way_a_server_fails_is_a_row_with_its_cause_and_the_sweep_goes_on() {
    let faults = [
        ("crash-at-start", "failed crashed_starting"),
        ("oom-at-load", "failed oom_at_load"),
        ("kv-too-small", "failed kv_cache_too_small"),
        ("never-ready", "failed ready_timeout"),
        ("port-taken", "failed port_taken"),
        ("wrong-model", "failed wrong_server"),
        ("crash-after:4", "failed crashed_under_load"),
        ("engine-death-after:4", "failed crashed_under_load"),
        ("oom-after:4", "failed oom_under_load"),
        ("hang-after:4", "failed hung"),
        ("error-rate:1", "failed request_errors"),
        ("ignore-term", "ok"),
        ("leak-child", "ok"),
        ("log-flood", "ok"),
    ];
    let list: Vec<String> = faults.iter().map(|(fault, _)| format!("{fault:?}")).collect();
    let harness = Harness::new();
    let path = harness.write(
        "plan.toml",
        &plan(
            &format!(
                "[serve.params]\nsim_fault = [{}]\n[exec]\nparallel = 4",
                list.join(", ")
            ),
            "max_concurrency = 4",
        ),
    );
    let output = harness.run(&["run", path.to_str().expect("plain"), "-o", "out"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    harness.wait_until_alone();
    let expected = faults
        .iter()
        .map(|(fault, cause)| ((*fault).to_owned(), (*cause).to_owned()))
        .collect();
    let found = causes(&harness.folder.path().join("out"), "sim_fault");
    assert_eq!(found, expected, "{}", said(&output));
}

#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn a_hung_server_is_found_although_the_benchmark_gives_up_before() {
    let harness = Harness::new();
    let text = plan("[serve.params]\nsim_fault = [\"hang-after:4\"]", "max_concurrency = 4");
    let text = text.replace("timeout = \"60s\"", "timeout = \"3s\"");
    let text = text.replace("hang_timeout = \"5s\"", "hang_timeout = \"6s\"");
    let path = harness.write("plan.toml", &text);
    let output = harness.run(&["run", path.to_str().expect("plain"), "-o", "out"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let found = causes(&harness.folder.path().join("out"), "point");
    assert!(found.values().all(|cause| cause == "failed hung"), "{}", said(&output));
    harness.wait_until_alone();
}

#[test]
fn what_is_not_there_is_told_before_anything_starts() {
    let harness = Harness::new();
    let path = harness.write("good.toml", &plan("", "max_concurrency = [1, 2]"));
    let dry = harness.run(&["run", path.to_str().expect("plain"), "-o", "out", "--dry-run"]);
    let left = "left to do: 1 server start, 2 runs; recorded in out: 0 runs";
    assert!(said(&dry).contains(left), "{}", said(&dry));

    let text = plan(
        "reset = \"no-such-reset\"",
        "dataset_name = \"custom\"\ndataset_path = \"no-such.jsonl\"",
    );
    let text = text.replace("vsweep sim serve", "no-such-program serve");
    let path = harness.write("plan.toml", &text);
    let output = harness.run(&["run", path.to_str().expect("plain"), "-o", "out"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    for missing in ["no-such-program", "no-such-reset", "no-such.jsonl"] {
        assert!(said(&output).contains(missing), "{}", said(&output));
    }
    assert!(!harness.folder.path().join("out").exists());
}

#[test]
fn run_again_does_nothing_and_an_edit_measures_only_what_changed() {
    let harness = Harness::new();
    let text = plan("[serve.params]\nmax_num_seqs = [4, 8]", "max_concurrency = [1, 2]");
    let path = harness.write("plan.toml", &text);
    let args = ["run", path.to_str().expect("plain"), "-o", "out"];
    assert!(harness.run(&args).status.success());
    let directory = harness.folder.path().join("out");
    let (lines, before) = (journal_lines(&directory), causes(&directory, "point"));
    assert_eq!(before.len(), 4);

    let again = harness.run(&args);
    assert!(again.status.success());
    for expected in ["nothing left to do", "Run: seqs "] {
        assert!(said(&again).contains(expected), "{}", said(&again));
    }
    assert_eq!(
        journal_lines(&directory),
        lines,
        "a finished sweep leaves its journal alone"
    );

    // With one load more, only its two points are new.
    harness.write("plan.toml", &text.replace("[1, 2]", "[1, 2, 4]"));
    let dry = harness.run(&[args.as_slice(), &["--dry-run"]].concat());
    let left = "left to do: 2 server starts, 2 runs; recorded in out: 4 runs";
    assert!(said(&dry).contains(left), "{}", said(&dry));
    assert_eq!(journal_lines(&directory), lines, "a dry run records nothing");
    let edited = harness.run(&args);
    assert!(edited.status.success(), "{}", said(&edited));
    assert!(
        said(&edited).contains("4 points already recorded and kept, 2 new: "),
        "{}",
        said(&edited)
    );
    let after = causes(&directory, "point");
    assert_eq!(after.len(), 6);
    assert!(before.keys().all(|point| after.contains_key(point)));

    // With another base command everything is measured again, and the reason is given.
    harness.write("plan.toml", &text.replace("--sim-speed 50", "--sim-speed 60"));
    let edited = harness.run(&args);
    assert!(edited.status.success(), "{}", said(&edited));
    assert!(
        said(&edited).contains("`--sim-speed 50` became `--sim-speed 60`"),
        "{}",
        said(&edited)
    );
    let replaced = causes(&directory, "point");
    assert_eq!(replaced.len(), 4);
    assert!(replaced.keys().all(|point| !after.contains_key(point)));

    // With the first text again, all points are recorded already.
    harness.write("plan.toml", &text);
    let back = harness.run(&args);
    assert!(said(&back).contains("nothing left to do"), "{}", said(&back));
    assert_eq!(causes(&directory, "point"), before);
    harness.wait_until_alone();
}

#[test]
fn ctrl_c_ends_in_order_and_the_same_command_continues() {
    let harness = Harness::new();
    let path = harness.write("plan.toml", &plan("", "max_concurrency = [1, 2, 4]"));
    let args = ["run", path.to_str().expect("plain"), "-o", "out"];
    let directory = harness.folder.path().join("out");
    let mut vsweep = harness.start(&args);
    wait_for("some events", || journal_lines(&directory) > 5);
    signal(&vsweep, Signal::SIGINT);
    assert_eq!(ended(&mut vsweep).code(), Some(130));
    harness.wait_until_alone();
    let journal = journals(&directory).concat();
    assert!(journal.contains(r#""reason":"interrupted""#), "{journal}");
    let continued = harness.run(&args);
    assert!(continued.status.success(), "{}", said(&continued));
    assert_eq!(causes(&directory, "point").len(), 3);
}

#[test]
fn a_plan_without_a_choice_ends_when_its_budget_is_spent() {
    let harness = Harness::new();
    let written = plan("", "max_concurrency = [1, 2, 4]").replace("runs = 1", "runs = 1000");
    let path = harness.write("plan.toml", &written);
    let args = ["run", path.to_str().expect("plain"), "-o", "out", "--budget", "3s"];
    let directory = harness.folder.path().join("out");
    let ended = harness.run(&args);
    harness.wait_until_alone();
    let text = said(&ended);
    assert!(
        ended.status.success()
            && text.contains("stopped at its time limit")
            && text.contains("a larger --budget to continue"),
        "{text}"
    );
    assert!(text.contains("Report: out/report.html"), "{text}");
    let lines = journal_lines(&directory);
    let journal = journals(&directory).concat();
    assert!(journal.contains(r#""reason":"out_of_time""#), "{journal}");
    let again = harness.run(&args);
    assert!(
        again.status.success() && said(&again).contains("stopped at its time limit"),
        "{}",
        said(&again)
    );
    let why = "earlier sessions spent the time limit of 3.0 s, so nothing begins; raise --budget";
    assert!(said(&again).contains(why), "{}", said(&again));
    let planned = said(&harness.run(&["plan", path.to_str().expect("plain"), "-o", "out", "--budget", "3s"]));
    assert!(
        planned.contains("predicted: nothing, because the time limit is spent"),
        "{planned}"
    );
    assert_eq!(
        journal_lines(&directory),
        lines,
        "nothing is begun once the time is spent"
    );
    let status = said(&harness.run(&["status", "out"]));
    assert!(
        status.contains("stopped at its time limit; run the plan again with a larger --budget"),
        "{status}"
    );
    let report = fs::read_to_string(directory.join("report.md")).expect("a report");
    assert!(
        report.contains("run the plan again with a larger --budget or max_time to continue."),
        "{report}"
    );
    let launches = || journals(&directory).concat().matches("server_starting").count();
    let before = launches();
    harness.write("plan.toml", &format!("{written}[report]\nmargin = \"2.25 %\"\n"));
    let edited = harness.run(&args);
    assert!(said(&edited).contains("stopped at its time limit"), "{}", said(&edited));
    assert!(
        journals(&directory).concat().contains("2.25 %"),
        "the edited plan is recorded"
    );
    assert_eq!(launches(), before);
}

#[test]
fn a_second_ctrl_c_does_not_wait_for_a_server_that_will_not_go() {
    let harness = Harness::new();
    let text = plan("[serve.params]\nsim_fault = \"ignore-term\"", "max_concurrency = 1")
        .replace("stop_grace = \"1s\"", "stop_grace = \"10m\"");
    let path = harness.write("plan.toml", &text);
    let directory = harness.folder.path().join("out");
    let mut vsweep = harness.start(&["run", path.to_str().expect("plain"), "-o", "out"]);
    wait_for("a ready server", || {
        journals(&directory).concat().contains("server_ready")
    });
    signal(&vsweep, Signal::SIGINT);
    // Signals of one kind are merged while they wait to be delivered, so the second is another kind.
    signal(&vsweep, Signal::SIGTERM);
    assert_eq!(ended(&mut vsweep).code(), Some(130));
    harness.wait_until_alone();
}

#[test]
fn a_second_vsweep_on_the_directory_is_refused_with_the_first_ones_pid() {
    let harness = Harness::new();
    let path = harness.write(
        "plan.toml",
        &plan("[serve.params]\nsim_fault = \"never-ready\"", "max_concurrency = 1"),
    );
    let args = ["run", path.to_str().expect("plain"), "-o", "out"];
    let mut first = harness.start(&args);
    let directory = harness.folder.path().join("out");
    wait_for("the first one's journal", || journal_lines(&directory) > 1);
    let second = harness.run(&args);
    assert_eq!(second.status.code(), Some(1));
    assert!(
        said(&second).contains(&format!("pid {}", first.id())),
        "{}",
        said(&second)
    );
    signal(&first, Signal::SIGINT);
    ended(&mut first);
    harness.wait_until_alone();
}

#[test]
fn on_failure_stop_ends_the_sweep_and_retry_failed_measures_again() {
    let harness = Harness::new();
    let text = plan(
        "[serve.params]\nsim_fault = [\"crash-at-start\", \"log-flood\"]",
        "max_concurrency = [1, 2]",
    );
    let stopping = text.replace("runs = 1", "runs = 1\non_failure = \"stop\"");
    let path = harness.write("plan.toml", &stopping);
    let args = ["run", path.to_str().expect("plain"), "-o", "out"];
    let directory = harness.folder.path().join("out");
    let output = harness.run(&args);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert_eq!(
        causes(&directory, "point").len(),
        2,
        "a server that cannot start fails its config"
    );

    assert_eq!(harness.run(&args).status.code(), Some(3));
    assert_eq!(causes(&directory, "point").len(), 4, "the other server's turn");
    let lines = journal_lines(&directory);
    let kept = harness.run(&args);
    assert_eq!(kept.status.code(), Some(3), "failed runs are results: {}", said(&kept));
    assert!(said(&kept).contains("--retry-failed"), "{}", said(&kept));
    assert_eq!(journal_lines(&directory), lines);
    let stopped = harness.run(&[&args[..], &["--retry-failed"]].concat());
    assert!(
        said(&stopped).contains("-o out (add --retry-failed"),
        "{}",
        said(&stopped)
    );
    harness.write("plan.toml", &text);
    let retried = harness.run(&[&args[..], &["--retry-failed"]].concat());
    assert_eq!(retried.status.code(), Some(3));
    assert!(journal_lines(&directory) > lines);
    assert_eq!(causes(&directory, "point").len(), 4);
    harness.wait_until_alone();
}

#[test]
fn a_port_that_somebody_holds_is_refused_before_anything_starts() {
    let harness = Harness::new();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("bound").port();
    let text = plan(
        &format!("[serve.params]\nport = {port}\nmax_num_seqs = [4, 8]"),
        "max_concurrency = 1",
    );
    let path = harness.write("plan.toml", &text);
    let output = harness.run(&["run", path.to_str().expect("plain"), "-o", "out"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let holder = format!("port {port} is held by process {}", std::process::id());
    assert!(said(&output).contains(&holder), "{}", said(&output));
    assert!(!harness.folder.path().join("out").exists());
}

#[test]
fn parts_and_shards_add_up_to_the_whole() {
    let harness = Harness::new();
    let path = harness.write(
        "plan.toml",
        &plan("[serve.params]\nmax_num_seqs = [4, 8]", "max_concurrency = [1, 2]"),
    );
    let args = ["run", path.to_str().expect("plain"), "-o", "out"];
    let directory = harness.folder.path().join("out");
    let part = harness.run(&[&args[..], &["--only", "max_num_seqs=4,max_concurrency=2"]].concat());
    assert!(part.status.success(), "{}", said(&part));
    assert_eq!(causes(&directory, "point").len(), 1);
    for (shard, rows) in [("1/2", 2), ("2/2", 4)] {
        let output = harness.run(&[&args[..], &["--shard", shard]].concat());
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(causes(&directory, "point").len(), rows, "after shard {shard}");
        let names_other = said(&output).contains("out/report.html; run the other shards: --shard 2/2");
        assert_eq!(names_other, shard == "1/2", "{}", said(&output));
    }
    assert!(said(&harness.run(&args)).contains("nothing left to do"));
    harness.wait_until_alone();
}

#[test]
fn fresh_starts_over_beside_and_a_foreign_directory_is_left_alone() {
    let harness = Harness::new();
    let path = harness.write("plan.toml", &plan("", "max_concurrency = 1"));
    let args = ["run", path.to_str().expect("plain"), "-o", "out"];
    assert!(harness.run(&args).status.success());
    assert!(harness.run(&[&args[..], &["--fresh"]].concat()).status.success());
    assert_eq!(causes(&harness.folder.path().join("out-2"), "point").len(), 1);

    fs::create_dir(harness.folder.path().join("mine")).expect("a folder");
    harness.write("mine/thesis.txt", "text");
    for command in ["run", "plan"] {
        let output = harness.run(&[command, args[1], "-o", "mine"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    }
    assert_eq!(
        fs::read_dir(harness.folder.path().join("mine"))
            .expect("a folder")
            .count(),
        1
    );
}

/// Edits the only journal of a directory, and checks that the text changed.
fn edit_journal(directory: &Path, edit: impl Fn(&str) -> String) {
    let [journal] = &journal_files(directory)[..] else {
        panic!("one journal")
    };
    let before = fs::read_to_string(journal).expect("text");
    let after = edit(&before);
    assert_ne!(before, after);
    fs::write(journal, after).expect("writable");
}

#[test]
fn a_damaged_line_is_named_by_every_command_and_costs_at_most_its_run() {
    let harness = Harness::new();
    let path = harness.write("plan.toml", &plan("", "max_concurrency = [1, 2]"));
    let args = ["run", path.to_str().expect("plain"), "-o", "out"];
    assert!(harness.run(&args).status.success());
    let directory = harness.folder.path().join("out");
    // The damaged value is in the line that begins a run. The run's file still has the true value.
    edit_journal(&directory, |text| {
        text.replacen("\"max_concurrency\":2", "\"max_concurrency\":3", 1)
    });
    for args in [
        &["status", "out"][..],
        &["report", "out"],
        &["verify", "out"],
        &["plot", "out", "--var-y", "output_throughput", "--dry-run"],
        &["plot", "pareto", "out", "--dry-run"],
        &args,
        &[&args[..], &["--dry-run"]].concat(),
    ] {
        let output = harness.run(args);
        let code = if args[0] == "verify" { 1 } else { 3 };
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        assert!(said(&output).contains("damaged line"), "{args:?}: {}", said(&output));
    }
    let values: Vec<String> = rows(&directory.join("summary.csv"))
        .iter()
        .map(|row| row["max_concurrency"].clone())
        .collect();
    assert_eq!(values, ["1", "2"]);
}

#[test]
fn a_directory_holds_the_plan_in_one_format() {
    let harness = Harness::new();
    let toml =
        "[serve]\ncommand = \"vsweep sim serve tiny-8b\"\n[bench.params]\nmax_concurrency = 1\nnum_prompts = 4\n";
    let json = r#"{"serve": {"command": "vsweep sim serve tiny-8b"}, "bench": {"params": {"max_concurrency": 1, "num_prompts": 4}}}"#;
    for (given, text, other) in [("plan.toml", toml, "plan.json"), ("plan.json", json, "plan.toml")] {
        harness.write(given, text);
        let submitted = harness.run(&["submit", given, "-o", "out"]);
        assert!(submitted.status.success(), "{}", said(&submitted));
        let directory = harness.folder.path().join("out");
        assert_eq!([given, other].map(|name| directory.join(name).exists()), [true, false]);
    }
    let own = harness.write("out/plan.toml", "# not of the record\n");
    let submitted = harness.run(&["submit", "plan.json", "-o", "out"]);
    assert!(submitted.status.success() && own.exists(), "{}", said(&submitted));
}

#[test]
fn a_plan_that_is_damaged_is_an_error_that_running_again_mends() {
    let harness = Harness::new();
    let path = harness.write("plan.toml", &plan("", "max_concurrency = [1, 2]"));
    let args = ["run", path.to_str().expect("plain"), "-o", "out"];
    assert!(harness.run(&args).status.success());
    let directory = harness.folder.path().join("out");
    edit_journal(&directory, |text| text.replacen("\"points\":2,", "\"points\":3,", 1));
    for command in ["status", "report", "verify", "worker"] {
        let output = harness.run(&[command, "out"]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(
            said(&output).contains("restore the file from a copy, or run the plan again"),
            "{}",
            said(&output)
        );
    }
    let lines = journal_lines(&directory);
    let again = harness.run(&args);
    assert_eq!(again.status.code(), Some(3), "{}", said(&again));
    assert!(said(&again).contains("damaged line"), "{}", said(&again));
    assert_eq!(journal_lines(&directory), lines + 3, "nothing is measured again");
    let status = harness.run(&["status", "out"]);
    assert!(said(&status).contains("2 of 2 runs done"), "{}", said(&status));
}

#[test]
fn shards_may_work_at_the_same_time() {
    let harness = Harness::new();
    let text = plan(
        "[serve.params]\nmax_num_seqs = [2, 4, 8]",
        "max_concurrency = [1, 2, 3]",
    );
    let path = harness.write("plan.toml", &text);
    let args = ["run", path.to_str().expect("plain"), "-o", "out"];
    let shards = ["1/3", "2/3", "3/3"].map(|shard| harness.start(&[&args[..], &["--shard", shard]].concat()));
    for mut shard in shards {
        assert!(ended(&mut shard).success());
    }
    assert_eq!(causes(&harness.folder.path().join("out"), "point").len(), 9);
    assert!(said(&harness.run(&args)).contains("nothing left to do"));
    harness.wait_until_alone();
}

#[test]
fn a_sweep_is_continued_with_its_own_plan_from_any_folder() {
    let harness = Harness::new();
    let text = plan("[serve.params]\nmax_num_seqs = [2, 4]", "max_concurrency = 1");
    let path = harness.write("plan.toml", &text);
    let ran = harness.run(&["run", "plan.toml", "-o", "out", "--only", "max_num_seqs=2"]);
    assert!(ran.status.success(), "{}", said(&ran));
    let here = harness.run(&["status", "out"]);
    assert!(said(&here).contains("vsweep run plan.toml -o out"), "{}", said(&here));
    let mut there = harness.vsweep(&["status", "."]);
    let there = there.current_dir(harness.folder.path().join("out")).output();
    let there = said(&there.expect("it runs"));
    let again = format!("vsweep run {} -o .", path.display());
    assert!(there.contains(&again), "{again}: {there}");
}

#[test]
fn what_was_measured_counts_whichever_journal_it_is_in() {
    let harness = Harness::new();
    let path = harness.write("plan.toml", &plan("", "max_concurrency = 1"));
    let args = ["run", path.to_str().expect("plain"), "-o", "out"];
    let mut failing = harness.vsweep(&[&args[..], &["--shard", "1/2"]].concat());
    let failing = output(failing.env("VSWEEP_SIM_FAULT", "crash-at-start"));
    assert_eq!(failing.status.code(), Some(3), "{}", said(&failing));
    let retried = harness.run(&[&args[..], &["--retry-failed"]].concat());
    assert_eq!(retried.status.code(), Some(0), "{}", said(&retried));
    let directory = harness.folder.path().join("out");
    assert!(harness.run(&["report", "out"]).status.success());
    assert_eq!(causes(&directory, "point").into_values().collect::<Vec<_>>(), ["ok"]);
}

#[test]
fn a_run_whose_file_is_damaged_is_measured_again() {
    let harness = Harness::new();
    let path = harness.write("plan.toml", &plan("", "max_concurrency = [1, 2, 3]"));
    let args = ["run", path.to_str().expect("plain"), "-o", "out"];
    assert!(harness.run(&args).status.success());
    let directory = harness.folder.path().join("out");
    let files = run_files(&directory);
    fs::remove_file(&files[0]).expect("removed");
    let mut content = fs::read(&files[1]).expect("readable");
    content[20] ^= 1;
    fs::write(&files[1], content).expect("written");
    let again = harness.run(&args);
    assert!(again.status.success(), "{}", said(&again));
    assert!(
        said(&again).contains("2 run files are missing or damaged"),
        "{}",
        said(&again)
    );
    assert_eq!(recorded_outcomes(&directory).values().sum::<usize>(), 5);
    assert!(causes(&directory, "point").into_values().all(|cause| cause == "ok"));

    journal_files(&directory)
        .iter()
        .for_each(|journal| fs::write(journal, "").expect("written"));
    let lost = harness.run(&args);
    assert_eq!(lost.status.code(), Some(1), "{}", said(&lost));
    assert!(said(&lost).contains("journal is missing or empty"), "{}", said(&lost));
}

/// Runs a bash script in which `$@` is vsweep with these arguments.
fn in_bash(harness: &Harness, script: &str, args: &[&str]) -> std::process::Output {
    let vsweep = harness.vsweep(args);
    let mut command = std::process::Command::new("bash");
    command.args(["-c", script, "bash"]).arg(vsweep.get_program());
    command.args(vsweep.get_args()).current_dir(harness.folder.path());
    command.envs(vsweep.get_envs().filter_map(|(name, value)| Some((name, value?))));
    output(&mut command)
}

#[test]
fn a_directory_whose_name_is_no_text_is_measured_and_can_be_continued() {
    let harness = Harness::new();
    harness.write("plan.toml", &plan("", "max_concurrency = 1"));
    let measured = in_bash(
        &harness,
        "\"$@\" -o $'nu/\\xff' && \"$@\" -o $'nu/\\xff'",
        &["run", "plan.toml"],
    );
    assert!(measured.status.success(), "{}", said(&measured));
    assert!(said(&measured).contains("nothing left to do"), "{}", said(&measured));
    let command = plan("", "max_concurrency = 1").replace("[bench]", "[bench]\ncommand = \"true {result}\"");
    harness.write("external.toml", &command);
    let refused = in_bash(&harness, "\"$@\" -o $'nu/\\xfe'", &["run", "external.toml"]);
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    assert!(
        said(&refused).contains("is not UTF-8; choose another directory"),
        "{}",
        said(&refused)
    );
}

#[test]
fn a_stream_that_is_full_or_closed_ends_in_an_exit_code() {
    let harness = Harness::new();
    harness.write("plan.toml", &plan("", "max_concurrency = 1"));
    let ends = |script: &str, args: &[&str], code: i32, text: &str| {
        let output = in_bash(&harness, script, args);
        assert_eq!(output.status.code(), Some(code), "{script} {args:?}: {}", said(&output));
        assert!(said(&output).contains(text), "{script} {args:?}: {}", said(&output));
    };
    let lost = "cannot write standard output: No space left on device";
    for args in [
        &["check", "plan.toml"][..],
        &["plan", "plan.toml"],
        &["--help"],
        &["schema"],
    ] {
        ends("\"$@\" >/dev/full", args, 1, lost);
    }
    ends("\"$@\" 2>/dev/full", &["check", "none.toml"], 2, "");
    ends("\"$@\" 2>&-", &["check", "none.toml"], 2, "");
    ends("\"$@\" | true; exit ${PIPESTATUS[0]}", &["check", "plan.toml"], 0, "");
    // The run is measured although its output is lost.
    ends("\"$@\" >/dev/full", &["run", "plan.toml", "-o", "out"], 1, lost);
    assert_eq!(causes(&harness.folder.path().join("out"), "point").len(), 1);
}

#[test]
fn an_interrupt_that_nobody_hears_of_is_one() {
    let harness = Harness::new();
    harness.write(
        "plan.toml",
        &plan("", "max_concurrency = 1").replace("runs = 1", "runs = 1000"),
    );
    let (reader, closed) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut vsweep = harness.vsweep(&["run", "plan.toml", "-o", "out"]);
    vsweep.stdout(closed.try_clone().expect("a pipe")).stderr(closed);
    let mut vsweep = vsweep.spawn().expect("the binary starts");
    wait_for("some events", || journal_lines(&harness.folder.path().join("out")) > 5);
    signal(&vsweep, Signal::SIGTERM);
    assert_eq!(ended(&mut vsweep).code(), Some(130));
}

#[test]
fn limits_below_what_it_needs_are_told_before_anything_starts() {
    let harness = Harness::new();
    harness.write("plan.toml", &plan("", "max_concurrency = 1"));
    for (limit, told) in [
        ("-n 16", "16 open files are allowed"),
        ("-n 64", "64 open files are allowed"),
        ("-v 300000", "292 MiB of address space"),
    ] {
        let output = in_bash(
            &harness,
            &format!("ulimit {limit}; exec \"$@\""),
            &["run", "plan.toml", "-o", "out"],
        );
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(
            said(&output).contains(told) && said(&output).contains("(ulimit"),
            "{}",
            said(&output)
        );
    }
    assert!(!harness.folder.path().join("out").exists());
}

#[test]
fn a_port_that_somebody_takes_under_way_stops_the_sweep_and_fails_no_run() {
    let harness = Harness::new();
    // The first server does not listen, and fails once the other process holds its port.
    harness.write(
        "start.sh",
        "echo up >up; while ! test -e taken; do sleep 0.02; done; exit 1",
    );
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.expect("a free port");
    let text = plan(
        &format!("[serve.params]\nport = {}\nx = [1, 2]", address.port()),
        "max_concurrency = 1",
    );
    harness.write("plan.toml", &text.replace("vsweep sim serve tiny-8b", "sh start.sh"));
    let vsweep = harness.vsweep(&["run", "plan.toml", "-o", "out"]);
    let vsweep = { vsweep }
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    wait_for("the first server", || harness.folder.path().join("up").exists());
    let _stranger = std::net::TcpListener::bind(address).expect("still free");
    harness.write("taken", "");
    let output = output_of(vsweep);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let told = format!("port {} is held by process {}", address.port(), std::process::id());
    assert!(said(&output).contains(&told), "{}", said(&output));
    assert_eq!(
        recorded_outcomes(&harness.folder.path().join("out")).len(),
        1,
        "{}",
        said(&output)
    );
    let again = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(again.status.code(), Some(2), "{}", said(&again));
}

#[test]
fn a_program_behind_the_url_that_is_no_server_of_vllm_is_told_at_once() {
    let harness = Harness::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    // The thread ends with the test's process.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 1024];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    let text = plan("", "max_concurrency = 1")
        .replace(
            "command = \"vsweep sim serve tiny-8b --sim-start 50ms --sim-speed 50\"",
            &format!("url = {url:?}"),
        )
        .replace("stop_grace = \"1s\"", "")
        .replace("ready_timeout = \"15s\"", "ready_timeout = \"10m\"");
    harness.write("plan.toml", &text);
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let told = format!("wrong server: {url}/health answers HTTP 404; this is not a server with vLLM's API");
    assert!(said(&output).contains(&told), "{}", said(&output));
}

#[test]
fn a_server_with_a_key_is_measured_with_that_key() {
    let harness = Harness::new();
    let with_key = plan("[serve.params]\napi_key = \"the-servers-own\"", "max_concurrency = 1");
    let external = "[bench]\ncommand = \"vsweep bench\"";
    for (name, text) in [
        ("native", with_key.clone()),
        ("external", with_key.replace("[bench]", external)),
    ] {
        harness.write("plan.toml", &text);
        let mut vsweep = harness.vsweep(&["run", "plan.toml", "-o", name]);
        // The key in the environment belongs to another server and must not be sent to this one.
        let output = output(vsweep.env("OPENAI_API_KEY", "of-somebody-else"));
        assert_eq!(output.status.code(), Some(0), "{name}: {}", said(&output));
    }
}
