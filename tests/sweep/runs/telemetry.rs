//! Telemetry of runs: of launched and attached servers, of GPUs through the driver's library, and switched off.

use crate::deadline::output;
use crate::harness::{Harness, rows, said, telemetry_files};
use crate::scripted::{Answer, HttpRequest, Server, completion, refusal};
use crate::standing::Standing;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use vsweep::plan::BenchRunner;
use vsweep::report::columns;

/// A row of a CSV file.
type Row = BTreeMap<String, String>;

/// A plan with the server that `serve` describes. `bench` is added to the table `[bench]`.
fn plan(serve: &str, bench: &str) -> String {
    format!(
        r#"
version = 1
runs = 1
[serve]
ready_timeout = "1m"
hang_timeout = "1m"
{serve}
[bench]
timeout = "60s"
warmup_prompts = 0
{bench}
[bench.params]
dataset_name = "random"
random_input_len = 32
random_output_len = 8
num_prompts = 8
max_concurrency = 1
"#
    )
}

const LAUNCHED: &str = r#"command = "vsweep sim serve tiny-8b --sim-start 50ms --sim-speed 50"
stop_grace = "1s""#;

/// Returns the rows of `summary.csv`, and the readings of each run.
fn read(directory: &Path) -> (Vec<Row>, Vec<Vec<Row>>) {
    let runs = rows(&directory.join("summary.csv"));
    let telemetry = |row: &Row| {
        let files = telemetry_files(directory, &row["point"]);
        rows(files.last().expect("readings"))
    };
    let readings = runs.iter().map(telemetry).collect();
    (runs, readings)
}

fn number(row: &Row, name: &str) -> f64 {
    let text = row.get(name).unwrap_or_else(|| panic!("{name} is no column"));
    text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}"))
}

