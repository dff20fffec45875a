//! What the native benchmark asks beside its load: the server's tokenizer, its profiler and its counters.

mod scripted;

use scripted::{Server, completion, refusal};
use serde_json::{Value, json};
use vsweep::bench::{Job, measure};

fn job(url: &str, params: Value) -> Job {
    Job {
        served_model: "served".to_owned(),
        ..scripted::job(url, params)
    }
}

fn path(seen: &scripted::Seen) -> &str {
    seen.head.split(' ').nth(1).expect("a path")
}

/// A tokenizer of 100 words; writes it and returns its path.
fn tokenizer(folder: &std::path::Path) -> String {
    let words: serde_json::Map<String, Value> = (0..100).map(|i| (format!("w{i}"), json!(i))).collect();
    let file = json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w99"},
    });
    let path = folder.join("tokenizer.json");
    std::fs::write(&path, file.to_string()).expect("written");
    path.to_str().expect("plain").to_owned()
}

#[tokio::test]
async fn prompts_are_cut_to_their_length_by_the_servers_count() {
    let server = Server::start(|seen| match path(seen) {
        "/tokenize" => {
            // Every word that has two digits is two tokens here.
            let text = seen.body["prompt"].as_str().expect("a text");
            let tokens: Vec<usize> = text
                .split_whitespace()
                .flat_map(|word| vec![7; word.len() - 1])
                .collect();
            refusal("200 OK", &json!({"count": tokens.len(), "tokens": tokens}).to_string())
        }
        "/detokenize" => {
            let count = seen.body["tokens"].as_array().expect("ids").len();
            refusal("200 OK", &json!({"prompt": format!("cut to {count}")}).to_string())
        }
        _ => completion(2, 6),
    })
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    let params = json!({
        "num_prompts": 4, "random_input_len": 6, "tokenizer": tokenizer(folder.path()), "seed": 1,
        "header": ["Authorization=Bearer secret"],
    });
    let result = measure(&job(&server.url, params)).await.expect("measured").result;
    assert_eq!(
        (&result["completed"], &result["prompt_alignment"]),
        (&json!(4), &json!("4 prompts cut"))
    );
    let seen = server.seen.lock().expect("no panic");
    let asked = seen.iter().filter(|seen| path(seen).contains("tokenize"));
    for asked in asked {
        assert_eq!(asked.body["model"], "served");
        assert!(asked.head.contains("Authorization: Bearer secret"));
    }
    let sent: Vec<&Value> = seen
        .iter()
        .filter(|seen| path(seen) == "/v1/completions")
        .map(|seen| &seen.body["prompt"])
        .collect();
    assert_eq!(sent, [&json!("cut to 6"); 4]);
}

#[tokio::test]
async fn counters_before_and_after_and_the_profiler_frame_the_run() {
    let server = Server::start(|seen| match path(seen) {
        "/start_profile" | "/stop_profile" => refusal("200 OK", ""),
        _ => completion(2, 6),
    })
    .await;
    let counters = |drafts: u64, hits: u64| {
        format!(
            "vllm:spec_decode_num_drafts_total {drafts}\nvllm:spec_decode_num_draft_tokens_total {}\n\
             vllm:spec_decode_num_accepted_tokens_total {drafts}\n\
             vllm:prefix_cache_queries_total {hits}\nvllm:prefix_cache_hits_total {hits}\n",
            3 * drafts
        )
    };
    server
        .metrics
        .lock()
        .expect("no panic")
        .extend([counters(10, 5), counters(20, 105)]);
    let params = json!({"num_prompts": 3, "random_input_len": 6, "profile": true});
    let job = job(&server.url, params);
    let result = measure(&job).await.expect("measured").result;
    assert_eq!(result["spec_decode_acceptance_length"], 2.0);
    assert_eq!(result["prefix_cache_hit_rate"], 1.0);
    let warning = result["warnings"][0].as_str().expect("a warning");
    assert!(warning.starts_with("100 % of the prompt tokens came from the server's prefix cache"));
    let text = vsweep::bench::console::console(&result);
    assert!(text.contains(
        "---------------Speculative Decoding---------------\nAcceptance rate (%):                     33.33"
    ));
    let seen = server.seen.lock().expect("no panic");
    let paths: Vec<&str> = seen.iter().map(path).collect();
    assert_eq!((paths[0], paths[paths.len() - 1]), ("/start_profile", "/stop_profile"));
    assert!(job.counters.take_notes().contains(&"Profiler: start done".to_owned()));
}

#[tokio::test]
async fn tokens_packed_into_events_are_told_apart_where_the_server_says_so() {
    let server = Server::start(|_| {
        let event = |tokens: u64, finish: Value| {
            scripted::chunk(
                &json!({
                    "choices": [{"text": "a", "finish_reason": finish}],
                    "usage": {"prompt_tokens": 6, "completion_tokens": tokens},
                })
                .to_string(),
            )
        };
        let pieces = [event(1, Value::Null), event(4, Value::Null), event(6, json!("length"))];
        let head = [scripted::STREAM_HEAD.to_vec()].into_iter();
        scripted::Answer::Bytes(head.chain(pieces).chain([scripted::LAST_CHUNK.to_vec()]).collect())
    })
    .await;
    let params = json!({
        "num_prompts": 1, "random_input_len": 6, "extra_body": {"stream_options": {"continuous_usage_stats": true}},
    });
    let result = measure(&job(&server.url, params)).await.expect("measured").result;
    assert_eq!(result["total_output_tokens"], 6);
    let number = |key: &str| result[key].as_f64().expect("a number");
    // Two gaps brought five tokens.
    let (by_event, by_token) = (number("mean_itl_ms") * 2.0, number("mean_itl_per_token_ms") * 5.0);
    assert!((by_event - by_token).abs() < 1e-6, "{by_event} and {by_token}");
}
