//! The requirements of a plan decide the exit code of a sweep, of a sweep with nothing left to do, and of the report.

use crate::deadline::output;
use crate::harness::{Harness, said};
use std::fs;
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

/// Returns the exit codes of `run`, of `run` again and of `report`, and the output of the last.
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
        said.contains("requirement not met: quick (seqs 4: p99 TTFT <= 0.001 ms not met: "),
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
    assert!(said.contains(" for 90 % of requests: 100 %"), "{said}");
    let (unmet, said) = share("0.001");
    assert_eq!(unmet, [Some(4); 3], "{said}");
    assert!(
        said.contains("TTFT < 0.001 ms and TPOT < 60000 ms for 90 % of requests not met"),
        "{said}"
    );
}

#[test]
fn a_frontier_knows_the_shares_that_the_plan_asserts() {
    let harness = Harness::new();
    let detailed = PLAN.replace("num_prompts = 8", "num_prompts = 8\nsave_detailed = true");
    let plan = format!("{detailed}[[assert]]\nattainment = \">=90%\"\nttft_ms = \"<60000\"\n");
    harness.write("plan.toml", &plan);
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let output = harness.run(&["plot", "pareto", "out", "--format", "json"]);
    let drawn: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut points = drawn["points"].as_array().expect("points").iter();
    assert!(points.any(|point| point["frontier"] == true), "{drawn}");
}

#[test]
fn a_server_that_is_too_large_for_the_gpus_meets_nothing() {
    let plan = PLAN.replace("max_num_seqs = [4, 8]", "tensor_parallel_size = 2");
    let (unmet, said) = codes(&format!("{plan}[report]\ngpus = 1\n[[assert]]\nfailed = \"<=0\"\n"));
    assert_eq!(unmet, [Some(4); 3], "{said}");
    let line = "requirement not met: failed<=0 (no measured server fits on the GPUs)";
    assert!(said.contains(line), "{said}");

    // Its search finds no load.
    let searching = plan.replace("max_concurrency = [1, 2]\n", "");
    let search = "[sla]\nvary = \"max_concurrency\"\nmax = 2\n[[sla.target]]\nname = \"chat\"\nrequired = true\n\
                  p99_ttft_ms = \"<=0.001\"\n";
    let (unmet, said) = codes(&format!("{searching}[report]\ngpus = 1\n{search}"));
    assert_eq!(unmet, [Some(4); 3], "{said}");
    let line = "requirement not met: target chat (no measured server fits on the GPUs)";
    assert!(said.contains(line), "{said}");
}

#[test]
fn counts_are_facts_and_the_server_that_keeps_them_is_recommended() {
    let harness = Harness::new();
    let plan = PLAN
        .replace("runs = 1", "runs = 2")
        .replace("num_prompts = 8", "num_prompts = 200");
    let counts = "[[assert]]\nfailed = \"<=0\"\ncompleted = \">=200\"\n";
    harness.write("plan.toml", &format!("{plan}{counts}"));
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(!said(&output).contains("no server meets"), "{}", said(&output));
    let answer = harness.folder.path().join("out/answer.json");
    let answer: serde_json::Value = serde_json::from_slice(&std::fs::read(answer).expect("written")).expect("JSON");
    for met in answer["questions"][0]["winner"]["meets"].as_array().expect("targets") {
        assert_eq!(
            (&met["is_met"], met["probability"].as_f64()),
            (&true.into(), Some(1.0)),
            "{met}"
        );
    }
}

#[test]
fn requirements_keep_the_values_with_which_they_were_run() {
    let harness = Harness::new();
    harness.write(
        "plan.toml",
        &format!("{PLAN}[[assert]]\np99_ttft_ms = \"<=${{LIMIT}}\"\n"),
    );
    let with = |limit: &str, words: &[&str]| output(harness.vsweep(words).env("LIMIT", limit));
    let run = |limit: &str| with(limit, &["run", "plan.toml", "-o", "out"]);
    let unmet = run("0.001");
    assert_eq!(unmet.status.code(), Some(4), "{}", said(&unmet));
    for report in [with("60000", &["report", "out"]), harness.run(&["report", "out"])] {
        let said = said(&report);
        assert_eq!(report.status.code(), Some(4), "{said}");
        assert!(said.contains("p99 TTFT <= 0.001 ms not met"), "{said}");
    }
    let met = run("60000");
    assert_eq!(met.status.code(), Some(0), "{}", said(&met));
    let report = harness.run(&["report", "out"]);
    assert_eq!(report.status.code(), Some(0), "{}", said(&report));
}

