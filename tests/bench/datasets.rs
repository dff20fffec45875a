//! Every dataset through the native benchmark: the requests that a server gets, and the facts about the prompts in the result.

use crate::scripted::{self, Server, completion, refusal};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use vsweep::bench::{self, measure};
use vsweep::plan::{BenchRunner, Warmup};
use vsweep::validity::Code;

/// Runs a benchmark with one request at a time. Returns the result, and the bodies that the server got, in order.
async fn run(params: Value) -> Result<(Value, Vec<Value>), String> {
    let server = Server::start(|_| completion(2, 7)).await;
    let mut job = scripted::job(&server.url, params);
    job.params.insert("max_concurrency".to_owned(), json!(1));
    let measured = measure(&job).await.map_err(|failure| failure.detail)?;
    let seen = server.seen.lock().expect("no panic");
    Ok((
        Value::Object(measured.result.to_values()),
        seen.iter().map(|seen| seen.body.clone()).collect(),
    ))
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a temporary file");
    path
}

#[tokio::test]
async fn files_give_texts_and_lengths() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path(), "mine.csv", "prompt,output_tokens\nfirst,5\nsecond,6\n");
    let params = json!({"dataset_name": "custom", "dataset_path": path, "custom_output_len": -1, "num_prompts": 3,
                        "disable_shuffle": true});
    let (result, bodies) = run(params).await.expect("measured");
    assert_eq!(result["prompt_source"], "text");
    assert_eq!(result["completed"], 3, "two rows, one of them twice");
    assert_eq!(
        (&bodies[1]["prompt"], &bodies[1]["max_tokens"]),
        (&json!("second"), &json!(6))
    );
    assert_eq!(bodies[0].get("ignore_eos"), None, "real texts end where they end");
}

#[tokio::test]
async fn traces_keep_their_own_times() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |time: f64| json!({"timestamp": time, "input_length": 6, "output_length": 2, "hash_ids": [1]});
    let trace = format!("{}\n{}\n", row(1000.1), row(1000.0));
    let params = json!({"dataset_name": "timed_trace", "dataset_path": write(folder.path(), "t.jsonl", &trace),
                        "save_detailed": true, "timed_trace_chunk_hash_size": 8});
    let (result, bodies) = run(params).await.expect("measured");
    assert_eq!(result["prompt_source"], "token_ids");
    assert_eq!(bodies[0]["prompt"], bodies[1]["prompt"], "one hash, one text");
    let starts = result["start_times"].as_array().expect("a list");
    assert!(starts[1].as_f64().expect("seconds") >= 0.1, "{starts:?}");

    let row =
        json!({"timestamp": 0, "input_length": 6758, "output_length": 2, "hash_ids": (0..14).collect::<Vec<_>>()});
    let params =
        json!({"dataset_name": "timed_trace", "dataset_path": write(folder.path(), "t.jsonl", &row.to_string())});
    let failure = run(params).await.expect_err("a hash stands for 512 tokens");
    assert!(
        failure.contains("224 tokens, of 6758") && failure.contains("such as 512"),
        "{failure}"
    );
}

#[tokio::test]
async fn synthetic_prompts_need_no_tokenizer() {
    let params = json!({"dataset_name": "prefix_repetition", "prefix_repetition_prefix_len": 3, "num_prompts": 4,
                        "prefix_repetition_suffix_len": 2, "prefix_repetition_num_prefixes": 1});
    let (result, bodies) = run(params).await.expect("measured");
    assert_eq!((&result["prompt_source"], bodies.len()), (&json!("token_ids"), 4));
    let prompts: Vec<&Vec<Value>> = bodies
        .iter()
        .map(|body| body["prompt"].as_array().expect("ids"))
        .collect();
    assert!(prompts.iter().all(|ids| ids.len() == 5 && ids[..3] == prompts[0][..3]));

    let params = json!({"dataset_name": "prefix_repetition", "prefix_repetition_num_prefixes": 5, "num_prompts": 9,
                        "request_rate": 1000, "duration": "3ms"});
    let (_, bodies) = run(params).await.expect("measured");
    assert_eq!(bodies.len(), 3, "fewer requests are due than there are prefixes");
}

