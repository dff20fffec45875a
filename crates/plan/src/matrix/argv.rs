//! Applies parameters to a command line. The flag of a parameter replaces every occurrence of that flag in the base command, in any
//! spelling.
//!
//! Lists of plain values become several words after one flag, because vLLM's list arguments are argparse's `nargs="+"`;
//! lists that hold lists or objects, and objects, become JSON. `null` removes the flag.

use crate::{Flag, FlagStyle, Params, ServeCommand, show, spelling};
use regex::{Captures, Regex};
use serde_json::Value;
use std::iter;
use std::ops::Range;
use std::sync::LazyLock;
pub(crate) use vsweep_base::python_json::dumps as json_word;

/// Returns the base command with every parameter applied, in order.
pub fn apply(base: &[String], params: &Params) -> Vec<String> {
    apply_as(base, params, FlagStyle::Dashes)
}

/// Like `apply`, with flags spelled in the given style.
pub fn apply_as(base: &[String], params: &Params, style: FlagStyle) -> Vec<String> {
    let mut argv = base.to_vec();
    for (name, value) in params {
        set(&mut argv, name, value, style);
    }
    argv
}

/// Placeholders in a benchmark's command that are filled in only when it runs.
pub const RUNTIME: [&str; 5] = ["base_url", "host", "port", "model", "result"];

/// A placeholder in a command, or another text in braces.
static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{([^{}\s]+)\}").expect("a pattern"));

/// Returns the base command with the values of the parameters. A parameter with a placeholder such as `{max_concurrency}`, in any spelling,
/// replaces the placeholder; every other parameter is applied as a flag.
pub fn fill_in(base: &[String], params: &Params) -> Vec<String> {
    let mut argv = base.to_vec();
    let mut flags = params.clone();
    for (name, value) in params.iter().filter(|(name, _)| !RUNTIME.contains(&&***name)) {
        let is_its = |found: &Captures<'_>| spelling::same(&found[1], name);
        if argv
            .iter()
            .any(|text| PLACEHOLDER.captures_iter(text).any(|found| is_its(&found)))
        {
            let filled = |found: &Captures<'_>| match is_its(found) {
                true => word(value),
                false => found[0].to_owned(),
            };
            argv.iter_mut()
                .for_each(|text| *text = PLACEHOLDER.replace_all(text, filled).into_owned());
            flags.shift_remove(name);
        }
    }
    apply(&argv, &flags)
}

/// Returns the names in a command's placeholders that parameters must fill in. Doubled braces, `${NAME}` and JSON are not placeholders.
/// Neither are braces in a script, which is a word with blanks.
pub fn placeholders(argv: &[String]) -> impl Iterator<Item = &str> {
    let is_name = |name: &str| {
        let mut letters = name.chars();
        letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    let words = argv.iter().filter(|word| !word.contains(char::is_whitespace));
    let found = words.flat_map(|text| {
        let found = PLACEHOLDER.captures_iter(text).filter_map(|found| found.get(1));
        let single = found.filter(|name| !text[..name.start() - 1].ends_with(['{', '$']));
        single.map(|name| name.as_str())
    });
    found.filter(move |name| is_name(name) && !RUNTIME.contains(name))
}

/// Replaces the first occurrence of a parameter's flag, removes the others; appends the flag if there is none.
fn set(argv: &mut Vec<String>, name: &str, value: &Value, style: FlagStyle) {
    let flags = ServeCommand::of(argv).flags();
    let occurrences: Vec<Range<usize>> = flags.filter_map(|flag| occurrence(&flag, name, value)).collect();
    let place = occurrences.first().map_or(argv.len(), |first| first.start);
    for words in occurrences.into_iter().rev() {
        argv.drain(words);
    }
    let flag = match style {
        FlagStyle::AsWritten => format!("--{name}"),
        FlagStyle::Dashes => format!("--{}", spelling::flag(name)),
    };
    argv.splice(place..place, words(flag, name, value));
}

/// The words that a parameter adds to a command line.
fn words(flag: String, name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::Bool(on) if name.contains('.') => vec![format!("{flag}={on}")],
        Value::Bool(true) => vec![flag],
        Value::Bool(false) if is_plain_switch(&spelling::canonical(name)) => Vec::new(),
        Value::Bool(false) => vec![opposite(&flag)],
        Value::Array(items) if !items.iter().any(|item| item.is_array() || item.is_object()) => {
            iter::once(flag).chain(items.iter().map(word)).collect()
        }
        // As a separate word, a value that looks like a flag would be read as a flag.
        Value::String(text) if text.starts_with('-') => vec![format!("{flag}={text}")],
        value => vec![flag, word(value)],
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::Number(number) => number_word(number),
        Value::Array(_) | Value::Object(_) => json_word(value),
        value => show(value),
    }
}

