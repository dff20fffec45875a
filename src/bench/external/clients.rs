//! Converts results of other clients to the keys of `vllm bench serve`. Results of guidellm and aiperf are recognised by the version in
//! them. For any other program, the plan names the places of the figures.
//!
//! A figure is converted only if it has the same meaning. So TPOT is not taken from guidellm's `time_per_output_token_ms`, which includes
//! the time to the first token, but from the `inter_token_latency_ms` of each request.

use super::contradictions::{IMPOSSIBLE_COUNT, figures_contradiction};
use super::harmless_members;
use crate::bench::members;
use crate::bench::result::write_stats;
use crate::metrics::Stats;
use crate::plan::{FigurePlace, Params};
use crate::python_json;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Statistics of a latency: our name, and the names in the files of aiperf and guidellm.
const STATISTICS: [(&str, &str, &str); 7] = [
    ("mean", "avg", "mean"),
    ("median", "p50", "median"),
    ("std", "std", "std_dev"),
    ("p50", "p50", "percentiles/p50"),
    ("p90", "p90", "percentiles/p90"),
    ("p95", "p95", "percentiles/p95"),
    ("p99", "p99", "percentiles/p99"),
];
/// The percentiles in [`STATISTICS`].
const PERCENTS: [f64; 4] = [50.0, 90.0, 95.0, 99.0];
/// Figures that are whole numbers.
const COUNTS: [&str; 5] = [
    "completed",
    "failed",
    "total_input_tokens",
    "total_output_tokens",
    "max_concurrency",
];
/// Our figures, with their places in a file of aiperf.
const AIPERF: [(&str, &str); 9] = [
    ("completed", "/request_count/avg"),
    ("completed", "/completed_request_count/avg"),
    ("failed", "/error_request_count/avg"),
    ("duration", "/benchmark_duration/avg"),
    ("total_input_tokens", "/total_isl/avg"),
    ("total_output_tokens", "/total_osl/avg"),
    ("request_throughput", "/request_throughput/avg"),
    ("output_throughput", "/output_token_throughput/avg"),
    ("total_token_throughput", "/total_token_throughput/avg"),
];
/// Our figures, with their places in a benchmark of guidellm.
const GUIDELLM: [(&str, &str); 8] = [
    ("completed", "/metrics/request_totals/successful"),
    // Requests that the end of the benchmark cut off are not counted here.
    ("failed", "/metrics/request_totals/errored"),
    ("duration", "/duration"),
    ("total_input_tokens", "/metrics/prompt_token_count/successful/total_sum"),
    (
        "total_output_tokens",
        "/metrics/output_token_count/successful/total_sum",
    ),
    ("request_throughput", "/metrics/requests_per_second/successful/mean"),
    ("output_throughput", "/metrics/output_tokens_per_second/successful/mean"),
    ("total_token_throughput", "/metrics/tokens_per_second/successful/mean"),
];

/// Reads the figures of all results in a file, under vLLM's keys. The file may hold lists of results, and several JSON documents, as
/// written by `vllm bench serve --append-result`. The error completes a sentence that begins with the file.
pub fn read_results(json: &[u8]) -> Result<Vec<Params>, String> {
    let json = python_json::strict(json);
    if let Some(key) = python_json::repeated_key(&json) {
        return Err(format!("has `{key}` twice"));
    }
    let mut found: Vec<Params> = Vec::new();
    for document in serde_json::Deserializer::from_slice(&json).into_iter::<Value>() {
        let items = match document.map_err(|error| format!("is not JSON: {error}"))? {
            Value::Array(items) => items,
            other => vec![other],
        };
        for item in items {
            match item {
                Value::Object(result) if !result.is_empty() => {
                    found.extend(records(harmless_members(result), &BTreeMap::new())?)
                }
                _ => return Err("holds something other than JSON objects with figures".into()),
            }
        }
    }
    match found.iter().find_map(figures_contradiction) {
        Some(contradiction) => Err(contradiction),
        None if found.is_empty() => Err("holds no result".into()),
        None => Ok(found),
    }
}

/// Returns the figures of each benchmark in a result: those of a known client, else those at the places that the plan names, else the
/// result as it is.
pub fn records(result: Params, places: &BTreeMap<String, FigurePlace>) -> Result<Vec<Params>, String> {
    let result = Value::Object(result);
    let of_client = |client: &str, version: &str, figures: Params| {
        let mut figures = figures;
        figures.insert("client".into(), format!("{client} {version}").into());
        figures
    };
    if let Some(version) = result["aiperf_version"].as_str() {
        return Ok(vec![of_client("aiperf", version, aiperf(&result)?)]);
    }
    let guidellm = result["metadata"]["guidellm_version"].as_str();
    if let Some((version, benchmarks)) = guidellm.zip(result["benchmarks"].as_array()) {
        let read = |benchmark| Ok(of_client("guidellm", version, guidellm_benchmark(benchmark)?));
        return benchmarks.iter().map(read).collect();
    }
    match result {
        Value::Object(result) if places.is_empty() => Ok(vec![named(result)]),
        result => Ok(vec![at_places(&result, places)?]),
    }
}

