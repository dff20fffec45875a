//! A sweep of vLLM that is taken over in the middle: its result tree becomes an experiment, and the missing runs are measured.

use crate::harness::{Harness, rows, said};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use vsweep::journal::{self, Check, Directory};

/// vLLM's command line, with the given commands instead of `vllm serve` and `vllm bench serve`.
fn command<'a>(serve: &'a str, bench: &'a str) -> Vec<&'a str> {
    let mut words = vec![
        "vllm",
        "bench",
        "sweep",
        "serve",
        "--serve-cmd",
        serve,
        "--bench-cmd",
        bench,
    ];
    words.extend([
        "--serve-params",
        "s.json",
        "--bench-params",
        "b.json",
        "--num-runs",
        "2",
        "--warmup-num-prompts",
        "2",
    ]);
    words.extend(["--continue-on-error", "-e", "moved"]);
    words
}

fn tree_of(folder: &str) -> [String; 3] {
    ["run=0.json", "run=1.json", "summary.json"].map(|file| format!("tree/{folder}/{file}"))
}

#[test]
fn a_run_after_a_warm_up_is_not_cold_once_it_is_exported_and_imported() {
    let harness = Harness::new();
    let serve = "vsweep sim serve tiny-8b --sim-start 50ms --sim-speed 50";
    let load = "{\"dataset_name\":\"random\",\"num_prompts\":8,\"max_concurrency\":2}";
    harness.write("s.json", "[{\"max_num_seqs\":4}]");
    harness.write("b.json", &format!("[{load}]"));
    harness.write(
        "plan.toml",
        &format!(
            "version = 1\nruns = 1\n[serve]\ncommand = \"{serve}\"\n[serve.params]\nmax_num_seqs = 4\n[bench.params]\n\
             dataset_name = \"random\"\nnum_prompts = 8\nmax_concurrency = 2\n"
        ),
    );
    let mut import = vec!["import", "tree", "-o", "again", "--", "vllm", "bench", "sweep", "serve"];
    import.extend(["--serve-cmd", serve, "--bench-cmd", "vllm bench serve"]);
    import.extend([
        "--serve-params",
        "s.json",
        "--bench-params",
        "b.json",
        "--num-runs",
        "1",
    ]);
    let run = ["run", "plan.toml", "-o", "out"];
    let export = ["export", "out", "--format", "vllm", "-o", "tree"];
    for args in [&run[..], &export, &import, &["report", "again"]] {
        let output = harness.run(args);
        assert!(output.status.success(), "{}", said(&output));
    }
    let imported = rows(&harness.folder.path().join("again/summary.csv"));
    assert!(
        imported.len() == 1 && !imported[0]["codes"].contains("cold_server"),
        "{imported:?}"
    );
}

