//! The value tree that TOML and JSON plans share: every key and value knows its place in the text.

use super::source::Span;
use serde_json::{Map, Number, Value};

/// A value and its place.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// Where it was written.
    pub span: Span,
    /// What was written.
    pub kind: Kind,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Kind {
    /// JSON's `null`; TOML has none.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A finite number.
    Number(Number),
    /// Text, environment references not yet expanded. TOML's `inf` becomes the text `inf`.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A table or object, in the order it was written.
    Table(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key's name.
    pub key: String,
    /// Where the key was written.
    pub key_span: Span,
    /// The value.
    pub value: Node,
}

impl Node {
    /// The entry of a table by its key.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.kind {
            Kind::Table(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// A table's entries.
    pub fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The value below a table's key or at a list's position.
    pub fn child(&self, step: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Table(_) => self.entry(step).map(|entry| &entry.value),
            Kind::List(items) => step.parse::<usize>().ok().and_then(|position| items.get(position)),
            _ => None,
        }
    }

    /// The values right below: of a table's keys or at a list's positions.
    pub fn children(&self) -> Vec<&Node> {
        match &self.kind {
            Kind::List(items) => items.iter().collect(),
            _ => self.entries().iter().map(|entry| &entry.value).collect(),
        }
    }

    /// What the value is, for "expected …, found …".
    pub fn kind_name(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "a boolean",
            Kind::Number(number) if number.is_f64() => "a decimal number",
            Kind::Number(_) => "a whole number",
            Kind::Text(_) => "a string",
            Kind::List(_) => "a list",
            Kind::Table(_) => "a table",
        }
    }

    /// The value without its places; `text` is applied to every string.
    pub fn to_json(&self, text: &mut impl FnMut(&str, Span) -> String) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Number(number) => Value::Number(number.clone()),
            Kind::Text(value) => Value::String(text(value, self.span)),
            Kind::List(items) => Value::Array(items.iter().map(|item| item.to_json(text)).collect()),
            Kind::Table(entries) => {
                let members = entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.to_json(text)));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}
