//! Results of other clients in the words of `vllm bench serve`: guidellm and aiperf, recognised by what they write of themselves,
//! and any other program by the places that the plan names.
//!
//! A figure is taken over only where it means the same. So guidellm's `time_per_output_token_ms`, which counts the time to
//! the first token in, is not TPOT; its `inter_token_latency_ms` of a request is.

use super::harmless_members;
use crate::metrics::percentile;
use crate::plan::{FigurePlace, Params};
use crate::python_json;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The percentiles that both programs give.
const PERCENTS: [(f64, &str); 4] = [(50.0, "p50"), (90.0, "p90"), (95.0, "p95"), (99.0, "p99")];
/// Figures that are whole numbers.
const COUNTS: [&str; 5] = [
    "completed",
    "failed",
    "total_input_tokens",
    "total_output_tokens",
    "max_concurrency",
];

/// The figures in a file of results: of a known client in vLLM's words, lists one by one, and several documents in one file, as
/// `vllm bench serve --append-result` leaves them; the error completes a sentence that begins with the file.
pub fn read_results(json: &[u8]) -> Result<Vec<Params>, String> {
    let json = python_json::strict(json);
    let mut found = Vec::new();
    for document in serde_json::Deserializer::from_slice(&json).into_iter::<Value>() {
        let items = match document.map_err(|error| format!("is no JSON: {error}"))? {
            Value::Array(items) => items,
            other => vec![other],
        };
        for item in items {
            match item {
                Value::Object(result) if !result.is_empty() => {
                    found.extend(records(harmless_members(result), &BTreeMap::new())?)
                }
                _ => return Err("holds something else than JSON objects with figures".into()),
            }
        }
    }
    match found.is_empty() {
        true => Err("holds no result".into()),
        false => Ok(found),
    }
}

/// The figures of a result, as many as it has benchmarks: those of a client that is known, else those at the places that the
/// plan names, else the result as it is.
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
        Value::Object(result) if places.is_empty() => Ok(vec![result]),
        result => Ok(vec![at_places(&result, places)?]),
    }
}

/// What the plan says of where the figures stand.
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

/// Figures under the names of vLLM, as far as they are known.
fn known<N: Into<String>>(figures: impl IntoIterator<Item = (N, Option<f64>)>) -> Params {
    let figures = figures
        .into_iter()
        .filter_map(|(name, value)| Some((name.into(), value?)));
    figures
        .map(|(name, value)| {
            let is_count = COUNTS.contains(&name.as_str());
            let value = if is_count {
                json!(value.round() as u64)
            } else {
                json!(value)
            };
            (name, value)
        })
        .collect()
}

/// Mean, median, deviation and percentiles of a latency in milliseconds, as far as `of` knows them.
fn latency(name: &str, of: impl Fn(&str) -> Option<f64>) -> Params {
    let statistics = ["mean", "median", "std"].into_iter();
    let statistics = statistics.chain(PERCENTS.map(|(_, percentile)| percentile));
    known(statistics.map(|statistic| (format!("{statistic}_{name}_ms"), of(statistic))))
}

fn aiperf(result: &Value) -> Result<Params, String> {
    let avg = |name: &str| result[name]["avg"].as_f64();
    let completed = avg("completed_request_count").or_else(|| avg("request_count"));
    let completed = completed.ok_or("is of aiperf, but without `request_count`")?;
    let errors = result["error_summary"].as_array().into_iter().flatten();
    let failed = errors.filter_map(|error| error["count"].as_f64()).sum();
    let mut figures = known([
        ("completed", Some(completed)),
        ("failed", avg("error_request_count").or(Some(failed))),
        ("duration", avg("benchmark_duration")),
        ("total_input_tokens", avg("total_isl")),
        ("total_output_tokens", avg("total_osl")),
        ("request_throughput", avg("request_throughput")),
        ("output_throughput", avg("output_token_throughput")),
        ("total_token_throughput", avg("total_token_throughput")),
    ]);
    for (name, theirs) in [
        ("ttft", "time_to_first_token"),
        ("tpot", "inter_token_latency"),
        ("itl", "inter_chunk_latency"),
        ("e2el", "request_latency"),
    ] {
        figures.extend(latency(name, |statistic| {
            let theirs_of = match statistic {
                "mean" => "avg",
                "median" => "p50",
                other => other,
            };
            result[theirs][theirs_of].as_f64()
        }));
    }
    if let Some(phase) = result["input_config"]["phases"]
        .as_array()
        .and_then(|phases| phases.last())
    {
        figures.extend(known([
            ("request_rate", phase["rate"].as_f64()),
            ("max_concurrency", phase["concurrency"].as_f64()),
        ]));
    }
    Ok(figures)
}

