//! Converts results of vLLM's benchmarks without a server to the figures of one row: nested members are copied to the top level, and
//! figures that `vllm bench serve` reports too are added under its names and in its units. vLLM's own keys stay.

use crate::bench::native::settings::TABLE;
use crate::bench::params::Takes;
use crate::plan::{Offline, Params, ServeCommand, number_or_text, show, spelling};
use serde_json::{Map, Value, json};

/// Percentiles that become columns. These benchmarks repeat too seldom for finer ones.
const REPORTED: [&str; 3] = ["50", "90", "99"];

/// Returns the figures of `vllm bench startup`, `throughput`, `latency` or `mm-processor`, whose command line was `argv`.
pub(crate) fn of_engine(mut result: Params, argv: &[String]) -> Params {
    let mut more = Params::new();
    for (key, value) in &result {
        match value {
            Value::Object(percents) if key.ends_with("percentiles") => {
                let prefix = key.trim_end_matches("percentiles").trim_end_matches('_');
                let reported = percents
                    .iter()
                    .filter(|(percent, _)| REPORTED.contains(&percent.as_str()));
                more.extend(reported.map(|(percent, value)| match prefix {
                    "" => (format!("p{percent}_e2el_ms"), times(value, 1000.0)),
                    prefix => (format!("p{percent}_{prefix}_time"), value.clone()),
                }));
            }
            Value::Array(pairs) if key == "percentiles_e2el_ms" => {
                let pairs = pairs
                    .iter()
                    .filter_map(|pair| Some((pair.get(0)?.as_f64()?, pair.get(1)?)));
                more.extend(pairs.map(|(percent, value)| (format!("p{percent}_e2el_ms"), value.clone())));
            }
            Value::Object(stages) if key == "mm_processor_stats" => {
                let stages = stages
                    .iter()
                    .filter_map(|(stage, stats)| Some((stage, stats.as_object()?)));
                more.extend(stages.flat_map(|(stage, stats)| of_stage(stage, stats)));
            }
            Value::Object(counts) if key == "encoder_summary" => more.extend(counts.clone()),
            _ => {}
        }
    }
    let renamed = [
        ("elapsed_time", "duration", 1.0),
        ("num_requests", "completed", 1.0),
        ("requests_per_second", "request_throughput", 1.0),
        ("tokens_per_second", "total_token_throughput", 1.0),
        ("avg_latency", "mean_e2el_ms", 1000.0),
    ];
    for (theirs, ours, factor) in renamed {
        if let Some(value) = result.get(theirs) {
            more.insert(ours.to_owned(), times(value, factor));
        }
    }
    if let Some(median) = more.get("p50_e2el_ms").cloned() {
        more.insert("median_e2el_ms".to_owned(), median);
    }
    let shares = [
        (
            "cold_compilation_share",
            "avg_cold_compilation_time",
            "avg_cold_startup_time",
        ),
        (
            "warm_compilation_share",
            "avg_warm_compilation_time",
            "avg_warm_startup_time",
        ),
        ("warm_startup_share", "avg_warm_startup_time", "avg_cold_startup_time"),
    ];
    for (name, part, whole) in shares {
        let figure = |key: &str| result.get(key).and_then(Value::as_f64);
        if let Some((part, whole)) = figure(part).zip(figure(whole).filter(|whole| *whole > 0.0)) {
            more.insert(name.to_owned(), json!(part / whole));
        }
    }
    if let Some(model) = ServeCommand::of(argv).model() {
        more.insert("model_id".to_owned(), model.into());
    }
    for (name, value) in more {
        result.entry(name).or_insert(value);
    }
    result
}

/// Renames the statistics of a stage: `hf_processor_ms: {"mean": 1, "p99.0": 2}` gives `mean_hf_processor_ms` and `p99_hf_processor_ms`.
fn of_stage(stage: &str, stats: &Map<String, Value>) -> Vec<(String, Value)> {
    let named = stats.iter().map(|(name, value)| {
        let name = name.strip_suffix(".0").unwrap_or(name);
        (format!("{name}_{stage}"), value.clone())
    });
    named.collect()
}

fn times(value: &Value, factor: f64) -> Value {
    match value.as_f64() {
        Some(number) if factor != 1.0 => json!(number * factor),
        _ => value.clone(),
    }
}

/// Returns the remedy if a plan judges by a figure that a run of this benchmark does not report; `None` if the run reports it.
pub fn remedy_for_figure(offline: Offline, key: &str, params: &Params) -> Option<String> {
    let asked = spelling::find(params, "metric_percentiles").map_or_else(|| "99".to_owned(), show);
    let (named, percents) = match offline {
        Offline::Startup => ("", ""),
        Offline::Throughput => ("request_throughput total_token_throughput completed", ""),
        Offline::Latency => ("mean_e2el_ms median_e2el_ms", "50,90,99"),
        Offline::MmProcessor => ("mean_e2el_ms median_e2el_ms std_e2el_ms completed failed", &*asked),
    };
    let percents = percents
        .split(',')
        .filter_map(|percent| percent.trim().parse::<f64>().ok());
    let percents = percents.map(|percent| format!("p{percent}_e2el_ms"));
    let known: Vec<String> = named.split_whitespace().map(str::to_owned).chain(percents).collect();
    match known.as_slice() {
        [] => Some(format!(
            "remove it; nothing is judged by figures of runner {}",
            offline.name()
        )),
        _ => (!known.iter().any(|name| name == key)).then(|| format!("name one of {}", known.join(", "))),
    }
}

