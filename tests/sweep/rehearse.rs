//! `vsweep plan` with its estimate, and `--rehearse`: forecasts of plans whose answer is known, and their correction by a real sweep of
//! the simulator. Only counts and relations between figures are asserted.

use crate::deadline::output;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;
use vsweep::agenda::Schedule;
use vsweep::journal::{Shard, State};
use vsweep::matrix::Matrix;
use vsweep::rehearse::{Card, Options, foresee};
use vsweep::sim::engine::gpu::GPUS;

fn vsweep(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vsweep"));
    command.current_dir(folder).args(args).env("NO_COLOR", "1");
    output(&mut command)
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn plan(text: &str) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("plan.toml"), text).expect("writable");
    folder
}

fn rehearse(folder: &TempDir, more: &[&str]) -> Value {
    let args = [&["plan", "plan.toml", "--rehearse", "--format", "json"], more].concat();
    let output = vsweep(folder.path(), &args);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let forecast: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{told}"));
    let mut servers = forecast["servers"].as_array().expect("servers").iter();
    let fails = servers.any(|server| !server["failure"].is_null() || server["losses"] != Value::Array(vec![]));
    assert_eq!(output.status.code(), Some(if fails { 3 } else { 0 }), "{forecast}");
    forecast
}

const SMALL: &str = r#"
version = 1
runs = 2
[serve]
command = "vsweep sim serve demo-8b --sim-speed 20 --sim-start 50ms"
[serve.params]
max_num_seqs = [4, 16]
[bench.params]
random_input_len = 64
random_output_len = 8
num_prompts = 8
max_concurrency = [1, 4]
"#;

#[test]
fn several_workloads_are_named() {
    let says = |text: &str| stdout(&vsweep(plan(text).path(), &["plan", "plan.toml", "--rehearse"]));
    let two = says(&SMALL.replace("input_len = 64", "input_len = [64, 128]"));
    assert!(two.contains("\n2 workloads: 64 in; 128 in\n"), "{two}");
    assert!(!says(SMALL).contains("workload"));
}

#[test]
fn a_forecast_counts_what_a_run_does_and_learns_from_it() {
    let folder = plan(SMALL);
    let before = rehearse(&folder, &[]);
    assert_eq!(
        (&before["starts"], &before["runs"], &before["predicted"]),
        (&2.into(), &8.into(), &true.into())
    );
    let part = |name: &str| before["seconds"][name].as_f64().expect("a number");
    assert!(0.0 < part("low") && part("low") < part("likely") && part("likely") < part("high"));
    assert_eq!(before, rehearse(&folder, &[]), "one plan has one forecast");
    assert_eq!(rehearse(&folder, &["--only", "max_concurrency=1"])["runs"], 4);
    assert_eq!(rehearse(&folder, &["--shard", "1/2"])["starts"], 1);

    let quiet = vsweep(folder.path(), &["run", "plan.toml", "--quiet"]);
    let told = [&quiet.stdout, &quiet.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(
        quiet.status.success() && told.iter().all(|text| text.is_empty()),
        "{told:?}"
    );
    let rest = rehearse(&folder, &[]);
    assert_eq!((&rest["runs"], &rest["recorded_runs"]), (&0.into(), &8.into()));
    let again = rehearse(&folder, &["--fresh"]);
    assert_eq!(again["runs"], 8);
    let learned: Vec<&str> = again["learned_from"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(learned, ["2 measured server starts", "8 measured runs"]);
}

#[test]
fn the_start_of_a_server_is_not_a_pause_between_runs() {
    let folder = plan(
        &SMALL
            .replace("runs = 2", "runs = 1")
            .replace("50ms", "1s")
            .replace("[4, 16]", "[1, 2, 4, 8]")
            .replace("[1, 4]", "4"),
    );
    let likely = |forecast: &Value| forecast["seconds"]["likely"].as_f64().expect("a number");
    let before = likely(&rehearse(&folder, &["--shard", "2/2"]));
    let part = vsweep(folder.path(), &["run", "plan.toml", "--shard", "1/2"]);
    assert!(part.status.success(), "{}", String::from_utf8_lossy(&part.stderr));
    let left = rehearse(&folder, &[]);
    assert_eq!((&left["starts"], &left["runs"]), (&2.into(), &2.into()));
    assert!(likely(&left) < 1.6 * before, "{left}, {before} s before");
}

/// Results of a real H100 calibrate the forecast of that experiment, and of another plan for the same GPU and model in the same folder.
#[test]
fn runs_of_the_same_gpu_and_model_calibrate_a_forecast() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/h100");
    let folder =
        plan("version = 1\n[serve]\ncommand = \"vllm serve llama-8b\"\n[bench.params]\nmax_concurrency = [4, 32]\n");
    let h100 = ["--gpu", "h100"];
    let told = |args: &[&str]| rehearse(&folder, &[args, &h100].concat());
    assert_eq!(told(&[])["twin"], Value::Null, "nothing was measured");
    let own = recorded.display().to_string();
    let own = told(&["-o", &own]);
    let beside = folder.path().join("results");
    std::fs::create_dir_all(&beside).expect("a folder");
    copy(&recorded, &beside.join("h100"));
    let others = told(&[]);
    for forecast in [&own, &others] {
        assert_eq!(forecast["twin"]["runs"], 24, "{forecast}");
        let constants = forecast["twin"]["constants"].as_array().expect("a list").iter();
        let decode = constants
            .clone()
            .find(|constant| constant["name"] == "decode")
            .expect("decode");
        assert_eq!(decode["identified"], true, "{decode}");
    }
    let other_gpu = rehearse(&folder, &["--gpu", "a100"]);
    assert_eq!(other_gpu["twin"], Value::Null, "runs of an H100 say nothing of an A100");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => std::fs::copy(entry.path(), to).map(|_| ()).expect("copied"),
        }
    }
}

