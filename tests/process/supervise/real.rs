//! A real vLLM: each test starts one (a minute, 3 GB), so they run only when asked for:
//! `cargo test --test process real:: -- --ignored --nocapture --test-threads 1`, with `vllm` on PATH and a small model's
//! folder in `TINY_MODEL` (docs/supervision.md).

use super::tree::{Marked, VSWEEP, spawn, wait_for};
use crate::deadline::ended;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use vsweep::server::Launch;

const GRACE: Duration = Duration::from_secs(10);

fn command() -> Vec<String> {
    let model = std::env::var("TINY_MODEL").expect("TINY_MODEL names a small model's folder");
    let flags = "--served-model-name tiny --dtype bfloat16 --max-model-len 2048 --enforce-eager --load-format dummy";
    let words = ["vllm", "serve", &model]
        .into_iter()
        .chain(flags.split(' '))
        .chain(["--max-num-seqs", "64"]);
    words.map(str::to_owned).collect()
}

fn launch(marked: &Marked) -> Launch {
    Launch {
        protocol: Default::default(),
        argv: command(),
        env: marked.env.clone(),
        cpus: None,
        log: marked.path("server.log"),
        ready_timeout: Duration::from_secs(600),
        stop_grace: GRACE,
        hang_timeout: Duration::from_secs(120),
    }
}

/// Processes of vLLM. They rewrite their titles, and overwrite their environment with it, so the mark does not show them.
fn engines() -> Vec<PathBuf> {
    let all = fs::read_dir("/proc")
        .expect("proc is mounted")
        .flatten()
        .map(|entry| entry.path());
    all.filter(|path| fs::read(path.join("cmdline")).is_ok_and(|title| title.starts_with(b"VLLM::")))
        .collect()
}

/// Segments that vLLM's processes have mapped, and its rendezvous files.
fn held(marked: &Marked) -> BTreeSet<PathBuf> {
    let maps = engines()
        .into_iter()
        .filter_map(|path| fs::read_to_string(path.join("maps")).ok());
    let mapped: Vec<String> = maps
        .flat_map(|maps| maps.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let segments = mapped
        .iter()
        .filter_map(|line| line.find("/dev/shm/psm_").map(|at| PathBuf::from(&line[at..])));
    let temporary = fs::read_dir(marked.folder.path())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    segments
        .chain(temporary.filter(|path| path.display().to_string().contains("vllm_dist_")))
        .collect()
}

/// Starts a long stream, and waits for its first byte.
fn stream(base_url: &str) -> std::process::Child {
    let body = r#"{"model":"tiny","prompt":"hello","max_tokens":1900,"ignore_eos":true,"stream":true}"#;
    let mut curl = Command::new("curl")
        .args([
            "-sN",
            "-H",
            "content-type: application/json",
            "-d",
            body,
            &format!("{base_url}/v1/completions"),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("curl is there");
    let mut first = [0];
    let out = curl.stdout.as_mut().expect("it is piped");
    std::io::Read::read_exact(out, &mut first).expect("the stream has begun");
    curl
}

fn assert_nothing_left(marked: &Marked, held: &BTreeSet<PathBuf>) {
    wait_for("the engine to end", || engines().is_empty());
    marked.wait_until_empty();
    assert!(!held.is_empty(), "vLLM uses shared memory");
    let left: Vec<_> = held.iter().filter(|path| path.exists()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[tokio::test]
#[ignore = "needs a real vLLM"]
async fn stopping_with_a_stream_in_flight_ends_within_the_grace_period() {
    let marked = Marked::new("real-stop");
    let start = Instant::now();
    let mut server = spawn(&launch(&marked)).await.expect("launched");
    let identity = server.ready().await.expect("ready");
    println!("ready after {:?}: {identity:?}", start.elapsed());
    let held = held(&marked);
    println!("{} processes hold {held:?}", engines().len());
    let mut curl = stream(server.base_url());
    let stopped = Instant::now();
    server.stop().await;
    println!("stopped after {:?} (grace period {GRACE:?})", stopped.elapsed());
    let _ = curl.kill();
    let _ = curl.wait();
    assert_nothing_left(&marked, &held);
}

#[tokio::test]
#[ignore = "needs a real vLLM"]
async fn an_idle_server_stops_politely() {
    let marked = Marked::new("real-idle");
    let mut server = spawn(&launch(&marked)).await.expect("launched");
    server.ready().await.expect("ready");
    let held = held(&marked);
    let stopped = Instant::now();
    server.stop().await;
    println!("stopped after {:?} (grace period {GRACE:?})", stopped.elapsed());
    assert_nothing_left(&marked, &held);
    println!("{}", fs::read_to_string(marked.path("server.log")).expect("kept"));
}

#[tokio::test]
#[ignore = "needs a real vLLM"]
async fn a_killed_guard_takes_vllm_along() {
    let marked = Marked::new("real-guard");
    let mut server = spawn(&launch(&marked)).await.expect("launched");
    server.ready().await.expect("ready");
    let held = held(&marked);
    let guards = marked
        .alive()
        .into_iter()
        .filter(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "server-guard"));
    for guard in guards {
        kill(Pid::from_raw(guard), Signal::SIGKILL).expect("the guard lives");
    }
    let killed = Instant::now();
    println!("{}", server.failed().await);
    assert_nothing_left(&marked, &held);
    println!("gone after {:?}", killed.elapsed());
}

#[test]
#[ignore = "needs a real vLLM"]
fn a_killed_owner_leaves_no_engine() {
    let marked = Marked::new("real-owner");
    let (orders, lifeline) = std::io::pipe().expect("a pipe");
    let mut owner = Command::new("sleep")
        .arg("1000")
        .stdout(lifeline)
        .spawn()
        .expect("sleep runs");
    let log = fs::File::create(marked.path("server.log")).expect("a log");
    let mut guard = Command::new(VSWEEP)
        .args(["guard", "--grace-ms", &GRACE.as_millis().to_string(), "--"])
        .args(command())
        .args(["--port", "8137"])
        .envs(&marked.env)
        .stdin(orders)
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()
        .expect("the guard starts");
    let start = Instant::now();
    let ready = || fs::read_to_string(marked.path("server.log")).is_ok_and(|log| log.contains("startup complete"));
    while !ready() {
        assert!(start.elapsed() < Duration::from_secs(600) && guard.try_wait().expect("a child").is_none());
        std::thread::sleep(Duration::from_millis(200));
    }
    let mut curl = stream("http://127.0.0.1:8137");
    let held = held(&marked);
    println!("{} processes hold {held:?}", engines().len());
    owner.kill().expect("the owner lives");
    let killed = Instant::now();
    owner.wait().expect("reaped");
    ended(&mut guard);
    println!(
        "gone {:?} after the owner's death (grace period {GRACE:?})",
        killed.elapsed()
    );
    let _ = curl.kill();
    let _ = curl.wait();
    assert_nothing_left(&marked, &held);
}