#[tokio::test]
async fn recorded_traffic_gives_lengths() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,7,30,37,Conversation log\n\
                46,GPT-4,8,0,8,Conversation log\n";
    let mut params = json!({"dataset_name": "burstgpt", "dataset_path": write(folder.path(), "b.csv", text),
                        "num_prompts": 2});
    let (_, bodies) = run(params.clone()).await.expect("measured");
    let shape = |body: &Value| (body["prompt"].as_array().map(Vec::len), body["max_tokens"].as_u64());
    assert!(bodies.len() == 2 && bodies.iter().all(|body| shape(body) == (Some(7), Some(30))));
    params["no_oversample"] = json!(true);
    let (_, bodies) = run(params).await.expect("measured");
    assert_eq!(bodies.len(), 1, "the row is not repeated");
}

#[tokio::test]
async fn warm_ups_leave_no_measured_prompt_in_a_cache() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows: String = (0..9).map(|_| "5,GPT-4,20,3,23,Conversation log\n").collect();
    let text = format!("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n{rows}");
    let server = Server::start(|_| completion(3, 20)).await;
    let mut job = scripted::job(
        &server.url,
        json!({"dataset_name": "burstgpt", "dataset_path": write(folder.path(), "b.csv", &text), "num_prompts": 6,
               "max_concurrency": 3}),
    );
    job.warmup = Warmup::Automatic;
    measure(&job).await.expect("measured");
    let seen = server.seen.lock().expect("no panic");
    let prompts = seen.iter().map(|seen| seen.body["prompt"].as_array().expect("ids"));
    let beginnings: Vec<&[Value]> = prompts.map(|ids| &ids[..16]).collect();
    let (warmup, measured) = beginnings.split_at(3);
    assert_eq!(measured.len(), 6);
    assert!(
        warmup.iter().all(|beginning| !measured.contains(beginning)),
        "{beginnings:?}"
    );
}

#[tokio::test]
async fn as_many_batches_warm_up_as_are_in_flight() {
    let embedded = json!({"data": [], "usage": {"prompt_tokens": 24}}).to_string();
    let server = Server::start(move |_| refusal("200 OK", &embedded)).await;
    let mut job = scripted::job(
        &server.url,
        json!({"backend": "openai-embeddings", "num_prompts": 40, "random_input_len": 6, "random_batch_size": 4,
               "max_concurrency": 3, "skip_tokenizer_init": true}),
    );
    job.warmup = Warmup::Automatic;
    let measured = measure(&job).await.expect("measured");
    let sent = server.seen.lock().expect("no panic").len();
    assert_eq!(sent, 3 + 10, "{:?}", measured.doubts);
    let is_cold = measured.doubts.iter().any(|doubt| doubt.code == Code::ColdServer);
    assert!(!is_cold, "{:?}", measured.doubts);
}

#[tokio::test]
async fn a_time_limit_counts_batches() {
    let embedded = json!({"data": [], "usage": {"prompt_tokens": 24}}).to_string();
    let server = Server::start(move |_| refusal("200 OK", &embedded)).await;
    let params = json!({"backend": "openai-embeddings", "num_prompts": 1000, "random_input_len": 6, "random_batch_size": 4,
                        "request_rate": 100, "duration": "200ms", "skip_tokenizer_init": true});
    let measured = measure(&scripted::job(&server.url, params)).await.expect("measured");
    assert_eq!(server.seen.lock().expect("no panic").len(), 20);
    assert_eq!(measured.result.values["num_prompts"], 80);
}

