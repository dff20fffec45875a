//! A result in the format of PyTorch's benchmark dashboard: one record for each of twelve figures.

use super::file;
use super::flags;
use super::settings::Settings;
use crate::plan::Params;
use serde_json::{Map, Value, json};

/// The figures with a record each, in the order of `vllm bench serve`.
const FIGURES: [&str; 12] = [
    "median_ttft_ms",
    "mean_ttft_ms",
    "std_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "median_tpot_ms",
    "std_tpot_ms",
    "p99_tpot_ms",
    "median_itl_ms",
    "mean_itl_ms",
    "std_itl_ms",
    "p99_itl_ms",
];
/// What no record repeats: one entry a request or more.
const LEFT_OUT: [&str; 4] = ["ttfts", "itls", "generated_texts", "errors"];

/// The file's text. `given` are the parameters as they were given; header values are not shown.
pub fn text(settings: &Settings, given: &Params, result: &Params) -> String {
    let mut args: Map<String, Value> = flags::all()
        .map(|flag| (flag.name.to_owned(), given.get(flag.name).cloned().unwrap_or_default()))
        .collect();
    let hidden = settings.headers.iter().map(|(name, _)| json!(format!("{name}=***")));
    if given.contains_key("header") {
        args.insert("header".to_owned(), hidden.collect());
    }
    if let Some(size) = result.get("tensor_parallel_size") {
        args.insert("tensor_parallel_size".to_owned(), size.clone());
    }
    let of = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
    let file_name = settings.output.as_ref().and_then(|output| output.name.as_deref());
    let uses_compile = of("compilation_config.mode") != "0" && !file_name.is_some_and(|name| name.contains("eager"));
    let extra: Params = result
        .iter()
        .filter(|(key, _)| !FIGURES.contains(&key.as_str()) && !LEFT_OUT.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let records: Vec<Value> = FIGURES
        .iter()
        .filter_map(|figure| Some((figure, result.get(*figure)?)))
        .map(|(figure, value)| {
            json!({
                "benchmark": {
                    "name": "vLLM benchmark",
                    "extra_info": {
                        "args": args,
                        "compilation_config.mode": of("compilation_config.mode"),
                        "optimization_level": of("optimization_level"),
                        "use_compile": uses_compile,
                    },
                },
                "model": {"name": settings.model.as_deref().unwrap_or(of("model_id"))},
                "metric": {"name": figure, "benchmark_values": [value], "extra_info": extra},
            })
        })
        .collect();
    file::text(&records)
}
