//! Servers that misbehave: every request ends within its limit, and its error says what happened.

use crate::scripted::{self, Answer, LAST_CHUNK, STREAM_HEAD, Server, chunk, completion, refusal, run};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use vsweep::bench::{Job, measure};
use vsweep::plan::BenchRunner;
use vsweep::validity::{Code, Validity};

/// Returns the error of the first of three requests. Only the first gets this answer.
async fn error_of(answer: Answer, limit: &str) -> String {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |_| match count.fetch_add(1, SeqCst) {
        0 => answer.clone(),
        _ => completion(2, 5),
    })
    .await;
    let params =
        json!({"num_prompts": 3, "max_concurrency": 1, "random_input_len": 5, "save_detailed": true, limit: 1});
    let result = run(&server.url, params)
        .await
        .expect("the others succeed")
        .result
        .to_values();
    assert_eq!((&result["completed"], &result["failed"]), (&json!(2), &json!(1)));
    result["errors"][0].as_str().expect("a text").to_owned()
}

fn token(text: &str) -> Vec<u8> {
    chunk(&json!({"choices": [{"text": text, "finish_reason": null}]}).to_string())
}

#[tokio::test]
async fn a_server_that_falls_silent_is_not_awaited() {
    let begun = [STREAM_HEAD, &token("a")].concat();
    assert_eq!(
        error_of(Answer::ThenSilence(begun), "silence_timeout").await,
        "nothing came for 1 s"
    );
    assert_eq!(
        error_of(Answer::ThenSilence(vec![]), "request_timeout").await,
        "no complete answer within 1 s"
    );
}

#[tokio::test]
async fn a_stream_without_end_is_ended() {
    let error = error_of(Answer::Forever(STREAM_HEAD.to_vec(), token("a")), "request_timeout").await;
    assert_eq!(error, "no complete answer within 1 s");
}

#[tokio::test]
async fn heads_and_trailers_without_end_outlive_no_limit() {
    let heads = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(40_000);
    let trailers = [STREAM_HEAD, &token("a"), b"0\r\n"].concat();
    for answer in [
        Answer::Forever(vec![], heads),
        Answer::Forever(trailers, b"x: y\r\n".repeat(100_000)),
        Answer::Forever(STREAM_HEAD.to_vec(), token("a").repeat(20_000)),
    ] {
        let error = error_of(answer, "request_timeout").await;
        assert!(
            error == "no complete answer within 1 s" || error == "the response's trailer is too long",
            "{error}"
        );
    }
}

#[tokio::test]
async fn what_never_ends_is_cut_at_a_length() {
    let line = [b"x: ".as_slice(), &[b'y'; 10_000], b"\r\n"].concat();
    let head = Answer::Forever(b"HTTP/1.1 200 OK\r\n".to_vec(), line);
    assert_eq!(
        error_of(head, "silence_timeout").await,
        "the response's head is too long"
    );
    let begun = [STREAM_HEAD, b"7fffffff\r\ndata: "].concat();
    let event = Answer::Forever(begun, vec![b'z'; 4 << 20]);
    assert_eq!(
        error_of(event, "silence_timeout").await,
        "an event is longer than 16 MiB"
    );
}

#[tokio::test]
async fn a_reset_connection_is_named() {
    let begun = [STREAM_HEAD, &token("a")].concat();
    let error = error_of(Answer::ThenReset(begun), "request_timeout").await;
    assert!(
        error.contains("the connection broke") || error.contains("closed the connection in the middle"),
        "{error}"
    );
}

#[tokio::test]
async fn events_of_ten_megabytes_are_read() {
    let server = Server::start(|_| {
        let long = token(&"x".repeat(10 << 20));
        Answer::Bytes(vec![
            STREAM_HEAD.to_vec(),
            long,
            token("y"),
            chunk("[DONE]"),
            LAST_CHUNK.to_vec(),
        ])
    })
    .await;
    let params = json!({"num_prompts": 2, "random_input_len": 5, "save_detailed": true});
    let result = run(&server.url, params).await.expect("measured").result.to_values();
    assert_eq!(result["completed"], 2);
    let text = result["generated_texts"][0].as_str().expect("a text");
    assert_eq!((text.len(), text.ends_with("xy")), ((10 << 20) + 1, true));
}

