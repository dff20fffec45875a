//! A plan's text: read as a tree, and as it is kept with the results, which is verbatim if nothing else contributed to the plan, else
//! the merged tree written anew; in both cases without secrets.

use crate::secrets::is_reference;
use crate::{
    Diagnostics, Entry, Format, HIDDEN, Kind, Node, Plan, Secrets, Span, syntax::json_text, syntax::toml_text,
};
use serde_json::Value;

/// The text as a tree, whose places are in this source.
pub fn read(text: &str, format: Format, source: usize, found: &mut Diagnostics) -> Node {
    match format {
        Format::Toml => toml_text::parse(text, source, found),
        Format::Json => json_text::parse(text, source, found),
    }
}

/// The tree as text, and in which language. TOML has no null, so that a tree with one is written as JSON.
pub fn write(root: &Node, format: Format) -> (String, Format) {
    let value = root.to_json(&mut |text, _| text.to_string());
    if format == Format::Toml
        && let Ok(text) = toml::to_string_pretty(&value)
    {
        return (text, format);
    }
    (
        serde_json::to_string_pretty(&value).unwrap_or_default() + "\n",
        Format::Json,
    )
}

impl Plan {
    /// The plan's text for files and messages: every secret that was written into it is hidden.
    pub fn redacted_text(&self) -> String {
        let root = read(&self.text, self.format, 0, &mut Diagnostics::default());
        let mut places = Vec::new();
        find_secrets(&root, "", &self.secrets, &mut places);
        places.sort();
        let mut text = self.text.clone();
        for place in places.into_iter().rev() {
            text.replace_range(place.start..place.end, &Value::from(HIDDEN).to_string());
        }
        self.secrets.redact(&text)
    }
}

/// Finds the values that are secrets. `name` is that of the innermost key that has a name of its own: `{ value = ... }` means the value
/// itself.
fn find_secrets(node: &Node, name: &str, secrets: &Secrets, places: &mut Vec<Span>) {
    let is_secret = match &node.kind {
        Kind::Text(text) => secrets.is_secret(name, text) && !is_reference(text),
        Kind::Number(number) => secrets.is_secret(name, &number.to_string()),
        _ => false,
    };
    places.extend(is_secret.then_some(node.span));
    match &node.kind {
        Kind::Table(entries) => {
            let is_whole = matches!(entries.as_slice(), [only] if only.key == "value");
            for Entry { key, value, .. } in entries {
                find_secrets(value, if is_whole { name } else { key }, secrets, places);
            }
        }
        Kind::List(items) => items.iter().for_each(|item| find_secrets(item, name, secrets, places)),
        _ => {}
    }
}
