//! The simulator's process: command lines that it refuses, how it ends, what it leaves behind, and every fault.

use super::server::{Server, is_engine, segments, wait};
use nix::sys::signal::Signal;
use std::io::Read;

/// A request whose answer takes long enough to be interrupted.
const LONG: &str = r#"{"prompt":"w0001","max_tokens":100000,"stream":true}"#;
const SHORT: &str = r#"{"prompt":"w0001","max_tokens":5,"stream":true}"#;

/// Reads a stream until its first token is there.
fn first_token(stream: &mut std::net::TcpStream) {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains("data: ") {
        let count = stream.read(&mut buffer).expect("the server lives");
        assert_ne!(count, 0, "the stream ended before its first token");
        seen.extend_from_slice(&buffer[..count]);
    }
}

#[test]
fn a_bad_command_line_is_refused_with_exit_code_2() {
    for (args, text) in [
        (
            &["--no-such-flag", "3"][..],
            "vllm: error: unrecognized arguments: --no-such-flag 3",
        ),
        (
            &["--max-num-seqs", "abc"],
            "vllm serve: error: argument --max-num-seqs: invalid int value: 'abc'",
        ),
        (
            &["--sim-fault", "nonsense"],
            "vllm serve: error: argument --sim-fault: invalid fault 'nonsense'",
        ),
    ] {
        let mut server = Server::launch(args);
        assert_eq!(server.ended().code(), Some(2));
        assert!(server.output().contains(text), "{}", server.output());
    }
}

#[test]
fn what_cannot_work_ends_with_exit_code_1_and_vllms_words() {
    for (args, text) in [
        (
            &["--max-model-len", "999999"][..],
            "is greater than the derived max_model_len",
        ),
        (
            &["--tensor-parallel-size", "3"],
            "must be divisible by tensor parallel size (3)",
        ),
        (
            &["--gpu-memory-utilization", "0.2"],
            "No available memory for the cache blocks",
        ),
        (
            &["--num-gpu-blocks-override", "10"],
            "is larger than the available KV cache memory",
        ),
        (
            &["--sim-fault", "oom-at-load"],
            "torch.OutOfMemoryError: CUDA out of memory",
        ),
        (
            &["--sim-fault", "kv-too-small"],
            "is larger than the available KV cache memory",
        ),
        (
            &["--sim-fault", "oom-at-profile"],
            "torch.OutOfMemoryError: CUDA out of memory",
        ),
        (&["--config", "/no/such.yaml"], "FileNotFoundError"),
        (&["--sim-fault", "crash-at-start"], "Engine core initialization failed"),
        (
            &["--sim-fault", "port-taken"],
            "OSError: [Errno 98] Address already in use",
        ),
    ] {
        let mut server = Server::launch(args);
        assert_eq!(server.ended().code(), Some(1), "{args:?}");
        assert!(server.output().contains(text), "{args:?}: {}", server.output());
    }
}

#[test]
fn an_exit_code_can_be_chosen() {
    assert_eq!(Server::launch(&["--sim-fault", "bad-exit:42"]).ended().code(), Some(42));
}

#[test]
fn a_port_in_use_is_refused_before_the_engine_starts() {
    let first = Server::start(&[]);
    let port = first
        .connect()
        .expect("ready")
        .peer_addr()
        .expect("connected")
        .port()
        .to_string();
    let mut second = Server::launch(&["--port", &port]);
    assert_eq!(second.ended().code(), Some(1));
    assert!(second.output().contains("OSError: [Errno 98] Address already in use"));
    assert!(!second.output().contains("EngineCore"));
}

#[test]
fn told_to_stop_it_leaves_nothing() {
    let mut server = Server::start(&[]);
    let [engine] = server.family()[..] else {
        panic!("one engine process, not {:?}", server.family())
    };
    assert!(is_engine(engine));
    let segments = segments(engine);
    assert_eq!(segments.len(), 1);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0));
    assert!(!is_engine(engine));
    assert!(!segments[0].exists());
}

