//! Requests of the native benchmark outside its load: the server's tokenizer, its profiler and its counters.

use crate::scripted::{self, Server, completion, refusal};
use serde_json::{Value, json};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use vsweep::bench::{Job, measure};

fn job(url: &str, params: Value) -> Job {
    Job {
        served_model: "served".to_owned(),
        ..scripted::job(url, params)
    }
}

fn path(seen: &scripted::HttpRequest) -> &str {
    seen.head.split(' ').nth(1).expect("a path")
}

/// Writes a tokenizer of 100 words, and returns its path.
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
    let server = Server::with_tokenizer(|seen| match path(seen) {
        "/tokenize" => {
            // Here a word with two digits is two tokens, a word with one is one.
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
    let result = measure(&job(&server.url, params))
        .await
        .expect("measured")
        .result
        .to_values();
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
async fn lists_of_texts_are_not_sent_to_the_servers_tokenizer() {
    let embedded = json!({"data": [], "usage": {"prompt_tokens": 12}}).to_string();
    let server = Server::with_tokenizer(move |_| refusal("200 OK", &embedded)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let params = json!({
        "backend": "openai-embeddings", "num_prompts": 4, "random_input_len": 6, "random_batch_size": 2,
        "tokenizer": tokenizer(folder.path()), "seed": 1,
    });
    let result = measure(&job(&server.url, params)).await.expect("measured").result;
    assert_eq!(result.to_values()["prompt_alignment"], "not checked");
    let seen = server.seen.lock().expect("no panic");
    assert_eq!(seen.len(), 2, "two requests of two texts");
    assert!(
        seen.iter()
            .all(|seen| path(seen) == "/v1/embeddings" && seen.body["input"].is_array())
    );
}

/// Answers like a server whose tokenizer finds `tokens(word)` tokens in a word, adds a special token to each prompt if asked to, and
/// decodes the token `id` as `piece(id)`.
fn with_tokenizer(
    seen: &scripted::HttpRequest,
    tokens: fn(&str) -> usize,
    piece: fn(u64) -> String,
) -> scripted::Answer {
    match path(seen) {
        "/tokenize" => {
            let text = seen.body["prompt"].as_str().expect("a text");
            let special = usize::from(seen.body["add_special_tokens"] == true);
            let count = special + text.split_whitespace().map(tokens).sum::<usize>();
            refusal("200 OK", &json!({"count": count, "tokens": vec![7; count]}).to_string())
        }
        "/detokenize" => {
            let id = seen.body["tokens"][0].as_u64().expect("an id");
            refusal("200 OK", &json!({"prompt": piece(id)}).to_string())
        }
        _ => scripted::chat(&["a".to_owned(), "b".to_owned()], 9),
    }
}

fn text_sent(seen: &scripted::HttpRequest) -> Option<String> {
    let content = &seen.body["messages"][0]["content"][0]["text"];
    content.as_str().map(str::to_owned)
}

#[tokio::test]
async fn without_a_tokenizer_chat_uses_words_that_the_server_counts_as_one_token() {
    let tokens: [fn(&str) -> usize; 2] = [
        |word| 1 + word.len() / 4,
        // No common word is a single token, but some entries of the server's vocabulary are.
        |word| if word.starts_with("piece") { 1 } else { word.len() + 1 },
    ];
    for tokens in tokens {
        let server = Server::with_tokenizer(move |seen| with_tokenizer(seen, tokens, |id| format!(" piece{id}"))).await;
        let params = json!({
            "backend": "openai-chat", "num_prompts": 300, "random_input_len": 12, "random_range_ratio": 0.5,
            "save_detailed": true,
        });
        let result = measure(&job(&server.url, params))
            .await
            .expect("measured")
            .result
            .to_values();
        assert_eq!(result["prompt_source"], "server_words");
        assert_eq!(result["prompt_tokens_counted_by"], "server");
        assert_eq!(result["prompt_alignment"], "equal");
        let seen = server.seen.lock().expect("no panic");
        let sent: Vec<String> = seen.iter().filter_map(text_sent).collect();
        let lengths: std::collections::BTreeSet<usize> = sent
            .iter()
            .map(|text| text.split_whitespace().map(tokens).sum())
            .collect();
        // The length is 12: one special token, and the rest varies from half to one and a half times 11. The special token is not counted
        // here.
        assert!(
            lengths.iter().all(|length| (5..=17).contains(length)) && lengths.len() > 8,
            "{lengths:?}"
        );
        let different: std::collections::HashSet<&String> = sent.iter().collect();
        assert!(different.len() > 290, "{} different prompts", different.len());
        let asked = seen.iter().filter(|seen| path(seen) == "/tokenize").count();
        assert!(asked < 200, "{asked} questions");
    }
}

#[tokio::test]
async fn a_server_that_is_not_up_yet_is_awaited_before_its_tokenizer_is_asked() {
    let asked = AtomicUsize::new(0);
    let server = Server::with_tokenizer(move |seen| match asked.fetch_add(1, SeqCst) {
        0 => refusal("503 Service Unavailable", "starting"),
        _ => with_tokenizer(seen, |_| 1, |_| "?".to_owned()),
    })
    .await;
    let params = json!({
        "backend": "openai-chat", "num_prompts": 3, "random_input_len": 12, "ready_check_timeout_sec": 60,
    });
    let result = measure(&job(&server.url, params)).await.expect("measured").result;
    assert_eq!(result.values["prompt_tokens_counted_by"], "server");
}

#[tokio::test]
async fn without_one_token_words_lengths_are_estimates_and_said_to_be() {
    let server = Server::with_tokenizer(|seen| with_tokenizer(seen, |word| word.len() + 1, |_| "?".to_owned())).await;
    let params = json!({"backend": "openai-chat", "num_prompts": 3, "random_input_len": 12});
    let result = measure(&job(&server.url, params))
        .await
        .expect("measured")
        .result
        .to_values();
    assert_eq!(
        (&result["prompt_source"], &result["prompt_tokens_counted_by"]),
        (&json!("words"), &json!("estimate"))
    );
}

#[tokio::test]
async fn without_a_tokenizer_the_server_counts_recorded_texts() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("talks.json");
    let turns = |question: &str, answer: &str| json!({"conversations": [{"value": question}, {"value": answer}]});
    // By its bytes the first text would be too short. The server counts fewer tokens in the second's answer than its bytes suggest, so the
    // second is left out.
    let talks = json!([
        turns("a b c d e", "v w x y z"),
        turns("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "a")
    ]);
    std::fs::write(&path, talks.to_string()).expect("written");
    let params = json!({
        "dataset_name": "sharegpt", "dataset_path": path, "num_prompts": 5, "no_oversample": true,
    });
    let server = Server::with_tokenizer(|seen| match self::path(seen) {
        "/v1/completions" => completion(2, 6),
        _ => with_tokenizer(seen, |_| 1, |_| String::new()),
    })
    .await;
    let result = measure(&job(&server.url, params.clone()))
        .await
        .expect("measured")
        .result
        .to_values();
    assert_eq!(
        (&result["completed"], &result["prompt_tokens_counted_by"]),
        (&json!(1), &json!("server"))
    );
    let seen = server.seen.lock().expect("no panic");
    let sent: Vec<&scripted::HttpRequest> = seen
        .iter()
        .filter(|seen| self::path(seen) == "/v1/completions")
        .collect();
    assert_eq!(
        (&sent[0].body["prompt"], &sent[0].body["max_tokens"]),
        (&json!("a b c d e"), &json!(6))
    );
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
    let result = measure(&job).await.expect("measured").result.to_values();
    assert_eq!(result["spec_decode_acceptance_length"], 2.0);
    assert_eq!(result["prefix_cache_hit_rate"], 1.0);
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("prefix cache hits: 100 % of the prompt tokens came from the server's prefix cache"));
    let text = vsweep::bench::result::console::console(&result);
    assert!(text.contains(
        "---------------Speculative Decoding---------------\nAcceptance rate (%):                     33.33"
    ));
    let seen = server.seen.lock().expect("no panic");
    let paths: Vec<&str> = seen.iter().map(path).collect();
    assert_eq!((paths[0], paths[paths.len() - 1]), ("/start_profile", "/stop_profile"));
    let mut notes = job.counters.take_notes();
    notes.retain(|note| note.to_lowercase().contains("profiler"));
    let lines = [
        "Starting profiler...",
        "Profiler started",
        "Stopping profiler...",
        "Profiler stopped",
    ];
    assert_eq!(notes, lines);
}

#[tokio::test]
async fn counters_that_were_reset_are_left_out() {
    let server = Server::start(|_| completion(2, 6)).await;
    let counters = |hits: u64| {
        format!(
            "vllm:prefix_cache_queries_total {hits}\nvllm:prefix_cache_hits_total {}\n",
            hits / 2
        )
    };
    server
        .metrics
        .lock()
        .expect("no panic")
        .extend([counters(100), counters(80)]);
    let params = json!({"num_prompts": 3, "random_input_len": 6});
    let result = measure(&job(&server.url, params)).await.expect("measured").result;
    assert!(!result.values.contains_key("prefix_cache_hit_rate"));
    let warnings = result.values["warnings"].to_string();
    assert!(warnings.contains("counters were reset during the run"), "{warnings}");
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
    let result = measure(&job(&server.url, params))
        .await
        .expect("measured")
        .result
        .to_values();
    assert_eq!(result["total_output_tokens"], 6);
    let number = |key: &str| result[key].as_f64().expect("a number");
    // Two gaps brought five tokens.
    let (by_event, by_token) = (number("mean_itl_ms") * 2.0, number("mean_itl_per_token_ms") * 5.0);
    assert!((by_event - by_token).abs() < 1e-6, "{by_event} and {by_token}");
}

#[tokio::test]
async fn answers_without_end_beside_the_load_are_cut_and_told() {
    let server = Server::with_tokenizer(|seen| match path(seen) {
        "/tokenize" => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n".to_vec();
            scripted::Answer::Forever(head, vec![b' '; 1 << 20])
        }
        _ => scripted::chat(&["a".to_owned(), "b".to_owned()], 9),
    })
    .await;
    let params = json!({"backend": "openai-chat", "num_prompts": 2, "random_input_len": 12});
    let result = measure(&job(&server.url, params)).await.expect("measured").result;
    assert_eq!(
        result.values["warnings"][0],
        "/tokenize could not be read: the answer is longer than 8 MiB; lengths of texts are estimates"
    );
}