/// Returns the predicted time that a command prints.
fn predicted(output: &Output) -> String {
    let told = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let lines = told.iter().flat_map(|text| text.lines());
    let mut lines = lines.filter_map(|line| line.split_once("predicted: "));
    lines.next().unwrap_or_else(|| panic!("{told:?}")).1.to_owned()
}

#[test]
fn plan_run_and_status_have_one_forecast() {
    // At the speed of a real server a run lasts much longer than the computation of a forecast, so the progress lines show one.
    let folder = plan(&SMALL.replace("--sim-speed 20", "--sim-speed 1"));
    let says = |args: &[&str]| vsweep(folder.path(), args);
    let all = predicted(&says(&["plan", "plan.toml", "--rehearse"]));
    let shown = || {
        let plan = says(&["plan", "plan.toml"]);
        assert_eq!(stdout(&plan), stdout(&says(&["run", "plan.toml", "--dry-run"])));
        plan
    };
    assert_eq!(all, predicted(&shown()));
    let share = stdout(&says(&["run", "plan.toml", "--dry-run", "--shard", "1/2"]));
    assert!(
        share.contains("left to do in shard 1/2: 1 server start, 4 runs; "),
        "{share}"
    );
    let part = says(&["run", "plan.toml", "--only", "max_concurrency=1", "--format", "plain"]);
    let told = String::from_utf8_lossy(&part.stderr).into_owned();
    assert!(
        part.status.success() && told.contains(", about ") && told.contains(" left)"),
        "{told}"
    );

    let status: Value =
        serde_json::from_str(&stdout(&says(&["status", "results/plan", "--format", "json"]))).expect("JSON");
    let left = rehearse(&folder, &[]);
    assert_eq!((&left["runs"], &status["left"]), (&4.into(), &4.into()));
    assert_eq!(status["seconds_left"], left["seconds"]["likely"]);
    let rest = predicted(&says(&["plan", "plan.toml", "--rehearse"]));
    assert_eq!(rest, predicted(&shown()));
    let left = "left to do: 2 server starts, 4 runs; recorded in results/plan: 4 runs";
    assert!(stdout(&shown()).contains(left), "{}", stdout(&shown()));
    assert_eq!(
        predicted(&says(&["plan", "plan.toml", "--rehearse", "--fresh"])),
        predicted(&says(&["plan", "plan.toml", "--fresh"]))
    );
    let fresh = stdout(&says(&["plan", "plan.toml", "--fresh"]));
    let whole = "all of the plan: 2 server starts, 8 runs; recorded in results/plan: 4 runs";
    assert!(fresh.contains(whole), "{fresh}");
    assert_eq!(rest, predicted(&says(&["run", "plan.toml"])));
    let nothing = stdout(&says(&["plan", "plan.toml", "--rehearse"]));
    assert_eq!(
        nothing,
        "nothing left to do: 8 runs recorded; --fresh predicts the whole plan\n"
    );
    let done = stdout(&shown());
    assert!(
        done.contains("nothing left to do; recorded in results/plan: 8 runs; --fresh"),
        "{done}"
    );
    let script = says(&["plan", "plan.toml", "--rehearse", "--format", "sh"]);
    assert_eq!(script.status.code(), Some(2), "it makes no script");
}

