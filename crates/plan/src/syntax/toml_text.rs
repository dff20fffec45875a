//! Parses TOML text to the value tree.

use crate::{Diagnostics, Entry, Kind, Node, Problem, Span};
use serde_json::Number;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const REMEDY: &str = "correct it here; strings are quoted, lists are in [ ], tables on one line in { }";

/// Reads a whole document. Parts that cannot be read are reported; the rest is still returned.
pub fn parse(text: &str, source: usize, found: &mut Diagnostics) -> Node {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let range = error.span().unwrap_or(0..0);
        let place = Span::of(source, range.clone());
        let first = first_of(text, source, &range).filter(|_| error.message() == "duplicate key");
        found.add(match first {
            Some(first) => {
                let message = format!("`{}` is given twice", &text[range.clone()]);
                let remedy = match text[..range.start].ends_with('[') {
                    true => "write the keys of both below one header",
                    false => "remove one",
                };
                Problem::new(place, message, remedy).and(first, "first here")
            }
            None => Problem::new(place, format!("invalid TOML: {}", error.message()), REMEDY),
        });
    }
    table_node(table, source, found)
}

/// Returns the position of the first occurrence of a repeated key. The repeated key is renamed, so that its table can be parsed.
fn first_of(text: &str, source: usize, repeated: &Range<usize>) -> Option<Span> {
    const RENAMED: &str = "vsweep_repeated_key";
    let key = text.get(repeated.clone())?.trim_matches(['"', '\'']);
    let mut renamed = text.to_owned();
    renamed.replace_range(repeated.clone(), RENAMED);
    let (table, _) = DeTable::parse_recoverable(&renamed);
    let tree = table_node(table, source, &mut Diagnostics::default());
    let mut nodes = vec![&tree];
    while let Some(node) = nodes.pop() {
        if node.entry(RENAMED).is_some() {
            let first = node.entry(key)?.key_span;
            return Some(first).filter(|first| first.end <= repeated.start);
        }
        nodes.extend(node.children());
    }
    None
}

fn table_node(table: Spanned<DeTable<'_>>, source: usize, found: &mut Diagnostics) -> Node {
    let span = table.span();
    value_node(Spanned::new(span, DeValue::Table(table.into_inner())), source, found)
}

fn value_node(value: Spanned<DeValue<'_>>, source: usize, found: &mut Diagnostics) -> Node {
    let span = Span::of(source, value.span());
    let kind = match value.into_inner() {
        DeValue::String(text) => Ok(Kind::Text(text.into_owned())),
        DeValue::Boolean(value) => Ok(Kind::Bool(value)),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map(|value| Kind::Number(value.into()))
            .map_err(|_| Problem::of(TOO_LARGE, "write it as a string if the program takes it")),
        DeValue::Float(float) => float_kind(float.as_str()),
        DeValue::Datetime(_) => Err(Problem::of("dates have no meaning in a plan", "put it in quotes")),
        DeValue::Array(items) => {
            let items = items.into_iter().map(|item| value_node(item, source, found));
            Ok(Kind::List(items.collect()))
        }
        DeValue::Table(table) => {
            let entries = table.into_iter().map(|(key, value)| Entry {
                key_span: Span::of(source, key.span()),
                key: key.into_inner().into_owned(),
                value: value_node(value, source, found),
            });
            Ok(Kind::Table(entries.collect()))
        }
    };
    let kind = kind.unwrap_or_else(|problem| {
        found.add(problem.at(span));
        Kind::Null
    });
    Node { span, kind }
}

/// Message for a whole number that the parser, of TOML or of JSON, cannot represent.
pub(crate) const TOO_LARGE: &str = "this whole number does not fit 64 bits";

/// Reads a decimal number. `inf`, by which `vllm bench serve` means an unlimited rate, becomes a text, because JSON has no such number.
fn float_kind(text: &str) -> Result<Kind, Problem> {
    let remedy = "write a number, or inf";
    match text.parse::<f64>() {
        Ok(value) if value == f64::INFINITY && text.contains("inf") => Ok(Kind::Text("inf".into())),
        Ok(value) => Number::from_f64(value)
            .map(Kind::Number)
            .ok_or_else(|| Problem::of(format!("`{text}` is not a finite number"), remedy)),
        Err(_) => Err(Problem::of(format!("`{text}` is not a number"), remedy)),
    }
}