#[test]
fn told_to_stop_it_aborts_what_runs() {
    let mut server = Server::start(&[]);
    let mut stream = server.send("POST", "/v1/completions", "", LONG).expect("ready");
    first_token(&mut stream);
    server.signal(Signal::SIGTERM);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("an orderly end");
    assert!(
        rest.contains(r#""finish_reason":"abort""#) && rest.contains("data: [DONE]"),
        "{rest}"
    );
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_killed_server_orphans_its_engine() {
    let mut server = Server::start(&[]);
    let engine = server.family()[0];
    server.signal(Signal::SIGKILL);
    server.ended();
    assert!(is_engine(engine), "the engine outlives its parent");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(engine), Signal::SIGTERM).expect("it lives");
    assert!(is_engine(engine), "it takes its time");
    assert_eq!(segments(engine).len(), 1);
}

#[test]
fn without_its_engine_a_server_says_so_and_ends() {
    let mut server = Server::start(&["--sim-fault", "engine-death-after:1"]);
    let answer = server.post("/v1/completions", LONG);
    assert_eq!(answer.status, 200);
    let end = "data: {\"error\": {\"message\": \"EngineCore encountered an issue. See stack trace (above) for the root \
               cause.\", \"type\": \"InternalServerError\", \"param\": null, \"code\": 500}}\n\ndata: [DONE]\n\n";
    assert!(answer.body.ends_with(end), "{}", answer.body);
    assert_eq!(server.get("/health").status, 503);
    assert_eq!(server.post("/v1/completions", SHORT).status, 500);
    server.ended();
}

#[test]
fn running_out_of_memory_under_load_names_the_cause() {
    let mut server = Server::start(&["--sim-fault", "oom-after:1"]);
    server.post("/v1/completions", LONG);
    server.ended();
    assert!(server.output().contains("torch.OutOfMemoryError: CUDA out of memory"));
}

#[test]
fn a_crash_ends_everything_at_once() {
    let mut server = Server::start(&["--sim-fault", "crash-after:2"]);
    assert_eq!(server.post("/v1/completions", SHORT).status, 200);
    assert!(
        !server
            .try_ask("POST", "/v1/completions", "", LONG)
            .is_ok_and(|answer| answer.body.contains("[DONE]"))
    );
    assert_eq!(server.ended().code(), Some(1));
    assert!(!is_engine(server.family()[0]));
}

#[test]
fn a_hung_server_is_healthy_and_produces_nothing() {
    let server = Server::start(&["--sim-fault", "hang-after:1"]);
    let mut stream = server.send("POST", "/v1/completions", "", LONG).expect("ready");
    wait("the request is admitted", || {
        server
            .get("/metrics")
            .body
            .contains("vllm:num_requests_running{engine=\"0\",model_name=\"demo-8b\"} 1.0")
    });
    let tokens = || {
        server
            .get("/metrics")
            .body
            .lines()
            .find(|line| line.starts_with("vllm:generation_tokens_total"))
            .map(str::to_string)
    };
    wait("nothing more comes", || {
        let before = tokens();
        std::thread::sleep(std::time::Duration::from_millis(50));
        before == tokens()
    });
    assert_eq!(server.get("/health").status, 200);
    first_token(&mut stream);
}

#[test]
fn sigterm_can_be_ignored_and_a_child_leaked() {
    let server = Server::start(&["--sim-fault", "ignore-term", "--sim-fault", "leak-child"]);
    assert_eq!(server.family().len(), 2);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn requests_can_fail_at_random() {
    let server = Server::start(&[
        "--sim-zero",
        "--sim-fault",
        "error-rate:0.3",
        "--sim-fault",
        "reject-rate:0.3",
    ]);
    let statuses: Vec<u16> = (0..60).map(|_| server.post("/v1/completions", SHORT).status).collect();
    let count = |status: u16| statuses.iter().filter(|other| **other == status).count();
    assert!(count(200) > 0 && count(429) > 0 && count(500) > 0);
    assert_eq!(count(200) + count(429) + count(500), 60);
}

#[test]
fn a_mute_server_accepts_and_answers_nothing() {
    let server = Server::start(&["--sim-zero", "--sim-fault", "mute-after:1"]);
    assert_eq!(server.post("/v1/completions", SHORT).status, 200);
    let mut asked = Vec::new();
    wait("the health check is not answered", || {
        let stream = server.send("GET", "/health", "", "").expect("it accepts");
        stream
            .set_read_timeout(Some(std::time::Duration::from_millis(200)))
            .expect("a timeout");
        let silent = (&stream).read(&mut [0; 1]).is_err();
        asked.push(stream);
        silent
    });
}

#[test]
fn a_lost_engine_can_go_unnoticed() {
    let server = Server::start(&["--sim-fault", "engine-lost-after:1"]);
    let _stream = server.send("POST", "/v1/completions", "", LONG).expect("ready");
    let engine = server.family()[0];
    wait("the engine is gone", || !is_engine(engine));
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn a_fault_may_strike_after_a_time() {
    let mut server = Server::start(&["--sim-fault", "crash-after:10ms"]);
    assert_eq!(server.ended().code(), Some(1));
}

#[test]
fn settings_may_come_from_a_file_and_the_command_line_wins() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("serve.yaml");
    std::fs::write(
        &file,
        "served-model-name: [from-file]\nmax-num-seqs: 7\nmax-model-len: 512\n",
    )
    .expect("written");
    let server = Server::start(&["--config", file.to_str().expect("plain"), "--max-model-len", "256"]);
    let card = server.get("/v1/models").body;
    assert!(
        card.contains(r#""id":"from-file""#) && card.contains(r#""max_model_len":256"#),
        "{card}"
    );
    assert!(server.output().contains("'max_num_seqs': 7"));
}

#[test]
fn a_second_start_finds_its_graphs_compiled() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = ["--sim-compile-cache", folder.path().to_str().expect("plain")];
    let cold = Server::start(&cache);
    cold.wait_for_output("Compiling a graph for compile range");
    let warm = Server::start(&cache);
    warm.wait_for_output("Directly load the compiled graph(s)");
    for text in ["Loading weights took", "Graph capturing finished", "GPU KV cache size"] {
        assert!(cold.output().contains(text), "{text}");
    }
    let eager = Server::start(&[&cache[..], &["--enforce-eager"]].concat());
    assert!(!eager.output().contains("compile range") && !eager.output().contains("Graph capturing"));
}

#[test]
fn streams_can_be_cut() {
    let server = Server::start(&["--sim-zero", "--sim-fault", "truncate-rate:1"]);
    let answer = server.post("/v1/completions", SHORT);
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("data: ") && !answer.body.contains("[DONE]"));
}

#[test]
fn a_server_can_serve_the_wrong_model_or_never_be_ready() {
    let server = Server::start(&["--sim-fault", "wrong-model"]);
    assert!(server.get("/v1/models").body.contains(r#""id":"another-model""#));
    let server = Server::launch(&["--sim-fault", "never-ready"]);
    server.wait_for_output("GPU KV cache size");
    assert!(!server.output().contains("Starting vLLM server"));
}

#[test]
fn the_truth_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("truth.jsonl");
    let server = Server::start(&["--sim-truth", file.to_str().expect("plain")]);
    server.post("/v1/completions", SHORT);
    let read = || std::fs::read_to_string(&file).unwrap_or_default();
    wait("the request is written down", || read().ends_with('\n'));
    let line = read();
    let record: serde_json::Value = serde_json::from_str(&line).expect("one line");
    assert_eq!(
        (&record["prompt_tokens"], &record["output_tokens"]),
        (&1.into(), &5.into())
    );
    let times: Vec<f64> = record["token_ms"]
        .as_array()
        .expect("times")
        .iter()
        .filter_map(|time| time.as_f64())
        .collect();
    assert!(times.len() == 5 && times.is_sorted() && record["arrival_ms"].as_f64() < Some(times[0]));
}
