//! Runs that end after a time: which requests they send, which of them count, and settings that are refused.

use crate::scripted::{Answer, STREAM_HEAD, Server, chat, completion, job, run};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use vsweep::bench::measure;
use vsweep::plan::{Params, Warmup};

/// Returns the result of a run, which must succeed.
async fn result(url: &str, params: Value) -> Params {
    run(url, params).await.expect("measured").result.to_values()
}

/// Prompts that the server has seen.
fn prompts(server: &Server) -> Vec<String> {
    let seen = server.seen.lock().expect("no panic");
    seen.iter().map(|seen| seen.body["prompt"].to_string()).collect()
}

#[tokio::test]
async fn a_closed_loop_draws_as_long_as_time_lasts() {
    let server = Server::start(|_| completion(2, 5)).await;
    let params =
        json!({"duration": "300ms", "max_concurrency": 3, "random_input_len": 5, "random_output_len": 2, "seed": 4});
    let mut job = job(&server.url, params);
    job.warmup = Warmup::Requests(2);
    let result = measure(&job).await.expect("measured").result.to_values();
    let sent = result["completed"].as_u64().expect("a count");
    assert!(sent > 3, "{sent} were sent");
    assert_eq!((&result["num_prompts"], &result["failed"]), (&json!(sent), &json!(0)));
    assert!(result["duration"].as_f64().expect("seconds") > 0.29);
    assert!(result["peak_concurrent_requests"].as_u64().expect("a count") <= 3);
    let steady = result["steady_share"].as_f64().expect("a share");
    assert!((0.0..=1.0).contains(&steady), "{steady}");
    let prompts = prompts(&server);
    assert_eq!(
        prompts.len() as u64,
        sent + 2,
        "warm-ups come first and are not counted"
    );
    // Two prompts of `random` may begin with the same id. This becomes more likely with more prompts, so only the first are compared.
    let first = &prompts[..prompts.len().min(200)];
    let different = first.iter().collect::<HashSet<_>>().len();
    assert!(
        different * 20 > first.len() * 19,
        "{different} of {} differ",
        first.len()
    );
}

#[tokio::test]
async fn at_a_rate_it_is_the_number_that_comes_in_the_time() {
    let server = Server::start(|_| completion(2, 5)).await;
    let common = json!({"request_rate": 100, "random_input_len": 5, "random_output_len": 2, "seed": 3});
    let with = |name: &str, value: Value| {
        let mut params = common.clone();
        params[name] = value;
        params
    };
    let timed = result(&server.url, with("duration", json!("300ms"))).await;
    let of_time = prompts(&server);
    server.seen.lock().expect("no panic").clear();
    let counted = result(&server.url, with("num_prompts", json!(30))).await;
    assert_eq!((&timed["completed"], &counted["completed"]), (&json!(30), &json!(30)));
    let sorted = |mut prompts: Vec<String>| {
        prompts.sort();
        prompts
    };
    assert_eq!(sorted(of_time), sorted(prompts(&server)));
}

#[tokio::test]
async fn the_first_of_number_and_time_ends_it() {
    let server = Server::start(|_| completion(2, 5)).await;
    let params =
        |duration: &str| json!({"num_prompts": 8, "duration": duration, "max_concurrency": 2, "random_input_len": 5});
    assert_eq!(result(&server.url, params("1h")).await["completed"], 8);
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_millis(30));
        completion(2, 5)
    })
    .await;
    let completed = result(&server.url, params("40ms")).await["completed"].as_u64();
    assert!(
        completed.is_some_and(|completed| (2..8).contains(&completed)),
        "{completed:?}"
    );
}

#[tokio::test]
async fn a_server_that_is_gone_is_not_asked_until_the_end() {
    // The server has a runtime of its own, which ends when the load begins.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (begin, begun) = std::sync::mpsc::channel();
    let server = Server::start(move |seen| {
        if seen.head.starts_with("POST /v1/completions") {
            let _ = begin.send(());
        }
        completion(2, 5)
    });
    let url = runtime.spawn(server).await.expect("started").url;
    std::thread::spawn(move || {
        let _ = begun.recv();
        runtime.shutdown_background();
    });
    let params = json!({"duration": "1h", "max_concurrency": 1, "random_input_len": 5});
    let failure = run(&url, params).await.expect_err("nobody answers");
    assert!(
        failure.detail.starts_with("the load ended after "),
        "{}",
        failure.detail
    );
    assert!(
        failure
            .detail
            .contains("failed connections in a row, most often with: could not open a connection"),
        "{}",
        failure.detail
    );
}

