//! What `check` says of a server's flags: everything at once, each at its place, and nothing of programs that it does not know.

use crate::deadline::output;
use std::fs;
use std::process::{Command, Output};

fn vsweep(words: &[&str], plan: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("plan.toml"), plan).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_vsweep"));
    output(command.args(words).arg("plan.toml").current_dir(folder.path()))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const WRONG: &str = r#"
[serve]
command = "vllm serve m --dtyp auto extra"
params = { tensor_paralel_size = 2, max_num_seqs = ["many", 8], enforce_eager = true, compilation_config = { value = { mode = 3 } } }

[[serve.combos]]
name = "long"
max-model-len = "x"
api_key = "sk-12345678"

[bench.params]
random_input_len = 8
"#;

#[test]
fn wrong_flags_are_told_all_at_once_at_their_places() {
    let check = vsweep(&["check"], WRONG);
    assert_eq!(check.status.code(), Some(3), "{}", said(&check));
    let said = said(&check);
    for (message, place, remedy) in [
        ("has no flag `--dtyp`", "plan.toml:3:11", "did you mean `--dtype`?"),
        (
            "has no flag `--tensor-paralel-size`",
            "plan.toml:4:34",
            "did you mean `--tensor-parallel-size`?",
        ),
        (
            "refuses `--max-num-seqs`: invalid int value: 'many'",
            "plan.toml:4:52",
            "write a value that it takes",
        ),
        (
            "refuses `--max-model-len`: invalid",
            "plan.toml:8:17",
            "write a value that it takes",
        ),
        ("`extra` belongs to no flag", "plan.toml:3:11", "remove it"),
    ] {
        let told = said.split("warning: ").find(|told| told.contains(message));
        let told = told.unwrap_or_else(|| panic!("{message} in {said}"));
        assert!(
            told.contains(place) && told.contains(remedy),
            "{place} and {remedy} in {told}"
        );
    }
    assert_eq!(said.matches("warning: ").count(), 5, "{said}");
    assert!(!said.contains("12345678"), "{said}");
    assert_eq!(vsweep(&["rehearse"], WRONG).status.code(), Some(3));
}

#[test]
fn mistakes_of_both_sides_are_told_together() {
    let both = WRONG.replace("random_input_len = 8", "random_input_len = \"long\"");
    let check = vsweep(&["check"], &both);
    assert_eq!(check.status.code(), Some(2));
    let said = said(&check);
    assert!(said.contains("error: random_input_len is \"long\""), "{said}");
    assert_eq!(said.matches("warning: ").count(), 5, "{said}");
}

#[test]
fn programs_that_are_not_known_and_right_flags_are_left_alone() {
    for plan in [
        WRONG.replace("vllm serve m", "python server.py"),
        "[serve]\ncommand = \"vllm serve m -tp 2 --max_model_len=8k\"\nparams = { enable_prefix_caching = false }\n"
            .to_owned(),
        "[serve]\nurl = \"http://127.0.0.1:1\"\n".to_owned(),
    ] {
        let check = vsweep(&["check"], &plan);
        assert_eq!(check.status.code(), Some(0), "{}", said(&check));
    }
}
