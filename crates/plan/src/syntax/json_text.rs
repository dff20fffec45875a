//! Parses JSON text into a tree of nodes. The JSON must be strict, except for `Infinity` and `NaN`, which Python writes.

use super::toml_text::TOO_LARGE;
use crate::{Diagnostics, Entry, Kind, Node, Problem, Span};
use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::{CollectOptions, ParseOptions};
use serde_json::Number;

/// Maximum depth of nesting. No plan needs more, and functions that walk the tree recurse to this depth.
const DEEPEST: usize = 80;

const REMEDY: &str = "correct it here; strict JSON has double quotes, no comments and no trailing commas";

const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: true,
    allow_extended_string_escapes: false,
};

/// Reads a whole document. The first syntax error ends the reading, because problems after it would be guesswork.
pub fn parse(text: &str, source: usize, found: &mut Diagnostics) -> Node {
    // Blanks in place of a byte order mark keep all positions.
    let without_mark = text.strip_prefix('\u{feff}').map(|rest| format!("   {rest}"));
    let text = without_mark.as_deref().unwrap_or(text);
    let problem = match jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &STRICT) {
        Ok(parsed) => match parsed.value {
            Some(value) => return node(&value, source, 1, found),
            None => Problem::of("the file is empty", "write a JSON object").at(Span::of(source, 0..text.len())),
        },
        Err(error) => {
            let place = Span::of(source, error.range().start..error.range().end);
            match error.kind() {
                ParseErrorKind::NestingDepthExceeded => too_deep(place),
                kind => Problem::new(place, format!("invalid JSON: {}", lower(&kind.to_string())), REMEDY),
            }
        }
    };
    found.add(problem);
    Node::default()
}

fn too_deep(place: Span) -> Problem {
    Problem::new(place, "nested too deep", format!("nest at most {DEEPEST} levels"))
}

/// Returns the text with its first letter in lower case, to follow a colon.
fn lower(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_ascii_lowercase() + rest
}

fn node(value: &Value<'_>, source: usize, depth: usize, found: &mut Diagnostics) -> Node {
    let span = Span::of(source, value.start()..value.end());
    let kind = match value {
        Value::Array(_) | Value::Object(_) if depth > DEEPEST => {
            let end = span.start + 1;
            found.add(too_deep(Span { end, ..span }));
            Kind::Null
        }
        Value::NullKeyword(_) => Kind::Null,
        Value::BooleanLit(literal) => Kind::Bool(literal.value),
        Value::StringLit(literal) => Kind::Text(literal.value.to_string()),
        Value::NumberLit(literal) => number_kind(literal.value).unwrap_or_else(|problem| {
            found.add(problem.at(span));
            Kind::Null
        }),
        Value::Array(array) => {
            let items = array.elements.iter();
            Kind::List(items.map(|item| node(item, source, depth + 1, found)).collect())
        }
        Value::Object(object) => {
            let mut entries: Vec<Entry> = Vec::with_capacity(object.properties.len());
            for property in &object.properties {
                let key = property.name.as_str().to_string();
                let key_span = Span::of(source, property.name.start()..property.name.end());
                if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                    let problem = Problem::new(key_span, format!("`{key}` is given twice"), "remove one");
                    found.add(problem.and(first.key_span, "first here"));
                }
                let value = node(&property.value, source, depth + 1, found);
                entries.push(Entry { key, key_span, value });
            }
            Kind::Table(entries)
        }
    };
    Node { span, kind }
}

fn number_kind(text: &str) -> Result<Kind, Problem> {
    let is_whole = !text.contains(['.', 'e', 'E']);
    match text.parse::<Number>() {
        Ok(number) if is_whole && number.is_f64() => {
            Err(Problem::of(TOO_LARGE, "write it as a string if the program takes it"))
        }
        Ok(number) => Ok(Kind::Number(number)),
        // Python writes these words for numbers that are not finite. Its programs accept the strings `inf` and `nan` as such numbers.
        Err(_) if text == "Infinity" => Ok(Kind::Text("inf".to_owned())),
        Err(_) if text == "-Infinity" => Ok(Kind::Text("-inf".to_owned())),
        Err(_) if text == "NaN" => Ok(Kind::Text("nan".to_owned())),
        Err(_) => Err(Problem::of(
            format!("`{text}` is not a number that fits 64 bits"),
            "write a finite number, or the string \"inf\"",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> (serde_json::Value, bool) {
        let mut found = Diagnostics::default();
        let node = parse(text, 0, &mut found);
        (node.to_json(&mut |text, _| text.to_string()), found.is_empty())
    }

    #[test]
    fn what_python_writes_of_infinite_numbers_is_what_its_programs_take() {
        let text = r#"{"a": Infinity, "b": [-Infinity, NaN], "c": "Infinity", "d": 1e3}"#;
        let expected = json!({"a": "inf", "b": ["-inf", "nan"], "c": "Infinity", "d": 1000.0});
        assert_eq!(read(text), (expected, true));
        for wrong in [
            r#"{"a": infinity}"#,
            r#"{"a": Infinitys}"#,
            r#"{"a": 1e999}"#,
            r#"{"a": +Infinity}"#,
        ] {
            assert!(!read(wrong).1, "{wrong}");
        }
    }
}