#[test]
fn a_tree_that_was_interrupted_is_taken_over_and_finished() {
    let harness = Harness::new();
    let root = harness.folder.path();
    let program = env!("CARGO_BIN_EXE_vsweep");
    let serve = "vsweep sim serve tiny-8b --sim-start 50ms --sim-speed 50";
    let bench =
        format!("{program} bench --dataset-name random --random-input-len 16 --random-output-len 4 --num-prompts 8");
    harness.write(
        "s.json",
        &json!({"small": {"max_num_seqs": 4}, "large": {"max_num_seqs": 8}}).to_string(),
    );
    harness.write(
        "b.json",
        &json!([{"max_concurrency": 1}, {"max_concurrency": 2}]).to_string(),
    );

    // The complete tree that vLLM would have written.
    let words = command(serve, &bench);
    let run = |args: &[&str]| {
        let output = harness.run(args);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{}", said(&output));
        said(&output)
    };
    run(&[&["import", "-o", "whole.toml", "--"], &words[..]].concat());
    run(&["run", "whole.toml", "-o", "whole"]);
    run(&["export", "whole", "--format", "vllm", "-o", "tree"]);
    let whole = rows(&root.join("whole/summary.csv"));
    assert_eq!(whole.len(), 8);

    // A tree may have more runs than its command line asks for, and a link is not followed.
    let folder = root.join("tree/SERVE--large-BENCH--max_concurrency=1");
    fs::copy(folder.join("run=0.json"), folder.join("run=7.json")).expect("copied");
    std::os::unix::fs::symlink(folder.join("run=0.json"), folder.join("run=8.json")).expect("a link");
    fs::copy(folder.join("run=0.json"), folder.join("run=99999999999.json")).expect("copied");
    let mut nothing: serde_json::Map<String, Value> =
        serde_json::from_slice(&fs::read(folder.join("run=0.json")).expect("read")).expect("an object");
    nothing.values_mut().for_each(|value| *value = Value::Null);
    let nothing = serde_json::to_string(&nothing).expect("plain");
    fs::write(folder.join("run=9.json"), nothing).expect("written");
    let more = run(&[&["import", "tree", "-o", "more", "--"], &words[..]].concat());
    for problem in [
        "run=9.json holds no figure; it is left to be measured",
        "run=99999999999.json: its number cannot be read",
    ] {
        assert!(more.contains(problem), "{more}");
    }
    assert!(more.contains("wrote more: 9 runs; the plan asks for 8 runs"), "{more}");
    assert!(
        more.contains("run=8.json is a link or another special file; put the file itself there"),
        "{more}"
    );
    for extra in ["run=7.json", "run=8.json", "run=9.json", "run=99999999999.json"] {
        fs::remove_file(folder.join(extra)).expect("there");
    }

    // vLLM was killed while it measured the second server's first load. An earlier run had failed.
    let last = "SERVE--large-BENCH--max_concurrency=2";
    let half = "SERVE--large-BENCH--max_concurrency=1";
    fs::remove_dir_all(root.join("tree").join(last)).expect("there");
    let [first, second, summary] = tree_of(half);
    fs::remove_file(root.join(summary)).expect("there");
    fs::write(root.join(&second), "{\"date\": \"2026").expect("written");
    let failed = "SERVE--small-BENCH--max_concurrency=2";
    let failure =
        json!({"run_number": 1, "error_type": "CalledProcessError", "error": "exit status 1", "serve_overrides": {}});
    fs::remove_file(root.join(&tree_of(failed)[1])).expect("there");
    fs::write(
        root.join(format!("tree/{failed}/run=1.failure.json")),
        failure.to_string(),
    )
    .expect("written");
    // This run failed and was tried again, so its result counts.
    fs::write(
        root.join(format!("tree/{half}/run=0.failure.json")),
        failure.to_string(),
    )
    .expect("written");
    fs::create_dir(root.join("tree/BENCH--other=1")).expect("created");

    let imported = harness.run(&[&["import", "tree", "-o", "moved", "--"], &words[..]].concat());
    let told = said(&imported);
    assert_eq!(imported.status.code(), Some(3), "{told}");
    assert!(told.contains("wrote moved: 5 runs of 8 runs"), "{told}");
    assert!(
        told.contains("run=1.json is not JSON") && told.contains("left to be measured"),
        "{told}"
    );
    assert!(
        told.contains("BENCH--other=1 does not belong to this command line"),
        "{told}"
    );
    assert!(
        told.contains("`vsweep run moved/plan.toml -o moved` measures what is missing"),
        "{told}"
    );

    run(&["report", "moved"]);
    let before = rows(&root.join("moved/summary.csv"));
    assert_eq!(before.len(), 5);
    let labelled = before
        .iter()
        .filter(|row| row["detail"].contains("imported from a directory of vLLM's sweep"));
    assert_eq!(labelled.count(), 5);
    let lost: Vec<_> = before.iter().filter(|row| row["outcome"] == "failed").collect();
    assert!(lost.len() == 1 && lost[0]["detail"].contains("exit status 1") && lost[0]["cause"] == "bench_failed");
    let original: Value = serde_json::from_slice(&fs::read(root.join(first)).expect("readable")).expect("JSON");
    let throughput = original["output_throughput"].to_string();
    let same = |row: &&BTreeMap<String, String>| row["max_num_seqs"] == "8" && row["output_throughput"] == throughput;
    assert!(before.iter().any(|row| same(&row)));

    // Their lines have the figures by which they are judged, like those of runs that vsweep measured.
    let directory = Directory::open(root.join("moved")).expect("an experiment");
    let state = journal::load(&directory, Check::Lengths).expect("sound");
    let judged = state
        .runs()
        .filter(|run| run.figures().get("output_throughput").is_some());
    assert_eq!(judged.count(), 4);

    let dry = run(&["run", "moved/plan.toml", "-o", "moved", "--dry-run"]);
    assert!(
        dry.contains("left to do: 1 server start, 3 runs; recorded in moved: 5 runs"),
        "{dry}"
    );
    run(&["run", "moved/plan.toml", "-o", "moved"]);
    let after = rows(&root.join("moved/summary.csv"));
    assert_eq!(after.len(), 8);
    let key = |row: &BTreeMap<String, String>| {
        ["point", "run", "output_throughput", "outcome", "simulated"].map(|name| row[name].clone())
    };
    let kept: Vec<_> = after.iter().map(key).collect();
    let measured = |row: &&BTreeMap<String, String>| row["outcome"] != "failed";
    for row in before.iter().filter(measured).map(key) {
        assert!(row[4] == "true" && kept.contains(&row), "{row:?} in {kept:?}");
    }
    run(&["verify", "moved"]);
    run(&["run", "moved/plan.toml", "-o", "moved", "--retry-failed"]);
    let complete = rows(&root.join("moved/summary.csv"));
    assert!(complete.iter().all(|row| row["outcome"] != "failed"));
    harness.wait_until_alone();
}

#[test]
fn a_tree_that_is_no_sweep_of_the_command_is_refused() {
    let harness = Harness::new();
    harness.write("s.json", "[{\"max_num_seqs\": 4}]");
    harness.write("b.json", "[{\"max_concurrency\": 4}]");
    fs::create_dir(harness.folder.path().join("tree")).expect("created");
    let words = command("vllm serve m", "vllm bench serve");
    let searched: Vec<&str> = words
        .iter()
        .map(|word| if *word == "serve" { "serve_workload" } else { word })
        .collect();
    let searched: Vec<&str> = searched
        .into_iter()
        .filter(|word| !["--bench-params", "b.json"].contains(word))
        .collect();
    for (args, expected) in [
        (
            vec!["import", "tree", "-o", "d"],
            "a tree does not say which commands it was made with",
        ),
        (vec!["import"], "give the command line after --"),
        (vec!["import", "tree", "--"], "say where the experiment goes: -o DIR"),
        (
            vec!["import", "tree", "-o", "d", "--"],
            "no run of this command line is in tree",
        ),
        (vec!["import", "none", "-o", "d", "--"], "none"),
        (vec!["import", "tree", "-o", "tree", "--"], "tree is there already"),
    ] {
        let args = if args.last() == Some(&"--") {
            [&args[..], &words[..]].concat()
        } else {
            args
        };
        let output = harness.run(&args);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{}", said(&output));
        assert!(said(&output).contains(expected), "{expected}: {}", said(&output));
        assert!(!Path::new(harness.folder.path()).join("d").exists());
    }
    let output = harness.run(&[&["import", "tree", "-o", "d", "--"], &searched[..]].concat());
    assert!(said(&output).contains("were found by measuring"), "{}", said(&output));
}