#[tokio::test]
async fn a_server_that_is_not_up_yet_is_awaited_as_long_as_asked() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |_| match count.fetch_add(1, SeqCst) {
        0 => scripted::refusal("503 Service Unavailable", "starting"),
        _ => completion(2, 5),
    })
    .await;
    let params = json!({"num_prompts": 2, "random_input_len": 5, "ready_check_timeout_sec": 60});
    let result = run(&server.url, params).await.expect("up at last").result.to_values();
    assert_eq!((&result["completed"], &result["failed"]), (&json!(2), &json!(0)));

    let never = Server::start(|_| scripted::refusal("503 Service Unavailable", "starting")).await;
    let params = json!({"num_prompts": 2, "random_input_len": 5, "ready_check_timeout_sec": 0.1});
    let failure = run(&never.url, params).await.expect_err("never up");
    assert_eq!(
        failure.detail,
        "the server was not ready within 0.1 s: HTTP 503: starting"
    );
}

/// A stream whose usage says that so many tokens were generated.
fn usage(tokens: u64) -> Answer {
    let event = json!({
        "choices": [{"text": "a", "finish_reason": "length"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": tokens},
    });
    Answer::Bytes(vec![
        STREAM_HEAD.to_vec(),
        chunk(&event.to_string()),
        LAST_CHUNK.to_vec(),
    ])
}

#[tokio::test]
async fn a_count_that_cannot_be_true_fails_its_request() {
    assert_eq!(
        error_of(usage(u64::MAX), "request_timeout").await,
        "the server's usage counts 18446744073709551615 tokens in one request; correct the server"
    );
}

#[tokio::test]
async fn more_tokens_than_were_asked_for_are_a_warning() {
    let server = Server::start(|_| usage(7)).await;
    let params = json!({"num_prompts": 3, "random_input_len": 5, "random_output_len": 4});
    let result = run(&server.url, params).await.expect("measured").result;
    let warning = result.values["warnings"][0].as_str().expect("a warning");
    assert!(
        warning.contains("than were asked for in 3 of 3 requests (7 instead of 4 in one)"),
        "{warning}"
    );
    let params = json!({
        "num_prompts": 3, "random_input_len": 5, "random_output_len": 4, "extra_body": {"max_tokens": 7},
    });
    let result = run(&server.url, params).await.expect("measured").result;
    // Load on the machine may cause other warnings.
    let warnings = result.values.get("warnings").map(ToString::to_string);
    assert!(warnings.is_none_or(|warnings| !warnings.contains("asked for")));
}

#[tokio::test]
async fn a_refusal_without_end_is_named_by_its_status() {
    let head = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 99999999999\r\n\r\nno memory ".to_vec();
    let error = error_of(Answer::Forever(head.clone(), vec![b' '; 10_000]), "silence_timeout").await;
    assert_eq!(error, "HTTP 500: no memory");
    let error = error_of(Answer::ThenSilence(head), "silence_timeout").await;
    assert_eq!(error, "HTTP 500: no memory; nothing came for 1 s");
}

#[tokio::test]
async fn what_marks_a_run_is_in_its_result() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |_| match count.fetch_add(1, SeqCst) {
        0 => scripted::refusal("429 Too Many Requests", "slowly"),
        _ => completion(2, 5),
    })
    .await;
    let params = json!({"num_prompts": 3, "random_input_len": 5});
    let result = run(&server.url, params).await.expect("two succeed").result;
    let warning = result.values["warnings"][0].as_str().expect("a warning");
    assert!(
        warning.contains("request errors: 1 of 3 requests failed, most often with: HTTP 429: slowly"),
        "{warning}"
    );
}

#[tokio::test]
async fn a_wrong_address_is_named() {
    let server = Server::start(|_| scripted::refusal("404 Not Found", "Not Found")).await;
    let params = json!({"num_prompts": 3, "random_input_len": 5, "endpoint": "/x/v1/completions"});
    let failure = run(&server.url, params).await.expect_err("nothing is there");
    let said = failure.to_string();
    let wanted = format!(
        "HTTP 404: Not Found (asked {}/x/v1/completions); check the model's name",
        server.url
    );
    assert!(said.contains(&wanted), "{said}");
}

