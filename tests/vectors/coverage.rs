//! Every recorded vector of `vllm bench serve` is met by a test or named with the reason in docs/differences-bench.md.

use serde_json::Value;
use vsweep::bench::native::REFUSED;
use vsweep::bench::native::settings::TABLE;
use vsweep::load::sse;

/// Kinds of which a test takes every entry, with the words that prove it.
const TAKEN_WHOLE: [(&str, &str); 6] = [
    ("calculate_metrics", "vectors()[\"calculate_metrics\"].as_object()"),
    ("arrivals", "vectors()[\"arrivals\"].as_array()"),
    ("request_functions", "vectors[\"request_functions\"].as_object()"),
    ("steady_state", "vectors()[\"steady_state\"].as_object()"),
    ("concurrency_exact", "vectors()[\"concurrency_exact\"].as_array()"),
    (
        "calculate_metrics_for_embeddings",
        "vectors()[\"calculate_metrics_for_embeddings\"]",
    ),
];
/// Kinds of which each entry is named in a test or in the docs.
const TAKEN_BY_NAME: [&str; 5] = [
    "numpy_legacy_mt19937",
    "numpy_pcg64",
    "python_random",
    "datasets",
    "end_to_end",
];
/// Names that a test puts together.
const PUT_TOGETHER: [(&str, &str); 1] = [("seed0_gamma_shape", "seed0_gamma_shape{shape}_scale1_5")];
/// Kinds that are met below.
const HERE: [&str; 2] = ["cli", "streamed_response_handler"];
/// What says where the vectors come from.
const ABOUT: [&str; 3] = ["about", "source", "datasets_tokenizer"];

const TESTS: [&str; 5] = [
    include_str!("bench.rs"),
    include_str!("requests.rs"),
    include_str!("datasets.rs"),
    include_str!("cli.rs"),
    include_str!("../bench/cli.rs"),
];
const DOCS: &str = include_str!("../../docs/differences-bench.md");

fn vectors() -> Value {
    serde_json::from_str(include_str!("../data/vectors/bench.json")).expect("JSON")
}

#[test]
fn every_vector_is_met_or_explained() {
    let mut missing = vec![];
    for (kind, entries) in vectors().as_object().expect("kinds") {
        let is_in = |list: &[&str]| list.contains(&kind.as_str());
        if is_in(&ABOUT) || is_in(&HERE) {
            continue;
        }
        if let Some((_, proof)) = TAKEN_WHOLE.iter().find(|(whole, _)| whole == kind) {
            if !TESTS.iter().any(|test| test.contains(proof)) {
                missing.push(kind.clone());
            }
            continue;
        }
        let names = entries.as_object().filter(|_| is_in(&TAKEN_BY_NAME));
        let Some(names) = names else {
            missing.push(kind.clone());
            continue;
        };
        let is_met = |name: &str| {
            TESTS.iter().any(|test| test.contains(&format!("\"{name}\""))) || DOCS.contains(&format!("`{name}`"))
        };
        let is_put_together = |name: &str| {
            let mut known = PUT_TOGETHER.iter().filter(|(start, _)| name.starts_with(start));
            known.any(|(_, words)| TESTS.iter().any(|test| test.contains(words)))
        };
        let is_refusal = |name: &str| name.starts_with("err_") && DOCS.contains("All of `err_*`");
        missing.extend(
            names
                .keys()
                .filter(|name| !is_met(name) && !is_put_together(name) && !is_refusal(name))
                .map(|name| format!("{kind}.{name}")),
        );
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_flag_is_known_or_refused_with_a_reason() {
    let unknown: Vec<String> = vectors()["cli"]
        .as_array()
        .expect("flags")
        .iter()
        .filter_map(|flag| flag["dest"].as_str())
        .filter(|name| TABLE.find(name).is_none() && !REFUSED.iter().any(|(refused, _)| refused == name))
        .map(str::to_owned)
        .collect();
    assert_eq!(unknown, Vec::<String>::new());
}

/// What a message says: its `data` lines.
fn data_of(message: &str) -> Option<String> {
    let lines: Vec<&str> = message.lines().filter_map(|line| line.strip_prefix("data:")).collect();
    let values: Vec<&str> = lines
        .iter()
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    (!values.is_empty()).then(|| values.join("\n"))
}

/// The events that vLLM's reader finds where it is given unchanged bytes. It reads UTF-8, we read bytes, so the one stream
/// that is not UTF-8 is left out (see the docs).
#[test]
fn streams_are_cut_into_the_events_of_vllm() {
    for (name, vector) in vectors()["streamed_response_handler"].as_object().expect("streams") {
        if name == "invalid_utf8" {
            assert!(DOCS.contains("invalid UTF-8"));
            continue;
        }
        let chunks = vector["chunks_utf8_or_hex"]
            .as_array()
            .expect("chunks")
            .iter()
            .map(|chunk| match chunk.as_str() {
                Some(text) => text.as_bytes().to_vec(),
                None => bytes_of(chunk["hex"].as_str().expect("digits")),
            });
        let messages = vector["raw"]["messages_per_chunk"].as_array().expect("lists").iter();
        let expected: Vec<String> = messages
            .flat_map(|list| list.as_array().cloned().unwrap_or_default())
            .filter_map(|message| data_of(message.as_str().expect("a text")))
            .collect();
        let (mut parser, mut found) = (sse::Parser::default(), vec![]);
        let mut emit = |data: &[u8], _| found.push(String::from_utf8(data.to_vec()).expect("UTF-8"));
        for chunk in chunks {
            parser.feed(&chunk, 0, &mut emit).expect("short");
        }
        parser.finish(&mut emit).expect("short");
        assert_eq!(found, expected, "{name}");
    }
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).expect("digits");
    (0..hex.len()).step_by(2).map(digit).collect()
}