#[tokio::test]
async fn prompts_are_counted_by_the_usage_that_there_is() {
    for (usage, counted) in [
        (json!({"prompt_tokens": 24, "total_tokens": 25}), Some(48)),
        (json!({"total_tokens": 24}), Some(48)),
        (json!({}), None),
        (Value::Null, None),
    ] {
        let embedded = json!({"data": [], "usage": usage}).to_string();
        let server = Server::start(move |_| refusal("200 OK", &embedded)).await;
        let params = json!({"backend": "openai-embeddings", "num_prompts": 2, "random_input_len": 6,
                            "skip_tokenizer_init": true});
        let measured = measure(&scripted::job(&server.url, params)).await.expect("measured");
        let values = &measured.result.values;
        assert_eq!(values["total_input_tokens"], counted.unwrap_or(12), "{usage}");
        let warnings = values.get("warnings").map(ToString::to_string).unwrap_or_default();
        let is_warned = warnings.contains("2 of 2 answers came without token counts");
        assert_eq!(is_warned, counted.is_none(), "{usage}: {warnings}");
    }
}

#[tokio::test]
async fn poems_stay_within_their_length() {
    let folder = tempfile::tempdir().expect("a folder");
    let poem: String = (0..20).map(|i| format!("line {i:02} of the poem\n")).collect();
    let params = json!({"dataset_name": "sonnet", "dataset_path": write(folder.path(), "poem.txt", &poem),
                        "sonnet_input_len": 60, "sonnet_prefix_len": 30, "num_prompts": 2, "backend": "openai-chat",
                        "endpoint": "/v1/chat/completions"});
    let (result, bodies) = run(params).await.expect("measured");
    let text = |body: &Value| {
        body["messages"][0]["content"][0]["text"]
            .as_str()
            .expect("a text")
            .to_owned()
    };
    let (one, two) = (text(&bodies[0]), text(&bodies[1]));
    assert!(
        one != two && one.starts_with("Pick as many lines") && one.len() <= 240,
        "{one}"
    );
    assert_eq!(
        one.lines().take(4).collect::<Vec<_>>(),
        two.lines().take(4).collect::<Vec<_>>()
    );
    assert_eq!(result["prompt_source"], "text");
}

