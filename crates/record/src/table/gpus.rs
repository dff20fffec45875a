//! How many GPUs a server uses, read from its parameters and its command line.

use super::users::written_number;
use super::{Cell, normal};
use vsweep_plan::plan::{Params, ServeCommand};

/// The spellings of the degrees of parallelism.
pub const DEGREES: [[&str; 2]; 3] = [
    ["tensor_parallel_size", "tp"],
    ["pipeline_parallel_size", "pp"],
    ["data_parallel_size", "dp"],
];

/// GPUs of one server: an explicit `num_gpus` or `gpu_count`, else tensor × pipeline × data parallel size, each from the
/// parameters or else from the command line (`-tp 2` in a base command counts; as in vLLM, the last one wins).
pub fn count_gpus(params: &Params, argv: &[String]) -> f64 {
    let positive = |number: &f64| number.is_finite() && *number > 0.0;
    let param = |names: &[&str]| {
        // The long name wins, wherever it stands.
        let mut named = names
            .iter()
            .flat_map(|name| params.iter().filter(move |(key, _)| normal(key) == *name));
        named
            .find_map(|(_, value)| written_number(&Cell::from_json(value)))
            .filter(positive)
    };
    param(&["num_gpus", "gpu_count"]).unwrap_or_else(|| {
        let command = ServeCommand::of(argv);
        let flag = |names: &[&str; 2]| names.iter().find_map(|name| command.value(name)?.parse().ok());
        let degrees = DEGREES.iter().map(|names| {
            let given = param(names).or_else(|| flag(names).filter(positive));
            given.unwrap_or(1.0)
        });
        degrees.product()
    })
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
        assert_eq!(count(json!({"tp": 2, "gpu_count": "4"}), ""), 4.0);
    }

    #[test]
    fn degrees_multiply_whatever_their_spelling() {
        let params = json!({"tensor-parallel-size": 2, "pp": 2, "data_parallel_size": "2"});
        assert_eq!(count(params, "vllm serve m -tp 16"), 8.0);
        assert_eq!(count(json!({}), "vllm serve m -tp 2 --pipeline_parallel_size=3"), 6.0);
        assert_eq!(count(json!({}), "vllm serve m -tp 2 --tensor-parallel-size 4"), 4.0);
    }

    #[test]
    fn the_long_name_of_a_degree_wins() {
        assert_eq!(count(json!({"tp": 8, "tensor_parallel_size": 2}), ""), 2.0);
        assert_eq!(count(json!({"tensor-parallel-size": "2", "tp": 8}), ""), 2.0);
    }

    #[test]
    fn nonsense_counts_as_one() {
        assert_eq!(count(json!({"tp": 0}), "vllm serve m --tp"), 1.0);
        assert_eq!(count(json!({"tp": "auto"}), "vllm serve m -tp x"), 1.0);
    }
}
