//! The native benchmark against a server that answers with exact bytes.

use crate::scripted::{Answer, LAST_CHUNK, STREAM_HEAD, Server, chunk, completion, job, refusal, run};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use vsweep::bench::measure;
use vsweep::cause::Cause;
use vsweep::plan::{BenchRunner, Warmup};
use vsweep::validity::Code;

#[tokio::test]
async fn a_closed_loop_measures_every_request() {
    let server = Server::start(|_| completion(4, 7)).await;
    let mut job = job(
        &server.url,
        json!({"num-prompts": 12, "max_concurrency": "3", "random_input_len": 5, "random_output_len": 4}),
    );
    job.warmup = Warmup::Requests(2);
    let result = measure(&job).await.expect("measured").result.to_values();
    assert_eq!(result["completed"], 12);
    assert_eq!(result["failed"], 0);
    assert_eq!(result["total_input_tokens"], 84);
    assert_eq!(result["total_output_tokens"], 48);
    assert_eq!(result["prompt_source"], "token_ids");
    assert!(result["peak_concurrent_requests"].as_u64().expect("a count") <= 3);
    assert!(result["p99_ttft_ms"].as_f64().expect("a number") > 0.0);
    assert_eq!(job.counters.finished.load(SeqCst), 12);
    let seen = server.seen.lock().expect("no panic");
    assert_eq!(seen.len(), 14, "warm-ups come first and are not counted");
    let keys: Vec<&String> = seen[0].body.as_object().expect("an object").keys().collect();
    let expected = [
        "model",
        "prompt",
        "repetition_penalty",
        "max_tokens",
        "logprobs",
        "stream",
        "stream_options",
        "ignore_eos",
    ];
    assert_eq!(keys, expected);
    assert!(!seen[0].head.contains("x-request-id") && seen[2].head.contains("x-request-id: bench-"));
    let prompts: std::collections::HashSet<String> = seen.iter().map(|seen| seen.body["prompt"].to_string()).collect();
    assert_eq!(prompts.len(), 14, "no warm-up prompt is measured");
}

#[tokio::test]
async fn times_of_arrival_are_the_kernels() {
    let server = Server::start(|_| completion(4, 7)).await;
    // The system begins to record times of arrival a moment after it was asked to. That may be after the end of a short run, so there are
    // several.
    for _ in 0..50 {
        let params = json!({"num_prompts": 40, "max_concurrency": 4, "random_input_len": 5, "random_output_len": 4});
        let result = run(&server.url, params).await.expect("measured").result.to_values();
        let share = result["generator_kernel_stamped_share"].as_f64().expect("a number");
        assert!((0.0..=1.0).contains(&share), "{share}");
        if share > 0.5 {
            return;
        }
    }
    panic!("the times of arrival are those of reading");
}

#[tokio::test]
async fn an_open_loop_keeps_its_schedule() {
    let server = Server::start(|_| completion(2, 5)).await;
    let params =
        json!({"num_prompts": 20, "request_rate": 200, "random_input_len": 5, "random_output_len": 2, "seed": 3});
    let result = run(&server.url, params).await.expect("measured").result.to_values();
    assert_eq!(result["completed"], 20);
    assert!(
        result["duration"].as_f64().expect("seconds") >= 0.1,
        "the last request is due at 20 / 200 s"
    );
    assert!(result.contains_key("mean_ttft_from_due_ms"));
}

