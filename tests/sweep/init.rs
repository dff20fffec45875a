//! Plans that `vsweep init` writes: each passes `check`, whatever the arguments.

use crate::harness::{Harness, said};
use crate::standing::Standing;
use std::fs;

fn assert_checked(harness: &Harness, asked: &[&str]) {
    let plan = format!(
        "plan-{}.toml",
        fs::read_dir(harness.folder.path()).expect("a folder").count()
    );
    let output = harness.run(&[&["init", "-o", &plan], asked].concat());
    assert_eq!(output.status.code(), Some(0), "{asked:?}: {}", said(&output));
    let output = harness.run(&["check", &plan]);
    assert_eq!(output.status.code(), Some(0), "{asked:?}: {}", said(&output));
}

#[test]
fn every_plan_passes_check() {
    let harness = Harness::new();
    for goal in ["tune", "capacity", "guard"] {
        for gpus in ["1", "6", "8", "1024"] {
            assert_checked(
                &harness,
                &[
                    "--goal",
                    goal,
                    "--gpus",
                    gpus,
                    "--model",
                    "meta-llama/Llama-3.1-8B-Instruct",
                ],
            );
        }
        for odd in ["../my models/$x ${HOME} \"q\" 'q'", "----", "ü/\u{1b}[31m", "."] {
            let model = format!("--model={odd}");
            assert_checked(&harness, &["--goal", goal, &model]);
        }
    }
    assert_checked(&harness, &["--goal", "demo"]);
}

#[test]
fn what_a_tuning_plan_offers_in_comments_passes_check() {
    let harness = Harness::new();
    let output = harness.run(&["init", "--goal", "tune", "--model", "meta-llama/Llama-3.1-8B-Instruct"]);
    let plan = String::from_utf8_lossy(&output.stdout).into_owned();
    let (plan, offered) = plan.split_once("# More to compare").expect("it offers some");
    let (offered, rest) = offered.split_once("\n\n").expect("more follows");
    let offered: String = offered
        .lines()
        .skip(1)
        .map(|line| format!("{}\n", line.trim_start_matches(['#', ' '])))
        .collect();
    assert_eq!(offered.matches("[[serve.combos]]").count(), 3, "{offered}");
    harness.write("plan.toml", &format!("{plan}{offered}\n{rest}"));
    let output = harness.run(&["check", "plan.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn a_tuning_plan_uses_all_gpus() {
    let harness = Harness::new();
    for (gpus, is_parallel) in [("1", false), ("8", true)] {
        let output = harness.run(&["init", "--goal", "tune", "--model", "Qwen/Qwen3-8B", "--gpus", gpus]);
        let plan = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(plan.contains("[exec]\nparallel = \"gpus\"\n"), is_parallel, "{plan}");
    }
}

#[test]
fn a_running_server_is_asked_what_it_can_take() {
    let harness = Harness::new();
    let server = Standing::start(&harness, &["--max-model-len", "512"], false);
    for goal in ["tune", "capacity", "guard"] {
        assert_checked(&harness, &["--goal", goal, "--url", &server.url()]);
    }
    let output = harness.run(&["init", "--url", &server.url()]);
    let plan = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(plan.starts_with("# How fast is the server"), "{plan}");
    assert!(
        plan.contains("random_input_len = 256\nrandom_output_len = 128\n"),
        "{plan}"
    );
}

#[test]
fn what_is_missing_is_named() {
    let harness = Harness::new();
    let nothing = harness.run(&["init"]);
    assert_eq!(nothing.status.code(), Some(2), "{}", said(&nothing));
    assert!(said(&nothing).contains("--model MODEL"), "{}", said(&nothing));
    harness.write("there.toml", "mine");
    let there = harness.run(&["init", "--goal", "demo", "-o", "there.toml"]);
    assert_eq!(there.status.code(), Some(2), "{}", said(&there));
    let kept = fs::read_to_string(harness.folder.path().join("there.toml")).expect("a file");
    assert_eq!(kept, "mine");
    let silent = harness.run(&["init", "--url", "http://127.0.0.1:1"]);
    assert_eq!(
        said(&silent).matches("http://127.0.0.1:1").count(),
        1,
        "{}",
        said(&silent)
    );
    assert_eq!(silent.status.code(), Some(1), "{}", said(&silent));
    for (wrong, told) in [
        (
            &["--url", "127.0.0.1:8000"][..],
            "has no scheme; write http://HOST:PORT",
        ),
        (&["--model", ""], "--model <MODEL>"),
        (&["--goal", "demo", "--model", "m"], "leave out --model"),
        (&["--goal", "tunes", "--model", "m"], "tune, capacity, guard, demo"),
        (&["--gpus", "0", "--model", "m"], "--gpus <N>"),
    ] {
        let refused = harness.run(&[&["init"], wrong].concat());
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains(told), "{}", said(&refused));
    }
}
