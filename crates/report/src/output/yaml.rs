//! A server's flags as the YAML that `vllm serve --config` reads. The server gets exactly the words that were measured: text that YAML would
//! take for another type is quoted.

use vsweep_plan::matrix::ServeFlags;

/// The model and the flags, one key each.
pub fn write_flags(command: &ServeFlags) -> String {
    let model = command.model.iter().map(|model| format!("model: {}\n", scalar(model)));
    let flags = command.flags.iter().map(|(name, values)| {
        let name = scalar(name);
        match values.as_slice() {
            // `--no-x` is `no-x: true`, because `vllm serve` 0.32 silently ignores `x: false`.
            [] => format!("{name}: true\n"),
            [word] => format!("{name}: {}\n", scalar(word)),
            words => {
                let items: String = words.iter().map(|word| format!("  - {}\n", scalar(word))).collect();
                format!("{name}:\n{items}")
            }
        }
    });
    model.chain(flags).collect()
}

/// Writes a text as a YAML scalar. It reads back as the same text, or as a number that prints as that text.
fn scalar(text: &str) -> String {
    if is_plain_number(text) || is_plain_word(text) {
        return text.to_owned();
    }
    if text.chars().all(|c| (' '..='~').contains(&c)) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        ' '..='~' => c.to_string(),
        c => format!("\\U{:08x}", u32::from(c)),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// Returns true if every YAML reader takes the text for a number that prints unchanged: `8` or `0.9`, but not `010` or `0.90`.
fn is_plain_number(text: &str) -> bool {
    let is_whole = text.parse::<i64>().is_ok_and(|whole| whole.to_string() == text);
    let is_decimal =
        text.contains('.') && text.len() <= 12 && text.parse::<f64>().is_ok_and(|number| number.to_string() == text);
    is_whole || is_decimal
}

/// Words that some version of YAML takes for something else.
const RESERVED: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan"];

fn is_plain_word(text: &str) -> bool {
    let begins_plainly = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_usual = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    begins_plainly && text.chars().all(is_usual) && !RESERVED.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    #[test]
    fn only_plain_words_and_numbers_are_not_quoted() {
        let bare = [
            "8",
            "-1",
            "0.9",
            "auto",
            "meta-llama/Llama-3.1-8B",
            "/models/x",
            "a.b_c",
        ];
        assert_eq!(bare.map(scalar), bare);
        let quoted = [
            "",
            "010",
            "0.90",
            "1e5",
            "1_000",
            "0x10",
            "on",
            "NO",
            "null",
            "~",
            "8k",
            "{\"a\": 1}",
            "a: b",
            "2024-01-01",
        ];
        assert_eq!(quoted.map(scalar), quoted.map(|text| format!("'{text}'")));
        assert_eq!(scalar("it's"), "'it''s'");
        assert_eq!(scalar("é\n\""), r#""\U000000e9\U0000000a\"""#);
    }

    /// The argument that a server gets for a value.
    fn word(value: &Value) -> String {
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    }

    proptest! {
        #[test]
        fn a_reader_gets_every_word(words in prop::collection::vec("(?s)[-+0-9.:#'\"\\\\&*!%@` {}\\[\\],~yn\n\t\u{1b}\u{85}\u{2028}\u{202e}]{0,6}.{0,8}", 4..7)) {
            let flags = [("one", vec![words[1].clone()]), ("many", words[2..].to_vec()), ("on", Vec::new())];
            let command = ServeFlags {
                model: Some(words[0].clone()),
                flags: flags.map(|(name, values)| (name.to_owned(), values)).into(),
                ..ServeFlags::default()
            };
            let yaml = write_flags(&command);
            prop_assert!(!yaml.replace('\n', "").contains(vsweep_base::printable::has_effect), "{yaml:?}");
            let read: Map<String, Value> = serde_yaml_ng::from_str(&yaml).expect("YAML");
            prop_assert_eq!((word(&read["model"]), word(&read["one"]), &read["on"]), (words[0].clone(), words[1].clone(), &Value::Bool(true)));
            let many: Vec<String> = read["many"].as_array().expect("a list").iter().map(word).collect();
            prop_assert_eq!(many, words[2..].to_vec());
        }
    }
}