fn guidellm_benchmark(benchmark: &Value) -> Result<Params, String> {
    let metrics = &benchmark["metrics"];
    let of = |name: &str| &metrics[name]["successful"];
    let completed = metrics["request_totals"]["successful"].as_f64();
    let completed = completed.ok_or("is of guidellm, but without `request_totals`")?;
    let mut figures = known([
        ("completed", Some(completed)),
        // A request that the end of the benchmark cut short is no failure.
        ("failed", metrics["request_totals"]["errored"].as_f64()),
        ("duration", benchmark["duration"].as_f64()),
        ("total_input_tokens", of("prompt_token_count")["total_sum"].as_f64()),
        ("total_output_tokens", of("output_token_count")["total_sum"].as_f64()),
        ("request_throughput", of("requests_per_second")["mean"].as_f64()),
        ("output_throughput", of("output_tokens_per_second")["mean"].as_f64()),
        ("total_token_throughput", of("tokens_per_second")["mean"].as_f64()),
    ]);
    for (name, theirs, times) in [
        ("ttft", "time_to_first_token_ms", 1.0),
        ("e2el", "request_latency", 1000.0),
    ] {
        figures.extend(latency(name, |statistic| {
            let value = match statistic {
                "std" => &of(theirs)["std_dev"],
                "mean" | "median" => &of(theirs)[statistic],
                percentile => &of(theirs)["percentiles"][percentile],
            };
            Some(times * value.as_f64()?)
        }));
    }
    // Over all gaps between tokens: weighted by tokens, as the mean ITL is. Its percentiles are of requests, not of gaps.
    figures.extend(known([("mean_itl_ms", of("inter_token_latency_ms")["mean"].as_f64())]));
    let requests = benchmark["requests"]["successful"].as_array().into_iter().flatten();
    let mut tpots: Vec<f64> = requests
        .filter_map(|request| request["inter_token_latency_ms"].as_f64())
        .collect();
    tpots.sort_by(f64::total_cmp);
    // A part of the requests, as `--metrics` can ask for, is another sample.
    if !tpots.is_empty() && tpots.len() as f64 == completed {
        let mean = tpots.iter().sum::<f64>() / completed;
        let variance = tpots.iter().map(|tpot| (tpot - mean).powi(2)).sum::<f64>() / completed;
        figures.extend(latency("tpot", |statistic| {
            Some(match statistic {
                "mean" => mean,
                "std" => variance.sqrt(),
                "median" => percentile(&tpots, 50.0),
                name => percentile(&tpots, PERCENTS.iter().find(|(_, known)| *known == name)?.0),
            })
        }));
    }
    let strategy = &benchmark["config"]["strategy"];
    figures.extend(known([
        ("request_rate", strategy["rate"].as_f64()),
        ("max_concurrency", strategy["streams"].as_f64()),
    ]));
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

    /// What is true of every result, whoever wrote it.
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
    fn aiperf_is_read_in_vllms_words() {
        let record = read("aiperf-0.13.0");
        check(&record);
        assert_eq!(record["client"], "aiperf 0.13.0");
        assert_eq!(record["p99_e2el_ms"], 145.74268419999999);
        assert_eq!(figure(&record, "total_input_tokens"), 1024.0);
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
