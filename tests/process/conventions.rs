//! Conventions that users of other command-line tools expect of every command: `-` for standard input, several files, JSON, `-q`.

use crate::deadline::output_of;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const PLAN: &str =
    "[serve]\ncommand = 'vsweep sim serve m'\n[bench.params]\nnum_prompts = 100\nmax_concurrency = [1, 2]\n";
const WRONG: &str = "[serve]\ncommand = 'vsweep sim serve m'\nfoo = 1\n[bench.params]\n  max_concurency = 1\n";

/// Runs vsweep in a folder with these files and this standard input.
fn vsweep(files: &[(&str, &str)], input: &str, args: &[&str]) -> Output {
    let folder = TempDir::new().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_vsweep"))
        .args(args)
        .current_dir(folder.path())
        .env("NO_COLOR", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // A command that reads no input may have ended already.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    output_of(child)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_plan_comes_from_standard_input() {
    let as_json = json!({"serve": {"command": "vsweep sim serve m"}}).to_string();
    for input in [PLAN, &as_json] {
        let checked = vsweep(&[], input, &["check", "-"]);
        assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
        assert!(
            text(&checked.stdout).starts_with("ok: stdin: 1 server"),
            "{}",
            text(&checked.stdout)
        );
    }
    let wrong = vsweep(&[], WRONG, &["plan", "-"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("--> stdin:3:1"), "{}", text(&wrong.stderr));
}

#[test]
fn several_plans_are_checked_in_one_go() {
    let files = [("a b (1).toml", PLAN), ("wrong.toml", WRONG)];
    let checked = vsweep(&files, "", &["check", "wrong.toml", "a b (1).toml"]);
    assert_eq!(checked.status.code(), Some(2));
    assert!(
        text(&checked.stderr).contains("unknown key `foo`"),
        "{}",
        text(&checked.stderr)
    );
    assert!(
        text(&checked.stdout).starts_with("ok: a-b--1-: 1 server, 2 points"),
        "{}",
        text(&checked.stdout)
    );

    let checked = vsweep(&files, "", &["check", "wrong.toml", "a b (1).toml", "--format", "json"]);
    assert_eq!((checked.status.code(), text(&checked.stderr)), (Some(2), String::new()));
    let plans: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    assert_eq!((&plans[0]["valid"], &plans[1]["valid"]), (&json!(false), &json!(true)));
    let place = &plans[0]["problems"][1]["places"][0];
    assert_eq!(
        *place,
        json!({"file": "wrong.toml", "line": 5, "column": 3, "note": ""})
    );
    assert_eq!((&plans[1]["points"], &plans[1]["runs"]), (&json!(2), &json!(6)));
}

#[test]
fn quiet_commands_print_errors_and_what_a_format_asks_for() {
    let files = [("p.toml", PLAN), ("wrong.toml", WRONG)];
    for args in [["check", "p.toml"], ["plan", "p.toml"]] {
        let quiet = vsweep(&files, "", &[&args[..], &["-q"]].concat());
        assert_eq!(
            (quiet.status.code(), text(&quiet.stdout)),
            (Some(0), String::new()),
            "{args:?}"
        );
    }
    let json = vsweep(&files, "", &["-q", "plan", "p.toml", "--format", "json"]);
    assert!(serde_json::from_slice::<Value>(&json.stdout).is_ok());
    let wrong = vsweep(&files, "", &["-q", "check", "wrong.toml"]);
    assert!(wrong.status.code() == Some(2) && text(&wrong.stderr).contains("unknown key `foo`"));
}