#[tokio::test]
async fn counters_that_are_never_answered_leave_time_for_the_load() {
    let server = Server::start(|_| completion(2, 5)).await;
    server
        .metrics
        .lock()
        .expect("no panic")
        .push_back("never answered".to_owned());
    let job = Job {
        timeout: Duration::from_secs(8),
        ..scripted::job(&server.url, json!({"num_prompts": 3, "random_input_len": 5}))
    };
    let result = measure(&job).await.expect("measured").result;
    let warnings = result.values["warnings"].to_string();
    assert!(
        warnings.contains("/metrics") && warnings.contains("left out"),
        "{warnings}"
    );
}

#[tokio::test]
async fn nothing_counts_after_the_end() {
    let server = Server::start(|_| {
        let Answer::Bytes(mut pieces) = completion(2, 5) else {
            unreachable!("a stream")
        };
        let late = r#"{"choices":[{"text":"late"}],"usage":{"prompt_tokens":1,"completion_tokens":9}}"#;
        pieces.insert(pieces.len() - 1, chunk(late));
        Answer::Bytes(pieces)
    })
    .await;
    let params = json!({"num_prompts": 3, "random_input_len": 5, "random_output_len": 2});
    let result = run(&server.url, params).await.expect("measured").result.to_values();
    assert_eq!(
        (&result["total_input_tokens"], &result["total_output_tokens"]),
        (&json!(15), &json!(6))
    );
}

#[tokio::test]
async fn prompts_that_the_server_cuts_make_a_run_invalid() {
    let server = Server::start(|_| completion(2, 60)).await;
    let run = |length: u64| {
        let params = json!({"num_prompts": 3, "random_input_len": length, "random_output_len": 2});
        run(&server.url, params)
    };
    let cut = run(160).await.expect("measured");
    let doubt = cut.doubts.iter().find(|doubt| doubt.code == Code::InputLengthsDiffer);
    assert_eq!(
        doubt.map(|doubt| doubt.detail.as_str()),
        Some("the server counted fewer prompt tokens than were sent in 3 of 3 requests (60 instead of 160 in one)")
    );
    assert_eq!(cut.validity(), Validity::Invalid);
    let whole = run(60).await.expect("measured");
    assert!(whole.doubts.iter().all(|doubt| doubt.code != Code::InputLengthsDiffer));
}

#[tokio::test]
async fn a_phases_run_does_not_wait_for_a_silent_server_once_it_is_given_up() {
    // Connections are taken by the system, and nobody answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let job = Job {
        runner: BenchRunner::Phases,
        ..scripted::job(
            &url,
            json!({"phase": "decode", "max_concurrency": 2, "vocab_size": 1000}),
        )
    };
    let began = Instant::now();
    let ended = tokio::time::timeout(Duration::from_millis(500), measure(&job)).await;
    assert!(ended.is_err(), "{ended:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_server_that_is_not_woken_ends_the_batch_on_all_servers() {
    let answers = |wakes: bool| {
        move |seen: &scripted::HttpRequest| match seen.head.split(' ').nth(1) {
            Some(path) if path.starts_with("/wake_up") && !wakes => refusal("500 Internal Server Error", ""),
            Some(path) if path.starts_with("/v1/completions") => Answer::ThenSilence(vec![]),
            _ => refusal("200 OK", "{}"),
        }
    };
    let servers = [Server::start(answers(true)).await, Server::start(answers(false)).await];
    let urls = servers.each_ref().map(|server| &server.url);
    let params = json!({"mode": "prefill", "batch_size": 2, "input_len": 8, "vocab_size": 1000, "endpoints": urls});
    let job = Job {
        runner: BenchRunner::Iterations,
        ..scripted::job(urls[0], params)
    };
    let failure = measure(&job).await.expect_err("nothing was measured");
    assert!(failure.detail.contains("may still be paused"), "{failure:?}");
}
