//! Answers compared with those that a real vLLM 0.32 gave (`tests/data/vllm`): the same keys in the same order, the same types, and the
//! same values where they depend on neither the model, the request's id nor the time.

use super::server::{Answer, Server, wait};
use serde_json::Value;
use std::collections::BTreeSet;

fn captured(name: &str) -> String {
    let path = format!("{}/tests/data/vllm/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns all keys in order, with the types of their values. Of a list only the first element is shown.
fn shape(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "text".into(),
        Value::Array(list) => format!("[{}]", list.first().map(shape).unwrap_or_default()),
        Value::Object(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{key}:{}", shape(value)))
                .collect();
            format!("{{{}}}", entries.join(","))
        }
    }
}

/// Returns the `data:` of each event in a stream.
fn events(body: &str) -> Vec<String> {
    assert!(body.ends_with("\n\n"), "a stream ends with an empty line");
    body.trim_end()
        .split("\n\n")
        .map(|event| event.strip_prefix("data: ").expect(event).to_string())
        .collect()
}

fn assert_same_shape(ours: &str, theirs: &str) {
    assert_eq!(
        shape(&json(ours)),
        shape(&json(theirs)),
        "\nours:   {ours}\ntheirs: {theirs}"
    );
}

/// Asserts that two streams have the same number of events, with the same shapes.
fn assert_same_stream(ours: &str, theirs: &str) {
    let (ours, theirs) = (events(ours), events(theirs));
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs).take(theirs.len() - 1) {
        assert_same_shape(ours, theirs);
    }
    assert_eq!(ours.last().map(String::as_str), Some("[DONE]"));
}

