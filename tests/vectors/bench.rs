//! Golden values of `vllm bench serve` 0.32, numpy and CPython (`tests/data/vectors/bench.json`).

use serde_json::{Value, json};
use vsweep::load::arrival::{Arrivals, Ramp, RampShape};
use vsweep::metrics::{Goodput, Metric, Sample, Samples, SteadyRule, SteadyState, Summary};
use vsweep::rng::{NumpyLegacy, NumpyPcg64, PythonRandom};

fn vectors() -> Value {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vectors/bench.json"));
    let vectors: Value = serde_json::from_str(&text.expect("the vectors are there")).expect("valid JSON");
    for (kind, cases) in vectors.as_object().expect("kinds") {
        assert!(*cases != json!([]) && *cases != json!({}), "no vector of {kind}");
    }
    vectors
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(float).collect()
}

fn float(value: &Value) -> f64 {
    match value.as_f64() {
        Some(number) => number,
        None => value.as_str().and_then(|text| text.parse().ok()).expect("a number"),
    }
}

#[track_caller]
fn assert_close(found: f64, expected: f64, what: &str) {
    let near = (found - expected).abs() <= 1e-9 * expected.abs().max(1e-3);
    assert!(near, "{what}: {found} instead of {expected}");
}

#[track_caller]
fn assert_all_close(found: &[f64], expected: &Value, what: &str) {
    let expected = floats(expected);
    assert_eq!(found.len(), expected.len(), "{what}");
    found
        .iter()
        .zip(expected)
        .for_each(|(found, expected)| assert_close(*found, expected, what));
}

#[test]
fn numpy_legacy_draws() {
    let vectors = &vectors()["numpy_legacy_mt19937"];
    let draw = |name: &str, draw: &mut dyn FnMut(&mut NumpyLegacy) -> f64| {
        let mut random = NumpyLegacy::new(0);
        let expected = &vectors[name];
        let found: Vec<f64> = floats(expected).iter().map(|_| draw(&mut random)).collect();
        assert_all_close(&found, expected, name);
    };
    draw("seed0_random_sample_5", &mut NumpyLegacy::double);
    draw("seed0_standard_exponential_5", &mut NumpyLegacy::exponential);
    draw("seed0_standard_normal_6", &mut NumpyLegacy::normal);
    for shape in ["0.25", "0.5", "1.0", "2.0", "10.0"] {
        let name = format!("seed0_gamma_shape{shape}_scale1_5");
        let shape = shape.parse().expect("a number");
        draw(&name, &mut |random| random.gamma(shape, 1.0));
    }
    draw("seed0_randint_0_1000_size10", &mut |random| random.below(1000).into());
    let mut random = NumpyLegacy::new(0);
    for list in vectors["seed0_randint_0_151643_size6_then_size3"]
        .as_array()
        .expect("two lists")
    {
        let found: Vec<f64> = floats(list).iter().map(|_| random.below(151_643).into()).collect();
        assert_all_close(&found, list, "two randint calls");
    }
}

#[test]
fn numpy_pcg64_draws() {
    let vectors = &vectors()["numpy_pcg64"];
    let mut random = NumpyPcg64::new(0);
    for step in vectors["seed0_integers_sequence"].as_array().expect("steps") {
        let (call, expected) = (step[0].as_str().expect("a call"), &step[1]);
        let numbers: Vec<u64> = call
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok())
            .collect();
        let found = match call.split('(').next() {
            Some("integers") => {
                let n = expected.as_array().map_or(1, Vec::len);
                (0..n).map(|_| random.integer(numbers[0], numbers[1]) as f64).collect()
            }
            Some("random") => vec![random.double()],
            _ => vec![random.weighted(&[0.2, 0.3, 0.5]) as f64],
        };
        let expected = if expected.is_array() {
            expected.clone()
        } else {
            Value::Array(vec![expected.clone()])
        };
        assert_all_close(&found, &expected, call);
    }
    let mut random = NumpyPcg64::new(42);
    let expected = &vectors["seed42_integers_0_50257_size8"];
    let found: Vec<f64> = (0..8).map(|_| random.integer(0, 50_257) as f64).collect();
    assert_all_close(&found, expected, "seed 42");
}

