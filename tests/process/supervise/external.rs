//! External programs as benchmarks: what they are given, how their results are judged, and that no process survives its run.

use super::tree::{Marked, first_line, spawn};
use std::fs;
use std::time::Duration;
use vsweep::bench::{Job, Measurement, measure};
use vsweep::cause::{Cause, Failure};
use vsweep::server::Launch;

fn job(marked: &Marked, argv: &[&str]) -> Job {
    Job {
        argv: Some(argv.iter().map(|word| (*word).to_owned()).collect()),
        env: marked.env.clone(),
        scratch: marked.path("scratch"),
        timeout: Duration::from_secs(120),
        ..Job::new("http://127.0.0.1:1", "tiny", "org/tiny", Default::default())
    }
}

async fn script(marked: &Marked, script: &str) -> Result<Measurement, Failure> {
    measure(&job(marked, &["sh", "-c", script])).await
}

#[tokio::test]
async fn a_program_finds_what_it_needs_and_its_result_is_read() {
    let marked = Marked::new("external");
    let told = "echo $VSWEEP_BASE_URL $VSWEEP_MODEL {host} {port}; (setsid sleep 1000 &) ; \
                echo '{\"completed\": 3, \"note\": \"kept\"}' > $VSWEEP_RESULT";
    let measured = script(&marked, told).await.expect("measured");
    assert_eq!(measured.result.values["note"], "kept");
    assert_eq!((measured.failure, measured.doubts), (None, vec![]));
    let log = fs::read_to_string(marked.path("scratch/bench.log")).expect("kept");
    assert_eq!(log, "http://127.0.0.1:1 tiny 127.0.0.1 1\n");
    marked.assert_empty();
}

#[tokio::test]
async fn failures_are_told_apart() {
    let marked = Marked::new("external-failures");
    let cases = [
        (
            "echo starting; echo 'ValueError: boom'; echo bye; exit 7",
            Cause::BenchFailed,
            "exit code 7; ValueError: boom",
        ),
        ("exit 0", Cause::BenchFailed, "exit code 0, but it wrote no result"),
        (
            "echo '{' > {result}",
            Cause::BenchFailed,
            "exit code 0, but its result is not JSON",
        ),
        (
            "echo '[]' > {result}",
            Cause::BenchFailed,
            "exit code 0, but its result is not a JSON object",
        ),
        (
            "echo '{\"run\": {\"duration\": 1}}' > {result}",
            Cause::BenchFailed,
            "exit code 0, but its result holds no figure",
        ),
        ("kill -9 $$", Cause::BenchFailed, "killed by SIGKILL"),
    ];
    for (text, cause, detail) in cases {
        let failure = script(&marked, text).await.expect_err(text);
        assert_eq!(failure.cause, cause, "{text}: {failure}");
        assert!(failure.detail.starts_with(detail), "{text}: {failure}");
    }
    let void = script(&marked, "echo '{\"completed\": 0, \"failed\": 4}' > {result}").await;
    let void = void.expect("a result, if a useless one");
    assert!(
        void.failure
            .is_some_and(|failure| failure.cause == Cause::RequestErrors)
    );
    let failure = measure(&job(&marked, &["no-such-program"]))
        .await
        .expect_err("not there");
    assert_eq!(failure.cause, Cause::CommandNotFound);
    marked.assert_empty();
}

#[tokio::test]
async fn a_program_that_does_not_end_is_ended() {
    let marked = Marked::new("external-timeout");
    let mut job = job(
        &marked,
        &["sh", "-c", "trap '' TERM; echo hard at work; sleep 1000; sleep 1000"],
    );
    job.timeout = Duration::from_millis(500);
    let failure = measure(&job).await.expect_err("too long");
    assert_eq!(failure.cause, Cause::BenchTimeout);
    marked.assert_empty();
}

#[tokio::test]
async fn a_dropped_run_ends_its_program() {
    let marked = Marked::new("external-dropped");
    let up = marked.path("up");
    let running = script(&marked, "echo up > $TMPDIR/up; sleep 1000");
    tokio::select! {
        _ = running => unreachable!("it sleeps"),
        _ = tokio::task::spawn_blocking(move || first_line(&up)) => {}
    }
    marked.wait_until_empty();
}

#[tokio::test]
async fn a_bench_command_measures_our_server() {
    let marked = Marked::new("external-bench");
    let launch = Launch {
        protocol: Default::default(),
        argv: "vsweep sim serve org/tiny --sim-zero --sim-start 100ms"
            .split(' ')
            .map(str::to_owned)
            .collect(),
        env: marked.env.clone(),
        cpus: None,
        log: marked.path("server.log"),
        ready_timeout: Duration::from_secs(120),
        stop_grace: Duration::from_secs(10),
        hang_timeout: Duration::from_secs(60),
    };
    let mut server = spawn(&launch).await.expect("launched");
    let identity = server.ready().await.expect("ready");
    let command =
        "vsweep bench --port 1 --dataset-name random --random-input-len 8 --random-output-len 4 --num-prompts 5";
    let mut job = job(&marked, &command.split(' ').collect::<Vec<_>>());
    job.base_url = server.base_url().to_owned();
    job.served_model = identity.served_model;
    job.model_root = identity.model_root;
    let measured = measure(&job).await.unwrap_or_else(|failure| {
        panic!(
            "{failure}: {}",
            fs::read_to_string(marked.path("scratch/bench.log")).unwrap_or_default()
        )
    });
    assert_eq!(measured.result.values["completed"], 5);
    assert!(
        measured.result.values.contains_key("p99_e2el_ms"),
        "{:?}",
        measured.result.values.keys()
    );
    let log = fs::read_to_string(marked.path("scratch/bench.log")).expect("kept");
    assert!(log.starts_with("vsweep: --port 1 was replaced"), "{log}");
    server.stop().await;
    marked.assert_empty();
}
