//! Golden values of `vllm bench sweep` 0.32 about servers (`tests/data/vectors/sweep.json`). vsweep gives the same, or docs/differences.md
//! lists the case with the reason, and then it really differs.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vsweep::plan::Reset;
use vsweep::server::Server;
use vsweep::server::address::Address;

fn vectors(kind: &str) -> Vec<(String, Vec<String>, Value)> {
    let text = include_str!("../data/vectors/sweep.json");
    let whole: Value = serde_json::from_str(text).expect("valid JSON");
    let all = whole["vectors"].as_array().expect("a list").clone();
    let words = |value: &Value| serde_json::from_value(value.clone()).expect("a command line");
    let id = |value: &Value| value["id"].as_str().expect("a name").to_owned();
    let of_kind = all.into_iter().filter(|vector| vector["kind"] == kind);
    let found = of_kind.map(|vector| (id(&vector), words(&vector["input"]), vector["expected"].clone()));
    let found: Vec<_> = found.collect();
    assert!(!found.is_empty(), "no vector of {kind}");
    found
}

/// Asserts that a case differs if and only if docs/differences.md lists it.
fn check(id: &str, ours: Option<&Value>, expected: &Value) {
    let listed = include_str!("../../docs/differences.md").contains(&format!("| `{id}` |"));
    let met = ours == expected.get("ok");
    assert_ne!(met, listed, "{id}: {ours:?} against {expected}, listed: {listed}");
}

#[test]
fn addresses_are_read_from_command_lines() {
    for (id, argv, expected) in vectors("server_address") {
        let ours = Address::read(&argv).ok().map(|address| Value::from(address.base_url()));
        check(&id, ours.as_ref(), &expected);
    }
}

/// vLLM derives from the program's name which routes exist. vsweep asks the server, so its requests are the same in every case.
#[tokio::test]
async fn caches_are_reset_through_three_routes() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let base_url = format!("http://{}", socket.local_addr().expect("bound"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let recorded = seen.clone();
    std::thread::spawn(move || {
        for stream in socket.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 4096];
            let length = stream.read(&mut request).expect("a request");
            let line = String::from_utf8_lossy(&request[..length])
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned();
            recorded.lock().expect("not poisoned").push(line);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).expect("answered");
        }
    });
    Server::attach(&base_url, Duration::from_secs(60), Duration::from_secs(60))
        .reset(&Reset::Caches)
        .await
        .expect("accepted");
    let seen = seen.lock().expect("not poisoned").clone();
    // vsweep also checks the health of the server.
    let resets = seen.iter().filter(|line| line.starts_with("POST "));
    let urls = resets.map(|line| {
        let path = line.trim_start_matches("POST ").trim_end_matches(" HTTP/1.1");
        Value::from(format!("http://localhost:8000{path}"))
    });
    let ours = Value::from_iter(urls);
    for (id, _, expected) in vectors("reset_caches") {
        check(&id, Some(&ours), &expected);
    }
}
