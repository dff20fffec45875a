//! A plan's text as it is kept with the results: verbatim if nothing else contributed to the plan, else the merged tree
//! written anew; in both cases without secrets.

use super::Plan;
use super::node::{Entry, Kind, Node};
use super::secrets::{HIDDEN, Secrets, is_reference};
use super::source::{Format, Span};
use serde_json::Value;

/// The tree as text. TOML has no null, so that a tree with one is written as JSON.
pub fn write(root: &Node, format: Format) -> String {
    let value = root.to_json(&mut |text, _| text.to_string());
    if format == Format::Toml
        && let Ok(text) = toml::to_string_pretty(&value)
    {
        return text;
    }
    serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"
}

impl Plan {
    /// The plan's text for files and messages: every secret that was written into it is hidden.
    pub fn redacted_text(&self) -> String {
        let verbatim = self
            .origin
            .sources
            .0
            .first()
            .is_some_and(|source| source.text == self.text);
        if !verbatim {
            let mut root = self.origin.root.clone();
            hide(&mut root, "", &self.secrets);
            return write(&root, self.format);
        }
        let mut places = Vec::new();
        secret_places(&self.origin.root, "", &self.secrets, &mut places);
        places.sort();
        let mut text = self.text.clone();
        for place in places.into_iter().rev() {
            text.replace_range(place.start..place.end, &Value::from(HIDDEN).to_string());
        }
        self.secrets.redact(&text)
    }
}

/// Whether a leaf holds a secret; `name` is that of the innermost key that has one.
fn is_secret(kind: &Kind, name: &str, secrets: &Secrets) -> bool {
    match kind {
        Kind::Text(text) => secrets.is_secret(name, text) && !is_reference(text),
        Kind::Number(number) => secrets.is_secret(name, &number.to_string()),
        _ => false,
    }
}

/// The name of an entry's value. `{ value = ... }` stands for the value itself.
fn name_within<'a>(outer: &'a str, entries: &'a [Entry], at: usize) -> &'a str {
    match entries {
        [only] if only.key == "value" => outer,
        _ => &entries[at].key,
    }
}

fn secret_places(node: &Node, name: &str, secrets: &Secrets, places: &mut Vec<Span>) {
    match &node.kind {
        Kind::Table(entries) => {
            for (at, entry) in entries.iter().enumerate() {
                secret_places(&entry.value, name_within(name, entries, at), secrets, places);
            }
        }
        Kind::List(items) => items.iter().for_each(|item| secret_places(item, name, secrets, places)),
        leaf if is_secret(leaf, name, secrets) => places.push(node.span),
        _ => {}
    }
}

fn hide(node: &mut Node, name: &str, secrets: &Secrets) {
    match &mut node.kind {
        Kind::Table(entries) => {
            for at in 0..entries.len() {
                let name = name_within(name, entries, at).to_owned();
                hide(&mut entries[at].value, &name, secrets);
            }
        }
        Kind::List(items) => items.iter_mut().for_each(|item| hide(item, name, secrets)),
        leaf if is_secret(leaf, name, secrets) => *leaf = Kind::Text(HIDDEN.to_owned()),
        Kind::Text(text) if !is_reference(text) => *text = secrets.redact(text),
        _ => {}
    }
}
