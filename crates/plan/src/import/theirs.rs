//! What `vllm bench sweep` itself makes of its parameters: command lines, which pairs its links keep, names and folders.
//! Kept apart from what vsweep makes of a plan, so that both can be compared.

use crate::matrix::argv::{json_word, number_word};
use crate::plan::{Combo, Params, equal};
use serde_json::Value;
use std::fmt::Write;

/// The base command with a record's parameters applied, as vLLM does it: only the first flag that is spelled in one of
/// three ways is replaced. `None` where it fails, for want of a word to replace.
pub fn apply(base: &[String], params: &Params) -> Option<Vec<String>> {
    let mut argv = base.to_vec();
    for (name, value) in params {
        let spellings = spellings(name);
        let place = spellings
            .iter()
            .find_map(|flag| argv.iter().position(|word| word == flag));
        let words = words(&spellings[0], value);
        match place {
            Some(place) => {
                for (offset, word) in words.into_iter().enumerate() {
                    *argv.get_mut(place + offset)? = word;
                }
            }
            None => argv.extend(words),
        }
    }
    Some(argv)
}

/// The flag with dashes, with underscores and as it is typed; what follows a dot stays.
fn spellings(name: &str) -> [String; 3] {
    let (plain, rest) = name.find('.').map_or((name, ""), |dot| name.split_at(dot));
    let flag = |plain: &str| format!("--{plain}{rest}");
    [
        flag(&plain.replace('_', "-")),
        flag(&plain.replace('-', "_")),
        flag(plain),
    ]
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
    let pairs = text.split(',').map(
        |pair| match pair.split('=').map(str::trim).collect::<Vec<_>>().as_slice() {
            [serve, bench] if !serve.is_empty() && !bench.is_empty() => Ok((serve.to_string(), bench.to_string())),
            _ => Err(format!(
                "`{pair}` ties no two parameters; write serve_name=bench_name, with commas between pairs"
            )),
        },
    );
    pairs.collect()
}

/// Whether the links keep a pair: every link's two parameters are there, by these very names, and equal.
pub fn links_keep(links: &[(String, String)], serve: &Params, bench: &Params) -> bool {
    links.iter().all(|(serve_name, bench_name)| {
        let both = serve.get(serve_name).zip(bench.get(bench_name));
        both.is_some_and(|(serve, bench)| equal(serve, bench))
    })
}

/// A value as Python's `str` shows it.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => shown_inside(other),
    }
}

/// A value as Python's `repr` shows it.
fn shown_inside(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number_word(number),
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", list(items.iter().map(shown_inside).collect())),
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| format!("{}: {}", quoted(name), shown_inside(value)));
            format!("{{{}}}", list(members.collect()))
        }
    }
}

fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut shown = String::from(quote);
    for character in text.chars() {
        let written = match character {
            '\\' => write!(shown, "\\\\"),
            '\n' => write!(shown, "\\n"),
            '\r' => write!(shown, "\\r"),
            '\t' => write!(shown, "\\t"),
            character if character == quote => write!(shown, "\\{quote}"),
            character if (character as u32) < 0x20 || character as u32 == 0x7f => {
                write!(shown, "\\x{:02x}", character as u32)
            }
            character => write!(shown, "{character}"),
        };
        written.expect("written to memory");
    }
    shown.push(quote);
    shown
}

/// The name of a record: the one it was given, else its parameters.
pub fn name(record: &Combo) -> String {
    record.name.clone().unwrap_or_else(|| {
        let params = record
            .params
            .iter()
            .map(|(name, value)| format!("{name}={}", text(value)));
        params.collect::<Vec<_>>().join("-")
    })
}

/// The folder of a combination below that of its experiment; empty if neither record says anything. `further` are parts
/// that follow, such as `WL-` and `request_rate=4`.
pub fn folder(serve: &Combo, bench: &Combo, further: &[&str]) -> String {
    folder_of([("SERVE-", serve), ("BENCH-", bench)], further)
}

/// The same with these words before the sides.
pub fn folder_of(sides: [(&str, &Combo); 2], further: &[&str]) -> String {
    let mut parts = Vec::new();
    for (side, record) in sides {
        if record.name.is_some() || !record.params.is_empty() {
            parts.extend([side.to_owned(), name(record)]);
        }
    }
    parts.extend(further.iter().map(|part| (*part).to_owned()));
    file_name(&parts.join("-"))
}

/// A text as the name of a file.
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
