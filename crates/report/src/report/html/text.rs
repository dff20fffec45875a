//! Text inside HTML: escaping, text to copy, and the one way from a template to a page.

use minijinja::{AutoEscape, Environment, Value};
use vsweep_plan::printable::{printable_json, printable_lines};

/// Text as HTML shows it, in elements and in quoted attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable_lines(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The text that [`escape`] has made this of.
pub fn unescape(html: &str) -> String {
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    let replaced = |text: String, (entity, c): (&str, &str)| text.replace(entity, c);
    entities.into_iter().fold(html.to_owned(), replaced)
}

/// JSON as it may stand in a `<script>` element: a `<` inside it is written as an escape, so no text can end the element.
pub fn embed_json(json: &str) -> String {
    printable_json(json).replace('<', "\\u003c")
}

/// Templates that pages take parts from.
const SHARED: [(&str, &str); 2] = [
    ("parts", include_str!("parts.html.jinja")),
    ("answer", include_str!("answer.html.jinja")),
];

/// A page of ours with its parts. Texts among them are escaped; what is HTML is [`safe`].
pub fn render(template: &str, parts: Value) -> String {
    let mut page = Environment::new();
    page.set_auto_escape_callback(|_| AutoEscape::Html);
    page.set_formatter(|out, _, value| {
        let text = value.to_string();
        let text = if value.is_safe() { text } else { escape(&text) };
        Ok(out.write_str(&text)?)
    });
    // What is escaped is settled when a template is added.
    for (name, shared) in SHARED {
        page.add_template(name, shared).expect("templates of ours are sound");
    }
    page.render_str(template, parts).expect("templates of ours are sound")
}

/// HTML as a part of a page.
pub fn safe(html: impl Into<String>) -> Value {
    Value::from_safe_string(html.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::context;
    use proptest::prelude::*;
    use vsweep_plan::printable::acts;

    #[test]
    fn parts_are_not_read_as_templates() {
        let parts = context! { a => "{{b}}<\u{1b}", b => safe("<b>"), d => 2 };
        let filled = render(
            "<{{a}}|{{b}}|{{c}}|{% macro x(a) %}{{a}}{% endmacro %}{{x(\"&\")}}{{d}}>",
            parts,
        );
        assert_eq!(filled, "<{{b}}&lt;\\u{1b}|<b>||&amp;2>");
    }

    proptest! {
        #[test]
        fn nothing_escaped_opens_an_element(text: String) {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            prop_assert!(!escaped.replace(['\n', '\t'], "").contains(acts));
            prop_assert_eq!(unescape(&escaped), printable_lines(&text));
            let json = serde_json::to_string(&text).expect("text is JSON");
            prop_assert!(!embed_json(&json).contains('<'));
            prop_assert_eq!(serde_json::from_str::<String>(&embed_json(&json)).expect("still JSON"), text);
        }
    }
}
