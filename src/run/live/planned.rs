//! Checks that a server runs with the planned settings: compares its reported settings with its command line, or with the parameters of the
//! plan if somebody else started it.
//!
//! Only settings that the plan gives are compared, and only values that vLLM takes unchanged: numbers, switches and names of number
//! formats. A setting that a server reports neither through its API nor in its log is not a difference.

use crate::fingerprint::Fingerprint;
use crate::matrix::ServerConfig;
use crate::plan::{ServeCommand, show, spelling};
use crate::printable::printable;
use crate::validity::{Code, Doubt};
use std::collections::BTreeMap;

/// Settings that a server may report under the names of its flags.
const NAMES: [&str; 12] = [
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "gpu_memory_utilization",
    "block_size",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "enforce_eager",
    "dtype",
];

/// Words of vLLM's log before the flags that it was given.
const LOGGED: &str = "non-default args: {";

/// Value of a flag that is missing from the log and would be there if it had been given.
const NOT_GIVEN: &str = "what the server chose";

/// Settings by name, as a log tells them.
pub(super) type Logged = BTreeMap<&'static str, String>;

/// The doubt in every run on a server that runs other settings than the plan gives; `None` if no such is known.
pub(super) fn doubt(config: &ServerConfig, read: &Fingerprint, logged: &Logged) -> Option<Doubt> {
    let difference = |name: &&str| difference(name, config, read, logged);
    let differences: Vec<String> = NAMES.iter().filter_map(difference).collect();
    (!differences.is_empty()).then(|| Doubt::new(Code::NotAsPlanned, differences.join(", ")))
}

/// Reads settings from a log of vLLM. `None` if it is another program's, or if several servers wrote it.
pub(super) fn logged(log: &str) -> Option<Logged> {
    let mut lines = log.lines().filter_map(|line| line.split_once(LOGGED));
    let (Some((_, given)), None) = (lines.next(), lines.next()) else {
        return None;
    };
    let value_of = |name: &'static str| {
        let value = given.split_once(&format!("'{name}': ")).map(|(_, rest)| {
            let end = rest.find([',', '}']).unwrap_or(rest.len());
            printable(rest[..end].trim_matches('\'')).into_owned()
        });
        let default = match name {
            "tensor_parallel_size" | "pipeline_parallel_size" | "data_parallel_size" => "1",
            "max_num_seqs" | "max_num_batched_tokens" => NOT_GIVEN,
            _ => return Some((name, value?)),
        };
        Some((name, value.unwrap_or_else(|| default.to_owned())))
    };
    Some(NAMES.into_iter().filter_map(value_of).collect())
}

fn difference(name: &str, config: &ServerConfig, read: &Fingerprint, logged: &Logged) -> Option<String> {
    let planned = planned(name, config)?;
    let answered = match name {
        "max_model_len" => read.max_model_len.map(|tokens| tokens.to_string()),
        _ => read.settings.get(name).cloned(),
    };
    let actual = answered.or_else(|| logged.get(name).cloned())?;
    let is_same = match (plain(&planned), plain(&actual)) {
        (Some(Plain::Number(a)), Some(Plain::Number(b))) => (a - b).abs() <= 1e-9 * a.abs(),
        (Some(Plain::Word(a)), Some(Plain::Word(b))) => a == b,
        (Some(Plain::Number(_)), None) => actual != NOT_GIVEN,
        // Values such as `auto` and `8k` are resolved by the server.
        _ => true,
    };
    (!is_same).then(|| format!("{name} is {actual} instead of {planned}"))
}

/// Planned value of a setting.
fn planned(name: &str, config: &ServerConfig) -> Option<String> {
    if config.argv.is_empty() {
        return spelling::find(&config.params, name).map(show);
    }
    let command = ServeCommand::of(&config.argv);
    let is_switch = name.starts_with("en");
    match command.value(name) {
        Some(value) if !is_switch || plain(value).is_some() => Some(value.to_owned()),
        _ if !is_switch => None,
        _ if command.has(name) => Some("true".to_owned()),
        _ => command.has(&format!("no_{name}")).then(|| "false".to_owned()),
    }
}

