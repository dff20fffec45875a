//! A plan's text as it is kept with the results: verbatim if nothing else contributed to the plan, else the merged tree
//! written anew; in both cases without secrets.

use super::Plan;
use super::node::{Kind, Node};
use super::secrets::{HIDDEN, Secrets, is_secret_name};
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
            hide(&mut root, &self.secrets);
            return write(&root, self.format);
        }
        let mut places = Vec::new();
        secret_places(&self.origin.root, &mut places);
        places.sort();
        let mut text = self.text.clone();
        for place in places.into_iter().rev() {
            text.replace_range(place.start..place.end, &Value::from(HIDDEN).to_string());
        }
        self.secrets.redact(&text)
    }
}

/// Whether a text only refers to variables, so that it gives nothing away.
fn is_reference(text: &str) -> bool {
    text.starts_with("${") && text.ends_with('}') && !text.contains(":-") && text.matches('}').count() == 1
}

fn secret_places(node: &Node, places: &mut Vec<Span>) {
    match &node.kind {
        Kind::Table(entries) => {
            for entry in entries {
                match &entry.value.kind {
                    Kind::Text(text) if is_secret_name(&entry.key) && !is_reference(text) => {
                        places.push(entry.value.span);
                    }
                    _ => secret_places(&entry.value, places),
                }
            }
        }
        Kind::List(items) => items.iter().for_each(|item| secret_places(item, places)),
        _ => {}
    }
}

fn hide(node: &mut Node, secrets: &Secrets) {
    match &mut node.kind {
        Kind::Table(entries) => {
            for entry in entries {
                match &mut entry.value.kind {
                    Kind::Text(text) if is_secret_name(&entry.key) => {
                        if !is_reference(text) {
                            *text = HIDDEN.to_string();
                        }
                    }
                    _ => hide(&mut entry.value, secrets),
                }
            }
        }
        Kind::List(items) => items.iter_mut().for_each(|item| hide(item, secrets)),
        Kind::Text(text) => *text = secrets.redact(text),
        _ => {}
    }
}
