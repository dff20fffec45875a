//! Text from servers, benchmarks and plans: it is shown in every output, but its control characters have no effect.

use crate::harness::{Harness, rows, said, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use vsweep::printable::has_effect;

/// Clears the screen, writes the clipboard, and changes the direction of writing; one of the sequences begins with a C1 control.
const EVIL: &str = "\u{1b}[2J\u{1b}]52;c;ZXZpbA==\u{7}\u{9b}31m\u{202e}evil";

/// Files of a directory that people open: no pictures, no Parquet files, and not the logs, journals and run files.
fn shown(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("readable").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        match path.is_dir() {
            true if name == "servers" || name == "journal" || name == "runs" => {}
            true => files.extend(shown(&path)),
            false if path.extension().is_some_and(|end| end == "png" || end == "parquet") => {}
            false => files.push(path),
        }
    }
    files
}

/// Returns the first line of a text with a control character that has an effect.
fn acting(text: &str) -> Option<&str> {
    text.lines().find(|line| line.replace('\t', "").contains(has_effect))
}

fn assert_harmless(directory: &Path) {
    for path in shown(directory) {
        let text = fs::read_to_string(&path).expect("text");
        assert_eq!(acting(&text), None, "{}", path.display());
    }
}

#[test]
fn the_last_words_of_a_server_do_not_act() {
    let harness = Harness::new();
    harness.write("words", &format!("RuntimeError: no {EVIL} luck\n"));
    let plan = "[serve]\ncommand = [\"sh\", \"-c\", \"cat words >&2; exit 1\"]\n[bench.params]\nnum_prompts = 1\n";
    harness.write("plan.toml", plan);
    let run = harness.run(&["run", "plan.toml", "-o", "d", "--format", "plain"]);
    let told = said(&run);
    assert_eq!(acting(&told), None, "{told}");
    assert!(told.contains("no \\u{1b}]52;c;ZXZpbA==\\u{7}"), "{told}");
    assert_harmless(&harness.folder.path().join("d"));
}

#[test]
fn names_and_results_of_others_do_not_act_and_are_no_formulas() {
    let harness = Harness::new();
    let result = r#"{"completed": 1, "output_throughput": 1.5, "left": -1.5, "=1+1": "=HYPERLINK(1)", "said": "@SUM(1)EVIL", "EVIL": "-x"}"#;
    // JSON escapes, as another program would write them.
    let result = result.replace("EVIL", r"\u001b]52;c;ZXZpbA==\u0007\u009b31m\u202e");
    harness.write("result.json", &result);
    let evil = EVIL
        .replace('\u{1b}', "\\u001b")
        .replace('\u{7}', "\\u0007")
        .replace('\u{9b}', "\\u009b")
        .replace('\u{202e}', "\\u202e");
    let plan = format!(
        r#"
runs = 1
[serve]
command = "vsweep sim serve tiny-8b --sim-start 50ms"
[serve.params]
served_model_name = "m{evil}"
[bench]
command = ["sh", "-c", "cp result.json $VSWEEP_RESULT; printf 'done\\033[2J'", "--"]
[[bench.combos]]
name = "=cmd|' /C calc'!A0"
label = "+1"
[[bench.combos]]
name = "two\nlines{evil}"
label = "-2"
"#
    );
    harness.write("plan.toml", &plan);
    for format in ["plain", "json"] {
        let run = harness.run(&["run", "plan.toml", "-o", format, "--format", format]);
        let told = said(&run);
        assert!(run.status.success(), "{told}");
        assert_eq!(acting(&told), None, "{told}");
        assert_harmless(&harness.folder.path().join(format));
    }
    for args in [
        ["plan", "plan.toml", "--format", "table"],
        ["plan", "plan.toml", "--format", "json"],
        ["plan", "plan.toml", "--format", "sh"],
        ["status", "plain", "--format", "text"],
        ["status", "json", "--format", "json"],
    ] {
        let told = said(&harness.run(&args));
        assert_eq!(acting(&told), None, "{args:?}: {told}");
    }
    let rows = rows(&harness.folder.path().join("plain/summary.csv"));
    assert_eq!(rows.len(), 2);
    for (name, cell) in rows.iter().flatten() {
        for text in [name, cell] {
            let is_number = text.parse::<f64>().is_ok();
            assert!(is_number || !text.starts_with(['=', '+', '-', '@']), "{name}: {cell}");
        }
    }
    assert_eq!(rows[0]["left"], "-1.5");
    assert_eq!(
        (&*rows[0]["'=1+1"], &*rows[0]["combo"]),
        ("'=HYPERLINK(1)", "'=cmd|' /C calc'!A0")
    );
    assert!(
        rows[1]["combo"].starts_with("two\\nlines\\u{1b}[2J"),
        "{}",
        rows[1]["combo"]
    );
}

