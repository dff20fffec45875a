//! The command of `[on_finish]`: the variables that it gets, and that it cannot harm the sweep.

use crate::deadline;
use crate::harness::{Harness, said, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;
use std::process::Stdio;

const PLAN: &str = r#"
version = 1
runs = 1

[serve]
command = "vsweep sim serve tiny-8b --sim-start 50ms --sim-speed 50"

[bench.params]
random_input_len = 32
random_output_len = 8
max_concurrency = 2
num_prompts = 4
"#;

/// Writes a plan whose `[on_finish]` runs this script. Returns the harness and the path of the plan.
fn with_script(script: &str, more: &str) -> (Harness, String) {
    let harness = Harness::new();
    let script = harness.write("told.sh", script).display().to_string();
    let hook = format!("[on_finish]\ncommand = [\"sh\", \"{script}\", \"{{dir}}\"]\n{more}");
    let plan = harness.write("plan.toml", &format!("{PLAN}\n{hook}"));
    (harness, plan.display().to_string())
}

fn log(out: &Path) -> String {
    fs::read_to_string(out.join("on_finish.log")).unwrap_or_default()
}

#[test]
fn it_is_told_how_the_sweep_ended_and_where_the_answer_is() {
    let script =
        "echo $# $1 $VSWEEP_DIR; echo $VSWEEP_ENDING $VSWEEP_EXIT_CODE; test -s \"$VSWEEP_ANSWER\" && echo answered";
    let (harness, plan) = with_script(script, "");
    let out = harness.folder.path().join("out");
    let ran = harness.run(&["run", "-q", &plan, "-o", "out"]);
    assert!(ran.status.success(), "{}", said(&ran));
    let dir = out.display();
    assert_eq!(log(&out), format!("1 {dir} {dir}\nfinished 0\nanswered\n"));
    // Nothing was left to do, so the command is not run.
    fs::remove_file(out.join("on_finish.log")).expect("removed");
    assert!(harness.run(&["run", "-q", &plan, "-o", "out"]).status.success());
    assert_eq!(log(&out), "");
    assert!(
        harness.run(&["verify", "out"]).status.success(),
        "it is no part of the record"
    );
}

#[test]
fn its_failure_is_a_warning() {
    let (harness, plan) = with_script("echo not today >&2; exit 7", "");
    let ran = harness.run(&["run", "-q", &plan, "-o", "out"]);
    let said = said(&ran);
    assert!(ran.status.success(), "{said}");
    assert!(
        said.contains("the command of [on_finish] ended with exit code 7; see "),
        "{said}"
    );
    assert_eq!(log(&harness.folder.path().join("out")), "not today\n");
}

#[test]
fn at_its_limit_it_ends_with_all_that_it_started() {
    let script = "setsid sleep 1000 & sleep 1000";
    let (harness, plan) = with_script(script, "timeout = \"300ms\"\n");
    let ran = harness.run(&["run", "-q", &plan, "-o", "out"]);
    let said = said(&ran);
    assert!(ran.status.success(), "{said}");
    assert!(
        said.contains("the command of [on_finish] did not end within 300 ms; see "),
        "{said}"
    );
    harness.wait_until_alone();
}

#[test]
fn a_signal_ends_it_and_its_log_keeps_no_secret() {
    let script = "echo token $MLFLOW_TRACKING_TOKEN; sleep 1000";
    let (harness, plan) = with_script(script, "secrets = [\"MLFLOW_TRACKING_TOKEN\"]\n");
    let out = harness.folder.path().join("out");
    let mut vsweep = harness
        .vsweep(&["run", "-q", &plan, "-o", "out"])
        .env("MLFLOW_TRACKING_TOKEN", "ml_1234567890")
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    wait_for("its output", || log(&out).contains("ml_1234567890"));
    kill(Pid::from_raw(vsweep.id() as i32), Signal::SIGTERM).expect("it lives");
    deadline::ended(&mut vsweep);
    assert_eq!(log(&out), "token ***\n");
    harness.wait_until_alone();
}

#[test]
fn what_outlives_a_kill_during_it_is_ended_by_the_next_run() {
    let script = "echo token $MLFLOW_TRACKING_TOKEN; setsid sleep 1000 & sleep 1000";
    let (harness, plan) = with_script(script, "secrets = [\"MLFLOW_TRACKING_TOKEN\"]\n");
    let out = harness.folder.path().join("out");
    let run = || {
        let mut command = harness.vsweep(&["run", &plan, "-o", "out"]);
        command.env("MLFLOW_TRACKING_TOKEN", "ml_1234567890");
        command
    };
    let mut vsweep = run()
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let sleeping = || {
        let processes = harness.processes().into_iter();
        processes.filter(|(_, line)| line.starts_with("sleep ")).count()
    };
    wait_for("both commands", || sleeping() == 2);
    harness.kill_with_guards(&mut vsweep);
    assert_eq!(sleeping(), 2, "nobody is left who could end them");
    assert_eq!(log(&out), "token ml_1234567890\n");
    let status = harness.run(&["status", "out"]);
    assert!(said(&status).contains(" (sleep)"), "{}", said(&status));

    let ran = deadline::output(&mut run());
    assert!(ran.status.success(), "{}", said(&ran));
    assert!(
        said(&ran).contains("cleared away what a killed vsweep had left"),
        "{}",
        said(&ran)
    );
    harness.wait_until_alone();
    assert_eq!(log(&out), "token ***\n");
}

#[test]
fn it_runs_after_a_confirmation_that_adds_nothing() {
    let (harness, plan) = with_script("echo done", "");
    let ran = harness.run(&["run", &plan, "-o", "out", "--confirm"]);
    assert!(ran.status.success(), "{}", said(&ran));
    assert_eq!(log(&harness.folder.path().join("out")), "done\n");
    assert!(!said(&ran).contains("nothing left to do"), "{}", said(&ran));
}

#[test]
fn it_gets_the_secrets_that_it_asks_for_and_no_others() {
    let script = "echo ${HF_TOKEN-none} ${#MLFLOW_TRACKING_TOKEN} $MLFLOW_TRACKING_TOKEN $REGION";
    let (harness, plan) = with_script(script, "secrets = [\"MLFLOW_TRACKING_TOKEN\"]\n");
    let mut command = harness.vsweep(&["run", "-q", &plan, "-o", "out"]);
    let secrets = [
        ("HF_TOKEN", "hf_1234567890"),
        ("MLFLOW_TRACKING_TOKEN", "ml_1234567890"),
    ];
    let ran = deadline::output(command.envs(secrets).env("REGION", "north"));
    assert!(ran.status.success(), "{}", said(&ran));
    assert_eq!(
        log(&harness.folder.path().join("out")),
        "none 13 *** north\n",
        "and what it prints is hidden"
    );
}

#[test]
fn another_session_may_begin_while_it_runs() {
    let script = format!(
        "{} run -q \"$2\" -o \"$1\" && echo continued",
        env!("CARGO_BIN_EXE_vsweep")
    );
    let (harness, plan) = with_script(&script, "");
    let text = fs::read_to_string(&plan)
        .expect("read")
        .replace("\"{dir}\"]", &format!("\"{{dir}}\", \"{plan}\"]"));
    fs::write(&plan, text).expect("written");
    let ran = harness.run(&["run", "-q", &plan, "-o", "out"]);
    assert!(ran.status.success(), "{}", said(&ran));
    assert_eq!(log(&harness.folder.path().join("out")), "continued\n");
}

/// A stand-in for pyarrow: reads the CSV table next to the Parquet file, which has the same columns.
const PYARROW: &str = r#"
import csv
def read_table(path):
    return Table(path.with_suffix(".csv"))
class Table:
    def __init__(self, path):
        with open(path, newline="") as file:
            rows = list(csv.reader(file))
        self.column_names, self.rows = rows[0], rows[1:]
    def to_pylist(self):
        return [dict(zip(self.column_names, map(typed, row))) for row in self.rows]
def typed(text):
    try:
        return float(text) if text and text != "inf" else text or None
    except ValueError:
        return text
"#;

/// A stand-in for mlflow: keeps runs in a file, one JSON object a line.
const MLFLOW: &str = r#"
import contextlib, json, os, types
STORE, open_runs = os.environ["FAKE_MLFLOW"], []
def saved():
    return [json.loads(line) for line in open(STORE)] if os.path.exists(STORE) else []
def as_run(run):
    return types.SimpleNamespace(info=types.SimpleNamespace(run_id=run["id"]), data=types.SimpleNamespace(tags=run["tags"]))
def set_experiment(name): pass
def search_runs(filter_string, output_format):
    wanted = [part.split(" = ") for part in filter_string.split(" and ")]
    wanted = {name.removeprefix("tags."): value.strip("'") for name, value in wanted}
    return [as_run(run) for run in saved() if wanted.items() <= run["tags"].items()]
@contextlib.contextmanager
def start_run(run_id=None, run_name=None, nested=False):
    tags = {"mlflow.parentRunId": open_runs[-1]["id"]} if nested else {}
    run = {"id": run_id or f"{run_name}-{len(saved())}", "tags": tags, "params": {}, "metrics": {}, "artifacts": []}
    open_runs.append(run)
    yield as_run(run)
    open_runs.pop()
    with open(STORE, "a") as file:
        print(json.dumps(run), file=file)
def set_tag(name, value): open_runs[-1]["tags"][name] = value
def set_tags(tags): open_runs[-1]["tags"].update(tags)
def log_params(params): open_runs[-1]["params"].update(params)
def log_metrics(figures): open_runs[-1]["metrics"].update(figures)
def log_artifact(path): open_runs[-1]["artifacts"].append(os.path.basename(path))
"#;

/// Uses stand-ins for both libraries. The recipe was tried by hand with the real ones.
#[test]
fn the_recipe_for_mlflow_logs_each_run_once() {
    let is_there = std::process::Command::new("python3").arg("--version").output();
    if is_there.is_err() {
        return crate::harness::skip("no python3 here");
    }
    let recipe = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/to_mlflow.py");
    let (harness, plan) = with_script(&format!("exec python3 '{recipe}' \"$1\""), "");
    fs::create_dir(harness.folder.path().join("pyarrow")).expect("a folder");
    harness.write("pyarrow/__init__.py", "");
    harness.write("pyarrow/parquet.py", PYARROW);
    harness.write("mlflow.py", MLFLOW);
    let store = harness.folder.path().join("store");
    let run = |set: &str| {
        let mut command = harness.vsweep(&["run", "-q", &plan, "-o", "out", "--set", set]);
        let ran = deadline::output(
            command
                .env("PYTHONPATH", harness.folder.path())
                .env("FAKE_MLFLOW", &store),
        );
        let out = harness.folder.path().join("out");
        assert!(ran.status.success(), "{}", said(&ran));
        assert_eq!(log(&out), "");
        let text = fs::read_to_string(&store).expect("the store");
        let runs = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        runs.collect::<Vec<serde_json::Value>>()
    };
    let first = run("runs=2");
    assert_eq!(first.len(), 3, "{first:?}");
    assert_eq!(first[0]["params"]["max_concurrency"], 2.0);
    assert!(first[0]["metrics"]["output_throughput"].as_f64() > Some(0.0));
    assert_eq!(first[2]["tags"]["ending"], "finished");
    assert_eq!(
        first[2]["artifacts"],
        serde_json::json!(["answer.json", "report.html", "summary.parquet"])
    );
    let second = run("runs=3");
    assert_eq!(second.len(), 5, "the new one, and the sweep again: {second:?}");
}