/// A figure that only SGLang's `bench_serving` has.
const OF_SGLANG: &str = "total_output_tokens_retokenized";

/// Adds vLLM's names to the figures of a result of SGLang's `bench_serving`. If a result does not count failed requests, the errors in it
/// are counted.
fn named(mut result: Params) -> Params {
    let errors = result.get("errors").and_then(Value::as_array);
    let errors = errors.filter(|_| !result.contains_key("failed"));
    let is_error = |error: &&Value| error.as_str().is_some_and(|error| !error.is_empty());
    let failed = errors.map(|errors| errors.iter().filter(is_error).count());
    if result.contains_key(OF_SGLANG) {
        let name = |(name, value): (&String, &Value)| {
            let known = match name.as_str() {
                "total_throughput" => "total_token_throughput".to_owned(),
                _ => name.replace("_e2e_latency_ms", "_e2el_ms"),
            };
            (!result.contains_key(&known)).then(|| (known, value.clone()))
        };
        let named: Vec<(String, Value)> = result.iter().filter_map(name).collect();
        result.extend(named);
    }
    if let Some(failed) = failed {
        result.shift_insert(0, "failed".to_owned(), failed.into());
    }
    result
}

/// Reads the figures from the places that the plan names.
fn at_places(result: &Value, places: &BTreeMap<String, FigurePlace>) -> Result<Params, String> {
    let mut figures = Params::new();
    for (name, place) in places {
        let Some(value) = result.pointer(&place.at) else {
            return Err(format!("has nothing at {} for `{name}` of [bench.result]", place.at));
        };
        let value = match (value.as_f64(), place.times) {
            (Some(number), times) if times != 1.0 => json!(number * times),
            (None, times) if times != 1.0 => {
                return Err(format!("has no number at {} for `{name}` of [bench.result]", place.at));
            }
            _ => value.clone(),
        };
        figures.insert(name.clone(), value);
    }
    Ok(figures)
}

/// Returns the figures that a result has at these places, times a factor, under vLLM's names. If a figure is at several places, the last
/// one counts.
fn figures_at<N: Into<String>, P: AsRef<str>>(
    result: &Value,
    times: f64,
    places: impl IntoIterator<Item = (N, P)>,
) -> Params {
    let figure = |(name, place): (N, P)| {
        let (name, value) = (name.into(), times * result.pointer(place.as_ref())?.as_f64()?);
        let value = match COUNTS.contains(&name.as_str()) {
            true => count(value),
            false => json!(value),
        };
        Some((name, value))
    };
    places.into_iter().filter_map(figure).collect()
}

/// Returns a count as a whole number. A number that cannot be one stays as it is, so that the result is refused.
fn count(value: f64) -> Value {
    let is_count = value >= 0.0 && value.fract() == 0.0 && value < IMPOSSIBLE_COUNT;
    if is_count { json!(value as u64) } else { json!(value) }
}

fn aiperf(result: &Value) -> Result<Params, String> {
    let errors = result["error_summary"].as_array().into_iter().flatten();
    let failed: f64 = errors.filter_map(|error| error["count"].as_f64()).sum();
    let mut figures = members(json!({"completed": null, "failed": count(failed)}));
    figures.extend(figures_at(result, 1.0, AIPERF));
    if figures["completed"].is_null() {
        return Err("is a result of aiperf without `request_count`".to_owned());
    }
    if result["was_cancelled"] == true {
        return Err("is of a run of aiperf that was cancelled; measure it again".to_owned());
    }
    for (ours, theirs) in [
        ("ttft", "time_to_first_token"),
        ("tpot", "inter_token_latency"),
        ("itl", "inter_chunk_latency"),
        ("e2el", "request_latency"),
    ] {
        let place = |(statistic, at, _)| (format!("{statistic}_{ours}_ms"), format!("/{theirs}/{at}"));
        figures.extend(figures_at(result, 1.0, STATISTICS.map(place)));
    }
    let phases = result["input_config"]["phases"].as_array();
    if let Some(phase) = phases.and_then(|phases| phases.last()) {
        let load = [("request_rate", "/rate"), ("max_concurrency", "/concurrency")];
        figures.extend(figures_at(phase, 1.0, load));
    }
    Ok(figures)
}