/// A value that means the same in the plan and in the server's words.
enum Plain {
    Number(f64),
    Word(&'static str),
}

fn plain(value: &str) -> Option<Plain> {
    if let Some(number) = value.parse().ok().filter(|number: &f64| *number > 0.0) {
        return Some(Plain::Number(number));
    }
    Some(Plain::Word(match value.trim_start_matches("torch.") {
        "True" | "true" => "true",
        "False" | "false" => "false",
        "bfloat16" => "bfloat16",
        "float16" | "half" => "float16",
        "float32" | "float" => "float32",
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ServerId;
    use crate::plan::Params;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn config(line: &str, params: Params) -> ServerConfig {
        ServerConfig {
            id: ServerId(String::new()),
            name: String::new(),
            argv: line.split_whitespace().map(str::to_owned).collect(),
            env: BTreeMap::new(),
            params,
            combo: None,
            index: 0,
        }
    }

    /// The report of a real vLLM.
    fn real() -> Fingerprint {
        let settings = [
            ("max_num_seqs", "64"),
            ("dtype", "torch.bfloat16"),
            ("enable_prefix_caching", "True"),
            ("gpu_memory_utilization", "0.92"),
            ("block_size", "128"),
        ];
        Fingerprint {
            max_model_len: Some(2048),
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..Fingerprint::default()
        }
    }

    #[test]
    fn only_what_the_plan_gives_and_the_server_tells_can_differ() {
        let doubted =
            |line: &str| doubt(&config(line, Params::new()), &real(), &Logged::new()).map(|doubt| doubt.detail);
        for line in [
            "vllm serve m",
            "vllm serve m --max-num-seqs 64 --max_model_len=2048 --dtype bfloat16 --enable-prefix-caching --port 1",
            "vllm serve m --max-model-len 2k --dtype auto --gpu-memory-utilization 0.920 --tensor-parallel-size 4",
        ] {
            assert_eq!(doubted(line), None, "{line}");
        }
        let wrong = "vllm serve m --max-num-seqs 128 --dtype half --no-enable-prefix-caching --max-model-len 4096";
        let said = "max_model_len is 2048 instead of 4096, max_num_seqs is 64 instead of 128, \
                    enable_prefix_caching is True instead of false, dtype is torch.bfloat16 instead of half";
        assert_eq!(doubted(wrong).as_deref(), Some(said));
    }

    #[test]
    fn a_server_of_somebody_elses_is_held_against_the_parameters() {
        let params = json!({"max-num-seqs": 32, "block_size": 128});
        let config = config("", params.as_object().cloned().expect("parameters"));
        let doubt = doubt(&config, &real(), &Logged::new()).expect("one differs");
        assert_eq!(
            (doubt.code, &*doubt.detail),
            (Code::NotAsPlanned, "max_num_seqs is 64 instead of 32")
        );
    }

    #[test]
    fn what_a_log_says_of_flags_that_never_arrived_counts() {
        let log = "(APIServer pid=7) INFO 11-20 09:36:47 [api_utils.py:286] non-default args: {'model_tag': 'm', 'port': 8100, \
                   'dtype': 'bfloat16', 'max_model_len': 2048, 'enforce_eager': True, 'served_model_name': ['tiny'], 'block_size': 16}\n";
        let logged = logged(log).expect("flags of vLLM");
        let doubted = |line: &str| {
            doubt(&config(line, Params::new()), &Fingerprint::default(), &logged).map(|doubt| doubt.detail)
        };
        for line in [
            "docker run image serve m --enforce-eager --dtype auto --max-model-len 2048 --tensor-parallel-size 1",
            "vllm serve m --gpu-memory-utilization 0.9",
        ] {
            assert_eq!(doubted(line), None, "{line}");
        }
        let wrong = "docker run image serve m --max-num-seqs 8 --block-size 32 --tensor-parallel-size 2 --dtype half";
        let said = "tensor_parallel_size is 1 instead of 2, max_num_seqs is what the server chose instead of 8, \
                    block_size is 16 instead of 32, dtype is bfloat16 instead of half";
        assert_eq!(doubted(wrong).as_deref(), Some(said));
        assert!(super::logged(&log.repeat(2)).is_none() && super::logged("INFO ready").is_none());
    }
}
