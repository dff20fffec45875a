//! The manifest for Kubernetes: its strict schemas take it, and pods started as a Job's controller would start them measure everything
//! once. No cluster was ever asked.

use crate::deadline::ended;
use crate::harness::{Harness, recorded_outcomes, rows, said, skip, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Two servers of one GPU and two of two.
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

const TABLE: &str = r#"
[k8s]
image = "registry.example.com/vsweep:1"
claim = "results"
namespace = "on"
time = "4h"
memory_per_gpu = "1.5Gi"
cpus_per_gpu = 4
at_once = 2
secrets = ["hf-token", "1e3"]
"#;

fn planned(table: &str) -> Harness {
    let harness = Harness::new();
    let mount = format!("mount = \"{}\"\n", harness.folder.path().display());
    let has_table = table.contains("[k8s]");
    harness.write(
        "plan.toml",
        &format!("{PLAN}{table}{}", if has_table { &mount } else { "" }),
    );
    harness
}

/// The Jobs of the manifest, and its text.
fn rendered(harness: &Harness) -> (Vec<Value>, String) {
    let submit = harness.run(&["submit", "plan.toml", "-o", "it's out", "--k8s"]);
    assert_eq!(submit.status.code(), Some(0), "{}", said(&submit));
    let text = String::from_utf8(submit.stdout).expect("text");
    let jobs = text
        .split("\n---\n")
        .map(|job| serde_saphyr::from_str(job).expect("YAML"));
    (jobs.collect(), text)
}

/// The tool with the schemas, which `.ci/run` installs.
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
    let harness = planned(TABLE);
    let (jobs, text) = rendered(&harness);
    let is_valid = |name: &str, text: &str| {
        let file = harness.write(name, text);
        let mut validate = Command::new(&validator);
        let output = crate::deadline::output(validate.args(["--strict", "-k", "1.31"]).arg(file));
        (output.status.success(), said(&output))
    };
    let (is_good, what) = is_valid("good.yaml", &text);
    assert!(is_good, "{what}");
    let (is_good, what) = is_valid(
        "wrong.yaml",
        &text.replace("backoffLimitPerIndex", "backoffLimitPerIndx"),
    );
    assert!(!is_good, "a misspelled key is seen: {what}");

    let [wide, narrow] = &jobs[..] else { panic!("{text}") };
    let limits = |job: &Value| job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"].clone();
    assert_eq!(
        limits(wide),
        serde_json::json!({"nvidia.com/gpu": "2", "memory": "3Gi", "cpu": "8"})
    );
    assert_eq!(
        limits(narrow),
        serde_json::json!({"nvidia.com/gpu": "1", "memory": "1.5Gi", "cpu": "4"})
    );
    assert_eq!(
        wide["metadata"]["namespace"], "on",
        "a text that looks like a flag stays one"
    );
    let sources = &wide["spec"]["template"]["spec"]["containers"][0]["envFrom"];
    assert_eq!(sources[1]["secretRef"]["name"], "1e3");
}

/// What a pod of a Job runs.
fn pod(harness: &Harness, job: &Value, index: usize) -> Child {
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    let words: Vec<&str> = container["command"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let vsweep = Path::new(env!("CARGO_BIN_EXE_vsweep"));
    let path = std::env::var("PATH").expect("there is one");
    // The harness's command marks whatever it starts.
    let mut command = harness.vsweep(&[]);
    let marked: Vec<_> = command
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)))
        .collect();
    command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(harness.folder.path());
    for (name, value) in marked {
        command.env(name, value.expect("set"));
    }
    command
        .env(
            "PATH",
            format!("{}:{path}", vsweep.parent().expect("a folder").display()),
        )
        .env("JOB_COMPLETION_INDEX", index.to_string())
        .env("NODE_NAME", format!("node-{index}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell")
}

#[test]
fn pods_of_the_jobs_measure_everything_once_also_when_one_is_lost() {
    let harness = planned(TABLE);
    let (jobs, _) = rendered(&harness);
    let directory = harness.folder.path().join("it's out");
    let all: Vec<(&Value, usize)> = jobs
        .iter()
        .flat_map(|job| {
            (0..job["spec"]["completions"].as_u64().expect("a number") as usize).map(move |index| (job, index))
        })
        .collect();
    assert_eq!(all.len(), 4, "a server start each");
    let (first, index) = all[0];
    let mut lost = pod(&harness, first, index);
    wait_for("a run", || recorded_outcomes(&directory).len() == 1);
    kill(Pid::from_raw(lost.id() as i32), Signal::SIGKILL).expect("it lives");
    lost.wait().expect("reaped");
    // Its replacement begins while the others do, and one more pod than there should be.
    let mut pods: Vec<Child> = all
        .iter()
        .chain([&all[1]])
        .map(|(job, index)| pod(&harness, job, *index))
        .collect();
    for pod in &mut pods {
        assert_eq!(ended(pod).code(), Some(0));
    }
    let report = harness.run(&["report", "it's out"]);
    assert_eq!(report.status.code(), Some(0), "{}", said(&report));
    let summary = rows(&directory.join("summary.csv"));
    assert_eq!(summary.len(), 8, "{summary:?}");
    assert!(
        summary
            .iter()
            .all(|row| row["outcome"] != "failed" && row["node"].starts_with("node-"))
    );
    let again = harness.run(&["submit", "plan.toml", "-o", "it's out", "--k8s"]);
    assert!(said(&again).contains("nothing is left to do"), "{}", said(&again));
    harness.wait_until_alone();
}

#[test]
fn what_is_wrong_with_a_manifest_is_told_in_one_go() {
    let harness =
        planned("[k8s]\nclaim = \"My_Claim\"\nmemory_per_gpu = \"20GB\"\ngpu = \"h100\"\nsecrets = [\"a b\"]\n");
    let submit = harness.run(&["submit", "plan.toml", "-o", "out", "--k8s"]);
    assert_eq!(submit.status.code(), Some(2), "{}", said(&submit));
    for expected in [
        "[k8s] has no `image`",
        "`k8s.claim`",
        "`k8s.memory_per_gpu`",
        "`k8s.gpu`",
        "`k8s.secrets`",
    ] {
        assert!(said(&submit).contains(expected), "{expected}: {}", said(&submit));
    }
    assert!(submit.stdout.is_empty());

    let without = planned("");
    for (args, expected) in [
        (&["--k8s"][..], "the plan has no [k8s] table"),
        (&["--k8s", "--cancel"], "kubectl delete jobs"),
        (&["--cancel"], "add --slurm"),
        (&["--k8s", "--sbatch-arg=--exclusive"], "cannot be used with"),
    ] {
        let submit = without.run(&[&["submit", "plan.toml", "-o", "out"], args].concat());
        assert_eq!(submit.status.code(), Some(2), "{}", said(&submit));
        assert!(said(&submit).contains(expected), "{}", said(&submit));
    }
    let elsewhere = planned(TABLE);
    let submit = elsewhere.run(&["submit", "plan.toml", "-o", "/somewhere/else", "--k8s"]);
    assert!(said(&submit).contains("is not below"), "{}", said(&submit));
    assert_eq!(submit.status.code(), Some(2));
}