/// The engine model does not know this server, so durations are predicted from measured runs.
#[test]
fn what_cannot_be_played_takes_as_long_as_what_was_measured() {
    let folder = plan(&SMALL.replace("vsweep sim", "./wrapped sim"));
    let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_vsweep"));
    fs::write(folder.path().join("wrapped"), script).expect("writable");
    fs::set_permissions(folder.path().join("wrapped"), fs::Permissions::from_mode(0o755)).expect("ours");
    let refused = vsweep(folder.path(), &["plan", "plan.toml", "--rehearse"]);
    assert_eq!(refused.status.code(), Some(2));
    let part = vsweep(folder.path(), &["run", "plan.toml", "--only", "max_concurrency=1"]);
    let told = String::from_utf8_lossy(&part.stderr).into_owned();
    assert!(part.status.success(), "{told}");
    let left = rehearse(&folder, &[]);
    assert!(
        left["seconds"]["likely"].as_f64().is_some_and(|seconds| seconds > 0.0),
        "{left}"
    );
    assert_eq!((&left["runs"], &left["unknown_runs"]), (&4.into(), &0.into()));
}

/// The plan of a night on eight GPUs. With one server at a time it takes more than five hours.
#[test]
fn servers_side_by_side_are_played_side_by_side() {
    let folder = TempDir::new().expect("a folder");
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans/h100.toml");
    let rehearse = |more: &[&str]| -> Value {
        let args = [
            "plan",
            plan.to_str().expect("a plain path"),
            "--rehearse",
            "--format",
            "json",
        ];
        serde_json::from_str(&stdout(&vsweep(folder.path(), &[&args, more].concat()))).expect("JSON")
    };
    let seconds = |rehearsal: &Value| rehearsal["seconds"]["likely"].as_f64().expect("a number");
    let whole = rehearse(&["--gpu", "8xh100"]);
    let packed = rehearse(&["--gpu", "8xh100", "--set", "exec.starts_apart=false"]);
    assert!(seconds(&packed) < 6000.0, "{} s", seconds(&packed));
    assert!(
        seconds(&whole) > 1.05 * seconds(&packed),
        "to keep starts apart takes its time: {} s",
        seconds(&whole)
    );
    let says = |rehearsal: &Value| rehearsal["assumed"].to_string().contains("exec.starts_apart");
    assert_eq!((says(&whole), says(&packed)), (true, false));
    let alone = rehearse(&["--gpu", "8xh100", "--set", "exec.parallel=1"]);
    assert!(seconds(&alone) > 3.0 * seconds(&packed), "{} s", seconds(&alone));
    assert!(seconds(&alone) > seconds(&whole), "{} s", seconds(&alone));
    assert_eq!(packed["runs"], alone["runs"]);
    assert_eq!(packed["side_by_side"]["gpus"], 8);

    let servers = packed["servers"].as_array().expect("a list");
    let spans = servers.iter().map(|server| {
        let begins = server["begins_seconds"].as_f64().expect("a number");
        let gpus = server["name"].as_str().expect("text")["tensor_parallel_size=".len()..]
            .split(',')
            .next();
        let gpus: u32 = gpus.and_then(|gpus| gpus.parse().ok()).expect("a number");
        (begins, begins + seconds(server), gpus)
    });
    let spans: Vec<(f64, f64, u32)> = spans.collect();
    for (moment, ..) in &spans {
        let runs = spans
            .iter()
            .filter(|(begins, ends, _)| begins <= moment && moment < ends);
        assert!(runs.map(|(.., gpus)| gpus).sum::<u32>() <= 8, "at {moment} s");
    }
    let last = spans.iter().map(|(_, ends, _)| *ends).fold(0.0, f64::max);
    assert!(
        (last - seconds(&packed)).abs() < 1e-6,
        "all of it takes as long as the last server"
    );

    let narrow = vsweep(
        folder.path(),
        &[
            "plan",
            plan.to_str().expect("a plain path"),
            "--rehearse",
            "--gpu",
            "4xh100",
        ],
    );
    let refused = String::from_utf8_lossy(&narrow.stderr).into_owned();
    assert_eq!(narrow.status.code(), Some(2), "{refused}");
    assert!(refused.contains("needs 8 GPUs, and the machine has 4"), "{refused}");
}

