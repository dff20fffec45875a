//! JSON text to the value tree: strict but for `Infinity` and `NaN`, which Python writes.

use super::node::{Entry, Kind, Node};
use super::problem::{Diagnostics, Problem};
use super::source::Span;
use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions};
use serde_json::Number;

/// Deeper nesting than any plan needs would exhaust the parser's stack.
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

/// Reads a whole document. The first syntax error ends the reading: what follows would be guesswork.
pub fn parse(text: &str, source: usize, found: &mut Diagnostics) -> Node {
    if let Some(place) = too_deep(text) {
        let place = Span::of(source, place..place + 1);
        found.object(place, "nested too deep", format!("nest at most {DEEPEST} levels"));
        return Node::default();
    }
    let collect = CollectOptions {
        comments: CommentCollectionStrategy::Off,
        tokens: false,
    };
    match jsonc_parser::parse_to_ast(text, &collect, &STRICT) {
        Ok(parsed) => match parsed.value {
            Some(value) => node(&value, source, found),
            None => {
                let place = Span::of(source, 0..text.len());
                found.object(place, "the file is empty", "write a JSON object");
                Node::default()
            }
        },
        Err(error) => {
            let place = Span::of(source, error.range().start..error.range().end);
            found.object(
                place,
                format!("invalid JSON: {}", lower(&error.kind().to_string())),
                REMEDY,
            );
            Node::default()
        }
    }
}

/// The text with its first letter in lower case, to go on after a colon.
fn lower(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

/// The place where brackets nest deeper than [`DEEPEST`], if they do.
fn too_deep(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Some(place);
        }
    }
    None
}

fn node(value: &Value<'_>, source: usize, found: &mut Diagnostics) -> Node {
    let place = Span::of(source, value.start()..value.end());
    let kind = match value {
        Value::NullKeyword(_) => Kind::Null,
        Value::BooleanLit(literal) => Kind::Bool(literal.value),
        Value::StringLit(literal) => Kind::Text(literal.value.to_string()),
        Value::NumberLit(literal) => number_kind(literal.value, place, found),
        Value::Array(array) => Kind::List(array.elements.iter().map(|item| node(item, source, found)).collect()),
        Value::Object(object) => {
            let mut entries: Vec<Entry> = Vec::with_capacity(object.properties.len());
            for property in &object.properties {
                let key = property.name.as_str().to_string();
                let key_span = Span::of(source, property.name.start()..property.name.end());
                if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                    let problem = Problem::new(key_span, format!("`{key}` is given twice"), "remove one");
                    found.add(problem.and(first.key_span, "first here"));
                }
                let value = node(&property.value, source, found);
                entries.push(Entry { key, key_span, value });
            }
            Kind::Table(entries)
        }
    };
    Node { span: place, kind }
}

fn number_kind(text: &str, place: Span, found: &mut Diagnostics) -> Kind {
    let whole = !text.contains(['.', 'e', 'E']);
    match text.parse::<Number>() {
        Ok(number) if !(whole && number.is_f64()) => Kind::Number(number),
        Ok(_) => {
            let remedy = "write it as a string if the program takes it";
            found.object(place, "this whole number does not fit 64 bits", remedy);
            Kind::Null
        }
        // Python writes these words, and its programs take these texts for them.
        Err(_) if text == "Infinity" => Kind::Text("inf".to_owned()),
        Err(_) if text == "-Infinity" => Kind::Text("-inf".to_owned()),
        Err(_) if text == "NaN" => Kind::Text("nan".to_owned()),
        Err(_) => {
            let remedy = "write a finite number, or the string \"inf\"";
            found.object(place, format!("`{text}` is not a number that fits 64 bits"), remedy);
            Kind::Null
        }
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
