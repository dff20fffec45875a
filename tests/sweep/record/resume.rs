//! A sweep that is killed at any moment and run again: no measured run is lost or measured twice, no process is left, and the tables are
//! those of a sweep that was never interrupted.

use crate::agreement::assert_sweep_agreed;
use crate::deadline::{output, output_of};
use crate::harness::{Harness, journal_lines, journals, recorded_outcomes, rows, said, wait_for};
use crate::standing::Standing;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

/// Two servers, three loads, two runs, all small.
const PLAN: &str = r#"
version = 1
runs = 2

[serve]
command = "vsweep sim serve tiny-8b --sim-start 50ms --sim-speed 50"
stop_grace = "2s"

[serve.params]
max_num_seqs = [4, 16]

[bench]
runner = "native"

[bench.params]
random_input_len = 32
random_output_len = 8
max_concurrency = [1, 2, 4]
num_prompts = 8
"#;

const RUNS: usize = 12;

/// (point, run, outcome) of every row, in a fixed order.
fn table(directory: &Path) -> Vec<(String, String, String)> {
    let mut table: Vec<_> = rows(&directory.join("summary.csv"))
        .into_iter()
        // Load on the machine decides whether so short a run is suspect.
        .map(|row| {
            (
                row["point"].clone(),
                row["run"].clone(),
                row["outcome"].replace("suspect", "ok"),
            )
        })
        .collect();
    table.sort();
    table
}

fn assert_nothing_twice(directory: &Path) {
    for (run, count) in recorded_outcomes(directory) {
        assert_eq!(count, 1, "{run:?} was measured {count} times");
    }
}

#[test]
fn killed_at_every_few_events_the_tables_are_the_same() {
    let harness = Harness::new();
    let plan = harness.write("plan.toml", PLAN);
    let plan = plan.to_str().expect("a plain path");
    let whole = harness.run(&["run", plan, "-o", "whole", "--quiet"]);
    assert!(whole.status.success(), "{}", said(&whole));

    let directory = harness.folder.path().join("killed");
    let mut kills = 0;
    // Each session reaches one event more than the one before, so all kinds of moments are hit, and the sweep ends some day.
    for reach in 1.. {
        let before = journal_lines(&directory);
        let vsweep = harness.start(&["run", plan, "-o", "killed", "--quiet"]);
        if !harness.kill_when(vsweep, || journal_lines(&directory) >= before + reach) {
            break;
        }
        kills += 1;
        assert_nothing_twice(&directory);
    }
    assert!(kills > 5, "only {kills} kills: the test has lost its meaning");
    assert_nothing_twice(&directory);
    assert_eq!(table(&directory), table(&harness.folder.path().join("whole")));
    harness.wait_until_alone();
}

/// Two servers. The second is six times as fast as the first.
const UNEQUAL: &str = r#"
version = 1
runs = 2

[serve]
command = "vsweep sim serve tiny-8b --sim-start 20ms --sim-speed 5"
stop_grace = "2s"
answer_check = false # requests are counted

[[serve.combos]]
name = "small"
max_num_seqs = 2

[[serve.combos]]
name = "large"
max_num_seqs = 32

[bench]
warmup_prompts = 0

[bench.params]
random_input_len = 16
random_output_len = 16
max_concurrency = [4, 16]
num_prompts = 48
"#;

/// Returns the winner of the first question, and the text of the file that recommends it.
fn recommended(harness: &Harness, name: &str) -> (String, String) {
    let root = harness.folder.path().join(name);
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("written");
    let answer: serde_json::Value = serde_json::from_str(&read("answer.json")).expect("JSON");
    let first = &answer["questions"][0];
    assert_eq!(first["question"], "Highest throughput");
    let config = first["winner"]["config"].as_str().expect("a winner").to_owned();
    (config, read("best/highest-throughput.yaml"))
}

