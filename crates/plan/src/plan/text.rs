//! A plan's text as it is kept with the results: verbatim if nothing else contributed to the plan, else the merged tree
//! written anew; in both cases without secrets.

use super::Plan;
use super::node::{Entry, Kind, Node};
use super::secrets::{HIDDEN, Secrets, is_reference};
use super::source::Format;
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
            each_leaf(&mut root, "", &mut |node, name| match &mut node.kind {
                leaf if is_secret(leaf, name, &self.secrets) => *leaf = Kind::Text(HIDDEN.to_owned()),
                Kind::Text(text) if !is_reference(text) => *text = self.secrets.redact(text),
                _ => {}
            });
            return write(&root, self.format);
        }
        let mut places = Vec::new();
        let mut root = self.origin.root.clone();
        each_leaf(&mut root, "", &mut |node, name| {
            if is_secret(&node.kind, name, &self.secrets) {
                places.push(node.span);
            }
        });
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

/// Visits everything but tables and lists, with the name of the innermost key that has one: `{ value = ... }` stands for the value itself.
fn each_leaf(node: &mut Node, name: &str, visit: &mut impl FnMut(&mut Node, &str)) {
    match &mut node.kind {
        Kind::Table(entries) if matches!(entries.as_slice(), [only] if only.key == "value") => {
            each_leaf(&mut entries[0].value, name, visit);
        }
        Kind::Table(entries) => {
            for Entry { key, value, .. } in entries {
                each_leaf(value, key, visit);
            }
        }
        Kind::List(items) => items.iter_mut().for_each(|item| each_leaf(item, name, visit)),
        _ => visit(node, name),
    }
}