#[test]
fn a_copy_of_the_plan_that_was_changed_is_not_believed() {
    let harness = Harness::new();
    harness.write("plan.toml", &format!("{PLAN}[[assert]]\nfailed = \"<=0\"\n"));
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let verify = || harness.run(&["verify", "out"]);
    assert_eq!(verify().status.code(), Some(0), "{}", said(&verify()));
    harness.write(
        "out/plan.toml",
        &format!("{PLAN}[[assert]]\np99_ttft_ms = \"<=0.001\"\n"),
    );
    let output = harness.run(&["report", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        said(&output).contains("requirement met: failed<=0"),
        "{}",
        said(&output)
    );
    let page = String::from_utf8(harness.run(&["report", "out", "-o", "-"]).stdout).expect("text");
    assert!(page.trim_end().ends_with("</html>"), "{page}");
    let verified = verify();
    assert_eq!(verified.status.code(), Some(1), "{}", said(&verified));
    assert!(
        said(&verified).contains("plan.toml: is not the plan that was run")
            && said(&verified).contains("restore it from a copy"),
        "{}",
        said(&verified)
    );
    assert!(!said(&verified).contains("anew"), "{}", said(&verified));
    fs::remove_file(harness.folder.path().join("out/manifest.json")).expect("it is there");
    let verified = verify();
    assert!(
        said(&verified).contains("manifest.json: is missing or damaged; restore it")
            && said(&verified).contains("restore what is lost; then `vsweep report out`"),
        "{}",
        said(&verified)
    );
}

#[test]
fn a_requirement_of_one_workload_says_nothing_of_the_others() {
    let plan = PLAN.replace("random_input_len = 16", "random_input_len = [16, 32]");
    let one = "[[assert]]\nfailed = \"<=0\"\nwhere = { random_input_len = 32 }\n";
    let (met, said) = codes(&format!("{plan}{one}"));
    assert_eq!(met, [Some(0); 3], "{said}");
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
    let (free, told) = target("");
    assert_eq!(free, [Some(0); 3], "{told}");
    assert!(
        told.contains("Run: no server meets target chat, even at concurrency 1"),
        "{told}"
    );
    let (required, said) = target("required = true");
    assert_eq!(required, [Some(4); 3], "{said}");
    assert!(
        said.contains("requirement not met: target chat (the only server: at no load)"),
        "{said}"
    );
}

#[test]
fn a_class_without_an_answer_meets_no_bound() {
    let plan = PLAN
        .replace("max_num_seqs = [4, 8]", "max_model_len = 128")
        .replace("max_concurrency = [1, 2]", "max_concurrency = 4")
        .replace("num_prompts = 8", "num_prompts = 100");
    let mix = "[[bench.mix]]\nname = \"chat\"\nshare = 97\n[[bench.mix]]\nname = \"docs\"\nshare = 3\nrandom_input_len = 600\n";
    let required = "[[assert]]\nclass = \"docs\"\np99_ttft_ms = \"<=60000\"\n";
    let (open, said) = codes(&format!("{plan}{mix}{required}"));
    assert_eq!(open, [Some(5); 3], "{said}");
    assert!(said.contains("no figure for docs: p99 TTFT <= 60,000 ms"), "{said}");
}

#[test]
fn a_requirement_that_says_nothing_is_refused() {
    let harness = Harness::new();
    harness.write(
        "plan.toml",
        &format!(
            "{PLAN}[[assert]]\nname = \"empty\"\n[[assert]]\nfailed = \"<=0\"\nwhere = {{ max_concurency = 2 }}\nservers = \"some\"\n"
        ),
    );
    let output = harness.run(&["check", "plan.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let said = said(&output);
    for told in ["this requirement has no bounds", "max_concurency", "assert.servers"] {
        assert!(said.contains(told), "{told}: {said}");
    }
}

#[test]
fn a_requirement_that_is_about_no_point_is_refused() {
    let harness = Harness::new();
    let none = "[[assert]]\nfailed = \"<=0\"\nwhere = { max_concurrency = \">64\" }\n";
    let searched =
        "[sla]\nvary = \"max_concurrency\"\n[[sla.target]]\np99_ttft_ms = \"<=9\"\n[[assert]]\nfailed = \"<=0\"\n";
    let searching = PLAN.replace("max_concurrency = [1, 2]\n", "");
    for (plan, problem) in [
        (format!("{PLAN}{none}"), "no point of the plan has these parameters"),
        (
            format!("{searching}{searched}"),
            "[[assert]] is about the points of a plan",
        ),
    ] {
        harness.write("plan.toml", &plan);
        let output = harness.run(&["check", "plan.toml"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(problem), "{}", said(&output));
    }
}