#[test]
fn answers_have_the_shape_of_a_real_servers() {
    let server = Server::start(&["--sim-zero", "--max-model-len", "2048"]);
    let completion = |extra: &str| format!(r#"{{"model":"demo-8b","prompt":"w0001 w0002 w0003"{extra}}}"#);
    let ask = |path: &str, body: &str| server.post(path, body).body;
    let stream = r#","stream":true,"stream_options":{"include_usage":true}"#;

    let ours = ask("/v1/completions", &completion(r#","max_tokens":8"#));
    assert_same_shape(&ours, &captured("completion_nostream.body"));
    let ours = ask("/v1/completions", &completion(&format!(r#","max_tokens":8{stream}"#)));
    assert_same_stream(&ours, &captured("completion_stream_usage.body"));
    let continuous =
        r#","max_tokens":4,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}"#;
    assert_same_stream(
        &ask("/v1/completions", &completion(continuous)),
        &captured("completion_stream_continuous_usage.body"),
    );
    let ids = format!(r#"{{"prompt":[1,5,9,20],"max_tokens":4,"return_token_ids":true{stream}}}"#);
    assert_same_stream(&ask("/v1/completions", &ids), &captured("completion_tokenids.body"));

    let chat = r#""messages":[{"role":"user","content":"hello"}],"max_tokens":6"#;
    let ours = ask("/v1/chat/completions", &format!("{{{chat}}}"));
    assert_same_shape(&ours, &captured("chat_nostream.body"));
    let ours = ask("/v1/chat/completions", &format!("{{{chat}{stream}}}"));
    assert_same_stream(&ours, &captured("chat_stream_usage.body"));

    assert_same_shape(&server.get("/v1/models").body, &captured("models.body"));
    assert_same_shape(
        &ask("/tokenize", r#"{"prompt":"w0001 w0002"}"#),
        &captured("tokenize.body"),
    );
    assert_eq!(
        server.get("/version").body,
        r#"{"version":"0.32.0","simulator":"vsweep"}"#
    );
    assert!(captured("version.body").contains(r#""version":"0.32.0""#));
}

#[test]
fn refusals_are_a_real_servers() {
    let server = Server::start(&["--sim-zero", "--max-model-len", "2048", "--served-model-name", "tiny"]);
    let cases = [
        (r#"{"model":"nope","prompt":"x"}"#, 404, "err_badmodel.body"),
        (
            r#"{"model":"tiny","prompt":"x","max_tokens":"abc"}"#,
            400,
            "err_badfield.body",
        ),
        (
            r#"{"model":"tiny","prompt":"x","max_tokens":40000}"#,
            400,
            "err_toolong.body",
        ),
        (r#"{"prompt":"#, 400, "err_badjson.body"),
    ];
    for (body, status, name) in cases {
        let answer = server.post("/v1/completions", body);
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (status, captured(name).trim_end()),
            "{body}"
        );
    }
}

#[test]
fn a_stream_is_one_event_a_token_and_carries_the_clients_id() {
    let server = Server::start(&["--sim-zero"]);
    let body = r#"{"prompt":["w0001","w0002 w0003"],"max_tokens":5,"n":2,"stream":true,"stream_options":{"include_usage":true}}"#;
    let answer = server
        .try_ask("POST", "/v1/completions", "x-request-id: mine\r\n", body)
        .expect("an answer");
    assert!(
        answer.head.contains("content-type: text/event-stream; charset=utf-8"),
        "{}",
        answer.head
    );
    assert!(answer.head.contains("server: uvicorn"));
    let events = events(&answer.body);
    assert_eq!(events.len(), 4 * 5 + 2);
    let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|event| json(event)).collect();
    assert!(chunks.iter().all(|chunk| chunk["id"] == "cmpl-mine"));
    let of_choice = |index: usize| {
        chunks
            .iter()
            .filter(move |chunk| chunk["choices"][0]["index"] == index)
            .count()
    };
    assert_eq!([0, 1, 2, 3].map(of_choice), [5; 4]);
    assert_eq!(chunks.last().expect("usage")["usage"]["completion_tokens"], 20);
    assert_eq!(chunks.last().expect("usage")["usage"]["prompt_tokens"], 3);
}

#[test]
fn a_stop_text_ends_an_answer() {
    let server = Server::start(&["--sim-zero"]);
    let ask = |stop: &str| {
        json(
            &server
                .post("/v1/completions", &format!(r#"{{"prompt":"x","max_tokens":20{stop}}}"#))
                .body,
        )
    };
    let whole = ask("");
    let third = whole["choices"][0]["text"]
        .as_str()
        .expect("text")
        .split_whitespace()
        .nth(2)
        .expect("20 words")
        .to_string();
    let stopped = ask(&format!(r#","stop":"{third}""#));
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    assert_eq!(stopped["usage"]["completion_tokens"], 3);
    let longer = ask(&format!(r#","stop":"{third}","min_tokens":10"#));
    assert!(longer["usage"]["completion_tokens"].as_u64() >= Some(10));
}

/// Value of the first sample whose line begins with `series`.
fn sample(page: &str, series: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with(series));
    number(line.unwrap_or_else(|| panic!("no {series}")))
}

/// Value at the end of a sample's line.
fn number(line: &str) -> f64 {
    line.rsplit(' ')
        .next()
        .and_then(|value| value.parse().ok())
        .expect("a number")
}

#[test]
fn metrics_have_vllms_names_and_add_up() {
    let server = Server::start(&["--sim-zero"]);
    for _ in 0..3 {
        server.post("/v1/completions", r#"{"prompt":"w0001 w0002","max_tokens":7}"#);
    }
    let page = server.get("/metrics").body;
    let value = |series: &str| sample(&page, series);
    assert_eq!(value("vllm:generation_tokens_total{"), 21.0);
    assert_eq!(value("vllm:prompt_tokens_total{"), 6.0);
    assert_eq!(value("vllm:time_to_first_token_seconds_count{"), 3.0);
    assert_eq!(value("vllm:inter_token_latency_seconds_count{"), 18.0);
    assert_eq!(value("vllm:iteration_tokens_total_sum{"), 6.0 + 18.0);
    assert_eq!(value("vllm:num_requests_running{"), 0.0);
    assert!(page.contains(r#"finished_reason="length",model_name="demo-8b"} 3.0"#));
    let buckets: Vec<f64> = page
        .lines()
        .filter(|line| line.starts_with("vllm:e2e_request_latency_seconds_bucket"))
        .map(number)
        .collect();
    assert!(buckets.is_sorted() && buckets.last() == Some(&3.0));
}

/// Returns name and labels of every series of a page, without the parts that depend on the machine: the labels of the cache's
/// configuration, and the model's name.
fn series(page: &str) -> BTreeSet<String> {
    let lines = page.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let without_values = |line: &str| {
        let (series, _) = line.rsplit_once(' ').expect("a sample has a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        if name == "vllm:cache_config_info" {
            return name.to_owned();
        }
        let labels = labels.trim_end_matches('}').split("\",").map(|label| {
            let (key, value) = label.split_once('=').unwrap_or((label, ""));
            match key == "model_name" {
                true => key.to_string(),
                false => format!("{key}={}", value.trim_matches('"')),
            }
        });
        format!("{name} {}", labels.collect::<Vec<_>>().join(" "))
    };
    lines.map(without_values).collect()
}

#[test]
fn each_series_is_one_of_a_real_server() {
    let server = Server::start(&["--sim-zero", "--max-model-len", "2048"]);
    server.post("/v1/completions", r#"{"prompt":"w0001 w0002","max_tokens":7}"#);
    let page = server.get("/metrics").body;
    let real: BTreeSet<String> = captured("metrics_names.txt").lines().map(str::to_owned).collect();
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let invented: Vec<&str> = types.filter(|metric| !real.contains(*metric)).collect();
    assert_eq!(invented, Vec::<&str>::new());
    let (ours, theirs) = (series(&page), series(&captured("metrics_after.body")));
    assert!(ours.len() > 100, "{} series", ours.len());
    assert_eq!(ours.difference(&theirs).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn small_routes_answer_as_a_real_server() {
    let server = Server::start(&["--sim-zero"]);
    let same = |ours: Answer, name: &str| assert_eq!(ours.body.trim_end(), captured(name).trim_end(), "{name}");
    same(server.get("/is_paused"), "is_paused.body");
    same(server.get("/is_sleeping"), "is_sleeping.body");
    same(server.post("/reset_prefix_cache", ""), "reset_prefix_cache.body");
    same(server.post("/sleep?level=1", ""), "sleep.body");
    same(server.post("/wake_up", ""), "wake_up.body");
}

#[test]
fn an_adapter_has_a_card_and_answers_under_its_name() {
    let server = Server::start(&[
        "--sim-zero",
        "--enable-lora",
        "--lora-modules",
        "sql=/adapters/sql",
        r#"{"name":"chat","path":"/adapters/chat"}"#,
    ]);
    let cards = json(&server.get("/v1/models").body);
    let card = |place: usize| {
        (
            cards["data"][place]["id"].clone(),
            cards["data"][place]["parent"].clone(),
        )
    };
    assert_eq!(card(0), ("demo-8b".into(), Value::Null));
    assert_eq!(card(1), ("sql".into(), "demo-8b".into()));
    assert_eq!(cards["data"][2]["root"], "/adapters/chat");
    let ask = |model: &str| {
        json(
            &server
                .post("/v1/completions", &format!(r#"{{"model":"{model}","prompt":"x"}}"#))
                .body,
        )
    };
    assert_eq!(ask("sql")["model"], "sql");
    assert_ne!(ask("sql")["choices"][0]["text"], ask("demo-8b")["choices"][0]["text"]);
    assert_eq!(ask("other")["error"]["code"], 404);
}

#[test]
fn guesses_ahead_come_in_one_chunk_and_are_counted() {
    let config = r#"{"method":"ngram","num_speculative_tokens":3}"#;
    let server = Server::start(&["--sim-zero", "--speculative-config", config, "--sim-acceptance", "0.8"]);
    let body = r#"{"prompt":"x","max_tokens":200,"stream":true,"stream_options":{"include_usage":true}}"#;
    let events = events(&server.post("/v1/completions", body).body);
    let usage = json(&events[events.len() - 2])["usage"]["completion_tokens"].clone();
    assert_eq!(usage, 200);
    assert!(events.len() < 120, "{} chunks", events.len());
    let words: usize = events[..events.len() - 2]
        .iter()
        .map(|event| {
            json(event)["choices"][0]["text"]
                .as_str()
                .map_or(0, |text| text.split_whitespace().count())
        })
        .sum();
    assert_eq!(words, 200);
    let page = server.get("/metrics").body;
    let value = |series: &str| sample(&page, series);
    let accepted = value("vllm:spec_decode_num_accepted_tokens_total");
    assert_eq!(
        accepted as usize,
        200 - (events.len() - 2),
        "a chunk is one token and its right guesses"
    );
    let by_place: f64 = (0..3)
        .map(|place| {
            value(&format!(
                "vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine=\"0\",model_name=\"demo-8b\",position=\"{place}\"}}"
            ))
        })
        .sum();
    assert_eq!(accepted, by_place);
}

#[test]
fn replicas_share_the_requests() {
    let server = Server::start(&["--sim-zero", "--data-parallel-size", "2"]);
    for _ in 0..4 {
        server.post("/v1/completions", r#"{"prompt":"x","max_tokens":4}"#);
    }
    let page = server.get("/metrics").body;
    for engine in [0, 1] {
        let line = format!("vllm:generation_tokens_total{{engine=\"{engine}\",model_name=\"demo-8b\"}} 8.0");
        assert!(page.contains(&line), "{page}");
    }
}

#[test]
fn usage_can_be_wrong_and_a_flag_ignored() {
    let server = Server::start(&[
        "--sim-zero",
        "--max-model-len",
        "64",
        "--sim-fault",
        "wrong-counts:1",
        "--sim-fault",
        "ignore-flag:max-model-len",
    ]);
    let answer = json(
        &server
            .post("/v1/completions", r#"{"prompt":"x","max_tokens":100}"#)
            .body,
    );
    assert_eq!(answer["usage"]["completion_tokens"], 126);
    assert_eq!(
        answer["choices"][0]["text"]
            .as_str()
            .map(|text| text.split_whitespace().count()),
        Some(100)
    );
}

#[test]
fn development_routes_do_what_they_say() {
    let server = Server::start(&["--sim-zero", "--sim-fault", "reset-refused:1"]);
    assert_eq!(server.post("/reset_prefix_cache", "").body, r#"{"success":false}"#);
    assert_eq!(server.post("/reset_prefix_cache", "").body, r#"{"success":true}"#);
    for path in [
        "/reset_mm_cache",
        "/reset_encoder_cache",
        "/start_profile",
        "/stop_profile",
    ] {
        assert_eq!((server.post(path, "").status, path), (200, path));
    }
    assert_eq!(
        server.post("/sleep?level=1", "").body,
        r#"{"status":"sleeping","level":1}"#
    );
    assert_eq!(server.get("/is_sleeping").body, r#"{"is_sleeping":true}"#);
    assert_eq!(server.post("/wake_up", "").body, r#"{"status":"awake","tags":null}"#);
    assert_eq!(server.get("/is_paused").body, r#"{"is_paused":false}"#);
    assert_eq!(server.get("/server_info").status, 200);
}

#[test]
fn a_held_server_queues_and_lets_go_together() {
    let server = Server::start(&["--sim-speed", "50"]);
    for (hold, go_on) in [("/sleep?level=0", "/wake_up"), ("/pause?mode=keep", "/resume")] {
        assert_eq!(server.post(hold, "").status, 200);
        assert_eq!(server.get("/is_sleeping").body, r#"{"is_sleeping":true}"#);
        assert_eq!(server.get("/is_paused").body, r#"{"is_paused":true}"#);
        let body = r#"{"prompt":"w0001","max_tokens":5,"stream":true}"#;
        let streams = [(); 3].map(|()| server.send("POST", "/v1/completions", "", body).expect("taken"));
        // As in vLLM, gauges change with steps, and a held server makes none.
        assert!(
            server
                .get("/metrics")
                .body
                .contains("num_requests_waiting{engine=\"0\",model_name=\"demo-8b\"} 0.0")
        );
        assert_eq!(server.post(go_on, "").status, 200);
        for mut stream in streams {
            let mut answer = String::new();
            std::io::Read::read_to_string(&mut stream, &mut answer).expect("an answer");
            assert!(answer.contains("[DONE]"), "{answer}");
        }
        assert_eq!(server.get("/is_sleeping").body, r#"{"is_sleeping":false}"#);
    }
}

#[test]
fn a_server_that_lets_requests_finish_makes_later_ones_wait() {
    let server = Server::start(&[]);
    let stream = |tokens: usize| {
        let body = format!(r#"{{"prompt":"w0001","max_tokens":{tokens},"stream":true}}"#);
        server.send("POST", "/v1/completions", "", &body).expect("taken")
    };
    let read = |mut stream: std::net::TcpStream| {
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).expect("an answer");
        answer
    };
    let mut earlier = stream(200);
    std::io::Read::read_exact(&mut earlier, &mut [0; 1]).expect("it has begun");
    let pause = server.send("POST", "/pause?mode=wait", "", "").expect("taken");
    wait("the pause", || server.get("/is_paused").body.contains("true"));
    let later = stream(5);
    assert!(read(pause).contains("paused"));
    assert!(read(earlier).contains("[DONE]"));
    let page = server.get("/metrics").body;
    assert_eq!(sample(&page, "vllm:generation_tokens_total{"), 200.0);
    server.post("/resume", "");
    assert!(read(later).contains("[DONE]"));
}

#[test]
fn a_client_that_leaves_ends_only_its_own_request() {
    let server = Server::start(&[]);
    let [leaving, mut staying] = [(); 2].map(|()| {
        let body = r#"{"prompt":"w0001","max_tokens":100,"stream":true}"#;
        let mut stream = server
            .send("POST", "/v1/completions", "x-request-id: same\r\n", body)
            .expect("taken");
        std::io::Read::read_exact(&mut stream, &mut [0; 1]).expect("it has begun");
        stream
    });
    drop(leaving);
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut staying, &mut answer).expect("an answer");
    assert!(answer.contains(r#""finish_reason":"length""#), "{answer}");
}

#[test]
fn as_many_alternatives_are_listed_as_were_asked_for() {
    let server = Server::start(&["--sim-zero"]);
    for asked in [0, 1, 20] {
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"x"}}],"max_tokens":1,"logprobs":true,"top_logprobs":{asked}}}"#
        );
        let answer = json(&server.post("/v1/chat/completions", &body).body);
        let listed = &answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"];
        assert_eq!(listed.as_array().map(Vec::len), Some(asked));
    }
}

#[test]
fn a_long_answer_may_repeat_one_token() {
    let server = Server::start(&[
        "--sim-zero",
        "--max-model-len",
        "20000",
        "--sim-fault",
        "repeated-tokens:1",
    ]);
    let answer = json(
        &server
            .post("/v1/completions", r#"{"prompt":"x","max_tokens":12000}"#)
            .body,
    );
    let text = answer["choices"][0]["text"].as_str().expect("text");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words.len(), 12_000);
    assert!(words.iter().all(|word| *word == words[0]));
}

#[test]
fn sleep_ends_what_runs_unless_told_to_keep_it() {
    let server = Server::start(&[]);
    let body = r#"{"prompt":"w0001","max_tokens":100000,"stream":true}"#;
    let mut stream = server.send("POST", "/v1/completions", "", body).expect("taken");
    let mut first = [0; 1];
    std::io::Read::read_exact(&mut stream, &mut first).expect("it has begun");
    assert_eq!(server.post("/sleep?level=0", "").status, 200);
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).expect("it ends");
    assert!(answer.contains("\"finish_reason\":\"abort\""), "{answer}");
}

#[test]
fn text_and_tokens_translate_into_each_other() {
    let server = Server::start(&["--sim-zero"]);
    let tokens = json(&server.post("/tokenize", r#"{"prompt":"w0003 and more"}"#).body)["tokens"].to_string();
    let text = server.post("/detokenize", &format!(r#"{{"tokens":{tokens}}}"#)).body;
    assert_eq!(text, r#"{"prompt":"w0003 and more"}"#);
}
