//! The manifest for Kubernetes in the examples: it is valid under the strict schemas, and workers started as its Job would start them
//! measure everything once. This test uses no cluster, and the manifest was never tried on one.

use crate::deadline::ended;
use crate::harness::{Harness, recorded_outcomes, rows, said, skip, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Four servers: two need one GPU, two need two.
const PLAN: &str = r#"
version = 1
runs = 2
[serve]
command = "vsweep sim serve tiny-8b --sim-start 300ms --sim-speed 20"
stop_grace = "2s"
[serve.params]
tensor_parallel_size = [1, 2]
max_num_seqs = [4, 8]
[bench.params]
random_input_len = 32
random_output_len = 8
max_concurrency = 2
num_prompts = 64
"#;

/// The directory of results that the manifest names.
const RESULTS: &str = "/results/night";

/// The manifest as text.
fn manifest() -> &'static str {
    include_str!("../../../examples/kubernetes.yaml")
}

fn job() -> Value {
    serde_yaml_ng::from_str(manifest()).expect("one document of YAML")
}

/// The program that checks manifests. `.ci/run` installs it.
fn validator() -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/bin/kubernetes-validate");
    [installed, "kubernetes-validate".into()].into_iter().find(|program| {
        let version = Command::new(program).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    })
}

#[test]
fn the_manifest_is_what_the_schemas_of_kubernetes_take() {
    let Some(validator) = validator() else {
        skip("the manifest for Kubernetes is not checked: kubernetes-validate is not installed (see .ci/run)");
        return;
    };
    let harness = Harness::new();
    let is_valid = |name: &str, text: &str| {
        let file = harness.write(name, text);
        let mut validate = Command::new(&validator);
        let output = crate::deadline::output(validate.args(["--strict", "-k", "1.31"]).arg(file));
        (output.status.success(), said(&output))
    };
    let (is_good, what) = is_valid("good.yaml", manifest());
    assert!(is_good, "{what}");
    let wrong = manifest().replace("backoffLimitPerIndex", "backoffLimitPerIndx");
    let (is_good, what) = is_valid("wrong.yaml", &wrong);
    assert!(!is_good, "a misspelled key is seen: {what}");
}

/// Runs a pod of the Job, with `results` instead of the directory that the manifest names.
fn pod(harness: &Harness, job: &Value, results: &str, index: usize) -> Child {
    let words = &job["spec"]["template"]["spec"]["containers"][0]["command"];
    let words = words.as_array().expect("a command").iter();
    let words: Vec<&str> = words.map(|word| word.as_str().expect("a word")).collect();
    assert_eq!((words[0], words.last()), ("vsweep", Some(&RESULTS)), "{words:?}");
    let mut command = harness.vsweep(&words[1..words.len() - 1]);
    command
        .arg(results)
        .env("JOB_COMPLETION_INDEX", index.to_string())
        .env("NODE_NAME", format!("node-{index}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a worker")
}

#[test]
fn workers_of_the_job_measure_everything_once_also_when_one_is_lost() {
    let harness = Harness::new();
    harness.write("plan.toml", PLAN);
    let job = job();
    let workers = job["spec"]["completions"].as_u64().expect("a number");
    assert_eq!(job["spec"]["parallelism"].as_u64(), Some(workers));
    let submit = harness.run(&["submit", "plan.toml", "-o", "night"]);
    assert_eq!(submit.status.code(), Some(0), "{}", said(&submit));

    let directory = harness.folder.path().join("night");
    let mut lost = pod(&harness, &job, "night", 0);
    wait_for("a run", || recorded_outcomes(&directory).len() == 1);
    kill(Pid::from_raw(lost.id() as i32), Signal::SIGKILL).expect("it lives");
    lost.wait().expect("reaped");
    // Its replacement begins together with the others. One pod more than planned begins too.
    let indexes = (0..workers as usize).chain([1]);
    let mut pods: Vec<Child> = indexes.map(|index| pod(&harness, &job, "night", index)).collect();
    for pod in &mut pods {
        assert_eq!(ended(pod).code(), Some(0));
    }
    assert_eq!(
        ended(&mut pod(&harness, &job, "night", 0)).code(),
        Some(0),
        "nothing is left"
    );

    let report = harness.run(&["report", "night"]);
    assert_eq!(report.status.code(), Some(0), "{}", said(&report));
    let summary = rows(&directory.join("summary.csv"));
    assert_eq!(summary.len(), 8, "{summary:?}");
    assert!(
        summary
            .iter()
            .all(|row| row["outcome"] != "failed" && row["node"].starts_with("node-"))
    );
    harness.wait_until_alone();
}

#[test]
fn the_job_does_not_try_again_what_would_end_the_same() {
    let harness = Harness::new();
    let job = job();
    let rules = job["spec"]["podFailurePolicy"]["rules"].as_array().expect("rules");
    let codes = rules.iter().find_map(|rule| rule["onExitCodes"]["values"].as_array());
    let codes: Vec<i64> = codes.expect("codes").iter().filter_map(Value::as_i64).collect();
    // No plan is recorded in the folder `elsewhere`.
    let code = ended(&mut pod(&harness, &job, "elsewhere", 0)).code();
    assert!(
        code.is_some_and(|code| codes.contains(&i64::from(code))),
        "{code:?} of {codes:?}"
    );
    assert!(!codes.contains(&130), "an interrupted worker goes on elsewhere");
}
