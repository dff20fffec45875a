//! The script of `examples/ci` on simulated servers: it makes a baseline, passes what is as fast, and stops what is slower.

use crate::deadline::output;
use crate::harness::Harness;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn guard(harness: &Harness, plan: &str, new: &str, more: &[(&str, &str)]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/ci/guard.sh");
    let summary = harness.folder.path().join("summary.md");
    output(
        Command::new("bash")
            .arg(script)
            .arg(plan)
            .current_dir(harness.folder.path())
            .env("VSWEEP", env!("CARGO_BIN_EXE_vsweep"))
            .env("NEW", new)
            .env("LIMITS", "output_throughput:-50%")
            .env("GITHUB_STEP_SUMMARY", summary)
            .envs(more.iter().copied()),
    )
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

#[test]
fn a_baseline_is_made_kept_and_renewed() {
    let harness = Harness::new();
    for (name, speed) in [("fast", "8"), ("slow", "1")] {
        let plan = format!(
            "runs = 2\n[serve]\ncommand = \"vsweep sim serve m --sim-speed {speed} --sim-start 0s\"\n\
             [bench]\nwarmup_prompts = 0\n[bench.params]\nnum_prompts = 40\nmax_concurrency = 4\n\
             random_input_len = 16\nrandom_output_len = 8\n"
        );
        harness.write(&format!("{name}.toml"), &plan);
    }
    let root = harness.folder.path();
    let first = guard(&harness, "fast.toml", "results/a", &[]);
    assert_eq!(first.status.code(), Some(0), "{}", told(&first));
    assert!(root.join("baseline/journal").is_dir(), "{}", told(&first));

    let slower = guard(&harness, "slow.toml", "results/b", &[("RENEW", "1")]);
    assert_eq!(slower.status.code(), Some(4), "{}", told(&slower));
    let junit = fs::read_to_string(root.join("results/b/junit.xml")).expect("written");
    assert!(junit.contains("failures=\"1\""), "{junit}");
    let summary = fs::read_to_string(root.join("summary.md")).expect("written");
    assert!(
        summary.contains(":-50% | the only point") && summary.contains("broken"),
        "{summary}"
    );

    // Undecided passes only where that is asked for; as fast as before is never broken.
    let same = guard(
        &harness,
        "fast.toml",
        "results/c",
        &[("UNDECIDED", "pass"), ("RENEW", "1"), ("MOST_STARTS", "4")],
    );
    assert_eq!(same.status.code(), Some(0), "{}", told(&same));
    assert!(told(&same).contains("the baseline is renewed"), "{}", told(&same));
    assert!(root.join("results/c/bmf.json").is_file() && root.join("baseline/journal").is_dir());
    harness.wait_until_alone();
}