#[test]
fn a_kill_and_a_crash_leave_the_winner() {
    let harness = Harness::new();
    let plan = harness.write("plan.toml", UNEQUAL);
    let plan = plan.to_str().expect("a plain path");
    let whole = harness.run(&["run", plan, "-o", "whole"]);
    assert_eq!(whole.status.code(), Some(0), "{}", said(&whole));
    let (winner, best) = recommended(&harness, "whole");
    assert!(best.contains("max-num-seqs: 32"), "{best}");

    // Each kill adds a launch to one server, so the two have different numbers.
    let directory = harness.folder.path().join("killed");
    let runs = || journals(&directory).concat().matches("\"run_finished\"").count();
    for reach in [3, 5] {
        let vsweep = harness.start(&["run", plan, "-o", "killed", "--quiet"]);
        assert!(harness.kill_when(vsweep, || runs() >= reach), "killed in time");
    }
    let resumed = harness.run(&["run", plan, "-o", "killed"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", said(&resumed));
    let (same, best) = recommended(&harness, "killed");
    assert_eq!(same, winner, "{}", said(&resumed));
    assert!(best.contains("max-num-seqs: 32"), "{best}");
    assert_sweep_agreed(&harness, "killed");

    // The better server dies during its second run, and again whenever it has answered as many requests.
    let crashing = UNEQUAL.replace("max_num_seqs = 32", "max_num_seqs = 32\nsim_fault = \"crash-after:70\"");
    let plan = harness.write("crash.toml", &crashing);
    let crashed = harness.run(&["run", plan.to_str().expect("a plain path"), "-o", "crashed"]);
    assert_eq!(crashed.status.code(), Some(0), "{}", said(&crashed));
    let (_, best) = recommended(&harness, "crashed");
    assert!(best.contains("max-num-seqs: 32"), "{best}");
    assert!(said(&crashed).contains("launches failed or died"), "{}", said(&crashed));
    assert_sweep_agreed(&harness, "crashed");
}

#[test]
fn an_interrupt_in_the_first_moments_ends_in_words() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let harness = Harness::new();
        let mut vsweep = harness.vsweep(&["run", "-", "-o", "out"]);
        let mut vsweep = vsweep
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        // The plan never arrives on standard input.
        let stdin = vsweep.stdin.take();
        let caught = format!("/proc/{}/status", vsweep.id());
        wait_for("the signal to be caught", || {
            let status = std::fs::read_to_string(&caught).unwrap_or_default();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let mask = mask
                .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
                .unwrap_or(0);
            mask >> (signal as i32 - 1) & 1 == 1
        });
        kill(Pid::from_raw(vsweep.id() as i32), signal).expect("alive");
        let output = output_of(vsweep);
        drop(stdin);
        assert_eq!(output.status.code(), Some(130), "{signal}: {}", said(&output));
        assert!(
            said(&output).contains("interrupted before anything was begun"),
            "{}",
            said(&output)
        );
        assert!(!harness.folder.path().join("out").exists());
    }
}