#[test]
fn python_draws() {
    let vectors = &vectors()["python_random"];
    let mut random = PythonRandom::new(0);
    let mut shuffled: Vec<f64> = (0..10).map(f64::from).collect();
    random.shuffle(&mut shuffled);
    assert_all_close(&shuffled, &vectors["seed0_shuffle_range10"], "shuffle");
    let mut random = PythonRandom::new(0);
    let chosen: Vec<f64> = (0..5).map(|_| random.below(7).into()).collect();
    assert_all_close(&chosen, &vectors["seed0_then_choice_of_7_x5"], "choice");
    let mut random = PythonRandom::new(0);
    let chosen: Vec<&str> = (0..8).map(|_| ["a", "b", "c"][random.below(3) as usize]).collect();
    assert_eq!(json!(chosen), vectors["seed0_lora_choice_3_x8"]);
    let mut random = PythonRandom::new(12_345);
    let chosen: Vec<f64> = (0..6).map(|_| random.choices_index(100) as f64).collect();
    assert_all_close(&chosen, &vectors["Random(12345).choices(range100,k=6)"], "choices");
}

#[test]
fn arrival_times() {
    for vector in vectors()["arrivals"].as_array().expect("schedules") {
        if vector.get("self_timed").is_some() {
            continue; // due times come from the dataset
        }
        let ramp = vector.get("strategy").map(|strategy| Ramp {
            shape: if strategy == "linear" {
                RampShape::Linear
            } else {
                RampShape::Exponential
            },
            start: float(&vector["start"]),
            end: float(&vector["end"]),
        });
        let arrivals = Arrivals {
            rate: float(&vector["rate"]),
            burstiness: float(&vector["burstiness"]),
            ramp,
        };
        let n = vector["n"].as_u64().expect("a count") as usize;
        let seed = vector["seed"].as_u64().expect("a seed") as u32;
        let what = format!("{vector}");
        assert_all_close(&arrivals.due_seconds(n, seed), &vector["delays"], &what);
        for (i, rate) in vector["rates"].as_array().expect("a list").iter().enumerate() {
            let (found, expected) = (arrivals.rate_at(i, n), float(rate));
            assert!(
                found == expected || (found - expected).abs() < 1e-9 * expected,
                "{what}"
            );
        }
    }
}

/// Returns the request of a record of `vllm bench serve`. Its latency need not be the sum of its parts.
fn sample(record: &Value) -> Sample {
    let nanos = |seconds: f64| (seconds * 1e9).round() as u64;
    let at = |name: &str| float(&record[name]);
    let sent = nanos(at("start_time"));
    let mut event = sent + nanos(at("ttft"));
    let mut events = vec![event];
    for gap in floats(&record["itl"]) {
        event += nanos(gap);
        events.push(event);
    }
    Sample {
        due: sent,
        ready: sent,
        sent,
        events: events.into(),
        tokens_by_event: vec![],
        end: sent + nanos(at("latency")),
        prompt_len: record["prompt_len"].as_u64().expect("a count"),
        // If the server sent no count, vLLM counts the tokens of the text. Here each event has one token.
        output_tokens: record["output_tokens"].as_u64().filter(|count| *count > 0),
        class: 0,
        sequences: 1,
        audio_s: at("input_audio_duration"),
        text: None,
        error: (record["success"] != true).then(|| record["error"].to_string()),
        error_status: None,
    }
}

#[test]
fn metrics_of_a_run() {
    for (name, vector) in vectors()["calculate_metrics"].as_object().expect("sets") {
        let samples: Samples = vector["outputs"]
            .as_array()
            .expect("outputs")
            .iter()
            .map(sample)
            .collect();
        let percents = floats(&vector["percentiles"]);
        let targets: Vec<String> = vector["goodput_ms"]
            .as_object()
            .expect("targets")
            .iter()
            .map(|(name, limit)| format!("{name}:{limit}"))
            .collect();
        let goodput = Goodput::parse(&targets).expect("valid targets");
        let summary = Summary::of(&samples, float(&vector["duration_s"]), goodput.as_ref());
        let expected = &vector["expected"];
        let check = |key: &str, found: f64| assert_close(found, float(&expected[key]), &format!("{name}: {key}"));
        check("completed", summary.completed as f64);
        check("failed", summary.failed as f64);
        check("total_input", summary.total_input as f64);
        check("total_output", summary.total_output as f64);
        check("request_throughput", summary.request_throughput);
        check("request_goodput", summary.request_goodput.unwrap_or(0.0));
        check("output_throughput", summary.output_throughput);
        check("total_token_throughput", summary.total_token_throughput);
        check("max_output_tokens_per_s", summary.max_output_tokens_per_s);
        check("max_concurrent_requests", summary.max_concurrent_requests as f64);
        check("rtfx", summary.rtfx);
        for metric in [Metric::Ttft, Metric::Tpot, Metric::Itl, Metric::E2el] {
            let stats = metric.stats(&samples, &percents);
            let key = metric.name();
            check(&format!("mean_{key}_ms"), stats.mean);
            check(&format!("median_{key}_ms"), stats.median);
            check(&format!("std_{key}_ms"), stats.std);
            let percentiles = expected[format!("percentiles_{key}_ms")].as_array().expect("a list");
            assert_eq!(stats.percentiles.len(), percentiles.len(), "{name}");
            for (found, pair) in stats.percentiles.iter().zip(percentiles) {
                assert_close(found.1, float(&pair[1]), &format!("{name}: p{} {key}", found.0));
            }
        }
    }
}

