//! Loads of several classes: the requests that they send, and the figures of each class.

use crate::scripted::{Answer, Server, chat, completion, job, run};
use serde_json::{Value, json};
use std::path::Path;
use vsweep::bench::measure;
use vsweep::bench::native::settings::NativeSettings;
use vsweep::plan::{Params, Warmup};

/// Answers with as many tokens as the request asks for.
fn as_asked(body: &Value) -> Answer {
    match body["max_tokens"].as_u64() {
        Some(tokens) => completion(tokens as usize, 5),
        None => chat(&["a".to_owned(), "b".to_owned()], 5),
    }
}

/// Returns head and body of every request of a run, including warm-ups. The run sends one request at a time.
async fn requests(params: &Value) -> Vec<(String, String)> {
    let server = Server::start(|seen| as_asked(&seen.body)).await;
    let mut job = job(&server.url, params.clone());
    job.warmup = Warmup::Requests(3);
    measure(&job).await.expect("measured");
    let address = server.url.trim_start_matches("http://").to_owned();
    let seen = server.seen.lock().expect("no panic");
    let requests = seen.iter().filter(|seen| !seen.body.is_null());
    // Each server has another port, so the address is replaced.
    requests
        .map(|seen| (seen.head.replace(&address, "HOST"), seen.body.to_string()))
        .collect()
}

fn rows(path: &Path) {
    let lines: String = (0..7).map(|i| format!("{{\"prompt\": \"row {i}\"}}\n")).collect();
    std::fs::write(path, lines).expect("written");
}

#[tokio::test]
async fn one_class_sends_the_bytes_of_a_load_without_classes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.jsonl");
    rows(&path);
    let usual =
        json!({"request_id_prefix": "r-", "max_concurrency": 1, "seed": 9, "random_output_len": 2, "num_prompts": 12});
    for own in [
        json!({"random_input_len": 30, "random_range_ratio": 0.5, "random_prefix_len": 4}),
        json!({"random_input_len": 30, "lora_modules": ["a", "b"], "num_prompts": null, "request_rate": 100, "duration": "120ms"}),
        json!({"dataset_name": "custom", "dataset_path": path, "custom_output_len": 2, "skip_tokenizer_init": true}),
        json!({"dataset_name": "prefix_repetition", "prefix_repetition_num_prefixes": 5, "prefix_repetition_output_len": 2}),
        json!({"backend": "openai-chat", "endpoint": "/v1/chat/completions", "skip_tokenizer_init": true}),
    ] {
        let mut plain = usual.clone();
        plain
            .as_object_mut()
            .expect("an object")
            .extend(own.as_object().expect("an object").clone());
        let mut mixed = plain.clone();
        mixed["mix"] = json!([{"name": "all", "share": 0.2}]);
        let (plain, mixed) = (requests(&plain).await, requests(&mixed).await);
        assert!(plain.len() > 10, "{} requests", plain.len());
        assert_eq!(plain, mixed);
    }
}

fn mixed() -> Value {
    json!({
        "num_prompts": 60, "max_concurrency": 4, "random_input_len": 6, "save_detailed": true, "seed": 2,
        "goodput": ["e2el:60000"],
        "mix": [
            {"name": "chat", "share": 70, "random_output_len": 2},
            {"name": "docs", "share": 30, "random_output_len": 5, "random_input_len": 40},
        ],
    })
}

async fn result(url: &str, params: Value) -> Params {
    run(url, params).await.expect("measured").result.to_values()
}

