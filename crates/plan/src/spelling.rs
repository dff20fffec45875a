//! Compares names of parameters: dashes and underscores are equal up to the first dot. The part after a dot is a key inside a JSON value
//! and is compared as written.

use crate::Params;
use serde_json::Value;

/// The spellings of the degrees of parallelism, by whose product the GPUs of a server are counted. The first of each is vLLM's.
pub const DEGREES: [&[&str]; 4] = [
    &["tensor_parallel_size", "tp", "tp_size"],
    &["pipeline_parallel_size", "pp", "pp_size"],
    &["data_parallel_size", "dp", "dp_size"],
    &["prefill_context_parallel_size", "pcp"],
];

/// Returns true if a parameter is a degree of parallelism.
pub fn is_degree(name: &str) -> bool {
    DEGREES.iter().copied().flatten().any(|degree| same(degree, name))
}

/// The name with underscores, as plans usually write it: `max-num-seqs` → `max_num_seqs`.
pub fn canonical(name: &str) -> String {
    convert(name, '-', "_")
}

/// The name as a flag has it, without the leading dashes: `max_num_seqs` → `max-num-seqs`.
pub fn flag(name: &str) -> String {
    convert(name, '_', "-")
}

fn convert(name: &str, from: char, to: &str) -> String {
    match name.split_once('.') {
        Some((plain, rest)) => format!("{}.{rest}", plain.replace(from, to)),
        None => name.replace(from, to),
    }
}

/// Returns true if two names mean the same flag. Allocates nothing, because large plans ask millions of times.
pub fn same(a: &str, b: &str) -> bool {
    let dot = a.find('.').unwrap_or(a.len());
    let underscored = |byte: &u8| if *byte == b'-' { b'_' } else { *byte };
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let is_alike = || a[..dot].iter().map(underscored).eq(b[..dot].iter().map(underscored));
    a == b || (a.len() == b.len() && a[dot..] == b[dot..] && is_alike())
}

/// Returns true if a word of a command line starts a new flag. Negative numbers do not.
pub fn is_flag(word: &str) -> bool {
    word.starts_with('-') && word.len() > 1 && word.parse::<f64>().is_err()
}

/// Short flags with the parameters they stand for.
const SHORT_FLAGS: [(&str, &str); 25] = [
    ("-p", "port"),
    ("-tp", "tensor_parallel_size"),
    ("-pp", "pipeline_parallel_size"),
    ("-dp", "data_parallel_size"),
    ("-dcp", "decode_context_parallel_size"),
    ("-pcp", "prefill_context_parallel_size"),
    ("-dpn", "data_parallel_rank"),
    ("-dpr", "data_parallel_start_rank"),
    ("-dpl", "data_parallel_size_local"),
    ("-dpa", "data_parallel_address"),
    ("-dpp", "data_parallel_rpc_port"),
    ("-dpb", "data_parallel_backend"),
    ("-dph", "data_parallel_hybrid_lb"),
    ("-dpe", "data_parallel_external_lb"),
    ("-dpm", "data_parallel_multi_port_external_lb"),
    ("-ep", "enable_expert_parallel"),
    ("-q", "quantization"),
    ("-n", "nnodes"),
    ("-r", "node_rank"),
    ("-asc", "api_server_count"),
    ("-sc", "speculative_config"),
    ("-dc", "diffusion_config"),
    ("-cc", "compilation_config"),
    ("-ac", "attention_config"),
    ("-O", "optimization_level"),
];

/// Returns the parameter that a short flag, with or without its dash, sets.
pub fn long_name(short: &str) -> Option<&'static str> {
    let short = short.trim_start_matches('-');
    let mut known = SHORT_FLAGS.iter();
    let known = known.find(|(flag, _)| flag.trim_start_matches('-') == short);
    known.map(|(_, name)| *name)
}

/// Returns the parameter that a word of a command line sets, in canonical spelling, if the word is a long flag or a known short one.
pub fn parameter(word: &str) -> Option<String> {
    let flag = word.split_once('=').map_or(word, |(flag, _)| flag);
    // A key of the parameter's table may follow: `-cc.mode`.
    let (plain, key) = flag.split_at(flag.find('.').unwrap_or(flag.len()));
    let short = || Some(format!("{}{key}", long_name(plain).filter(|_| flag.starts_with('-'))?));
    flag.strip_prefix("--").map(canonical).or_else(short)
}

/// Returns the value of a parameter by any spelling of its name.
pub fn find<'a>(params: &'a Params, name: &str) -> Option<&'a Value> {
    params
        .get(name)
        .or_else(|| params.iter().find(|(key, _)| same(key, name)).map(|(_, value)| value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_and_underscores_are_alike_before_the_first_dot() {
        assert!(same("max-num_seqs", "max_num-seqs"));
        assert!(same("a-b.c_d", "a_b.c_d"));
        assert!(!same("a_b.c-d", "a_b.c_d"));
        assert!(!same("a-b.c", "a-b_c") && !same("a-b_c", "a-b.c") && !same("a-b", "a_b."));
        assert_eq!(
            flag("compilation_config.pass_config.x"),
            "compilation-config.pass_config.x"
        );
    }
}
