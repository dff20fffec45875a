//! The value tree that TOML and JSON plans share: every key and value has its position in the text. One tree can be merged over another: a
//! plan over the plan that it extends, and `--set` over the plan.

use crate::{Span, nearest, spelling};
use serde_json::{Map, Number, Value};

/// A value and its position.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// Its position.
    pub span: Span,
    /// The value.
    pub kind: Kind,
}

/// Type and content of a value.
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
    /// Position of the key.
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

    /// Returns the positions of keys of a table that may be misspellings of this one.
    pub fn misspelt(&self, key: &str) -> Vec<Span> {
        let is_like = |entry: &&Entry| entry.key != key && !nearest(&entry.key, [key]).is_empty();
        self.entries()
            .iter()
            .filter(is_like)
            .map(|entry| entry.key_span)
            .collect()
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

    /// Returns the value if it is a number.
    pub fn number(&self) -> Option<f64> {
        match &self.kind {
            Kind::Number(number) => number.as_f64(),
            _ => None,
        }
    }

    /// Type of the value in words, for "expected …, found …".
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

    /// Returns the value without its positions; `text` is applied to every string.
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

/// Pairs of keys of which `serve` and `bench` may have only one: a key that is set removes the other one from the base.
const ALTERNATIVES: [[&str; 2]; 2] = [["command", "url"], ["command", "runner"]];

/// Merges `over` into `base`. The values of `over` take precedence. Tables are merged key by key. Everything else, and the value of each
/// single parameter and the place of each figure, is replaced whole, so that two ranges never mix.
pub fn merge(base: &mut Node, over: Node) {
    merge_below(base, over, Level::Plan);
}

/// Tables that are merged in ways of their own.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    /// The plan itself.
    Plan,
    /// `serve` or `bench`.
    Side,
    /// The parameters of a side, or the places of its figures.
    Params,
    /// Any other table.
    Other,
}

fn merge_below(base: &mut Node, over: Node, level: Level) {
    let (Kind::Table(old), Kind::Table(new)) = (&mut base.kind, &over.kind) else {
        *base = over;
        return;
    };
    for pair in ALTERNATIVES {
        for (given, other) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            let gives = |key: &str| new.iter().any(|entry| entry.key == key);
            if level == Level::Side && gives(given) && !gives(other) {
                old.retain(|entry| entry.key != other);
            }
        }
    }
    let Kind::Table(new) = over.kind else {
        return;
    };
    base.span = over.span;
    // Two spellings in one text are an error, which is reported later.
    let known = old.len();
    for Entry { key, key_span, value } in new {
        let is_same = |name: &str| name == key || (level == Level::Params && spelling::same(name, &key));
        match old[..known].iter_mut().find(|entry| is_same(&entry.key)) {
            Some(entry) => {
                entry.key_span = key_span;
                match (level, key.as_str()) {
                    (Level::Params, _) => entry.value = value,
                    (Level::Plan, "serve" | "bench") => merge_below(&mut entry.value, value, Level::Side),
                    (Level::Side, "params" | "result") => merge_below(&mut entry.value, value, Level::Params),
                    _ => merge_below(&mut entry.value, value, Level::Other),
                }
            }
            None => old.push(Entry { key, key_span, value }),
        }
    }
}