#[test]
fn a_search_is_played_to_its_answers() {
    let folder = plan(
        r#"
version = 1
[serve]
command = "vsweep sim serve demo-8b --sim-noise 0"
[bench.params]
random_input_len = 128
random_output_len = 16
num_prompts = { per = "max_concurrency", times = 4, min = 40 }
[sla]
vary = "max_concurrency"
max = 64
[[sla.target]]
name = "chat"
p99_ttft_ms = "<=60"
[[sla.target]]
name = "dream"
p99_ttft_ms = "<=0.001"
"#,
    );
    let forecast = rehearse(&folder, &[]);
    let answers = &forecast["servers"][0]["answers"];
    assert!(
        answers[0]["value"]
            .as_f64()
            .is_some_and(|value| (1.0..=64.0).contains(&value)),
        "{answers}"
    );
    assert_eq!(
        (&answers[1]["target"], &answers[1]["value"]),
        (&"dream".into(), &Value::Null)
    );
    assert!(forecast["runs"].as_u64().is_some_and(|runs| runs > 2), "{forecast}");
}

const REAL: &str = r#"
version = 1
[serve]
command = "vllm serve MODEL --max-model-len 8192"
[serve.params]
tensor_parallel_size = [1, 4]
[bench.params]
num_prompts = 50
max_concurrency = 8
"#;

#[test]
fn only_the_first_start_of_a_real_server_is_cold() {
    let folder = plan(&REAL.replace("MODEL", "meta-llama/Llama-3.1-8B-Instruct"));
    let seconds = |starts: u32| {
        let starts = format!("starts={starts}");
        let forecast = rehearse(&folder, &["--gpu", "8xh100", "--set", &starts]);
        forecast["seconds"]["likely"].as_f64().expect("a time")
    };
    let times = [1, 2, 3].map(seconds);
    let [second, third] = [times[1] - times[0], times[2] - times[1]];
    // The runs take equally long. In a first start, compiling takes half a minute for each of the two servers.
    assert!(times[0] > second + 40.0, "{times:?}");
    assert!((second - third).abs() < 1.0, "{times:?}");
}

#[test]
fn what_does_not_fit_is_named_with_its_cause() {
    let folder = plan(&REAL.replace("MODEL", "meta-llama/Llama-3.1-70B-Instruct"));
    let forecast = rehearse(&folder, &["--gpu", "h100"]);
    let failures: Vec<&Value> = (0..2).map(|i| &forecast["servers"][i]["failure"]["cause"]).collect();
    assert_eq!(failures, [&Value::from("oom_at_load"), &Value::Null]);
    assert_eq!(
        rehearse(&folder, &["--gpu", "b200"])["servers"][0]["failure"],
        Value::Null
    );
    let told = vsweep(folder.path(), &["plan", "plan.toml", "--rehearse"]);
    assert_eq!(told.status.code(), Some(3));
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    for words in [
        "will likely fail: out of memory while loading",
        "predicted: about",
        "assumed: GPU h100",
        "nothing was measured",
    ] {
        assert!(text.contains(words), "{words} is missing in:\n{text}");
    }
    let listed = stdout(&vsweep(folder.path(), &["plan", "plan.toml"]));
    let failing = listed
        .lines()
        .filter(|line| line.contains(": will likely fail: out of memory"));
    assert_eq!(failing.count(), 1, "{listed}");
}