/// Runs a plan. Returns its directory.
fn sweep(harness: &Harness, plan: &str) -> PathBuf {
    let path = harness.write("plan.toml", plan);
    let output = harness.run(&["run", path.to_str().expect("plain"), "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    harness.folder.path().join("out")
}

#[test]
fn an_attached_server_is_watched_too() {
    let harness = Harness::new();
    let server = Standing::start(&harness, &["--sim-speed", "50"], false);
    let directory = sweep(&harness, &plan(&format!("url = \"{}\"", server.url()), ""));
    let (runs, readings) = read(&directory);
    assert_eq!((runs.len(), readings.len()), (1, 1));
    let last = readings[0].last().expect("a last reading");
    assert_eq!(last["running"], "0", "after the run nothing is in the batch");
    // There were 64 tokens in all, and some may have come before the first reading.
    let tokens = last["generation_tokens"].parse::<f64>().expect("a number");
    assert!((1.0..=64.0).contains(&tokens), "{tokens}");
    assert_eq!(runs[0]["preemptions"], "0");
    for name in runs[0].keys() {
        let is_param = ["dataset_name", "random_input_len", "random_output_len"].contains(&name.as_str());
        assert!(
            is_param || columns::is_known(&BenchRunner::Native, name),
            "{name} is a column that no plan may name"
        );
    }
    for name in [
        "host_load_max",
        "vsweep_cpu_cores_max",
        "kv_cache_usage_max",
        "telemetry_samples",
    ] {
        assert!(runs[0].contains_key(name), "{name} is no column");
    }
    assert!(
        !runs[0].contains_key("gpu_energy_joules"),
        "a simulated server uses no GPU"
    );
    assert!(
        !runs[0].contains_key("mbu"),
        "neither GPU nor model of an attached server are known"
    );
}

#[test]
fn a_launched_server_reaches_a_share_of_its_hardware_and_the_answer_names_the_limit() {
    let harness = Harness::new();
    let directory = sweep(
        &harness,
        &plan(&LAUNCHED.replace("--sim-speed 50", "--sim-speed 1"), ""),
    );
    let (runs, _) = read(&directory);
    // One sequence reads 16.1 GB in each step at 3.35 TB/s. A step takes at most 10 ms, with its part of prompts and pauses.
    assert_eq!(runs[0]["bound_by"], "memory_bandwidth");
    assert!((0.4..0.82).contains(&number(&runs[0], "mbu")), "{}", runs[0]["mbu"]);
    assert!((0.001..0.05).contains(&number(&runs[0], "mfu")), "{}", runs[0]["mfu"]);
    // Eight requests of eight tokens, one after the other, need 64 steps.
    assert_eq!(runs[0]["engine_steps"], "64");
    let report = fs::read_to_string(directory.join("report.md")).expect("a report");
    // On a busy machine the client's pauses may keep the server from the limit.
    let says = match number(&runs[0], "mbu") >= 0.64 {
        true => "Memory bandwidth binds: ",
        false => "of memory bandwidth used",
    };
    assert!(report.contains(says), "{report}");
    harness.wait_until_alone();
}

#[test]
fn a_plan_may_turn_it_off() {
    let harness = Harness::new();
    let directory = sweep(&harness, &plan(LAUNCHED, "telemetry = false"));
    let runs = rows(&directory.join("summary.csv"));
    assert!(!runs[0].contains_key("telemetry_samples"));
    assert!(telemetry_files(&directory, &runs[0]["point"]).is_empty());
    harness.wait_until_alone();
}

/// Two GPUs: 300 W and 450 W, the second slowed down by its power cap and without a thermometer.
fn two_gpus() -> String {
    let line = |at: u64, gpu: u64, power: u64, celsius: i32, reasons: &str| {
        let energy = 1_000_000 * (gpu + 1) + 1000 * at;
        let used = 64u64 << 30;
        format!("{at},{gpu},{power},{energy},87,{used},1980,2619,{celsius},{reasons},\n")
    };
    (0..60)
        .map(|at| line(at, 0, 300_000, 61, "0x1") + &line(at, 1, 450_000, -1, "0x4"))
        .collect()
}

/// Builds a stand-in for the library of NVIDIA's driver, which plays a recording. A C compiler exists wherever vsweep is built, because a
/// dependency needs it.
fn build_driver(folder: &Path, recording: &str) {
    fs::write(folder.join("nvml.csv"), recording).expect("written");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.join("libnvidia-ml.so.1"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nvml/driver.c"));
    let output = output(&mut compiler);
    assert!(output.status.success(), "{}", said(&output));
}

/// Answers like a server that shows no sign of being a simulator.
fn answer(seen: &HttpRequest) -> Answer {
    let json = |body: &str| refusal("200 OK", body);
    match seen.head.split(' ').nth(1).unwrap_or_default() {
        "/health" => json(""),
        "/v1/models" => json(r#"{"data": [{"id": "m", "root": "org/m", "max_model_len": 4096}]}"#),
        "/version" => json(r#"{"version": "0.32.0"}"#),
        "/v1/completions" => completion(8, 32),
        _ => refusal("404 Not Found", ""),
    }
}

/// Sweeps such a server. vsweep finds the library in the folder of the harness first.
async fn sweep_beside(harness: &Harness, visible: &[(&str, &str)], requests: u32) -> PathBuf {
    let server = Server::start(answer).await;
    let folder = harness.folder.path().to_owned();
    let params = "[serve.params]\ntensor_parallel_size = 1";
    let serve = format!("url = \"{}\"\nreset = \"none\"\n{params}", server.url);
    // This server answers at once. Without a rate the run could end before the first reading.
    let plan = plan(&serve, "").replace("max_concurrency = 1", "request_rate = 4");
    let plan = plan.replace("num_prompts = 8", &format!("num_prompts = {requests}"));
    let path = harness.write("plan.toml", &plan);
    let mut command = harness.vsweep(&["run", path.to_str().expect("plain"), "-o", "out"]);
    command
        .env("LD_LIBRARY_PATH", &folder)
        .env("NVML_RECORDING", folder.join("nvml.csv"))
        .env_remove("CUDA_VISIBLE_DEVICES")
        .envs(visible.iter().copied());
    let output = tokio::task::spawn_blocking(move || output(&mut command)).await;
    let output = output.expect("no panic");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    folder.join("out")
}

/// Runs a plan beside two GPUs. On a loaded machine the readings at both ends of a run may come late, and then its energy is unknown: up to
/// four further tries are made.
async fn sweep_with_energy(environment: &[(&str, &str)]) -> (Harness, PathBuf, (Vec<Row>, Vec<Vec<Row>>)) {
    let mut tries = 0;
    loop {
        let harness = Harness::new();
        build_driver(harness.folder.path(), &two_gpus());
        // Long enough for two readings on a loaded machine.
        let directory = sweep_beside(&harness, environment, 20).await;
        let measured = read(&directory);
        tries += 1;
        if tries == 5 || !measured.0[0]["gpu_energy_joules"].is_empty() {
            return (harness, directory, measured);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gpus_are_read_through_the_drivers_library() {
    let (_harness, _, (runs, readings)) = sweep_with_energy(&[]).await;
    let last = readings[0].last().expect("a last reading");
    let expected = [
        ("gpu0_power_watts", "300"),
        ("gpu1_power_watts", "450"),
        ("gpu0_utilization", "0.87"),
        ("gpu0_memory_gib", "64"),
        ("gpu0_sm_clock_mhz", "1980"),
        ("gpu0_memory_clock_mhz", "2619"),
        ("gpu0_temperature_celsius", "61"),
        ("gpu1_temperature_celsius", ""),
        ("gpu0_throttle", "none"),
        ("gpu1_throttle", "sw_power_cap"),
        ("gpu1_other_processes", "0"),
    ];
    for (name, value) in expected {
        assert_eq!(last.get(name).map(String::as_str), Some(value), "{name}: {last:?}");
    }
    assert_eq!(number(&runs[0], "gpus_sampled"), 2.0);
    assert!(number(&runs[0], "gpu_energy_joules") > 0.0);
    // It is not known which of the two GPUs the attached server uses, so the energy per token is unknown.
    assert!(!runs[0].contains_key("joules_per_output_token"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_energy_of_visible_gpus_becomes_joules_a_token() {
    let (harness, directory, (runs, readings)) = sweep_with_energy(&[("CUDA_VISIBLE_DEVICES", "1")]).await;
    let last = readings[0].last().expect("a last reading");
    assert!(
        last.contains_key("gpu1_power_watts") && !last.contains_key("gpu0_power_watts"),
        "{last:?}"
    );
    assert_eq!(number(&runs[0], "gpus_sampled"), 1.0);
    let energy = number(&runs[0], "gpu_energy_joules");
    let tokens = number(&runs[0], "total_output_tokens");
    assert!(energy > 0.0 && tokens == 160.0, "{energy} J for {tokens} tokens");
    assert_eq!(number(&runs[0], "joules_per_output_token"), energy / tokens);

    // All outputs show the same figure.
    let points = rows(&directory.join("points.csv"));
    assert_eq!(number(&points[0], "joules_per_output_token"), energy / tokens);
    let shown = fs::read_to_string(directory.join("report.html")).expect("a report");
    assert!(
        shown.contains("<dt>Energy per output token (J)</dt>"),
        "the card of the only point tells its energy"
    );
    let shown = fs::read_to_string(directory.join("report.md")).expect("a report");
    assert!(shown.contains("Least energy: Energy per output token "), "{shown}");
    let args = [
        "plot",
        "pareto",
        "out",
        "--x",
        "tokens_per_user",
        "--y",
        "joules_per_token",
        "--format",
        "csv",
    ];
    let output = harness.run(&args);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && table.contains("joules_per_token"),
        "{}",
        said(&output)
    );
}

/// A run becomes suspect only by events on a GPU during that run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; .ci/run runs it"]
async fn a_recorded_gpu_that_is_too_hot_or_shared_makes_its_run_suspect() {
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nvml");
    let cases = [
        ("steady.csv", None, "sw_power_cap"),
        (
            "thermal.csv",
            Some("gpu_slowed_down"),
            "hw_slowdown+hw_thermal_slowdown+sw_thermal_slowdown",
        ),
        ("neighbour.csv", Some("gpu_not_alone"), "sw_power_cap"),
    ];
    for (recording, code, reasons) in cases {
        let harness = Harness::new();
        let text = fs::read_to_string(recordings.join(recording)).expect("a recording");
        build_driver(harness.folder.path(), &text);
        // The run takes twelve seconds, and the fault comes after four or five.
        let (runs, readings) = read(&sweep_beside(&harness, &[], 48).await);
        let codes: Vec<&str> = runs[0]["codes"].split(' ').collect();
        let of_gpus: Vec<&str> = codes.into_iter().filter(|code| code.starts_with("gpu_")).collect();
        assert_eq!(of_gpus, Vec::from_iter(code), "{recording}: {:?}", runs[0]);
        assert_eq!(runs[0]["gpu_throttle_reasons"], reasons, "{recording}");
        let others = number(&runs[0], "gpu_other_processes_max");
        assert_eq!(others, f64::from(u8::from(recording == "neighbour.csv")), "{recording}");
        assert!(readings[0].len() > 8, "{recording}: {} readings", readings[0].len());
        if code.is_some() {
            assert_eq!(runs[0]["validity"], "suspect", "{recording}");
        }
    }
}

/// A library that is not a driver, or has no GPU, does not change the sweep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_driver_is_none() {
    let harness = Harness::new();
    harness.write("libnvidia-ml.so.1", "not a library");
    let (runs, readings) = read(&sweep_beside(&harness, &[], 8).await);
    assert!(!runs[0].contains_key("gpus_sampled"));
    assert!(
        readings[0]
            .last()
            .expect("a last reading")
            .keys()
            .all(|name| !name.starts_with("gpu"))
    );
}

#[test]
fn a_run_is_watched_whoever_measures_it_and_however_it_ends() {
    let harness = Harness::new();
    let serve = format!("{LAUNCHED}\n[serve.params]\nsim_fault = [\"ignore-term\", \"crash-after:4\"]");
    let native = plan(&serve, "") + "save_detailed = true\n";
    let path = harness.write("native.toml", &native);
    let output = harness.run(&["run", path.to_str().expect("plain"), "-o", "native"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let (runs, readings) = read(&harness.folder.path().join("native"));
    for name in [
        "kv_cache_usage_max",
        "running_mean",
        "waiting_max",
        "preemptions",
        "host_cpu_share_max",
    ] {
        assert!(runs[0].contains_key(name), "{name} is no column");
    }
    assert!(
        !runs[0].contains_key("gpu_energy_joules"),
        "a simulated server uses no GPU"
    );
    assert_eq!(readings.len(), 2, "the run that failed has been watched too");
    let last = readings[0].last().expect("a last reading");
    assert!(
        last["seconds"].parse::<f64>().expect("a number") > 0.0,
        "the last reading comes after t0"
    );

    let wanted = format!("{}/0", runs[0]["point"]);
    let output = harness.run(&["report", "native", "--timeline", &wanted]);
    assert!(output.status.success(), "{}", said(&output));
    let timeline = harness
        .folder
        .path()
        .join(format!("native/timelines/{}-0.html", runs[0]["point"]));
    let timeline = fs::read_to_string(timeline).expect("written");
    assert!(timeline.contains("\"requests\":[[0,"), "a first request, sent at 0");
    let output = harness.run(&["report", "native", "--timeline", "zz/0"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));

    let told = r#"[bench]
command = ["sh", "-c", "echo '{\"waiting_max\": 77}' > {result}"]"#;
    let external = plan(LAUNCHED, "").replace("[bench]", told);
    let external = external.split("[bench.params]").next().expect("a plan");
    let path = harness.write("external.toml", external);
    let output = harness.run(&["run", path.to_str().expect("plain"), "-o", "external"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let (runs, readings) = read(&harness.folder.path().join("external"));
    assert_eq!(runs[0]["preemptions"], "0");
    assert_eq!(
        runs[0]["waiting_max"], "77",
        "what the benchmark says by such a name stays"
    );
    assert_eq!(readings[0].last().expect("a last reading")["running"], "0");
    harness.wait_until_alone();
}
