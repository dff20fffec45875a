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
    // So far apart that a busy machine does not hide it.
    for (name, speed) in [("fast", "8"), ("slow", "0.25")] {
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

    // A job that was killed while it renewed the baseline has left the earlier one aside, and half of a new one.
    fs::rename(root.join("baseline"), root.join("baseline.old")).expect("moved");
    fs::create_dir(root.join("baseline.new")).expect("created");
    let slower = guard(&harness, "slow.toml", "results/b", &[("RENEW", "1")]);
    assert_eq!(slower.status.code(), Some(4), "{}", told(&slower));
    let junit = fs::read_to_string(root.join("results/b/junit.xml")).expect("written");
    assert!(junit.contains("failures=\"1\""), "{junit}");
    let summary = fs::read_to_string(root.join("summary.md")).expect("written");
    assert!(
        summary.contains(":-50% | concurrency 4, in 16, out 8") && summary.contains("broken"),
        "{summary}"
    );

    // One start decides nothing, which fails unless the caller says otherwise.
    let limits = ("LIMITS", "output_throughput:-0.1%");
    let undecided = guard(
        &harness,
        "fast.toml",
        "results/d",
        &[limits, ("STARTS", "1"), ("MOST_STARTS", "1")],
    );
    assert_eq!(undecided.status.code(), Some(5), "{}", told(&undecided));

    // Undecided passes only where that is asked for; as fast as before is never broken. What was measured there before does not count.
    let same = guard(
        &harness,
        "fast.toml",
        "results/d",
        &[("UNDECIDED", "pass"), ("RENEW", "1"), ("MOST_STARTS", "4")],
    );
    assert_eq!(same.status.code(), Some(0), "{}", told(&same));
    assert!(told(&same).contains("the baseline is renewed"), "{}", told(&same));
    assert!(root.join("results/d.old/journal").is_dir(), "{}", told(&same));
    assert!(root.join("baseline/journal").is_dir());
    let bmf = fs::read_to_string(root.join("results/d/bmf.json")).expect("written");
    let bmf: serde_json::Value = serde_json::from_str(&bmf).expect("JSON");
    let measure = &bmf["concurrency 4, in 16, out 8"]["output_throughput"];
    assert!(
        measure["lower_value"].as_f64() <= measure["value"].as_f64() && measure["value"].is_f64(),
        "{bmf}"
    );
    harness.wait_until_alone();
}

/// The workflow sets what the script reads, and keeps the folder where the script looks for its baseline.
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
        if step["uses"]
            .as_str()
            .is_some_and(|uses| uses.starts_with("actions/cache"))
        {
            assert_eq!(step["with"]["path"], "baseline", "{step}");
        }
    }
    assert_eq!(guards, 1);
    assert!(script.contains("baseline=${BASELINE:-baseline}"));
}
