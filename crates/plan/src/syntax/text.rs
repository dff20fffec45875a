//! Converts a plan's text to a tree and back, and hides the secrets in the text that is kept with the results. That text is verbatim if
//! nothing else contributed to the plan, else the merged tree is written anew.

use super::interpolate;
use crate::secrets::is_reference;
use crate::{Diagnostics, Entry, Format, HIDDEN, Kind, Node, Plan, Side, Span, syntax::json_text, syntax::toml_text};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::slice;
use toml::ser::ValueSerializer;

/// Reads a text as a tree, whose positions are in the source of this index.
pub fn read(text: &str, format: Format, source: usize, found: &mut Diagnostics) -> Node {
    match format {
        Format::Toml => toml_text::parse(text, source, found),
        Format::Json => json_text::parse(text, source, found),
    }
}

/// Returns the tree as text, and the language of that text. TOML has no null, so a tree with a null is written as JSON.
pub fn write(root: &Node, format: Format) -> (String, Format) {
    let value = root.to_json(&mut |text, _| text.to_string());
    if format == Format::Toml
        && let Ok(text) = to_toml(value.clone())
    {
        return (text, format);
    }
    (
        serde_json::to_string_pretty(&value).unwrap_or_default() + "\n",
        Format::Json,
    )
}

/// Returns a plan as TOML. Values of parameters that are tables are written inline, because tables of their own would come after all other
/// parameters, and ids depend on the order.
fn to_toml(mut plan: Value) -> Result<String, toml::ser::Error> {
    let placeholder = |number: usize| format!("<the inline value {number}>");
    let mut inline = Vec::new();
    for side in [Side::Serve, Side::Bench].map(Side::table) {
        let Some(Value::Object(side)) = plan.get_mut(side) else {
            continue;
        };
        for (_, entry) in side.iter_mut().filter(|(key, _)| OF_PARAMS.contains(&key.as_str())) {
            let tables = match entry {
                Value::Array(combos) => combos.as_mut_slice(),
                table => slice::from_mut(table),
            };
            let tables = tables.iter_mut().filter_map(Value::as_object_mut);
            for value in tables.flat_map(|table| table.values_mut()) {
                if value.is_object() || value.as_array().is_some_and(|items| items.iter().all(Value::is_object)) {
                    let mut text = String::new();
                    value.serialize(ValueSerializer::new(&mut text))?;
                    *value = placeholder(inline.len()).into();
                    inline.push(text);
                }
            }
        }
    }
    let text = toml::to_string_pretty(&plan)?;
    let restore = |text: String, (number, value): (usize, &String)| {
        text.replacen(&format!("\"{}\"", placeholder(number)), value, 1)
    };
    Ok(inline.iter().enumerate().fold(text, restore))
}

/// Tables of a side whose entries are values of parameters.
const OF_PARAMS: [&str; 3] = ["params", "combos", "env"];

/// Tables by which results are judged.
const JUDGING: [&str; 3] = ["sla", "assert", "report"];

/// Replaces variables by their values in the tables by which results are judged, and returns the plan's text. Reports read these tables
/// from the record, often on a machine where the variables have other values or none. References that cannot be expanded stay.
pub fn with_judging_values(text: String, format: Format, vars: &BTreeMap<String, String>) -> String {
    if !text.contains("${") {
        return text;
    }
    let root = read(&text, format, 0, &mut Diagnostics::default());
    let tables = JUDGING.iter().filter_map(|name| root.child(name));
    let mut found = Vec::new();
    tables.for_each(|table| find_references(table, vars, &mut found));
    replace_values(&text, found)
}

fn find_references(node: &Node, vars: &BTreeMap<String, String>, found: &mut Vec<(Span, String)>) {
    match &node.kind {
        Kind::Text(text) => {
            let expanded = interpolate::expand(text, vars).map(|(expanded, _)| expanded.replace("${", "$${"));
            let changed = expanded.ok().filter(|expanded| expanded != text);
            found.extend(changed.map(|expanded| (node.span, expanded)));
        }
        _ => node
            .children()
            .into_iter()
            .for_each(|child| find_references(child, vars, found)),
    }
}

/// Replaces values and keys at these places with other texts.
fn replace_values(text: &str, mut found: Vec<(Span, String)>) -> String {
    found.sort();
    let mut text = text.to_owned();
    for (place, shown) in found.into_iter().rev() {
        // JSON allows this character in a string, and TOML does not.
        let written = Value::from(shown).to_string().replace('\u{7f}', "\\u007f");
        text.replace_range(place.start..place.end, &written);
    }
    text
}

impl Plan {
    /// The plan's text for files and messages: every secret that was written into it is hidden.
    pub fn redacted_text(&self) -> String {
        let root = read(&self.text, self.format, 0, &mut Diagnostics::default());
        let mut found = Vec::new();
        self.find_secrets(&root, "", &mut found);
        self.secrets.redact(&replace_values(&self.text, found))
    }

    /// Finds the places to hide, each with its replacement: values that are secrets, and texts and keys that contain secrets and are
    /// written with escapes. `name` decides whether a value is a secret. It is the value's key, or that of an enclosing table that
    /// announces secrets; the key of `{ value = ... }` is skipped.
    fn find_secrets(&self, node: &Node, name: &str, found: &mut Vec<(Span, String)>) {
        let is_secret = match &node.kind {
            Kind::Text(text) => self.secrets.is_secret(name, text) && !is_reference(text),
            Kind::Number(number) => self.secrets.is_secret(name, &number.to_string()),
            _ => false,
        };
        match &node.kind {
            _ if is_secret => found.push((node.span, HIDDEN.to_owned())),
            Kind::Text(text) => found.extend(self.without_escaped_secrets(text, node.span)),
            Kind::Table(entries) => {
                let is_whole = matches!(entries.as_slice(), [only] if only.key == "value");
                for Entry { key, key_span, value } in entries {
                    found.extend(self.without_escaped_secrets(key, *key_span));
                    let name = if is_whole {
                        name
                    } else {
                        self.secrets.announcing(name, key)
                    };
                    self.find_secrets(value, name, found);
                }
            }
            Kind::List(items) => items.iter().for_each(|item| self.find_secrets(item, name, found)),
            _ => {}
        }
    }

    /// Returns a text without its secrets, if it has some and the plan writes the text with escapes. Secrets in other texts appear
    /// unchanged in the plan's text, and are found there.
    fn without_escaped_secrets(&self, text: &str, place: Span) -> Option<(Span, String)> {
        let shown = Some(self.secrets.redact(text)).filter(|shown| shown != text)?;
        let is_plain = self.text[place.start..place.end].contains(text);
        (!is_plain).then_some((place, shown))
    }
}