#[test]
fn a_secret_that_a_server_logs_is_in_no_file() {
    let harness = Harness::new();
    let plan = r#"
runs = 1
[serve]
command = ["sh", "-c", "echo RuntimeError: bad token $MY_TOKEN >&2; exit 3"]
[serve.env]
MY_TOKEN = "Zx9-quiet-key"
[bench.params]
num_prompts = 1
"#;
    harness.write("plan.toml", plan);
    let run = harness.run(&["run", "plan.toml", "-o", "d"]);
    assert_eq!(run.status.code(), Some(3), "{}", said(&run));
    let directory = harness.folder.path().join("d");
    assert_hidden(&directory, "Zx9-quiet-key");
    let page = fs::read_to_string(directory.join("report.html")).expect("a page");
    assert!(page.contains("bad token ***"), "the page shows the log");
}

#[test]
fn a_secret_that_the_server_of_a_killed_vsweep_logged_is_hidden_by_the_next() {
    let plan = r#"
runs = 1
[serve]
command = ["sh", "-c", "echo token $MY_TOKEN >&2; touch up; test -e last && exit 3; sleep 100"]
[serve.env]
MY_TOKEN = "Zx9-quiet-key"
[bench.params]
num_prompts = 1
"#;
    assert_hidden_by_the_next(plan, "the server");
}

#[test]
fn a_secret_that_the_benchmark_of_a_killed_vsweep_printed_is_hidden_by_the_next() {
    let plan = r#"
runs = 1
[serve]
command = "vsweep sim serve tiny-8b --sim-start 50ms"
[bench]
command = ["sh", "-c", "echo token $MY_TOKEN; touch up; test -e last && exit 3; sleep 100"]
[bench.env]
MY_TOKEN = "Zx9-quiet-key"
"#;
    assert_hidden_by_the_next(plan, "the benchmark");
}

#[test]
fn a_benchmark_that_prints_a_secret_while_it_ends_is_awaited() {
    let harness = Harness::new();
    let plan = r#"
runs = 1
[serve]
command = "vsweep sim serve tiny-8b --sim-start 50ms"
[bench]
command = ["sh", "-c", '''trap 'sleep 1; echo $MY_TOKEN; echo "{\"said\": \"$MY_TOKEN\"}" > $VSWEEP_RESULT; exit 0' TERM; touch up; while :; do sleep 0.1; done''']
[bench.env]
MY_TOKEN = "Zx9-quiet-key"
"#;
    harness.write("plan.toml", plan);
    let mut vsweep = harness.start(&["run", "plan.toml", "-o", "d"]);
    wait_for("the benchmark", || harness.folder.path().join("up").exists());
    kill(Pid::from_raw(vsweep.id() as i32), Signal::SIGTERM).expect("sent");
    vsweep.wait().expect("reaped");
    assert_eq!(harness.processes(), [], "no program outlives vsweep");
    assert_hidden(&harness.folder.path().join("d"), "Zx9-quiet-key");
}

/// Kills vsweep while a program of the plan holds the key `Zx9-quiet-key`. The program has printed the key when it makes the file `up`. The
/// next vsweep, in which the program fails, must hide the key in the old log too.
fn assert_hidden_by_the_next(plan: &str, program: &str) {
    let harness = Harness::new();
    harness.write("plan.toml", plan);
    let mut vsweep = harness.start(&["run", "plan.toml", "-o", "d"]);
    wait_for(program, || harness.folder.path().join("up").exists());
    vsweep.kill().expect("it lives");
    vsweep.wait().expect("reaped");
    harness.wait_until_alone();
    harness.write("last", "");
    let run = harness.run(&["run", "plan.toml", "-o", "d"]);
    assert_eq!(run.status.code(), Some(3), "{}", said(&run));
    assert_hidden(&harness.folder.path().join("d"), "Zx9-quiet-key");
}