#[tokio::test]
async fn the_figures_of_classes_are_those_of_their_requests() {
    let server = Server::start(|seen| as_asked(&seen.body)).await;
    let result = result(&server.url, mixed()).await;
    let settings = NativeSettings::read(mixed().as_object().expect("an object")).expect("sound");
    let shares = settings.mix.expect("a mix").shares(2);
    let classes = result["classes"].as_array().expect("a list");
    let drawn: Vec<&str> = (0..60).map(|place| ["chat", "docs"][shares.at(place)]).collect();
    assert_eq!(*classes, drawn);
    let tokens: Vec<u64> = drawn.iter().map(|class| if *class == "chat" { 2 } else { 5 }).collect();
    assert_eq!(result["output_lens"], json!(tokens), "each request has its class");
    let count = |class: &str| drawn.iter().filter(|drawn| **drawn == class).count();
    let number = |key: &str| result[key].as_f64().unwrap_or_else(|| panic!("no {key}"));
    for (class, tokens) in [("chat", 2), ("docs", 5)] {
        assert_eq!(result[&format!("{class}.completed")], count(class));
        assert_eq!(result[&format!("{class}.total_output_tokens")], tokens * count(class));
        assert_eq!(number(&format!("{class}.share")), count(class) as f64 / 60.0);
        assert!(number(&format!("{class}.p99_ttft_ms")) > 0.0 && number(&format!("{class}.request_goodput")) > 0.0);
        let interval = &result["confidence_95"][format!("{class}.output_throughput")];
        assert!(interval[0].as_f64() < interval[1].as_f64(), "{interval}");
    }
    for rate in [
        "request_throughput",
        "output_throughput",
        "total_token_throughput",
        "request_goodput",
        "failed",
    ] {
        let sum = number(&format!("chat.{rate}")) + number(&format!("docs.{rate}"));
        assert!((sum - number(rate)).abs() < 1e-9 * sum.max(1.0), "{rate}: {sum}");
    }
    assert!(!result.contains_key("chat.duration"));
}

#[tokio::test]
async fn requests_that_fail_belong_to_their_class() {
    let server = Server::start(|seen| match seen.body["max_tokens"].as_u64() {
        Some(5) => crate::scripted::refusal("400 Bad Request", "no"),
        _ => completion(2, 5),
    })
    .await;
    let measured = run(&server.url, mixed()).await.expect("measured");
    let result = measured.result.to_values();
    let docs = result["classes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|class| **class == "docs")
        .count();
    assert_eq!(
        (&result["chat.failed"], &result["docs.failed"]),
        (&json!(0), &json!(docs))
    );
    assert_eq!(
        (&result["docs.completed"], &result["failed"]),
        (&json!(0), &json!(docs))
    );
    let latencies = |class: &str| {
        let of_class = result.keys().filter(|key| key.starts_with(&format!("{class}.")));
        of_class.filter(|key| key.ends_with("_ms")).count()
    };
    assert!(latencies("chat") > 0);
    assert_eq!(latencies("docs"), 0, "no request has a latency of 0");
}

#[tokio::test]
async fn a_mix_that_time_ends_is_drawn_on_the_way() {
    let server = Server::start(|seen| as_asked(&seen.body)).await;
    let mut params = mixed();
    params["num_prompts"] = Value::Null;
    params["duration"] = json!("300ms");
    let result = result(&server.url, params).await;
    let classes = result["classes"].as_array().expect("a list");
    assert!(classes.len() > 4, "{} were sent", classes.len());
    let tokens: Vec<u64> = classes
        .iter()
        .map(|class| if class == "chat" { 2 } else { 5 })
        .collect();
    assert_eq!(result["output_lens"], json!(tokens));
    let counted = mixed();
    let settings = NativeSettings::read(counted.as_object().expect("an object")).expect("sound");
    let shares = settings.mix.expect("a mix").shares(2);
    let drawn: Vec<&str> = (0..classes.len())
        .map(|place| ["chat", "docs"][shares.at(place)])
        .collect();
    assert_eq!(*classes, drawn, "time does not decide on classes");
}

#[tokio::test]
async fn answers_continue_in_the_classes_that_want_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.jsonl");
    rows(&path);
    let server = Server::start(|seen| as_asked(&seen.body)).await;
    let mut params = mixed();
    params["skip_tokenizer_init"] = json!(true);
    params["mix"][1] = json!({"name": "files", "share": 30, "dataset_name": "custom", "dataset_path": path,
        "custom_output_len": 5});
    let result = result(&server.url, params).await;
    assert_eq!(result["prompt_source"], "mixed");
    let seen = server.seen.lock().expect("no panic");
    assert_eq!(seen.len(), 60);
    for seen in seen.iter() {
        let is_text = seen.body["prompt"].is_string();
        assert_eq!(seen.body.get("ignore_eos").is_some(), !is_text, "{}", seen.body);
        assert_eq!(seen.body["max_tokens"], if is_text { 5 } else { 2 });
    }
}