#[tokio::test]
async fn what_is_in_flight_at_the_end_counts() {
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_millis(200));
        completion(2, 5)
    })
    .await;
    let params = json!({"duration": "50ms", "max_concurrency": 2, "random_input_len": 5});
    let result = result(&server.url, params).await;
    assert_eq!((&result["completed"], &result["failed"]), (&json!(2), &json!(0)));
}

#[tokio::test]
async fn what_does_not_end_within_the_grace_has_failed() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |_| match count.fetch_add(1, SeqCst) {
        0 => Answer::ThenSilence(STREAM_HEAD.to_vec()),
        _ => completion(2, 5),
    })
    .await;
    let params = json!({"duration": "100ms", "duration_grace": "300ms", "max_concurrency": 2, "random_input_len": 5});
    let result = result(&server.url, params).await;
    assert_eq!(result["failed"], 1);
    let reasons = result["failure_reasons"].as_object().expect("reasons");
    assert!(
        reasons.contains_key("no complete answer within 0.3 s after the 0.1 s of sending"),
        "{reasons:?}"
    );
}

/// Writes a file with `count` prompts.
fn rows(path: &Path, count: usize) {
    let lines: String = (0..count).map(|i| format!("{{\"prompt\": \"row {i}\"}}\n")).collect();
    std::fs::write(path, lines).expect("written");
}

#[tokio::test]
async fn rows_of_a_file_are_used_again_unless_that_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.jsonl");
    rows(&path, 5);
    let server = Server::start(|_| completion(2, 5)).await;
    let params = json!({"duration": "300ms", "max_concurrency": 1, "dataset_name": "custom", "dataset_path": path,
        "skip_tokenizer_init": true});
    let again = result(&server.url, params.clone()).await;
    assert!(again["completed"].as_u64().expect("a count") > 5);
    assert_eq!(prompts(&server).iter().collect::<HashSet<_>>().len(), 5);
    let mut once = params;
    once["no_oversample"] = json!(true);
    assert_eq!(result(&server.url, once).await["completed"], 5);
}

#[tokio::test]
async fn a_conversation_that_has_begun_goes_on_to_its_end() {
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_millis(30));
        chat(&["a".to_owned(), "b".to_owned()], 5)
    })
    .await;
    let params = json!({"backend": "openai-chat", "endpoint": "/v1/chat/completions", "duration": "40ms", "num_prompts": 60,
        "multi_turn": true, "multi_turn_num_turns": 4, "max_concurrency": 2, "random_input_len": 5, "random_output_len": 2});
    let measured = run(&server.url, params).await;
    let result = measured.expect("measured").result.to_values();
    let [conversations, completed] =
        ["num_conversations", "completed"].map(|key| result[key].as_u64().expect("a count"));
    assert!((2..60).contains(&conversations), "{conversations} began");
    assert_eq!((completed, &result["failed"]), (4 * conversations, &json!(0)));
}

#[tokio::test]
async fn turns_that_would_begin_after_the_grace_have_failed() {
    let server = Server::start(|_| chat(&["a".to_owned(), "b".to_owned()], 5)).await;
    let params = json!({"backend": "openai-chat", "endpoint": "/v1/chat/completions", "duration": "100ms", "duration_grace": "100ms",
        "multi_turn": true, "multi_turn_num_turns": 3, "multi_turn_delay_ms": 20_000, "num_prompts": 2, "max_concurrency": 2,
        "random_input_len": 5, "random_output_len": 2});
    let result = result(&server.url, params).await;
    let seconds = result["duration"].as_f64().expect("seconds");
    assert!(seconds < 10.0, "{seconds} s");
    assert_eq!((&result["completed"], &result["failed"]), (&json!(2), &json!(4)));
    assert_eq!(
        server.seen.lock().expect("no panic").len(),
        2,
        "only first turns were sent"
    );
    let reasons = &result["failure_reasons"];
    assert_eq!(
        reasons["no complete answer within 0.1 s after the 0.1 s of sending"], 2,
        "{reasons}"
    );
}
