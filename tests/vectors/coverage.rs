//! Every recorded vector of `vllm bench serve` and of `vllm bench sweep` is compared by a test, or listed with a reason in
//! docs/differences-bench.md, docs/differences.md or README.md.

use serde_json::Value;
use std::fs;
use std::path::Path;
use vsweep::bench::native::REFUSED;
use vsweep::bench::native::settings::TABLE;
use vsweep::load::wire::sse;

/// Kinds whose every entry one test compares, with the code in that test that proves it.
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
/// Kinds whose entries must each be named in a test or in the docs.
const TAKEN_BY_NAME: [&str; 5] = [
    "numpy_legacy_mt19937",
    "numpy_pcg64",
    "python_random",
    "datasets",
    "end_to_end",
];
/// Beginnings of names that a test composes, with the code that composes them.
const PUT_TOGETHER: [(&str, &str); 1] = [("seed0_gamma_shape", "seed0_gamma_shape{shape}_scale1_5")];
/// Kinds that are compared in this file.
const HERE: [&str; 2] = ["cli", "streamed_response_handler"];
/// Keys that describe the origin of the vectors.
const ABOUT: [&str; 3] = ["about", "source", "datasets_tokenizer"];

const TESTS: [&str; 5] = [
    include_str!("bench.rs"),
    include_str!("requests.rs"),
    include_str!("datasets.rs"),
    include_str!("cli.rs"),
    include_str!("../bench/cli.rs"),
];
const DOCS: &str = concat!(
    include_str!("../../docs/differences-bench.md"),
    include_str!("README.md")
);

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

/// Returns the data of a message: its `data` lines.
fn data_of(message: &str) -> Option<String> {
    let lines: Vec<&str> = message.lines().filter_map(|line| line.strip_prefix("data:")).collect();
    let values: Vec<&str> = lines
        .iter()
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    (!values.is_empty()).then(|| values.join("\n"))
}

/// The events that vLLM's reader finds in the same bytes. It reads UTF-8 and vsweep reads bytes, so the only stream with invalid UTF-8 is
/// left out (see the docs).
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

/// Kinds of recorded cases of `vllm bench sweep`, by their file, with the code in a test that proves that it compares them.
const OF_SWEEPS: [(&str, &str, &str); 25] = [
    ("sweep", "apply_to_cmd", "\"apply_to_cmd\" => Some("),
    ("sweep", "has_param", "\"has_param\" => Some("),
    ("sweep", "read_json", "\"read_json\" => Some("),
    ("sweep", "name_and_text", "\"name_and_text\" => Some("),
    ("sweep", "parse_link_vars", "\"parse_link_vars\" => Some("),
    ("sweep", "link_valid", "\"link_valid\" => Some("),
    ("sweep", "filter", "\"filter\" => Some("),
    ("sweep", "binner", "\"binner\" => Some("),
    ("sweep", "plot_fig_path", "\"plot_fig_path\" => Some("),
    ("sweep", "pareto_fig_path", "\"pareto_fig_path\" => Some("),
    ("sweep", "inf_nan_strings", "\"inf_nan_strings\" => Some("),
    ("sweep", "comb_dir", "\"comb_dir\" => Some("),
    ("sweep", "sanitize_filename", "\"sanitize_filename\" => Some("),
    ("sweep", "server_address", "vectors(\"server_address\")"),
    ("sweep", "reset_caches", "vectors(\"reset_caches\")"),
    ("sweep_pareto", "pareto_frontier", "vectors(\"pareto_frontier\")"),
    ("sweep_pareto", "pareto_metrics", "vectors(\"pareto_metrics\")"),
    ("search", "sla_search", "vectors(\"sla_search\")"),
    ("search", "adaptive_concurrency", "vectors(\"adaptive_concurrency\")"),
    ("search", "workload_explore", "vectors(\"workload_explore\")"),
    ("search", "valid_concurrency", "vectors(\"valid_concurrency\")"),
    ("sweep", "startup_key_supported", "\"startup_key_supported\" => Some("),
    ("sweep", "startup_output_json", "\"startup_output_json\" => Some("),
    ("sweep", "startup_dir", "\"startup_dir\" => Some("),
    ("sweep", "e2e", ""),
];
const TESTS_OF_SWEEPS: [&str; 4] = [
    include_str!("sweep.rs"),
    include_str!("server.rs"),
    include_str!("pareto.rs"),
    include_str!("../pure/search/vectors.rs"),
];

#[test]
fn every_file_of_vectors_is_read_whole() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vectors");
    let mut faults = vec![];
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if name == "bench" {
            continue;
        }
        let all: Value = serde_json::from_slice(&fs::read(&path).expect("readable")).expect("JSON");
        let cases = all.get("vectors").unwrap_or(&all).as_array().expect("cases").clone();
        for case in cases {
            let kind = case["kind"].as_str().expect("a kind");
            let known = OF_SWEEPS
                .iter()
                .find(|(file, known, _)| *file == name && *known == kind);
            let is_met = match known {
                Some((_, "e2e", _)) => is_documented(case["id"].as_str().expect("an id")),
                Some((_, _, proof)) => TESTS_OF_SWEEPS.iter().any(|test| test.contains(proof)),
                None => false,
            };
            if !is_met {
                faults.push(format!("{name}: {kind} {}", case["id"]));
            }
        }
    }
    assert_eq!(faults, Vec::<String>::new());
}

/// Returns true if docs/differences.md lists the whole sweep together with an existing test, or, if it is not listed, a test names it.
fn is_documented(id: &str) -> bool {
    let docs = include_str!("../../docs/differences.md");
    let row = docs.lines().find(|line| line.starts_with(&format!("| `{id}` |")));
    let Some(row) = row else {
        return TESTS_OF_SWEEPS
            .iter()
            .any(|test| test.contains(&format!("case(\"{id}\")")));
    };
    let file_and_test = row.split('`').find_map(|words| words.split_once(".rs: "));
    file_and_test.is_some_and(|(file, test)| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("{file}.rs"));
        fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("fn {test}(")))
    })
}
