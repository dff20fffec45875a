//! A plan's text: read as a tree, and as it is kept with the results, which is verbatim if nothing else contributed to the plan, else
//! the merged tree written anew; in both cases without secrets.

use crate::secrets::is_reference;
use crate::{Diagnostics, Entry, Format, HIDDEN, Kind, Node, Plan, Span, syntax::json_text, syntax::toml_text};
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
        let mut found = Vec::new();
        self.find_secrets(&root, "", &mut found);
        found.sort();
        let mut text = self.text.clone();
        for (place, shown) in found.into_iter().rev() {
            // The one character that JSON takes and TOML does not.
            let written = Value::from(shown).to_string().replace('\u{7f}', "\\u007f");
            text.replace_range(place.start..place.end, &written);
        }
        self.secrets.redact(&text)
    }

    /// Finds the values that are secrets or hold one, each with its text without it. `name` is that of the innermost key that has a name of
    /// its own: `{ value = ... }` means the value itself.
    fn find_secrets(&self, node: &Node, name: &str, found: &mut Vec<(Span, String)>) {
        let is_secret = match &node.kind {
            Kind::Text(text) => self.secrets.is_secret(name, text) && !is_reference(text),
            Kind::Number(number) => self.secrets.is_secret(name, &number.to_string()),
            _ => false,
        };
        match &node.kind {
            _ if is_secret => found.push((node.span, HIDDEN.to_owned())),
            Kind::Text(text) => found.extend(self.without_spelled(text, node.span)),
            Kind::Table(entries) => {
                let is_whole = matches!(entries.as_slice(), [only] if only.key == "value");
                for Entry { key, key_span, value } in entries {
                    found.extend(self.without_spelled(key, *key_span));
                    self.find_secrets(value, if is_whole { name } else { key }, found);
                }
            }
            Kind::List(items) => items.iter().for_each(|item| self.find_secrets(item, name, found)),
            _ => {}
        }
    }

    /// A text without its secrets, if it has some and is not written as it is, but with escapes.
    fn without_spelled(&self, text: &str, place: Span) -> Option<(Span, String)> {
        let shown = Some(self.secrets.redact(text)).filter(|shown| shown != text)?;
        let is_plain = self.text[place.start..place.end].contains(text);
        (!is_plain).then_some((place, shown))
    }
}