#[test]
fn what_outlives_its_vsweep_and_its_guard_is_named_and_ended() {
    let harness = Harness::new();
    // The engine and a daemon are left over. Neither parent nor environment shows to whom the daemon belongs.
    let script = "(setsid env -i sh -c 'echo $$ >daemon.new; mv daemon.new daemon; exec sleep 1000' &); exec \"$@\"";
    harness.write("start.sh", script);
    let start = format!("sh start.sh {} sim", env!("CARGO_BIN_EXE_vsweep"));
    let plan = PLAN
        .replace("vsweep sim", &start)
        .replace("[serve]\n", "[serve]\nanswer_check = false\n");
    let plan = harness.write("plan.toml", &plan);
    let args = ["run", plan.to_str().expect("a plain path"), "-o", "out"];
    let mut vsweep = harness.vsweep(&args);
    vsweep
        .env("VSWEEP_SIM_FAULT", "hang-after:1")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut vsweep = vsweep.spawn().expect("the binary starts");
    let directory = harness.folder.path().join("out");
    let is_measuring = || journals(&directory).concat().contains("run_started");
    wait_for("a run", is_measuring);
    let name = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let daemon = std::fs::read_to_string(harness.folder.path().join("daemon")).expect("a process id");
    let daemon: i32 = daemon.trim().parse().expect("a process id");
    let is_noted = |path: &Path| {
        std::fs::read_to_string(path).is_ok_and(|inventory| inventory.contains(&format!("{{\"adopted\":[{daemon},")))
    };
    wait_for("the guard to note the daemon", || {
        let shared = std::fs::read_dir("/dev/shm").expect("shared memory").flatten();
        shared.into_iter().any(|entry| is_noted(&entry.path()))
    });
    harness.kill_with_guards(&mut vsweep);
    let engines = || harness.processes().into_iter().map(|(pid, _)| pid).collect::<Vec<_>>();
    wait_for("the server to be gone and its engine to be left", || {
        let left = engines();
        !left.is_empty() && left.iter().all(|pid| name(*pid).starts_with("VLLM::EngineCor"))
    });
    let [engine] = engines()[..] else { panic!("one engine") };
    let segments = harness.segments();
    assert!(!segments.is_empty(), "the engine has one");

    let status = harness.run(&["status", "out"]);
    assert!(
        said(&status).contains(&format!("that was killed: {engine} (VLLM::EngineCor)")),
        "{}",
        said(&status)
    );
    let status = harness.run(&["status", "out", "--format", "json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!(status["orphans"][0]["pid"], engine);

    let resumed = harness.run(&args);
    assert!(resumed.status.success(), "{}", said(&resumed));
    let ended = format!("cleared away what a killed vsweep had left: process {engine} (VLLM::EngineCor)");
    assert!(said(&resumed).contains(&ended), "{}", said(&resumed));
    assert_eq!(recorded_outcomes(&harness.folder.path().join("out")).len(), RUNS);
    harness.wait_until_alone();
    wait_for("the daemon to end", || kill(Pid::from_raw(daemon), None).is_err());
    let left: Vec<_> = segments.iter().filter(|segment| segment.exists()).collect();
    assert!(left.is_empty(), "shared memory of the dead server is left: {left:?}");
}

/// A limit on the size of files stands for a full disk: writing fails in the same way, and no privileges are needed.
#[test]
fn a_disk_that_takes_no_more_stops_the_sweep_with_nothing_lost() {
    let harness = Harness::new();
    let server = Standing::start(&harness, &["--sim-speed", "50"], false);
    let plan = PLAN
        .replace(
            "command = \"vsweep sim serve tiny-8b --sim-start 50ms --sim-speed 50\"",
            &format!("url = \"{}\"", server.url()),
        )
        .replace("stop_grace = \"2s\"", "answer_check = false")
        .replace("[serve.params]\nmax_num_seqs = [4, 16]", "")
        .replace("max_concurrency = [1, 2, 4]", "max_concurrency = [1, 2, 3, 4, 5, 6]");
    let plan = harness.write("plan.toml", &plan);
    let plan = plan.to_str().expect("a plain path");
    let directory = harness.folder.path().join("out");
    let mut recorded = 0;
    for kib in [6, 9, 12, 16] {
        let limited = format!("ulimit -f {kib}; exec \"$@\"");
        let vsweep = harness.vsweep(&["run", plan, "-o", "out"]);
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &limited, "bash"]).arg(vsweep.get_program());
        command.args(vsweep.get_args()).current_dir(harness.folder.path());
        command.envs(vsweep.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = output(&mut command);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("(ulimit -f)"), "{}", said(&output));
        assert_nothing_twice(&directory);
        let now = recorded_outcomes(&directory).len();
        assert!(now >= recorded, "recorded runs were lost");
        recorded = now;
    }
    assert!(recorded > 0, "nothing was ever recorded: the test has lost its meaning");
    let output = harness.run(&["run", plan, "-o", "out"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_nothing_twice(&directory);
    assert_eq!(table(&directory).len(), RUNS);
}

/// The long test. `.ci/night kills` runs it.
#[test]
#[ignore = "takes minutes; .ci/night runs it"]
fn killed_at_random_moments_the_tables_are_the_same() {
    let wanted: u32 = std::env::var("VSWEEP_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(200);
    let harness = Harness::new();
    let plan = harness.write("plan.toml", PLAN);
    let plan = plan.to_str().expect("a plain path");
    let began = Instant::now();
    let whole = harness.run(&["run", plan, "-o", "whole", "--quiet"]);
    assert!(whole.status.success(), "{}", said(&whole));
    let typical = began.elapsed();
    let expected = table(&harness.folder.path().join("whole"));
    assert_eq!(expected.len(), RUNS);

    let mut random = Lcg(std::process::id().into());
    let (mut kills, mut sweeps) = (0, 0);
    while kills < wanted {
        sweeps += 1;
        let name = format!("sweep-{sweeps}");
        let directory = harness.folder.path().join(&name);
        loop {
            let vsweep = harness.start(&["run", plan, "-o", &name, "--quiet"]);
            let deadline = Instant::now() + typical.mul_f64(random.fraction() * 1.3);
            if !harness.kill_when(vsweep, || Instant::now() >= deadline) {
                break;
            }
            kills += 1;
            assert_nothing_twice(&directory);
        }
        assert_eq!(table(&directory), expected, "sweep {sweeps}");
    }
    println!("{kills} kills over {sweeps} sweeps of {RUNS} runs: 0 lost, 0 double, 0 processes left");
}

/// A small random generator: the moments only need to differ.
struct Lcg(u64);

impl Lcg {
    fn fraction(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / f64::from(1u32 << 31)
    }
}