fn guidellm_benchmark(benchmark: &Value) -> Result<Params, String> {
    let mut figures = figures_at(benchmark, 1.0, GUIDELLM);
    let completed = figures.get("completed").and_then(Value::as_f64);
    let completed = completed.ok_or("is a result of guidellm without `request_totals`")?;
    for (ours, theirs, times) in [
        ("ttft", "time_to_first_token_ms", 1.0),
        ("e2el", "request_latency", 1000.0),
    ] {
        let folder = format!("/metrics/{theirs}/successful");
        let place = |(statistic, _, at)| (format!("{statistic}_{ours}_ms"), format!("{folder}/{at}"));
        figures.extend(figures_at(benchmark, times, STATISTICS.map(place)));
    }
    // guidellm's mean is over all gaps between tokens, like the mean ITL. Its percentiles are over requests, so they are not used.
    let of_gaps = [("mean_itl_ms", "/metrics/inter_token_latency_ms/successful/mean")];
    figures.extend(figures_at(benchmark, 1.0, of_gaps));
    let requests = benchmark["requests"]["successful"].as_array().into_iter().flatten();
    // An answer of one token has no time between tokens.
    let is_single = |request: &&Value| request["output_tokens"].as_f64() == Some(1.0);
    let (single, others): (Vec<&Value>, Vec<&Value>) = requests.partition(is_single);
    let tpots = others
        .iter()
        .filter_map(|request| Some(request["inter_token_latency_ms"].as_f64()? / 1000.0));
    let tpots: Vec<f64> = tpots.collect();
    // With `--metrics` the file may hold only some of the requests, whose statistics would differ from those of all.
    if !tpots.is_empty() && (tpots.len() + single.len()) as f64 == completed {
        write_stats("tpot", &Stats::of_seconds(tpots, &PERCENTS), &mut figures);
    }
    let load = [
        ("request_rate", "/config/strategy/rate"),
        ("max_concurrency", "/config/strategy/streams"),
    ];
    figures.extend(figures_at(benchmark, 1.0, load));
    let strategy = &benchmark["config"]["strategy"];
    match strategy["type_"].as_str() {
        Some("synchronous") => figures.extend(members(json!({"max_concurrency": 1}))),
        Some("throughput") => figures.extend(figures_at(strategy, 1.0, [("max_concurrency", "/max_concurrency")])),
        _ => {}
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str) -> Params {
        let path = format!("{}/tests/data/clients/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("a file");
        let records =
            records(serde_json::from_str(&text).expect("an object"), &BTreeMap::new()).expect("a known client");
        let [record] = &records[..] else {
            panic!("one benchmark")
        };
        record.clone()
    }

    fn figure(record: &Params, name: &str) -> f64 {
        record
            .get(name)
            .and_then(Value::as_f64)
            .unwrap_or_else(|| panic!("{name} of {record:?}"))
    }

    /// Checks the properties that every client's result has.
    fn check(record: &Params) {
        let of = |name: &str| figure(record, name);
        let near = |a: f64, b: f64, share: f64| assert!((a / b - 1.0).abs() < share, "{a} is not near {b}");
        assert_eq!(
            (
                of("completed"),
                of("failed"),
                of("total_output_tokens"),
                of("max_concurrency")
            ),
            (16.0, 0.0, 256.0, 4.0)
        );
        near(of("request_throughput"), 16.0 / of("duration"), 0.05);
        near(of("output_throughput"), 256.0 / of("duration"), 0.05);
        // 16 tokens each: the last comes 15 gaps after the first, and guidellm's latency ends a little later.
        near(of("mean_e2el_ms"), of("mean_ttft_ms") + 15.0 * of("mean_tpot_ms"), 0.02);
        near(of("mean_itl_ms"), of("mean_tpot_ms"), 0.001);
        assert!(of("p99_ttft_ms") >= of("median_ttft_ms") && of("p99_tpot_ms") >= of("median_tpot_ms"));
    }

    #[test]
    fn guidellm_is_read_in_vllms_words() {
        let record = read("guidellm-0.8.1");
        check(&record);
        assert_eq!(record["client"], "guidellm 0.8.1");
        assert_eq!(record["mean_ttft_ms"], 17.631709575653076);
        // Its own "time per output token" would be 7.09 ms.
        assert!((figure(&record, "mean_tpot_ms") - 6.385).abs() < 0.001);
    }

    #[test]
    fn a_number_that_is_no_count_is_refused() {
        let path = format!("{}/tests/data/clients/guidellm-0.8.1.json", env!("CARGO_MANIFEST_DIR"));
        let result: Value = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
        for (name, number, said) in [
            ("errored", json!(-4), "has a negative failed (-4.0)"),
            ("successful", json!(-16), "has a negative completed (-16.0)"),
            (
                "successful",
                json!(15.4),
                "counts a fraction of a request (completed = 15.4)",
            ),
            (
                "errored",
                json!(1e300),
                "has more requests than there can be (failed = 1e300)",
            ),
        ] {
            let mut result = result.clone();
            result["benchmarks"][0]["metrics"]["request_totals"][name] = number;
            assert_eq!(read_results(result.to_string().as_bytes()), Err(said.to_owned()));
        }
    }

    #[test]
    fn aiperf_is_read_in_vllms_words() {
        let record = read("aiperf-0.13.0");
        check(&record);
        assert_eq!(record["client"], "aiperf 0.13.0");
        assert_eq!(record["p99_e2el_ms"], 145.74268419999999);
        assert_eq!(figure(&record, "total_input_tokens"), 1024.0);
    }

    #[test]
    fn runs_that_were_cancelled_are_refused_and_loads_without_a_number_are_named() {
        let read = |name: &str, change: &dyn Fn(&mut Value)| {
            let path = format!("{}/tests/data/clients/{name}.json", env!("CARGO_MANIFEST_DIR"));
            let mut result: Value = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
            change(&mut result);
            read_results(result.to_string().as_bytes())
        };
        let cancelled = read("aiperf-0.13.0", &|result| result["was_cancelled"] = json!(true));
        assert!(cancelled.is_err_and(|said| said.contains("cancelled")));
        for (strategy, slots) in [
            (json!({"type_": "synchronous"}), 1.0),
            (json!({"type_": "throughput", "max_concurrency": 512}), 512.0),
        ] {
            let found = read("guidellm-0.8.1", &|result| {
                result["benchmarks"][0]["config"]["strategy"] = strategy.clone();
            });
            assert_eq!(figure(&found.expect("one")[0], "max_concurrency"), slots);
        }
        let single = read("guidellm-0.8.1", &|result| {
            let request = &mut result["benchmarks"][0]["requests"]["successful"][0];
            request["output_tokens"] = json!(1);
            request["inter_token_latency_ms"] = Value::Null;
        });
        assert!(single.expect("one")[0].contains_key("mean_tpot_ms"));
    }

    #[test]
    fn the_rust_client_writes_the_file_of_vllm_bench_serve() {
        let record = read("vllm-rs-0.32.0");
        check(&record);
        let failed = crate::bench::external::judge(read("vllm-rs-0.32.0-failed"));
        let served: Vec<bool> = failed
            .requests
            .iter()
            .map(|request| request.ttft_ms.is_finite())
            .collect();
        assert_eq!(served, [false, true, false, true, true, true]);
        let failure = failed.failure.expect("two of six failed");
        assert_eq!(failure.cause, crate::cause::Cause::RequestErrors, "{}", failure.detail);
    }

    #[test]
    fn a_result_of_sglang_gets_vllms_names_and_counts_its_errors() {
        let read = |result: &Value| read_results(result.to_string().as_bytes()).expect("a result").remove(0);
        let mut result = json!({
            "completed": 2, "total_output_tokens_retokenized": 8, "total_throughput": 9.0, "mean_e2e_latency_ms": 5.0,
            "p99_e2e_latency_ms": 7.0, "errors": ["", "timeout", ""],
        });
        let found = read(&result);
        for (name, expected) in [
            ("failed", 1.0),
            ("total_token_throughput", 9.0),
            ("mean_e2el_ms", 5.0),
            ("p99_e2el_ms", 7.0),
        ] {
            assert_eq!(figure(&found, name), expected, "{name}");
        }
        for (name, value) in result.as_object().expect("an object") {
            assert_eq!(found.get(name), Some(value), "plans may name it");
        }
        // A benchmark of phases has another figure of that name.
        result = json!({"completed": 2, "total_token_throughput": 4.0, "total_throughput": 9.0});
        assert_eq!(Value::from(read(&result)), result);
    }

    #[test]
    fn other_results_are_taken_as_they_are_or_by_places() {
        let result = json!({"rps": 4.0, "latency": {"p99_s": 0.25}, "model": "m"})
            .as_object()
            .cloned()
            .expect("an object");
        assert_eq!(records(result.clone(), &BTreeMap::new()), Ok(vec![result.clone()]));
        let place = |at: &str, times: f64| FigurePlace { at: at.into(), times };
        let mut places = BTreeMap::from([
            ("request_throughput".to_owned(), place("/rps", 1.0)),
            ("p99_e2el_ms".to_owned(), place("/latency/p99_s", 1000.0)),
        ]);
        let result = Value::Object(result);
        let figures = at_places(&result, &places).expect("both are there");
        assert_eq!(
            Value::Object(figures),
            json!({"p99_e2el_ms": 250.0, "request_throughput": 4.0})
        );
        places.insert("completed".into(), place("/done", 1.0));
        let missing = at_places(&result, &places).expect_err("nothing is there");
        assert_eq!(missing, "has nothing at /done for `completed` of [bench.result]");
    }
}