/// A number as Python's `str` writes it, which vLLM's own sweep would pass: `1e-07`, `1e+22`.
pub(crate) fn number_word(number: &serde_json::Number) -> String {
    let text = number.to_string();
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent.trim_start_matches('+')),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// Returns `--no-x` for `--x`, and the reverse.
fn opposite(flag: &str) -> String {
    match flag.strip_prefix("--no-") {
        Some(rest) => format!("--{rest}"),
        None => format!("--no-{}", flag.trim_start_matches('-')),
    }
}

/// Returns the range of the words of a flag and its values, if it is the flag of the parameter.
fn occurrence(flag: &Flag<'_>, name: &str, value: &Value) -> Option<Range<usize>> {
    let long = |name: &str| format!("--{}", spelling::flag(name));
    let (given, wanted) = (long(flag.name.as_deref()?), long(name));
    // A boolean replaces `--x` and `--no-x` alike, and `null` removes both.
    let is_pair = matches!(value, Value::Bool(_) | Value::Null);
    if given != wanted && !(is_pair && given == opposite(&wanted)) {
        return None;
    }
    let canonical = spelling::canonical(name);
    let is_truth = |word: &&String| ["true", "false"].iter().any(|truth| word.eq_ignore_ascii_case(truth));
    let truth = flag.after.first().filter(is_truth).iter().count();
    Some(flag.words(match value {
        _ if is_list(&canonical) || value.is_array() => usize::MAX,
        Value::Bool(_) => truth,
        Value::Null if is_switch(flag.flag, &canonical) => truth,
        _ => 1,
    }))
}

/// Returns true if a flag in the base command most likely takes no value. Needed where no value of a parameter shows it, as for `null`.
pub(super) fn is_switch(flag: &str, name: &str) -> bool {
    let usual = ["enable_", "disable_", "enforce_", "trust_", "no_"];
    flag.starts_with("--no-") || is_plain_switch(name) || usual.iter().any(|start| name.starts_with(start))
}

/// Switches of `vllm serve` and `vllm bench serve` that have no `--no-` form: `false` means that they are absent.
const SWITCHES: &str = "\
    aggregate_engine_logging append_result custom_ensure_client_side_data data_parallel_multi_port_external_lb \
    disable_log_stats disable_shuffle disable_tqdm enable_multimodal_chat grpc headless ignore_eos insecure \
    no_oversample no_reranker no_stream plot_dataset_stats plot_timeline profile save_detailed save_result \
    skip_chat_template skip_tokenizer_init use_beam_search";

/// Flags that take several words. A new value replaces all of them.
const LISTS: &str = "\
    allowed_media_domains collect_detailed_traces cudagraph_capture_sizes device_ids goodput header ignore_patterns \
    kv_cache_dtype_skip_layers logits_processors lora_modules lora_target_modules metadata numa_bind_cpus \
    numa_bind_nodes offload_params served_model_name sleep_preserve_parameter_names";

/// Returns true if a flag, in canonical spelling, has no `--no-` form.
pub fn is_plain_switch(name: &str) -> bool {
    SWITCHES.split(' ').any(|switch| switch == name)
}

/// Returns true if a flag, in canonical spelling, takes several words.
pub fn is_list(name: &str) -> bool {
    LISTS.split(' ').any(|list| list == name)
}