#[tokio::test]
async fn chat_sends_messages_and_reads_deltas() {
    let server = Server::start(|_| {
        let delta = |delta: &str, finish: &str| {
            chunk(&format!(
                r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}"#
            ))
        };
        let pieces = [
            STREAM_HEAD.to_vec(),
            delta(r#"{"role":"assistant","content":""}"#, "null"),
            delta(r#"{"content":"a\n"}"#, "null"),
            delta(r#"{"content":"b"}"#, "null"),
            delta("{}", "\"stop\""),
            chunk("[DONE]"),
            LAST_CHUNK.to_vec(),
        ];
        Answer::Bytes(vec![pieces.concat()])
    })
    .await;
    let params = json!({"backend": "openai-chat", "num_prompts": 1, "random_input_len": 3, "save_detailed": true});
    let result = run(&server.url, params).await.expect("measured").result.to_values();
    assert_eq!(result["generated_texts"], json!(["a\nb"]));
    assert_eq!(
        result["itls"][0].as_array().map(Vec::len),
        Some(1),
        "the role and the end are no tokens"
    );
    assert_eq!(result["prompt_source"], "words");
    let seen = server.seen.lock().expect("no panic");
    assert!(seen[0].head.starts_with("POST /v1/chat/completions HTTP/1.1"));
    assert_eq!(seen[0].body["messages"][0]["content"][0]["type"], "text");
    assert_eq!(seen[0].body["max_completion_tokens"], 128);
}

/// Number of gaps between tokens, for an answer in these pieces of text of which the last ends it, if the server counts `tokens`, or none.
/// Two tokens are asked for.
async fn gaps(texts: &'static [&str], tokens: Option<usize>) -> usize {
    let server = Server::start(move |_| {
        let events = texts.iter().enumerate().map(|(i, text)| {
            let finish = if i + 1 == texts.len() { "\"length\"" } else { "null" };
            let usage = tokens.map(|tokens| format!(r#"{{"prompt_tokens":5,"completion_tokens":{tokens}}}"#));
            let usage = usage.as_deref().filter(|_| i + 1 == texts.len()).unwrap_or("null");
            chunk(&format!(
                r#"{{"choices":[{{"text":"{text}","finish_reason":{finish}}}],"usage":{usage}}}"#
            ))
        });
        let events: Vec<Vec<u8>> = events.collect();
        Answer::Bytes(vec![
            [STREAM_HEAD, &events.concat(), &chunk("[DONE]"), LAST_CHUNK].concat(),
        ])
    })
    .await;
    let params = json!({"num_prompts": 1, "random_input_len": 5, "random_output_len": 2, "save_detailed": true});
    let result = run(&server.url, params).await.expect("measured").result.to_values();
    if let Some(tokens) = tokens {
        assert_eq!(result["total_output_tokens"], tokens);
    }
    result["itls"][0].as_array().expect("a list").len()
}

#[tokio::test]
async fn an_end_without_text_is_a_token_if_the_server_counts_it() {
    // llama.cpp ends with an event that has only the reason.
    assert_eq!(gaps(&["a", "b", ""], Some(2)).await, 1);
    // The last token of vLLM may have no text.
    assert_eq!(gaps(&["a", "b", ""], Some(3)).await, 2);
    assert_eq!(gaps(&[""], Some(1)).await, 0);
    // Without a count, two tokens are all that were asked for.
    assert_eq!(gaps(&["a", "b", ""], None).await, 1);
    assert_eq!(gaps(&["a", ""], None).await, 1);
}

#[tokio::test]
async fn a_server_that_closes_after_each_answer_answers_all() {
    let Answer::Bytes(pieces) = completion(2, 5) else {
        panic!("a stream")
    };
    let server = Server::start(move |_| Answer::ThenClose(pieces.concat())).await;
    let params = json!({"num_prompts": 30, "max_concurrency": 3, "random_input_len": 5});
    let result = run(&server.url, params).await.expect("measured").result.to_values();
    assert_eq!((&result["completed"], &result["failed"]), (&json!(30), &json!(0)));
}

#[tokio::test]
async fn a_request_that_crosses_the_close_of_its_connection_is_sent_again() {
    let count = AtomicUsize::new(0);
    // The second request uses the connection of the first, if that was kept.
    let server = Server::start(move |_| match count.fetch_add(1, SeqCst) {
        1 => Answer::ThenClose(vec![]),
        _ => completion(2, 5),
    })
    .await;
    let params = json!({"num_prompts": 4, "max_concurrency": 1, "random_input_len": 5});
    let result = run(&server.url, params).await.expect("measured").result.to_values();
    assert_eq!((&result["completed"], &result["failed"]), (&json!(4), &json!(0)));
    assert_eq!(server.seen.lock().expect("no panic").len(), 5);
}

/// Returns the error of the first request, which gets `answer`. All others get proper answers.
async fn error_of(answer: Answer) -> String {
    let result = with_first(answer).await;
    result["errors"][0].as_str().expect("a text").to_owned()
}

/// Returns the result of a run whose first request fails because of `answer`.
async fn with_first(answer: Answer) -> Map<String, Value> {
    let count = AtomicUsize::new(0);
    let answer = Arc::new(answer);
    let server = Server::start(move |_| match count.fetch_add(1, SeqCst) {
        0 => Answer::clone(&answer),
        _ => completion(2, 5),
    })
    .await;
    let params = json!({
        "num_prompts": 3, "max_concurrency": 1, "random_input_len": 5, "save_detailed": true, "request_timeout": 1,
    });
    let measured = run(&server.url, params).await.expect("the others succeed");
    assert_eq!(
        (&measured.result.values["completed"], &measured.result.values["failed"]),
        (&json!(2), &json!(1))
    );
    let objection = measured.failure.as_ref().expect("a third of the requests failed");
    assert_eq!(objection.cause, Cause::RequestErrors);
    measured.result.to_values()
}

#[tokio::test]
async fn a_request_that_broke_off_keeps_its_times_and_not_its_text() {
    let token = chunk(r#"{"choices":[{"text":"a","finish_reason":null}]}"#);
    let begun = [STREAM_HEAD, &token, &token].concat();
    for answer in [
        Answer::ThenClose(begun.clone()),
        Answer::Bytes(vec![[&begun[..], &chunk("{bad}"), LAST_CHUNK].concat()]),
    ] {
        let result = with_first(answer).await;
        assert!(
            result["ttfts"][0].as_f64().expect("seconds") > 0.0,
            "{}",
            result["ttfts"]
        );
        assert_eq!(result["itls"][0].as_array().map(Vec::len), Some(1));
        assert_eq!(result["generated_texts"][0], "");
        // In a file without errors, these zeros show which requests failed.
        assert_eq!(result["latencies"][0], 0.0);
        assert_eq!(result["output_lens"][0], 0);
    }
    // vLLM counts this request as a success, and keeps its text.
    let error = chunk(r#"{"error":"out of memory"}"#);
    let result = with_first(Answer::Bytes(vec![[&begun[..], &error, LAST_CHUNK].concat()])).await;
    assert_eq!(result["generated_texts"][0], "aa");
}

#[tokio::test]
async fn a_stream_that_ends_with_its_usage_is_complete() {
    let token = chunk(r#"{"choices":[{"text":"a","finish_reason":null}]}"#);
    let usage = chunk(r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}"#);
    let whole = [STREAM_HEAD, &token, &token, &usage, LAST_CHUNK].concat();
    let server = Server::start(move |_| Answer::Bytes(vec![whole.clone()])).await;
    let params = json!({"num_prompts": 2, "random_input_len": 5, "random_output_len": 2});
    let result = run(&server.url, params).await.expect("measured").result.to_values();
    assert_eq!((&result["completed"], &result["failed"]), (&json!(2), &json!(0)));
    assert_eq!(result["total_output_tokens"], 4);
}

#[tokio::test]
async fn every_failure_is_one_and_says_why() {
    let token = chunk(r#"{"choices":[{"text":"a","finish_reason":null}]}"#);
    let stream = |rest: &[&[u8]]| Answer::Bytes(vec![[&[STREAM_HEAD, token.as_slice()], rest].concat().concat()]);
    let error = chunk(r#"{"error":{"message":"EngineCore died","code":500}}"#);
    let done = chunk("[DONE]");
    assert_eq!(
        error_of(stream(&[&error, &done, LAST_CHUNK])).await,
        "the server reported an error in the stream: EngineCore died"
    );
    let long = chunk(&format!(r#"{{"error":{{"message":"{}"}}}}"#, "x".repeat(1 << 20)));
    assert!(error_of(stream(&[&long, &done, LAST_CHUNK])).await.len() < 500);
    assert_eq!(
        error_of(stream(&[LAST_CHUNK])).await,
        "the stream ended without [DONE], a finish reason or usage"
    );
    assert!(
        error_of(stream(&[&chunk("{bad"), LAST_CHUNK]))
            .await
            .contains("not what a completion stream holds")
    );
    assert_eq!(
        error_of(refusal("429 Too Many Requests", r#"{"error":{"message":"slow down"}}"#)).await,
        "HTTP 429: slow down"
    );
    assert_eq!(error_of(refusal("500 Oops", "a  page\n")).await, "HTTP 500: a page");
    let whole = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    assert_eq!(
        error_of(Answer::Bytes(vec![whole.to_vec()])).await,
        "the answer is not an event stream (Content-Type application/json)"
    );
    assert_eq!(
        error_of(Answer::ThenClose([STREAM_HEAD, &token].concat())).await,
        "the server closed the connection in the middle of its answer"
    );
    assert_eq!(
        error_of(Answer::ThenClose(vec![])).await,
        "the server closed the connection before its answer"
    );
    assert_eq!(
        error_of(Answer::ThenSilence([STREAM_HEAD, &token].concat())).await,
        "no complete answer within 1 s"
    );
    assert!(
        error_of(Answer::ThenClose(b"SSH-2.0-x\r\n".to_vec()))
            .await
            .contains("not HTTP")
    );
}

#[tokio::test]
async fn answers_that_may_end_early_by_the_extra_body_are_not_doubted() {
    let server = Server::start(|_| completion(2, 5)).await;
    let is_doubted = async |extra: Value| {
        let params = json!({"num_prompts": 4, "random_input_len": 5, "random_output_len": 8, "extra_body": extra});
        let measured = run(&server.url, params).await.expect("measured");
        measured
            .doubts
            .iter()
            .any(|doubt| doubt.code == Code::OutputLengthsDiffer)
    };
    assert!(is_doubted(json!({"ignore_eos": true})).await);
    assert!(is_doubted(json!({"stop": null})).await);
    assert!(!is_doubted(json!({"ignore_eos": false})).await);
    assert!(!is_doubted(json!({"stop": ["."]})).await);
    assert!(!is_doubted(json!({"guided_choice": ["yes", "no"]})).await);
}

#[tokio::test]
async fn tokens_that_the_server_does_not_count_are_not_lost_in_silence() {
    let packed = chunk(r#"{"choices":[{"text":"a b c d","finish_reason":null}]}"#);
    let whole = [STREAM_HEAD, &packed, &packed, &chunk("[DONE]"), LAST_CHUNK].concat();
    let server = Server::start(move |_| Answer::Bytes(vec![whole.clone()])).await;
    let params = json!({"num_prompts": 3, "random_input_len": 5, "random_output_len": 8});
    let measured = run(&server.url, params).await.expect("measured");
    let mut doubts = measured.doubts.iter();
    assert!(doubts.any(|doubt| doubt.code == Code::OutputLengthsDiffer));
    let values = &measured.result.values;
    let warnings = values["warnings"].to_string();
    assert!(
        warnings.contains("3 of 3 answers came without token counts"),
        "{warnings}"
    );
    assert!(!values.contains_key("mean_itl_per_token_ms"));
}

#[tokio::test]
async fn answers_with_several_choices_have_the_tokens_of_all() {
    let server = Server::start(|_| completion(16, 5)).await;
    let is_doubted = async |choices: u64| {
        let params =
            json!({"num_prompts": 4, "random_input_len": 5, "random_output_len": 8, "extra_body": {"n": choices}});
        let measured = run(&server.url, params).await.expect("measured");
        let values = &measured.result.values;
        for figure in ["mean_tpot_ms", "mean_itl_ms", "mean_itl_per_token_ms"] {
            assert_eq!(values.contains_key(figure), choices == 1, "{figure}");
        }
        let warnings = values.get("warnings").map(ToString::to_string).unwrap_or_default();
        assert_eq!(
            warnings.contains("the 2 choices of an answer"),
            choices == 2,
            "{warnings}"
        );
        let about_lengths = [Code::OutputLengthsDiffer, Code::TooManyOutputTokens];
        measured.doubts.iter().any(|doubt| about_lengths.contains(&doubt.code))
    };
    assert!(is_doubted(1).await);
    assert!(!is_doubted(2).await);
}

#[tokio::test]
async fn a_run_without_success_is_a_failure() {
    let server = Server::start(|_| refusal("404 Not Found", r#"{"error":{"message":"no such model"}}"#)).await;
    let failure = run(&server.url, json!({"num_prompts": 2, "random_input_len": 5}))
        .await
        .expect_err("nothing worked");
    assert_eq!(failure.cause, Cause::RequestErrors);
    assert!(
        failure.detail.contains("HTTP 404: no such model (asked http://"),
        "{}",
        failure.detail
    );
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_ended() {
    let server = Server::start(|_| Answer::ThenSilence(STREAM_HEAD.to_vec())).await;
    let mut job = job(&server.url, json!({"num_prompts": 2, "random_input_len": 5}));
    job.timeout = Duration::from_millis(300);
    let failure = measure(&job).await.expect_err("it never answers");
    assert_eq!(failure.cause, Cause::BenchTimeout);
}

#[tokio::test]
async fn probes_end_with_a_run_that_failed() {
    let server = Server::start(|seen| match seen.body["prompt"].as_str() {
        Some("Hi") => completion(1, 1),
        _ => Answer::ThenSilence(STREAM_HEAD.to_vec()),
    })
    .await;
    let params =
        json!({"num_prompts": 2, "random_input_len": 5, "probe_request_rate": 50, "skip_tokenizer_init": true});
    let mut job = job(&server.url, params);
    job.timeout = Duration::from_millis(300);
    let failure = measure(&job).await.expect_err("it never answers");
    assert_eq!(failure.cause, Cause::BenchTimeout);
    let asked = || server.seen.lock().expect("no panic").len();
    assert!(asked() > 2, "there were probes");
    // The probe in flight may still come.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = asked();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(asked(), before);
}

#[tokio::test]
async fn an_unreachable_server_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    drop(listener);
    let failure = run(&url, json!({"num_prompts": 2, "random_input_len": 5}))
        .await
        .expect_err("nobody listens");
    assert_eq!(failure.cause, Cause::BenchFailed);
    assert!(failure.detail.contains("127.0.0.1"), "{}", failure.detail);
}

#[test]
fn wrong_parameters_are_found_before_anything_starts() {
    let problems = |params: Value| vsweep::bench::check(&BenchRunner::Native, params.as_object().expect("an object"));
    assert_eq!(
        problems(json!({"max-concurrency": "8", "request_rate": "inf", "ignore_eos": true})),
        [""; 0]
    );
    let found = problems(json!({
        "max_concurency": 8, "num_prompts": 0, "random_range_ratio": 1, "backend": "openai-video", "endpoint": "/v1/chat",
    }));
    insta::assert_snapshot!(found.join("\n"), @r#"
    the native benchmark has no parameter "max_concurency"; did you mean "max_concurrency"?
    backend is "openai-video"; it must be one of openai, vllm, openai-chat, openai-responses, openai-audio, openai-embeddings, openai-embeddings-chat, openai-embeddings-clip, openai-embeddings-vlm2vec, infinity-embeddings, infinity-embeddings-clip, vllm-pooling, vllm-rerank
    endpoint is "/v1/chat"; it must be a path that ends in "completions" for backend openai
    random_range_ratio is 1; write a number of at least 0 and below 1, or {"input": 0.2, "output": 0.1}
    num_prompts is 0; it must be a whole number of at least 1
    "#);
}