/// A server's failed start rules out similar servers in every thread that plays starts, as in the sweep.
#[test]
fn servers_that_an_earlier_failure_rules_out_are_not_started() {
    let text = SMALL.replace(
        "max_num_seqs = [4, 16]",
        "max_num_seqs = [4, 5, 6, 7, 8, 9, 10, 11, 12]",
    );
    let folder = plan(&text.replace("-sim-start 50ms", "-sim-start 50ms --gpu-memory-utilization 0.05"));
    let forecast = rehearse(&folder, &[]);
    assert_eq!(
        (&forecast["starts"], &forecast["runs"]),
        (&1.into(), &36.into()),
        "{forecast}"
    );
    for server in forecast["servers"].as_array().expect("a list").iter().skip(1) {
        let why = server["failure"]["detail"].as_str().unwrap_or_default();
        assert!(
            why.starts_with("not started: it needs at least the memory of ") && why.contains("(max_num_seqs "),
            "{server}"
        );
    }
    let run = vsweep(folder.path(), &["run", "plan.toml", "--format", "plain"]);
    let told = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(told.matches(" Start ").count(), 1, "{told}");
}

#[test]
fn an_unknown_model_is_said_to_be_unknown() {
    let folder = plan(&REAL.replace("MODEL", "acme/mystery"));
    let refused = vsweep(folder.path(), &["plan", "plan.toml", "--rehearse"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        error.contains("nothing is known of the model `acme/mystery`") && error.contains("--model-config FILE"),
        "{error}"
    );
    let listed = stdout(&vsweep(folder.path(), &["plan", "plan.toml"]));
    assert!(
        listed.contains("not predicted: nothing is known of the model"),
        "{listed}"
    );

    let config = r#"{"num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4,
        "intermediate_size": 1024, "vocab_size": 32000, "max_position_embeddings": 16384}"#;
    fs::write(folder.path().join("config.json"), config).expect("writable");
    assert_eq!(rehearse(&folder, &["--model-config", "config.json"])["runs"], 6);
    for missing in ["none/config.json", "plan.toml"] {
        let refused = vsweep(folder.path(), &["plan", "plan.toml", "--model-config", missing]);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.status.code() == Some(2) && error.contains("is not a file"),
            "{error}"
        );
    }
}

/// A folder with an `nvidia-smi` that shows two GPUs with these names.
fn machine(names: [&str; 2]) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let smi = folder.path().join("nvidia-smi");
    let line = |index: usize| format!("GPU-{index}, {index}, 580.1, 143771, 4, {}", names[index]);
    fs::write(&smi, format!("#!/bin/sh\necho '{}'\necho '{}'\n", line(0), line(1))).expect("writable");
    fs::set_permissions(&smi, fs::Permissions::from_mode(0o755)).expect("ours");
    folder
}

#[test]
fn the_gpu_is_that_of_the_machine_where_it_is_known() {
    let folder = plan(&REAL.replace("MODEL", "acme/chat-8b"));
    let assumed = |machine: &TempDir, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vsweep"));
        command
            .current_dir(folder.path())
            .env("PATH", machine.path())
            .env_remove("CUDA_VISIBLE_DEVICES");
        command
            .args(["plan", "plan.toml", "--rehearse", "--format", "json"])
            .args(more);
        let found: Value = serde_json::from_str(&stdout(&output(&mut command))).expect("JSON");
        found["assumed"][0].as_str().expect("a sentence").to_owned()
    };
    let known = machine(["NVIDIA H200"; 2]);
    assert!(assumed(&known, &[]).starts_with("GPU h200 (as nvidia-smi says)"));
    assert!(assumed(&known, &["--gpu", "L40S"]).starts_with("GPU l40s (from --gpu)"));
    for unknown in [["NVIDIA GeForce GTX 1080"; 2], ["NVIDIA H200", "NVIDIA L40S"]] {
        assert!(assumed(&machine(unknown), &[]).starts_with("GPU h100 (`vsweep plan --gpu` sets another)"));
    }
}