/// Returns true if a flag of vLLM or of the simulator, in canonical spelling, may be given several times and each counts.
pub fn is_repeated(name: &str) -> bool {
    matches!(name, "middleware" | "sim_fault")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The command line after applying parameters, both as text.
    fn applied(base: &str, params: Value) -> String {
        let base = shell_words::split(base).expect("a command line");
        shell_words::join(apply(&base, params.as_object().expect("parameters")))
    }

    #[test]
    fn every_spelling_is_replaced_by_one_flag() {
        let params = json!({"tensor_parallel_size": 4});
        for base in [
            "vllm serve m --tensor-parallel-size 1",
            "vllm serve m --tensor_parallel_size=1",
            "vllm serve m -tp 1",
            "vllm serve m -tp=1",
            "vllm serve m --tensor-parallel-size 1 -tp 2 --tensor_parallel_size=8",
            "vllm serve m",
        ] {
            assert_eq!(
                applied(base, params.clone()),
                "vllm serve m --tensor-parallel-size 4",
                "{base}"
            );
        }
    }

    #[test]
    fn a_key_of_a_short_flag_is_replaced() {
        let params = json!({"compilation_config.mode": 0});
        for base in [
            "v serve m -cc.mode=3",
            "v serve m -cc.mode 3",
            "v serve m --compilation-config.mode=3",
        ] {
            assert_eq!(
                applied(base, params.clone()),
                "v serve m --compilation-config.mode 0",
                "{base}"
            );
        }
        assert_eq!(
            applied("v serve m -cc.level=3", params),
            "v serve m '-cc.level=3' --compilation-config.mode 0"
        );
    }

    #[test]
    fn the_flag_keeps_its_place() {
        assert_eq!(
            applied("vllm serve --port=1 m --seed 2", json!({"port": 9})),
            "vllm serve --port 9 m --seed 2"
        );
        assert_eq!(
            applied("vllm serve --enforce-eager m", json!({"enforce_eager": false})),
            "vllm serve --no-enforce-eager m"
        );
        assert_eq!(
            applied("vllm serve --no-x m --x", json!({"x": true})),
            "vllm serve --x m"
        );
    }

    #[test]
    fn null_removes_the_flag_in_every_form() {
        assert_eq!(
            applied("vllm serve m --max-num-seqs 8 --seed 1", json!({"max_num_seqs": null})),
            "vllm serve m --seed 1"
        );
        assert_eq!(
            applied("vllm serve --no-enable-x m", json!({"enable_x": null})),
            "vllm serve m"
        );
        assert_eq!(applied("vllm serve m", json!({"x": null})), "vllm serve m");
    }

    #[test]
    fn lists_are_words_and_objects_are_json() {
        let base = "vllm serve m --served-model-name a b --seed 1";
        assert_eq!(
            applied(base, json!({"served_model_name": ["c", "d", "e"]})),
            "vllm serve m --served-model-name c d e --seed 1"
        );
        assert_eq!(
            applied(base, json!({"served_model_name": "c"})),
            "vllm serve m --served-model-name c --seed 1"
        );
        assert_eq!(
            applied("v", json!({"a": [{"b": "é"}, 1]})),
            r#"v --a '[{"b": "\u00e9"}, 1]'"#
        );
    }

    #[test]
    fn switches_without_an_opposite_are_left_out() {
        assert_eq!(
            applied("vllm bench serve --ignore-eos", json!({"ignore_eos": false})),
            "vllm bench serve"
        );
        assert_eq!(
            applied("vllm bench serve", json!({"ignore_eos": true})),
            "vllm bench serve --ignore-eos"
        );
    }

    #[test]
    fn values_that_look_like_flags_are_attached() {
        assert_eq!(applied("v --x 1", json!({"x": "-a"})), "v '--x=-a'");
        assert_eq!(applied("v --x -1 m", json!({"x": -2})), "v --x -2 m");
    }

    #[test]
    fn parameters_stand_where_the_command_names_them() {
        let base = [
            "aiperf",
            "--url",
            "{base_url}",
            "--data=n:{num_prompts},c:{max_concurrency}",
        ]
        .map(str::to_owned);
        let params = json!({"num_prompts": 16, "max_concurrency": 4, "seed": 1});
        let argv = fill_in(&base, params.as_object().expect("parameters"));
        assert_eq!(argv.join(" "), "aiperf --url {base_url} --data=n:16,c:4 --seed 1");
        let dashed = ["b".to_owned(), "{max_concurrency}".to_owned()];
        let params = json!({"max-concurrency": 8});
        assert_eq!(fill_in(&dashed, params.as_object().expect("parameters")), ["b", "8"]);
    }

    #[test]
    fn names_in_braces_are_placeholders() {
        let line = [
            "{a_b}",
            "x={c-d},{host}",
            "{{go}}",
            "${HOME}",
            r#"{"a":1}"#,
            "{0}",
            "{base-url}",
        ]
        .map(str::to_owned);
        assert_eq!(placeholders(&line).collect::<Vec<_>>(), ["a_b", "c-d", "base-url"]);
    }

    #[test]
    fn flags_may_be_spelled_as_written() {
        let base = ["trtllm-serve".to_owned(), "m".to_owned(), "--tp_size=1".to_owned()];
        let params = json!({"tp_size": 2, "max-num_tokens": 8});
        let argv = apply_as(&base, params.as_object().expect("parameters"), FlagStyle::AsWritten);
        assert_eq!(argv.join(" "), "trtllm-serve m --tp_size 2 --max-num_tokens 8");
    }

    #[test]
    fn flags_of_a_launcher_are_left_alone() {
        let docker = "docker run -p 8000:8000 --seed 1 image vllm serve m";
        assert_eq!(applied(docker, json!({"port": 9})), format!("{docker} --port 9"));
        assert_eq!(
            applied("numactl --seed 1 -- server --seed=1", json!({"seed": 2})),
            "numactl --seed 1 -- server --seed 2"
        );
    }
}
