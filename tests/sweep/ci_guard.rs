//! The script of `examples/ci` on simulated servers: it passes a server as fast as the base, and fails a slower one.

use crate::deadline::output;
use crate::harness::{Harness, said};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn guard(harness: &Harness, plan: &str, more: &[(&str, &str)]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/ci/guard.sh");
    output(
        Command::new("bash")
            .arg(script)
            .arg(plan)
            .current_dir(harness.folder.path())
            .env("VSWEEP", env!("CARGO_BIN_EXE_vsweep"))
            .env("GITHUB_STEP_SUMMARY", harness.folder.path().join("summary.md"))
            .envs(more.iter().copied()),
    )
}

/// Writes a plan that compares a simulated server with one of another speed.
fn write_plan(harness: &Harness, name: &str, speed: &str, compare: &str) {
    let plan = format!(
        "[serve.command]\nbase = \"vsweep sim serve m --sim-speed 8 --sim-start 0s\"\n\
         new = \"vsweep sim serve m --sim-speed {speed} --sim-start 0s --sim-seed 2\"\n\
         [bench]\nwarmup_prompts = 0\n[bench.params]\nnum_prompts = 40\nmax_concurrency = 4\n\
         random_input_len = 16\nrandom_output_len = 8\n\
         [compare]\nmetrics = [\"output_throughput\"]\n{compare}\n"
    );
    harness.write(name, &plan);
}

#[test]
fn a_slower_server_stops_the_job_and_the_same_passes() {
    let harness = Harness::new();
    // The speeds differ so much that load on the machine does not hide it.
    write_plan(&harness, "slow.toml", "0.25", "fail_on = [\"output_throughput:-50%\"]");
    let slower = guard(&harness, "slow.toml", &[]);
    assert_eq!(slower.status.code(), Some(4), "{}", said(&slower));
    let summary = fs::read_to_string(harness.folder.path().join("summary.md")).expect("written");
    assert!(summary.contains("regressed"), "{summary}");

    write_plan(&harness, "same.toml", "8", "fail_on = [\"output_throughput:-50%\"]");
    // A slash at the end of the folder's name changes nothing.
    let same = guard(&harness, "same.toml", &[("NEW", "results/ci/")]);
    assert_eq!(same.status.code(), Some(0), "{}", said(&same));
    let kept = harness.folder.path().join("results/ci.old/journal");
    assert!(kept.is_dir(), "the results of the earlier job are kept aside");

    // Four pairs cannot decide about so small a change, except for a false alarm in one of 25 tries.
    write_plan(
        &harness,
        "close.toml",
        "8",
        "fail_on = [\"output_throughput:-0.01%\"]\nmax_starts = 8",
    );
    let undecided = |more: &[(&str, &str)], code: i32| {
        let mut tries = (0..3).map(|_| guard(&harness, "close.toml", more));
        tries.find(|ran| ran.status.code() == Some(code) && said(ran).contains("undecided"))
    };
    let passes = undecided(&[], 0).expect("three false alarms in a row");
    assert!(
        said(&passes).contains("undecided, which passes here"),
        "{}",
        said(&passes)
    );
    undecided(&[("UNDECIDED", "fail")], 5).expect("three false alarms in a row");
    harness.wait_until_alone();
}

/// The workflow sets only variables that the script reads.
#[test]
fn the_workflow_fits_the_script() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/ci");
    let read = |name: &str| fs::read_to_string(examples.join(name)).expect("it is there");
    let workflow: serde_json::Value = serde_yaml_ng::from_str(&read("github.yml")).expect("YAML");
    let steps = workflow["jobs"]["guard"]["steps"].as_array().expect("steps");
    let (script, mut guards) = (read("guard.sh"), 0);
    for step in steps {
        if let Some(env) = step["env"].as_object().filter(|_| step["run"].as_str().is_some()) {
            guards += 1;
            env.keys()
                .for_each(|name| assert!(script.contains(&format!("${{{name}:-")), "{name} is not read"));
        }
    }
    assert_eq!(guards, 1);
}