/// Asserts that no file of a directory contains the secret.
fn assert_hidden(directory: &std::path::Path, secret: &str) {
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let content = String::from_utf8_lossy(&fs::read(&path).expect("readable")).into_owned();
            assert!(!content.contains(secret), "{}", path.display());
        }
    }
}

#[test]
fn a_secret_that_a_benchmark_repeats_is_in_no_file() {
    let harness = Harness::new();
    let secret = "Zx9-quiet-key";
    let plan = r#"
runs = 1
[serve]
command = "vsweep sim serve tiny-8b --sim-start 50ms"
[bench]
command = ["sh", "-c", "echo with $GH_PAT; printf '{\"completed\": 1, \"said\": \"with %s\", \"%s\": 1, \"api_key\": \"Other-1\"}' $GH_PAT $GH_PAT > $VSWEEP_RESULT", "--"]
[bench.env]
GH_PAT = "SECRET"
"#;
    harness.write("plan.toml", &plan.replace("SECRET", secret));
    let run = harness.run(&["run", "plan.toml", "-o", "d", "--format", "json"]);
    let told = said(&run);
    assert!(run.status.success() && !told.contains(secret), "{told}");
    let mut folders = vec![harness.folder.path().join("d")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let content = String::from_utf8_lossy(&fs::read(&path).expect("readable")).into_owned();
            for secret in [secret, "Other-1"] {
                let is_raw = secret == "Other-1" && path.ends_with("result.json");
                assert!(is_raw || !content.contains(secret), "{}", path.display());
            }
        }
    }
    assert!(files > 5);
    let row = &rows(&harness.folder.path().join("d/summary.csv"))[0];
    assert_eq!((&*row["said"], &*row["***"]), ("with ***", "1"));
}

#[test]
fn a_result_that_contradicts_itself_or_its_point_is_not_believed() {
    let harness = Harness::new();
    let result = |lie: &str| {
        format!(
            r#"{{"num_prompts": 400, "max_concurrency": 2, "completed": 400, "duration": 20.0, "total_output_tokens": 3200{lie}}}"#
        )
    };
    for (name, lie) in [
        ("sound", r#", "output_throughput": 160.0"#),
        ("negative", r#", "output_throughput": -7"#),
        ("rate", r#", "output_throughput": 1000000.0"#),
        ("twice", r#", "output_throughput": 160.0, "output_throughput": 999999"#),
        ("order", r#", "p90_ttft_ms": 5.0, "p99_ttft_ms": 2.0"#),
    ] {
        harness.write(&format!("{name}.json"), &result(lie));
    }
    harness.write(
        "load.json",
        &result("").replace("\"max_concurrency\": 2", "\"max_concurrency\": 64"),
    );
    let plan = r#"
runs = 1
[serve]
command = "vsweep sim serve tiny-8b --sim-start 50ms"
[bench]
command = ["sh", "-c", "cp $0.json $VSWEEP_RESULT", "{label}"]
[bench.params]
label = ["sound", "negative", "rate", "twice", "order", "load"]
max_concurrency = 2
num_prompts = 400
"#;
    harness.write("plan.toml", plan);
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let rows = rows(&harness.folder.path().join("out/summary.csv"));
    for (label, validity, detail) in [
        ("sound", "valid", ""),
        ("negative", "", "its result has a negative output_throughput (-7)"),
        ("rate", "", "its result has output_throughput = 1000000"),
        ("twice", "", "its result has `output_throughput` twice"),
        ("order", "", "its result has p99_ttft_ms = 2 below p90_ttft_ms = 5"),
        ("load", "invalid", "it says max_concurrency = 64, and 2 was asked for"),
    ] {
        let row = rows.iter().find(|row| row["label"] == label).expect(label);
        assert_eq!(row["validity"], validity, "{row:?}");
        assert!(row["detail"].contains(detail), "{label}: {}", row["detail"]);
    }
}
