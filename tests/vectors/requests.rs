//! The recorded exchanges of `vllm bench serve`'s request functions (`tests/data/vectors/bench.json`): the request for each backend, byte
//! for byte as JSON, and the figures read from the answer.

use crate::scripted::{self, Answer, LAST_CHUNK, Server};
use serde_json::{Map, Value, json};
use std::time::Duration;
use vsweep::load::{Backend, BodyOptions, Content, Generator, Load, RequestOptions, ServerAddress};
use vsweep::metrics::Sample;

/// The inputs of one vector's request, which are not in its record.
struct RequestInput {
    backend: &'static str,
    prompt: Value,
    media: Option<Value>,
    messages: Option<Value>,
    index: usize,
    id: Option<&'static str>,
    options: fn(&mut RequestOptions),
}

fn asked(name: &str) -> RequestInput {
    let backend = match name.split('_').next().expect("a word") {
        "chat" => "openai-chat",
        "responses" => "openai-responses",
        "infinity" => "infinity-embeddings",
        "pooling" => "vllm-pooling",
        "embeddings" => match name {
            "embeddings_clip" => "openai-embeddings-clip",
            "embeddings_vlm2vec_odd" => "openai-embeddings-vlm2vec",
            _ => "openai-embeddings",
        },
        _ => "openai",
    };
    let mut asked = RequestInput {
        backend,
        prompt: json!("hello"),
        media: None,
        messages: None,
        index: 0,
        id: None,
        options: |_| {},
    };
    let image = |url: &str| Some(json!({"type": "image_url", "image_url": {"url": url}}));
    match name {
        "completions_ignore_eos_extra_body_headers_reqid_logprobs" => {
            asked.id = Some("bench-0");
            asked.options = |options| {
                options.headers = vec![("x-a".to_owned(), "1".to_owned())];
                options.body.model = "served".to_owned();
                options.body.ignore_eos = true;
                options.body.logprobs = Some(2);
                options.body.extra.insert("temperature".to_owned(), json!(0.0));
                options.body.extra.insert("max_tokens".to_owned(), json!(5));
            };
        }
        "chat_mm_dict" => asked.media = image("u1"),
        "chat_prompt_is_content_parts" => asked.prompt = json!([{"type": "text", "text": "hey"}]),
        "chat_explicit_messages" => asked.messages = Some(json!([{"role": "system", "content": "s"}])),
        "embeddings_bytes" => {
            asked.options = |options| {
                options.body.extra.insert("encoding_format".to_owned(), json!("bytes"));
            };
        }
        "embeddings_clip" => asked.media = image("u"),
        "embeddings_vlm2vec_odd" => {
            (asked.media, asked.index, asked.id) = (image("u"), 5, Some("bench-5"));
        }
        "pooling" => {
            asked.options = |options| {
                options.body.extra.insert("task".to_owned(), json!("embed"));
            };
        }
        _ => {}
    }
    asked
}

/// The recorded answer as HTTP, with one chunk for each piece.
fn answer(response: &Value, head: &str) -> Answer {
    let status = format!(
        "{} {}",
        response["status"],
        response["reason"].as_str().expect("a text")
    );
    let mut pieces = vec![format!("HTTP/1.1 {status}\r\n{head}transfer-encoding: chunked\r\n\r\n").into_bytes()];
    for piece in response["chunks"].as_array().expect("pieces") {
        let text = piece[1].as_str().expect("a text");
        pieces.push(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes());
    }
    pieces.push(LAST_CHUNK.to_vec());
    Answer::Bytes(pieces)
}

