//! A result in the format of PyTorch's benchmark dashboard: one record for each of twelve figures.

use crate::bench::native::settings::{NativeSettings, TABLE};
use crate::metrics::RunResult;
use crate::plan::Params;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The figures with a record each, in the order of `vllm bench serve`.
const FIGURES: &str = "median_ttft_ms mean_ttft_ms std_ttft_ms p99_ttft_ms mean_tpot_ms median_tpot_ms std_tpot_ms p99_tpot_ms \
    median_itl_ms mean_itl_ms std_itl_ms p99_itl_ms";
/// What no record repeats: one entry a request or more.
const LEFT_OUT: [&str; 4] = ["ttfts", "itls", "generated_texts", "errors"];

/// One figure of a run, with all that is known of the run.
#[derive(Debug, Serialize)]
pub struct DashboardRecord {
    benchmark: Value,
    model: Value,
    metric: DashboardMetric,
}

#[derive(Debug, Serialize)]
struct DashboardMetric {
    name: &'static str,
    benchmark_values: [Value; 1],
    extra_info: RunResult,
}

/// The file's records. `given` are the parameters as they were given; header values are not shown.
pub fn records(settings: &NativeSettings, given: &Params, result: &RunResult) -> Vec<DashboardRecord> {
    let names = TABLE.all().map(|(_, param)| param.name);
    let mut args: Map<String, Value> = names
        .map(|name| (name.to_owned(), given.get(name).cloned().unwrap_or_default()))
        .collect();
    let hidden = settings
        .server
        .headers
        .iter()
        .map(|(name, _)| json!(format!("{name}=***")));
    if given.contains_key("header") {
        args.insert("header".to_owned(), hidden.collect());
    }
    if let Some(size) = result.get("tensor_parallel_size") {
        args.insert("tensor_parallel_size".to_owned(), size.clone());
    }
    let of = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
    let file_name = settings.output.result_filename.as_deref();
    let uses_compile = of("compilation_config.mode") != "0" && !file_name.is_some_and(|name| name.contains("eager"));
    let benchmark = json!({
        "name": "vLLM benchmark",
        "extra_info": {
            "args": args,
            "compilation_config.mode": of("compilation_config.mode"),
            "optimization_level": of("optimization_level"),
            "use_compile": uses_compile,
        },
    });
    let record = |name: &'static str| {
        let is_wanted = |key: &str| !FIGURES.split(' ').any(|figure| figure == key) && !LEFT_OUT.contains(&key);
        Some(DashboardRecord {
            benchmark: benchmark.clone(),
            model: json!({"name": settings.server.model.as_deref().unwrap_or(of("model_id"))}),
            metric: DashboardMetric {
                name,
                benchmark_values: [result.get(name)?.clone()],
                extra_info: result.only(is_wanted),
            },
        })
    };
    FIGURES.split(' ').filter_map(record).collect()
}