#[test]
fn a_gpu_that_is_not_known_is_refused_with_those_that_are() {
    let folder = plan(SMALL);
    let refused = vsweep(folder.path(), &["plan", "plan.toml", "--gpu", "nonsense"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(error.contains("h100, h200, a100, l40s, b200"), "{error}");
}

#[test]
fn without_a_known_gpu_no_search_on_a_real_server_starts_from_a_forecast() {
    let sla = "num_prompts = 8\n[sla]\nvary = \"max_concurrency\"\nmax = 8\n[[sla.target]]\np99_ttft_ms = \"<=5000\"\n";
    let text = SMALL
        .replace("num_prompts = 8\n", "")
        .replace("max_concurrency = [1, 4]\n", sla);
    let folder = plan(&text.replace(
        "vsweep sim serve demo-8b --sim-speed 20 --sim-start 50ms",
        "vllm serve acme/chat-8b",
    ));
    let plan = vsweep::plan::load(&folder.path().join("plan.toml"), &[]).expect("a valid plan");
    let matrix = Matrix::expand(&plan).expect("it expands");
    let foreseen = |card: Option<Card>| {
        let options = Options {
            card,
            ..Options::default()
        };
        let schedule = Schedule::new(&plan, &matrix, Shard::WHOLE, false);
        foresee(schedule, &State::default(), &options).len()
    };
    let card = Card {
        gpu: GPUS[1],
        source: "by this test",
        is_assumed: false,
    };
    assert_eq!((foreseen(None), foreseen(Some(card))), (0, 2));
}

#[test]
fn a_plan_shows_its_estimate_and_requests_that_are_too_long_are_foreseen() {
    let folder = plan(&SMALL.replace("demo-8b", "demo-8b --max-model-len 66"));
    let listed: Value = serde_json::from_str(&stdout(&vsweep(
        folder.path(),
        &["plan", "plan.toml", "--format", "json"],
    )))
    .expect("JSON");
    assert_eq!(listed["predicted"]["runs"], 8);
    assert!(stdout(&vsweep(folder.path(), &["plan", "plan.toml"])).contains("predicted: about"));
    let losses = &rehearse(&folder, &[])["servers"][0]["losses"];
    assert_eq!(losses[0]["cause"], "request_errors", "{losses}");
}

#[test]
fn a_server_that_fails_takes_as_long_as_its_failure() {
    let likely = |fault: &str| {
        let text = SMALL.replace("--sim-start 50ms", &format!("--sim-start 100s --sim-fault {fault}"));
        let folder = plan(&text.replace("[serve]", "[serve]\nready_timeout = \"1h\""));
        let forecast = rehearse(&folder, &[]);
        forecast["servers"][0]["seconds"]["likely"].as_f64().expect("a number")
    };
    let (early, never) = (likely("oom-at-load"), likely("never-ready"));
    assert!(
        0.0 < early && early < 100.0,
        "it fails before it would be ready: {early}"
    );
    assert!(never >= 3600.0, "it is waited for: {never}");
}

#[test]
fn a_server_that_will_not_fit_is_told_before_the_first_start_and_the_sweep_goes_on() {
    let folder = plan(&SMALL.replace("max_num_seqs = [4, 16]", "gpu_memory_utilization = [0.05, 0.9]"));
    let check = vsweep(folder.path(), &["check", "plan.toml"]);
    let told = String::from_utf8_lossy(&check.stderr).into_owned();
    assert_eq!(check.status.code(), Some(3), "{told}");
    assert!(told.contains("server GPU memory 0.05: will likely fail: "), "{told}");
    let checked = vsweep(folder.path(), &["check", "plan.toml", "--format", "json"]);
    let checked: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    assert_eq!(checked[0]["will_fail"].as_array().map(Vec::len), Some(1), "{checked}");

    let run = vsweep(folder.path(), &["run", "plan.toml", "-o", "out"]);
    let told = String::from_utf8_lossy(&run.stderr).into_owned() + &String::from_utf8_lossy(&run.stdout);
    assert_eq!(run.status.code(), Some(3), "{told}");
    let place = |words: &str| told.find(words).unwrap_or_else(|| panic!("no {words} in {told}"));
    assert!(place("predicted: about") < place(" Start "), "{told}");
    assert!(place("0.05: will likely fail") < place(" Start "), "{told}");
    let outcomes = fs::read_to_string(folder.path().join("out/summary.csv")).expect("a table");
    assert!(
        outcomes.contains(",failed,") && outcomes.lines().count() > 2,
        "{outcomes}"
    );
}

#[test]
fn a_sweep_of_a_real_engine_begins_and_is_foreseen_only_where_the_gpu_is_known() {
    let folder = plan(
        &SMALL
            .replace(
                "vsweep sim serve demo-8b --sim-speed 20 --sim-start 50ms",
                "./vllm serve meta-llama/Llama-3.1-8B-Instruct",
            )
            .replace("max_concurrency = [1, 4]", "max_concurrency = 4"),
    );
    let program = folder.path().join("vllm");
    let simulated = format!(
        "#!/bin/bash\n[ \"$2\" = --help=all ] && exit 1\nexec {} sim serve \"${{@:2}}\" --sim-speed 20 --sim-start 50ms\n",
        env!("CARGO_BIN_EXE_vsweep")
    );
    fs::write(&program, simulated).expect("writable");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    for (out, gpu, is_known) in [
        ("known", "NVIDIA H200", true),
        ("unknown", "NVIDIA GeForce GTX 1080", false),
    ] {
        let machine = machine([gpu; 2]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_vsweep"));
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(["run", "plan.toml", "-o", out])
            .current_dir(folder.path())
            .env("PATH", format!("{}:{path}", machine.path().display()))
            .env_remove("CUDA_VISIBLE_DEVICES");
        let ran = output(&mut command);
        let told = [ran.stdout, ran.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        assert_eq!(ran.status.code(), Some(0), "{told:?}");
        assert_eq!(told.concat().contains("predicted: about"), is_known, "{told:?}");
    }
}

fn likely(folder: &TempDir) -> f64 {
    let forecast = rehearse(folder, &[]);
    forecast["seconds"]["likely"].as_f64().expect("a number")
}

/// A run whose prompts share a prefix needs their tokens in the forecast, any other run only their lengths.
#[test]
fn warm_ups_leave_no_measured_prompt_in_a_forecasts_cache() {
    let of = |prefix: usize| {
        let load = format!(
            "random_input_len = {}\nrandom_prefix_len = {prefix}\nrandom_output_len = 1\nnum_prompts = 64\nmax_concurrency = 32",
            3016 - prefix
        );
        let text = format!(
            "version = 1\nruns = 1\n[serve]\ncommand = \"vsweep sim serve demo-8b --sim-start 1ms\"\n[bench.params]\n{load}\n"
        );
        likely(&plan(&text))
    };
    let (apart, sharing) = (of(0), of(16));
    assert!((0.95..1.05).contains(&(sharing / apart)), "{sharing} s and {apart} s");
}

#[test]
fn what_does_not_end_within_the_grace_is_foreseen_to_fail() {
    let text = |grace: &str| {
        format!(
            "version = 1\nruns = 1\n[serve]\ncommand = \"vsweep sim serve demo-8b --sim-start 1ms\"\nparams = {{ max_num_seqs = 2 }}\n\
             [bench]\ntimeout = \"30s\"\nwarmup_prompts = 0\n[bench.params]\nrandom_input_len = 64\nrandom_output_len = 64\nrequest_rate = 60\n\
             duration = \"4s\"\nduration_grace = \"{grace}\"\n"
        )
    };
    let folder = plan(&text("1s"));
    let forecast = rehearse(&folder, &[]);
    let losses = &forecast["servers"][0]["losses"];
    assert_eq!(losses[0]["cause"], "request_errors", "{losses}");
    assert!(
        forecast["seconds"]["likely"].as_f64().expect("a number") < 20.0,
        "{forecast}"
    );
}

#[test]
fn data_parallel_replicas_share_a_load() {
    let of = |replicas: usize| {
        let (slots, requests) = (8 * replicas, 64 * replicas);
        let text = format!(
            "version = 1\nruns = 1\n[serve]\ncommand = \"vsweep sim serve demo-8b --sim-start 1ms --data-parallel-size {replicas}\"\n\
             [bench.params]\nrandom_input_len = 64\nrandom_output_len = 256\nmax_concurrency = {slots}\nnum_prompts = {requests}\n"
        );
        likely(&plan(&text))
    };
    let (one, four) = (of(1), of(4));
    assert!((0.9..1.1).contains(&(four / one)), "{four} s and {one} s");
}
