//! How many GPUs a server uses, read from its parameters and its command line.

use super::{Cell, normal};
use vsweep_plan::plan::Params;

/// The spellings of one degree of parallelism: parameter names (underscores) and short flags.
struct Degree {
    names: [&'static str; 2],
    short: &'static str,
}

const DEGREES: [Degree; 3] = [
    Degree {
        names: ["tensor_parallel_size", "tp"],
        short: "-tp",
    },
    Degree {
        names: ["pipeline_parallel_size", "pp"],
        short: "-pp",
    },
    Degree {
        names: ["data_parallel_size", "dp"],
        short: "-dp",
    },
];

/// GPUs of one server: an explicit `num_gpus` or `gpu_count`, else tensor × pipeline × data parallel size, each from the
/// parameters or else from the command line (`-tp 2` in a base command counts; as in vLLM, the last one wins).
pub fn count_gpus(params: &Params, argv: &[String]) -> f64 {
    let positive = |number: &f64| number.is_finite() && *number > 0.0;
    let param = |names: &[&str]| {
        let mut named = params.iter().filter(|(key, _)| names.contains(&normal(key).as_str()));
        named.find_map(|(_, value)| to_number(value)).filter(positive)
    };
    param(&["num_gpus", "gpu_count"]).unwrap_or_else(|| {
        let degrees = DEGREES.iter().map(|degree| {
            let given = param(&degree.names).or_else(|| from_argv(degree, argv).filter(positive));
            given.unwrap_or(1.0)
        });
        degrees.product()
    })
}

fn to_number(value: &serde_json::Value) -> Option<f64> {
    let written = value.as_str().and_then(|text| text.trim().parse().ok());
    Cell::from_json(value).number().or(written)
}

fn from_argv(degree: &Degree, argv: &[String]) -> Option<f64> {
    let is_flag = |token: &str| {
        let long = token
            .strip_prefix("--")
            .is_some_and(|name| degree.names.contains(&normal(name).as_str()));
        long || token == degree.short
    };
    let mut values = argv
        .iter()
        .enumerate()
        .filter_map(|(i, token)| match token.split_once('=') {
            Some((flag, value)) if is_flag(flag) => Some(value),
            None if is_flag(token) => argv.get(i + 1).map(String::as_str),
            _ => None,
        });
    values.next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn count(params: serde_json::Value, argv: &str) -> f64 {
        let argv: Vec<String> = argv.split_whitespace().map(String::from).collect();
        count_gpus(params.as_object().expect("an object"), &argv)
    }

    #[test]
    fn an_explicit_count_wins() {
        assert_eq!(count(json!({"num_gpus": 8, "tp": 2}), ""), 8.0);
        assert_eq!(count(json!({"num_gpus": 0, "tp": 2}), ""), 2.0);
    }

    #[test]
    fn degrees_multiply_whatever_their_spelling() {
        let params = json!({"tensor-parallel-size": 2, "pp": 2, "data_parallel_size": "2"});
        assert_eq!(count(params, "vllm serve m -tp 16"), 8.0);
        assert_eq!(count(json!({}), "vllm serve m -tp 2 --pipeline_parallel_size=3"), 6.0);
        assert_eq!(count(json!({}), "vllm serve m -tp 2 --tensor-parallel-size 4"), 4.0);
    }

    #[test]
    fn nonsense_counts_as_one() {
        assert_eq!(count(json!({"tp": 0}), "vllm serve m --tp"), 1.0);
        assert_eq!(count(json!({"tp": "auto"}), "vllm serve m -tp x"), 1.0);
    }
}
