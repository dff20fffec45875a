//! Compares the measurements of `vsweep bench` with what the simulator did: every request and every token is there, in order, and no
//! measured time is shorter than the true one. Longer times depend on the machine and are not tested.

use super::server::Server;
use crate::deadline::output;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

const REQUESTS: usize = 24;

/// One finished sequence as the simulator recorded it. Times are in milliseconds.
struct True {
    arrival_ms: f64,
    token_ms: Vec<f64>,
    prompt: u64,
}

/// Reads the finished sequences, by the number at the end of the request's id.
fn truth(text: &str) -> BTreeMap<usize, True> {
    let records = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("whole lines"));
    let number = |record: &Value| {
        let id = record["request_id"].as_str().expect("an id").to_string();
        id.rsplit('-')
            .next()
            .and_then(|number| number.parse().ok())
            .expect("a numbered request")
    };
    let of = |record: &Value| True {
        arrival_ms: record["arrival_ms"].as_f64().expect("a time"),
        token_ms: floats(&record["token_ms"]),
        prompt: record["prompt_tokens"].as_u64().expect("a count"),
    };
    records.map(|record| (number(&record), of(&record))).collect()
}

fn floats(list: &Value) -> Vec<f64> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_f64)
        .collect()
}

#[test]
fn measured_requests_are_the_true_ones_and_never_faster() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("truth.jsonl");
    let server = Server::start(&["--sim-truth", file.to_str().expect("plain"), "--max-num-seqs", "4"]);
    let mut bench = Command::new(env!("CARGO_BIN_EXE_vsweep"));
    bench
        .args(["bench", "--base-url", &server.url(), "--save-result", "--save-detailed"])
        .args(["--result-filename", "result.json", "--result-dir"])
        .arg(folder.path())
        .args(["--num-prompts", &REQUESTS.to_string(), "--max-concurrency", "8"])
        .args([
            "--random-input-len",
            "40",
            "--random-output-len",
            "12",
            "--request-id-prefix",
            "true-",
        ]);
    let output = output(&mut bench);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result = std::fs::read_to_string(folder.path().join("result.json")).expect("a result");
    let result: Value = serde_json::from_str(&result).expect("JSON");
    let mut truth = truth(&std::fs::read_to_string(&file).expect("the truth"));
    truth.retain(|number, _| *number < REQUESTS);
    assert_eq!(truth.len(), REQUESTS);
    assert_eq!(result["completed"], REQUESTS);

    let (ttfts, lengths) = (floats(&result["ttfts"]), floats(&result["output_lens"]));
    let (latencies, inputs) = (floats(&result["latencies"]), floats(&result["input_lens"]));
    for (number, truth) in &truth {
        let (first, last) = (truth.token_ms[0], truth.token_ms[truth.token_ms.len() - 1]);
        assert_eq!(lengths[*number] as usize, truth.token_ms.len());
        assert_eq!(inputs[*number] as u64, truth.prompt);
        let gaps = floats(&result["itls"][*number]);
        assert!(gaps.len() < truth.token_ms.len() && gaps.iter().all(|gap| *gap >= 0.0));
        let (measured, real) = (1e3 * ttfts[*number], first - truth.arrival_ms);
        assert!(
            measured >= real,
            "TTFT of {number}: measured {measured} ms, true {real} ms"
        );
        let (measured, real) = (1e3 * latencies[*number], last - truth.arrival_ms);
        assert!(
            measured >= real,
            "latency of {number}: measured {measured} ms, true {real} ms"
        );
    }

    // The client sees the first tokens of requests in the order in which the server made them, except within one step.
    let steps = |number: &usize| truth[number].token_ms[0];
    let starts = floats(&result["start_times"]);
    let mut seen: Vec<usize> = (0..REQUESTS).collect();
    seen.sort_by(|a, b| (starts[*a] + ttfts[*a]).total_cmp(&(starts[*b] + ttfts[*b])));
    let apart = |pair: &[usize]| steps(&pair[0]) <= steps(&pair[1]);
    let swapped = seen.windows(2).filter(|pair| !apart(pair)).count();
    assert!(swapped <= REQUESTS / 4, "{swapped} of {REQUESTS} are out of order");
}
