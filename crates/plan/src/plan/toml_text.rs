//! TOML text to the value tree.

use super::node::{Entry, Kind, Node};
use super::problem::{Diagnostics, Problem};
use super::source::Span;
use serde_json::Number;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const REMEDY: &str = "correct it here; strings are quoted, lists are in [ ], tables on one line in { }";

/// Reads a whole document; what cannot be read is reported, and the rest is still returned.
pub fn parse(text: &str, source: usize, found: &mut Diagnostics) -> Node {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let range = error.span().unwrap_or(0..0);
        found.add(
            match first_of(text, &range).filter(|_| error.message() == "duplicate key") {
                Some(first) => {
                    let message = format!("`{}` is given twice", &text[range.clone()]);
                    let remedy = match text[..range.start].ends_with('[') {
                        true => "write the keys of both below one header",
                        false => "remove one",
                    };
                    Problem::new(Span::of(source, range), message, remedy).and(Span::of(source, first), "first here")
                }
                None => Problem::new(
                    Span::of(source, range),
                    format!("invalid TOML: {}", error.message()),
                    REMEDY,
                ),
            },
        );
    }
    let range = table.span();
    table_node(table.into_inner(), Span::of(source, range), source, found)
}

/// Where the key stands that the one in this place repeats. Under another name, that one is read into the table that holds
/// the first.
fn first_of(text: &str, repeated: &Range<usize>) -> Option<Range<usize>> {
    const RENAMED: &str = "vsweep_repeated_key";
    let key = text.get(repeated.clone())?;
    let key = key.trim_matches(['"', '\'']);
    let mut renamed = text.to_owned();
    renamed.replace_range(repeated.clone(), RENAMED);
    let (table, _) = DeTable::parse_recoverable(&renamed);
    let mut tables = vec![table.get_ref()];
    while let Some(table) = tables.pop() {
        if table.contains_key(RENAMED) {
            let (first, _) = table.iter().find(|(name, _)| name.get_ref() == key)?;
            return Some(first.span()).filter(|first| first.end <= repeated.start);
        }
        let mut values: Vec<&DeValue<'_>> = table.values().map(Spanned::get_ref).collect();
        while let Some(value) = values.pop() {
            match value {
                DeValue::Table(table) => tables.push(table),
                DeValue::Array(items) => values.extend(items.iter().map(Spanned::get_ref)),
                _ => {}
            }
        }
    }
    None
}

fn table_node(table: DeTable<'_>, place: Span, source: usize, found: &mut Diagnostics) -> Node {
    let entries = table.into_iter().map(|(key, value)| Entry {
        key_span: Span::of(source, key.span()),
        key: key.into_inner().into_owned(),
        value: value_node(value, source, found),
    });
    Node {
        span: place,
        kind: Kind::Table(entries.collect()),
    }
}

fn value_node(value: Spanned<DeValue<'_>>, source: usize, found: &mut Diagnostics) -> Node {
    let place = Span::of(source, value.span());
    let kind = match value.into_inner() {
        DeValue::String(text) => Kind::Text(text.into_owned()),
        DeValue::Boolean(value) => Kind::Bool(value),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(value) => Kind::Number(value.into()),
            Err(_) => {
                found.object(
                    place,
                    "this whole number does not fit 64 bits",
                    "write it as a string if the program takes it",
                );
                Kind::Null
            }
        },
        DeValue::Float(float) => float_kind(float.as_str(), place, found),
        DeValue::Datetime(_) => {
            found.object(place, "dates have no meaning in a plan", "put it in quotes");
            Kind::Null
        }
        DeValue::Array(items) => Kind::List(items.into_iter().map(|item| value_node(item, source, found)).collect()),
        DeValue::Table(table) => return table_node(table, place, source, found),
    };
    Node { span: place, kind }
}

/// `inf` is what `vllm bench serve` calls an unlimited rate, and JSON has no such number: it becomes a text.
fn float_kind(text: &str, place: Span, found: &mut Diagnostics) -> Kind {
    match text.parse::<f64>() {
        Ok(value) if value == f64::INFINITY && text.contains("inf") => Kind::Text("inf".into()),
        Ok(value) => match Number::from_f64(value) {
            Some(number) => Kind::Number(number),
            None => {
                found.object(
                    place,
                    format!("`{text}` is not a finite number"),
                    "write a number, or inf",
                );
                Kind::Null
            }
        },
        Err(_) => {
            found.object(place, format!("`{text}` is not a number"), "write a number, or inf");
            Kind::Null
        }
    }
}