#[test]
fn metrics_of_embeddings() {
    let vector = &vectors()["calculate_metrics_for_embeddings"];
    // The recorded inputs are not in the file. These requests have the same counts, sums and latencies.
    let request = |latency_ms: u64, prompt_len, sequences| Sample {
        end: latency_ms * 1_000_000,
        prompt_len,
        sequences,
        ..Sample::default()
    };
    let failed = Sample {
        error: Some("refused".to_owned()),
        ..Sample::default()
    };
    let samples = vec![request(100, 20, 2), request(250, 22, 4), request(500, 10, 1), failed].into();
    let summary = Summary::of(&samples, float(&vector["duration_s"]), None);
    let expected = &vector["expected"];
    assert_eq!(summary.total_sequences, expected["total_input_sequences"]);
    assert_eq!((summary.completed, summary.failed, summary.total_input), (3, 1, 52));
    assert_close(
        summary.sequence_throughput,
        float(&expected["input_sequence_throughput"]),
        "inputs",
    );
    let stats = Metric::E2el.stats(&samples, &floats(&vector["percentiles"]));
    assert_close(stats.mean, float(&expected["mean_e2el_ms"]), "mean");
    assert_close(stats.std, float(&expected["std_e2el_ms"]), "std");
    assert_close(
        stats.percentiles[1].1,
        float(&expected["percentiles_e2el_ms"][1][1]),
        "p99",
    );
}

#[test]
fn steady_states() {
    for (name, vector) in vectors()["steady_state"].as_object().expect("cases") {
        let samples: Samples = vector["outputs"]
            .as_array()
            .expect("outputs")
            .iter()
            .map(steady_sample)
            .collect();
        let rule = SteadyRule {
            target: vector["target"].as_u64().expect("a count") as usize,
            threshold: float(&vector["threshold"]),
        };
        let (found, expected) = (SteadyState::find(&samples, rule, &[]), &vector["expected"]);
        let steady = match found {
            Err(reason) => {
                assert!(expected.is_null(), "{name}: {reason}");
                continue;
            }
            Ok(steady) => steady,
        };
        let counts = [steady.enough, steady.peak, steady.started, steady.completed];
        let keys = [
            "threshold_abs",
            "observed_peak",
            "requests_started_in_window",
            "requests_completed_in_window",
        ];
        assert_eq!(counts.map(Value::from), keys.map(|key| expected[key].clone()), "{name}");
        let check = |key: &str, found: f64| assert_close(found, float(&expected[key]), &format!("{name}: {key}"));
        check("start_s", steady.start as f64 / 1e9);
        check("end_s", steady.end as f64 / 1e9);
        check("duration_s", steady.duration_s());
        check("request_throughput", steady.request_throughput);
        check("input_throughput", steady.input_throughput);
        check("output_throughput", steady.output_throughput);
        check("mean_ttft_ms", steady.ttft.mean);
        check("mean_tpot_ms", steady.tpot.mean);
    }
}

/// Like [`sample`], but an output without tokens has no event, and failed requests end at once, because `vllm bench serve` never counts
/// them as open.
fn steady_sample(record: &Value) -> Sample {
    let nanos = |seconds: f64| (seconds * 1e9).round() as u64;
    let at = |name: &str| float(&record[name]);
    let sent = nanos(at("start_time"));
    let mut event = sent + nanos(at("ttft"));
    let mut events = vec![];
    if record["output_tokens"] != 0 {
        events.push(event);
        for gap in floats(&record["itl"]) {
            event += nanos(gap);
            events.push(event);
        }
    }
    Sample {
        sent,
        events: events.into(),
        end: match record["success"] == true {
            true => sent + nanos(at("latency")),
            false => sent,
        },
        prompt_len: record["prompt_len"].as_u64().expect("a count"),
        output_tokens: record["output_tokens"].as_u64(),
        error: (record["success"] != true).then(|| "refused".to_owned()),
        ..Sample::default()
    }
}

#[test]
fn exact_concurrency() {
    for vector in vectors()["concurrency_exact"].as_array().expect("cases") {
        let nanos = |value: &Value| (float(value) * 1e9) as u64;
        let intervals = vector["intervals"].as_array().expect("a list");
        let intervals = intervals.iter().map(|pair| (nanos(&pair[0]), nanos(&pair[1])));
        assert_eq!(
            vsweep::metrics::peak_concurrency(intervals),
            vector["peak"].as_u64().expect("a count")
        );
    }
}