#[tokio::test]
async fn data_sets_come_from_the_hub_and_the_token_is_not_shown() {
    let json = |body: &str| refusal("200 OK", body);
    let server = Server::start(move |seen| match seen.head.split(' ').nth(1).unwrap_or_default() {
        "/v1/models" => json(r#"{"data":[{"id":"m","root":"m"}]}"#),
        "/api/datasets/org/d/revision/main" => json(r#"{"sha":"abc","siblings":[{"rfilename":"train.jsonl"}]}"#),
        "/datasets/org/d/resolve/abc/train.jsonl" => json(r#"{"question": "why?", "answer": "because"}"#),
        _ => completion(2, 7),
    })
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_vsweep"));
    command
        .args([
            "bench",
            "--base-url",
            &server.url,
            "--dataset-name",
            "hf",
            "--dataset-path",
            "org/d",
        ])
        .args(["--num-prompts", "1", "--hf-output-len", "3"])
        .current_dir(folder.path())
        .env("HF_ENDPOINT", &server.url)
        .env("HF_HOME", folder.path())
        .env("HF_TOKEN", "s3cret")
        .env_remove("HF_HUB_CACHE")
        .env_remove("HF_HUB_OFFLINE");
    let output = scripted::output(&mut command).await;
    let shown = [output.stdout, output.stderr].concat();
    let shown = String::from_utf8_lossy(&shown);
    assert!(output.status.success() && !shown.contains("s3cret"), "{shown}");
    let seen = server.seen.lock().expect("no panic");
    let has_token = |seen: &scripted::HttpRequest| seen.head.contains("s3cret");
    let is_of_hub = |seen: &scripted::HttpRequest| seen.head.contains("/datasets/org/d");
    assert!(seen.iter().all(|seen| has_token(seen) == is_of_hub(seen)));
    let asked = seen
        .iter()
        .filter(|seen| seen.body["prompt"] == "why?" && seen.body["max_tokens"] == 3);
    assert_eq!(asked.count(), 1);
}

#[tokio::test]
async fn failures_of_files_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path(), "a.jsonl", "{\"text\": \"x\"}\n");
    let params = |name: &str| json!({"dataset_name": name, "dataset_path": path, "num_prompts": 1});
    for (name, problem) in [
        (
            "custom",
            "a.jsonl, line 1: no column \"prompt\" (there are: text); add it",
        ),
        ("sharegpt", "a.jsonl holds no \"conversations\" of 2 or more messages"),
        ("spec_bench", "a.jsonl, line 1: no text in \"turns\""),
        ("burstgpt", "a.jsonl, line 1: no column \"Model\""),
        ("timed_trace", "a.jsonl, line 1: no column \"input_length\""),
    ] {
        let failure = run(params(name)).await.expect_err("wrong file");
        assert!(failure.contains(problem), "{name}: {failure}");
    }
}

#[test]
fn settings_that_do_not_fit_are_refused_before_anything_starts() {
    let problems = |params: Value| {
        let Value::Object(params) = params else {
            panic!("an object")
        };
        bench::check(&BenchRunner::Native, &params).join("\n")
    };
    let few =
        json!({"dataset_name": "prefix_repetition", "num_prompts": 1000, "request_rate": 0.05, "duration": "60s"});
    assert_eq!(problems(few), "");
    let found = [
        json!({"dataset_name": "sharegpt"}),
        json!({"dataset_name": "random", "dataset_path": "x"}),
        json!({"dataset_path": "x"}),
        json!({"random_batch_size": 2}),
        json!({"extra_body": {"stream": false}}),
        json!({"dataset_name": "random-rerank"}),
        json!({"dataset_name": "random-rerank", "backend": "vllm-rerank", "no_reranker": true}),
        json!({"dataset_name": "random-rerank", "backend": "vllm-rerank", "no_reranker": true, "random_batch_size": 2, "num_prompts": 1}),
        json!({"dataset_name": "prefix_repetition", "num_prompts": 4}),
        json!({"dataset_name": "timed_trace", "dataset_path": "x", "backend": "openai-chat", "request_rate": 3}),
        json!({"self_timed": true, "dataset_name": "custom", "dataset_path": "x", "custom_output_len": -2}),
        json!({"ramp_up_strategy": "linear", "ramp_up_start_rps": 0, "ramp_up_end_rps": 8}),
        json!({"ramp_up_strategy": "linear", "ramp_up_start_rps": 9, "ramp_up_end_rps": 8}),
    ];
    insta::assert_snapshot!(found.map(problems).join("\n"), @r#"
    dataset_name sharegpt needs a file; name it with dataset_path
    dataset_path has no meaning for dataset_name random, which makes its prompts itself; remove it
    dataset_path needs a dataset_name; add one of sharegpt, custom, custom_image, custom_audio, spec_bench, speed_bench, burstgpt, timed_trace, sonnet, hf
    random_batch_size is 2; it must be 1 for this backend, which takes one prompt per request
    extra_body turns stream off, but tokens are timed as they arrive; remove stream from it
    dataset_name random-rerank needs a backend that ranks; set backend to vllm-rerank
    without a reranker the query is an input of its own; raise num_prompts and random_batch_size above 1, or remove no_reranker
    without a reranker the query is an input of its own; raise num_prompts and random_batch_size above 1, or remove no_reranker
    num_prompts 4 is less than prefix_repetition_num_prefixes 10; raise num_prompts, or lower prefix_repetition_num_prefixes
    dataset_name timed_trace sends token ids to be continued; set backend to openai
    a timed_trace has its own times and cannot be combined with request_rate or the ramp; remove these, or set no_self_timed
    custom_output_len is -2; it must be a whole number of at least 1, or -1
    self_timed needs times in the dataset; use dataset_name timed_trace, or remove it
    ramp_up_start_rps is 0; it must be a rate above 0
    ramp_up_start_rps is 9; it must be at most ramp_up_end_rps
    "#);
}
