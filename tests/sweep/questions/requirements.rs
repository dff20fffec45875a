//! The requirements of a plan decide the exit code: of the sweep, of a sweep that has nothing left to do, and of the report.

use crate::harness::{Harness, said};
use std::process::Output;

const PLAN: &str = r#"
version = 1
runs = 1
[serve]
command = "vsweep sim serve tiny-8b --sim-start 20ms --sim-speed 20"
stop_grace = "2s"
[serve.params]
max_num_seqs = [4, 8]
[bench.params]
random_input_len = 16
random_output_len = 8
max_concurrency = [1, 2]
num_prompts = 8
"#;

/// Exit codes of `run`, of the same again and of `report`, and what the last of them said.
fn codes(plan: &str) -> ([Option<i32>; 3], String) {
    let harness = Harness::new();
    harness.write("plan.toml", plan);
    let run = || harness.run(&["run", "plan.toml", "-o", "out"]);
    let outputs: [Output; 3] = [run(), run(), harness.run(&["report", "out"])];
    harness.wait_until_alone();
    (outputs.each_ref().map(|output| output.status.code()), said(&outputs[2]))
}

fn asserted(assertions: &str) -> ([Option<i32>; 3], String) {
    codes(&format!("{PLAN}{assertions}"))
}

#[test]
fn assertions_of_points_decide_the_exit_code() {
    let (met, said) = asserted("[[assert]]\nfailed = \"<=0\"\np99_ttft_ms = \"<=60000\"\nservers = \"all\"\n");
    assert_eq!(met, [Some(0); 3], "{said}");
    assert!(
        said.contains("requirement met: failed<=0, p99_ttft_ms<=60000, every server"),
        "{said}"
    );

    let (unmet, said) =
        asserted("[[assert]]\nname = \"quick\"\np99_ttft_ms = \"<=0.001\"\nwhere = { max_concurrency = 2 }\n");
    assert_eq!(unmet, [Some(4); 3], "{said}");
    assert!(
        said.contains("requirement not met: quick (max_num_seqs=4: not p99_ttft_ms<=0.001"),
        "{said}"
    );

    let detailed = PLAN.replace("num_prompts = 8", "num_prompts = 8\nsave_detailed = true");
    let share = |ttft_ms: &str| {
        codes(&format!(
            "{detailed}[[assert]]\nattainment = \">=90%\"\nttft_ms = \"<{ttft_ms}\"\ntpot_ms = \"<60000\"\n"
        ))
    };
    let (met, said) = share("60000");
    assert_eq!(met, [Some(0); 3], "{said}");
    let (unmet, said) = share("0.001");
    assert_eq!(unmet, [Some(4); 3], "{said}");
    assert!(said.contains("not share(ttft_ms<0.001 & tpot_ms<60000)>=0.9"), "{said}");

    let (undecided, said) = asserted("[[assert]]\nfailed = \"<=0\"\nwhere = { max_concurrency = \">64\" }\n");
    assert_eq!(undecided, [Some(5); 3], "{said}");
}

#[test]
fn an_unmet_requirement_outranks_failed_runs_and_those_one_that_is_open() {
    let crashing = PLAN.replace(
        "max_num_seqs = [4, 8]",
        "sim_fault = [\"crash-after:4\", \"crash-after:9999\"]",
    );
    let unmet =
        "[[assert]]\nfailed = \"<=0\"\nservers = \"all\"\n[[assert]]\np99_ttft_ms = \"<=0.001\"\nservers = \"all\"\n";
    let (codes_of, said) = codes(&format!("{crashing}{unmet}"));
    assert_eq!(codes_of[0], Some(4), "{said}");
    let (codes_of, said) = codes(&format!("{crashing}[[assert]]\nfailed = \"<=0\"\nservers = \"all\"\n"));
    assert_eq!(codes_of[0], Some(3), "{said}");
}

#[test]
fn a_target_is_an_answer_unless_it_is_required() {
    let target = |required: &str| {
        let plan = PLAN.replace("max_num_seqs = [4, 8]", "max_num_seqs = 8");
        let plan = plan.replace("max_concurrency = [1, 2]\n", "");
        codes(&format!(
            "{plan}[sla]\nvary = \"max_concurrency\"\nmax = 2\n[[sla.target]]\nname = \"chat\"\n{required}\np99_ttft_ms = \"<=0.001\"\n"
        ))
    };
    let (free, said) = target("");
    assert_eq!(free, [Some(0); 3], "{said}");
    let (required, said) = target("required = true");
    assert_eq!(required, [Some(4); 3], "{said}");
    assert!(
        said.contains("requirement not met: target chat (default: at no load)"),
        "{said}"
    );
}

#[test]
fn a_requirement_that_says_nothing_is_refused() {
    let harness = Harness::new();
    harness.write(
        "plan.toml",
        &format!(
            "{PLAN}[[assert]]\nname = \"empty\"\n[[assert]]\nattainment = \">=99%\"\nttft_ms = \"<500\"\n\
             [[assert]]\nfailed = \"<=0\"\nwhere = {{ max_concurency = 2 }}\nservers = \"some\"\n"
        ),
    );
    let output = harness.run(&["check", "plan.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let said = said(&output);
    for told in [
        "this requirement has no bounds",
        "`ttft_ms` of single requests is not in the results",
        "max_concurency",
        "assert.servers",
    ] {
        assert!(said.contains(told), "{told}: {said}");
    }
}
