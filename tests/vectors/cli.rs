//! Whole runs of `vllm bench serve` (`tests/data/vectors/bench.json`, `end_to_end`): with the same command lines, vsweep prints the same
//! lines, writes files with the same names and keys, and sends requests to the same paths.

use crate::scripted::{self, Answer, Server, completion, refusal};
use serde_json::{Value, json};
use std::path::Path;

/// Runs that are compared in every line and key. README.md lists the others.
const RUNS: [&str; 8] = [
    "embeddings",
    "random_save_result",
    "random_save_detailed_concurrency_rate_goodput",
    "ramp_up",
    "probe",
    "append_twice_a",
    "sampling_pooling",
    "lora_random_seed0",
];

fn vectors() -> Value {
    serde_json::from_str(include_str!("../data/vectors/bench.json")).expect("JSON")
}

async fn bench(url: &str, argv: &[&str], folder: &Path) -> std::process::Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_vsweep"));
    command
        .args(["bench", "--base-url", url])
        .args(argv)
        .current_dir(folder)
        .env_remove("OPENAI_API_KEY");
    scripted::output(&mut command).await
}

fn embedding() -> Answer {
    refusal("200 OK", r#"{"data":[],"usage":{"prompt_tokens":8,"total_tokens":8}}"#)
}

async fn server() -> Server {
    Server::start(|seen| match seen.head.contains("/embeddings") {
        true => embedding(),
        false => completion(3, 11),
    })
    .await
}

/// Returns a line with `N` for a figure that differs from run to run. `None` for vLLM's advice to install a plotter.
fn shape_of(line: &str) -> Option<String> {
    if line.starts_with("tip:") {
        return None;
    }
    let (label, value) = line.split_at(line.len().min(41));
    let is_measured = match label.trim_end() {
        "Request rate configured (RPS):" => false,
        label if label.starts_with("Probe requests") => true,
        _ => value.contains('.') && value.trim().parse::<f64>().is_ok(),
    };
    Some(format!("{label}{}\n", if is_measured { "N" } else { value }))
}

fn shape(text: &str) -> String {
    text.lines().filter_map(shape_of).collect()
}

/// Returns the output without the block that only vsweep prints, after those of vLLM.
fn without_own_block(text: &str) -> String {
    let (theirs, own) = text
        .split_once("=========== How Sure These Figures Are ===========\n")
        .expect("our block");
    let (_, rest) = own.split_once(&("=".repeat(50) + "\n")).expect("its end");
    theirs.to_owned() + rest
}

fn names(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = files
        .map(|file| file.expect("readable").file_name().into_string().expect("plain"))
        .map(|name| {
            match name
                .len()
                .checked_sub("-20261122-200600.json".len())
                .filter(|at| name[*at..].starts_with("-20"))
            {
                Some(date) => format!("{}-<DT>.json", &name[..date]),
                None => name,
            }
        })
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn runs_look_like_those_of_vllm() {
    let vectors = vectors();
    for name in RUNS {
        let vector = &vectors["end_to_end"][name];
        let argv: Vec<&str> = vector["argv"]
            .as_array()
            .expect("words")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let (server, folder) = (server().await, tempfile::tempdir().expect("a folder"));
        let output = bench(&server.url, &argv, folder.path()).await;
        assert!(
            output.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let (found, expected) = (
            String::from_utf8_lossy(&output.stdout),
            vector["stdout"].as_str().expect("a text"),
        );
        assert_eq!(shape(&without_own_block(&found)), shape(expected), "{name}");

        let expected = vector["file_names"].as_array().expect("names");
        assert_eq!(json!(names(folder.path())), json!(expected), "{name}");
        let mut files = std::fs::read_dir(folder.path()).expect("a folder");
        if let Some(path) = files.next().map(|file| file.expect("readable").path()) {
            let written: Value = serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("JSON");
            let keys: Vec<Value> = written
                .as_object()
                .expect("an object")
                .keys()
                .map(|key| json!(key))
                .collect();
            let expected = vector["returned_keys"].as_array().expect("keys");
            assert_eq!(&keys[..expected.len()], expected, "{name}");
            types_agree(name, &written, &vector["result_shape"]);
        }

        let seen = server.seen.lock().expect("no panic");
        let expected = vector["request_paths"].as_array().expect("paths");
        let is_measured = |path: &&Value| path.as_str() != Some("/tokenize");
        if name != "probe" {
            let expected: Vec<&Value> = expected.iter().filter(is_measured).collect();
            let head = |seen: &scripted::HttpRequest| seen.head.split(' ').nth(1).map(str::to_owned);
            let found: Vec<Option<String>> = seen.iter().map(head).collect();
            assert_eq!(json!(found), json!(expected), "{name}");
        }
        if let Some(models) = vector.get("models_sent_in_request_order") {
            let mut found: Vec<(u64, &Value)> = seen.iter().map(|seen| (index_of(seen), &seen.body["model"])).collect();
            found.sort_by_key(|(index, _)| *index);
            let found: Vec<&Value> = found.into_iter().map(|(_, model)| model).collect();
            assert_eq!(&json!(found), models, "{name}");
        }
    }
}

/// Number at the end of a request's id.
fn index_of(seen: &scripted::HttpRequest) -> u64 {
    let id = seen.head.lines().find_map(|line| line.strip_prefix("x-request-id: "));
    id.and_then(|id| id.rsplit('-').next()?.parse().ok()).expect("an id")
}

fn types_agree(name: &str, written: &Value, shape: &Value) {
    for (key, kind) in shape.as_object().into_iter().flatten() {
        let value = &written[key];
        let is_right = match kind.as_str() {
            Some("int") => value.is_u64(),
            Some("float") => value.is_f64(),
            // Without a tokenizer vsweep has no name for it.
            Some("str") => value.is_string() || key == "tokenizer_id",
            Some("NoneType") => value.is_null(),
            _ => value.is_array(),
        };
        assert!(is_right, "{name}: {key} is {value}, not {kind}");
    }
}