async fn perform(name: &str, vector: &Value) -> (scripted::HttpRequest, Sample) {
    // The record lacks the headers of the answer. The client read 8 tokens from this one.
    let head = if name == "embeddings_bytes" {
        "metadata: {\"usage\":{\"prompt_tokens\":8}}\r\n"
    } else {
        ""
    };
    let answer = answer(&vector["response"], head);
    let server = Server::start(move |_| answer.clone()).await;
    let target = ServerAddress::parse(&server.url).expect("an address");
    let asked = asked(name);
    let backend = Backend::named(asked.backend).expect("a backend");
    let url = vector["request"]["url"].as_str().expect("a URL");
    let mut options = RequestOptions {
        host: target.authority(),
        path: url.trim_start_matches("http://h").to_owned(),
        headers: vec![],
        body: BodyOptions {
            backend,
            model: "m".to_owned(),
            ignore_eos: false,
            logprobs: None,
            extra: Map::new(),
        },
    };
    (asked.options)(&mut options);
    let request = options.request(&Content {
        prompt: Some(&asked.prompt),
        media: asked.media.as_ref(),
        messages: asked.messages.as_ref(),
        prompt_len: 7,
        output_len: 16,
        id: asked.id,
        index: asked.index,
        ..Content::default()
    });
    let load = Load {
        requests: vec![request.expect("writable")].into(),
        due: vec![0],
        reply: options.reply(),
        request_timeout: Duration::from_secs(60),
        silence_timeout: Duration::from_secs(60),
        keep_texts: true,
        ..Load::default()
    };
    let addresses = target.resolve().expect("numbers");
    let drive = move || Generator::new(addresses, None).expect("a loop").drive(&load);
    let outcome = tokio::task::spawn_blocking(drive)
        .await
        .expect("no panic")
        .expect("driven");
    let seen = server.seen.lock().expect("no panic")[0].clone();
    (seen, outcome.samples.iter().next().expect("one request"))
}

/// Returns vsweep's judgement of a request where it differs from vLLM's on purpose; docs/differences-bench.md says why.
fn judged_otherwise(name: &str) -> Option<bool> {
    match name {
        // An error in the stream, or a stream that breaks off, is a failure in vsweep.
        "completions_error_midstream_counts_as_success" | "completions_truncated_no_done" => Some(false),
        "chat_prompt_is_content_parts" | "chat_explicit_messages" | "chat_url_suffix_only_checks_end" => Some(false),
        // vsweep reads every legal form of SSE.
        "completions_no_space" => Some(true),
        _ => None,
    }
}

#[tokio::test]
async fn requests_and_records_are_those_of_vllm() {
    let text = include_str!("../data/vectors/bench.json");
    let vectors: Value = serde_json::from_str(text).expect("JSON");
    for (name, vector) in vectors["request_functions"].as_object().expect("vectors") {
        if name == "completions_wrong_url_suffix" {
            continue; // refused before anything is sent: see the test of wrong parameters
        }
        let (seen, sample) = perform(name, vector).await;
        let request = &vector["request"];
        assert_eq!(seen.body.to_string(), request["json"].to_string(), "{name}");
        for (header, value) in request["headers"].as_object().expect("headers") {
            let line = format!("{header}: {}", value.as_str().expect("a text"));
            assert!(
                seen.head.lines().any(|seen| seen == line),
                "{name}: no {line} in {}",
                seen.head
            );
        }
        let output = &vector["output"];
        let expected = judged_otherwise(name).unwrap_or(output["success"] == true);
        assert_eq!(sample.is_ok(), expected, "{name}: {:?}", sample.error);
        // Failed requests are compared too, except for the one that only vsweep can read.
        if sample.is_ok() && output["success"] != true {
            continue;
        }
        let has_begun = output["ttft"].as_f64().expect("seconds") > 0.0;
        assert_eq!(!sample.events.is_empty(), has_begun, "{name}");
        // For a failed embedding vLLM does not keep the length of the prompt. Without usage it counts 0 tokens.
        if !matches!(name.as_str(), "embeddings_500" | "embeddings_no_usage") {
            assert_eq!(sample.prompt_len, output["prompt_len"], "{name}");
        }
        assert_eq!(sample.sequences, output["num_input_sequences"], "{name}");
        // The event with the role and the empty event at the end, which are not tokens since 0.33.
        let without_token = if name == "chat_normal_with_role_chunk" { 2 } else { 0 };
        assert_eq!(
            sample.gaps().count() + without_token,
            output["itl"].as_array().expect("a list").len(),
            "{name}"
        );
        assert_eq!(sample.output_tokens.unwrap_or(0), output["output_tokens"], "{name}");
        assert_eq!(sample.text.as_deref(), output["generated_text"].as_str(), "{name}");
    }
}

#[test]
fn a_rerank_has_a_query_and_documents_and_nothing_else() {
    let body = BodyOptions {
        backend: Backend::Rerank,
        model: "m".to_owned(),
        ignore_eos: true,
        logprobs: None,
        extra: Map::from_iter([("temperature".to_owned(), json!(1))]),
    };
    let prompt = json!(["q", "a", "b"]);
    let content = Content {
        prompt: Some(&prompt),
        ..Content::default()
    };
    let expected = json!({"model": "m", "query": "q", "documents": ["a", "b"], "truncate_prompt_tokens": -1});
    assert_eq!(Value::Object(body.fields(&content)).to_string(), expected.to_string());
}