/// Returns those parameters of a `vllm bench serve` command line that the native benchmark also has; `None` for another program.
pub fn params_of(argv: &[String]) -> Option<Params> {
    let is_serve = argv.windows(2).any(|pair| pair[0] == "bench" && pair[1] == "serve");
    is_serve.then(|| read_params(argv))
}

/// Returns true if the parameters of a benchmark, or the flags of its `vllm bench serve` command line, ask for warm-up requests.
pub fn warms_up(params: &Params, argv: Option<&[String]>) -> bool {
    let given = argv.and_then(params_of);
    let count = spelling::find(given.as_ref().unwrap_or(params), "num_warmups");
    count.and_then(number_or_text).is_some_and(|count| count > 0.0)
}

/// Returns those flags of a command line that are parameters of the native benchmark. Without a rate, `request_rate` is `inf`, because the
/// client then sends all requests at once.
pub fn read_params(argv: &[String]) -> Params {
    let command = ServeCommand::of(argv);
    let given = TABLE.all().filter(|(_, param)| command.has(param.name));
    let params = given.filter_map(|(_, param)| {
        let values = command.values(param.name);
        let value = match param.takes {
            Takes::Nothing => Value::Bool(true),
            Takes::Texts => values.into_iter().collect(),
            _ => (*values.first()?).into(),
        };
        Some((param.name.to_owned(), value))
    });
    let mut params: Params = params.collect();
    params.entry("request_rate").or_insert_with(|| "inf".into());
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of a recorded result that are not vLLM's own keys.
    fn added(recorded: &str, command: &str) -> Params {
        let result: Params = serde_json::from_str(recorded).expect("JSON");
        let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let mut figures = of_engine(result.clone(), &argv);
        figures.retain(|name, _| !result.contains_key(name));
        figures
    }

    #[test]
    fn a_client_without_a_rate_sends_at_once() {
        let params = |command: &str| {
            let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
            params_of(&argv).map(Value::from)
        };
        assert_eq!(
            params("vllm bench serve --num-prompts 4"),
            Some(json!({"num_prompts": "4", "request_rate": "inf"}))
        );
        assert_eq!(
            params("vllm bench serve --request-rate 3"),
            Some(json!({"request_rate": "3"}))
        );
        assert_eq!(params("another bench"), None);
    }

    #[test]
    fn a_warm_up_is_asked_for_by_a_parameter_or_a_flag() {
        let is_asked = |params: Value, command: Option<&str>| {
            let argv: Option<Vec<String>> = command.map(|command| command.split(' ').map(str::to_owned).collect());
            warms_up(params.as_object().expect("an object"), argv.as_deref())
        };
        assert!(is_asked(json!({}), Some("vllm bench serve --num-warmups 5")));
        assert!(!is_asked(json!({}), Some("vllm bench serve --num-warmups=00")));
        assert!(!is_asked(json!({}), Some("vllm bench serve")));
        assert!(is_asked(json!({"num-warmups": 2}), None));
        assert!(!is_asked(json!({"num_warmups": "0"}), None));
    }

    #[test]
    fn the_start_of_an_engine_has_its_shares() {
        let recorded = r#"{"avg_cold_startup_time": 40.0, "cold_startup_percentiles": {"50": 39.0},
            "avg_cold_compilation_time": 10.0, "avg_warm_startup_time": 20.0, "avg_warm_compilation_time": 1.0}"#;
        assert_eq!(
            Value::from(added(recorded, "vllm bench startup --model m")),
            json!({"p50_cold_startup_time": 39.0, "cold_compilation_share": 0.25, "warm_compilation_share": 0.05,
                   "warm_startup_share": 0.5, "model_id": "m"})
        );
    }

    #[test]
    fn figures_that_vllm_bench_serve_has_get_its_names() {
        let recorded = include_str!("../../../tests/data/offline/latency.json");
        let latency = added(recorded, "vllm bench latency");
        assert_eq!(latency["mean_e2el_ms"], json!(29.18991900041874));
        assert_eq!(latency["median_e2el_ms"], latency["p50_e2el_ms"]);
        assert_eq!(latency["p99_e2el_ms"], json!(50.28881308098789));
        let recorded = include_str!("../../../tests/data/offline/throughput.json");
        let throughput = added(recorded, "vllm bench throughput");
        assert_eq!(throughput["completed"], json!(50));
        assert_eq!(throughput["total_token_throughput"], json!(16702.024853306408));
        let recorded = r#"{"percentiles_e2el_ms": [[99.0, 5.5]], "encoder_summary": {"total_encoder_calls": 3},
            "mm_processor_stats": {"hf_processor_ms": {"mean": 1.0, "p99.0": 2.0}}}"#;
        assert_eq!(
            Value::from(added(recorded, "vllm bench mm-processor")),
            json!({"p99_e2el_ms": 5.5, "mean_hf_processor_ms": 1.0, "p99_hf_processor_ms": 2.0, "total_encoder_calls": 3})
        );
    }
}

#[cfg(test)]
mod params_tests {
    use super::*;
    use crate::bench::native::mean_lengths;

    fn lengths(command: &str) -> Option<(f64, f64)> {
        let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        mean_lengths(&params_of(&argv)?)
    }

    #[test]
    fn a_foreign_command_line_tells_its_lengths_where_they_are_random() {
        let command =
            "vllm bench serve --dataset-name random --random-input-len=300 --random_output_len 40 --ignore-eos";
        assert_eq!(lengths(command), Some((300.0, 40.0)));
        assert_eq!(lengths("python bench.py --random-input-len 300"), None);
        assert_eq!(
            lengths("vllm bench serve --dataset-name sharegpt --dataset-path x.json"),
            None
        );
    }
}
