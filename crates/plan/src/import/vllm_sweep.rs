//! Reimplements the command lines, links, names and folders of `vllm bench sweep`. The code is independent of vsweep's
//! own expansion, so that the two can be compared.

use crate::matrix::argv::{json_word, number_word};
use crate::{Combo, Params, equal, spelling};
use itertools::Itertools;
use serde_json::Value;

/// Figure of our exports that vLLM does not have: the time that the warm-up before the run took, in seconds.
pub const WARMUP_SECONDS: &str = "warmup_seconds";

/// Returns the base command with the parameters of a combination, applied as vLLM does it. For each parameter, the first of three spellings
/// that occurs in the command is replaced, and only where it occurs first; otherwise the flag is appended. Returns `None` if vLLM fails
/// because the flag is the last word, so that its value cannot be replaced.
pub fn apply(base: &[String], params: &Params) -> Option<Vec<String>> {
    let mut argv = base.to_vec();
    for (name, value) in params {
        let spellings = spellings(name);
        let position = spellings
            .iter()
            .find_map(|flag| argv.iter().position(|word| word == flag));
        let words = words(&spellings[0], value);
        match position {
            Some(position) => {
                for (offset, word) in words.into_iter().enumerate() {
                    *argv.get_mut(position + offset)? = word;
                }
            }
            None => argv.extend(words),
        }
    }
    Some(argv)
}

/// Returns the flag with dashes, with underscores and as typed. The part after a dot is not changed.
fn spellings(name: &str) -> [String; 3] {
    let spelled = [spelling::flag(name), spelling::canonical(name), name.to_owned()];
    spelled.map(|name| format!("--{name}"))
}

fn words(flag: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Bool(on) if flag.contains('.') => vec![format!("{flag}={on}")],
        Value::Bool(true) => vec![flag.to_owned()],
        Value::Bool(false) => vec![format!("--no-{}", flag.trim_start_matches("--"))],
        Value::Object(_) => vec![flag.to_owned(), json_word(value)],
        value => vec![flag.to_owned(), text(value)],
    }
}

/// Reads `--link-vars`: pairs of a server and a load parameter, `max_num_seqs=max_concurrency,...`.
pub fn link_vars(text: &str) -> Result<Vec<(String, String)>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let pair = |pair: &str| {
        let names: Vec<&str> = pair.split('=').map(str::trim).collect();
        match names.as_slice() {
            [serve, bench] if !serve.is_empty() && !bench.is_empty() => Ok((serve.to_string(), bench.to_string())),
            _ => Err(format!(
                "`{pair}` ties no two parameters; write serve_name=bench_name, with commas between pairs"
            )),
        }
    };
    text.split(',').map(pair).collect()
}

/// Returns true if a server and a load satisfy all links: both parameters of each link exist under exactly these names and are equal.
pub fn links_keep(links: &[(String, String)], serve: &Params, bench: &Params) -> bool {
    links.iter().all(|(serve_name, bench_name)| {
        let both = serve.get(serve_name).zip(bench.get(bench_name));
        both.is_some_and(|(serve, bench)| equal(serve, bench))
    })
}

/// Returns a value as Python's `str` writes it.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other),
    }
}

/// Returns a value as Python's `repr` writes it.
fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number_word(number),
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", items.iter().map(repr).join(", ")),
        Value::Object(members) => {
            let members = members.iter();
            let mut members = members.map(|(name, value)| format!("{}: {}", quoted(name), repr(value)));
            format!("{{{}}}", members.join(", "))
        }
    }
}

fn quoted(text: &str) -> String {
    let quote = match text.contains('\'') && !text.contains('"') {
        true => '"',
        false => '\'',
    };
    let written = text.chars().map(|character| match character {
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        character if character == quote => format!("\\{quote}"),
        '\0'..'\x20' | '\x7f' => format!("\\x{:02x}", u32::from(character)),
        character => character.to_string(),
    });
    format!("{quote}{}{quote}", written.collect::<String>())
}

/// Returns the name of a combination, or its parameters if it has no name: `max_num_seqs=64-seed=1`.
pub fn name(combo: &Combo) -> String {
    combo.name.clone().unwrap_or_else(|| {
        let params = combo.params.iter();
        params.map(|(name, value)| format!("{name}={}", text(value))).join("-")
    })
}

/// Returns the name of the folder of two combinations, each with the word that precedes it in the name, below the folder of their
/// experiment. `further` are more parts of the name, such as `WL-` and `request_rate=4`. The name is empty if both combinations are empty
/// and there are no more parts.
pub fn folder_of(sides: [(&str, &Combo); 2], further: &[&str]) -> String {
    let mut parts = Vec::new();
    for (side, combo) in sides {
        if combo.name.is_some() || !combo.params.is_empty() {
            parts.extend([side.to_owned(), name(combo)]);
        }
    }
    parts.extend(further.iter().map(|part| (*part).to_owned()));
    file_name(&parts.join("-"))
}

/// Returns a text as a file name, as vLLM makes it.
pub fn file_name(text: &str) -> String {
    let text = text.replace('/', "_").replace("..", "__");
    text.trim_matches('\'').trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_shown_as_python_shows_them() {
        let value = json!({"a": [null, true, 1e22, "it's", "\"'"], "b": {}});
        assert_eq!(text(&value), r#"{'a': [None, True, 1e+22, "it's", '"\''], 'b': {}}"#);
        assert_eq!(text(&json!("x'y")), "x'y");
    }
}
