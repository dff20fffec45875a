//! Text inside HTML: escaping, links from terms to their meanings, and the function that fills the template of a page.

use crate::texts::template::{environment, fill, share};
use minijinja::Value;
use vsweep_base::printable::{printable_json, printable_lines};

/// The styles that every page of ours begins with.
pub const STYLE: &str = include_str!("page.css");

/// Characters that HTML reserves, and their entities. `&` comes first, because all entities begin with it.
const ENTITIES: [(&str, &str); 5] = [
    ("&", "&amp;"),
    ("<", "&lt;"),
    (">", "&gt;"),
    ("\"", "&quot;"),
    ("'", "&#39;"),
];

/// Escapes a text for the elements and the quoted attributes of HTML.
pub fn escape(text: &str) -> String {
    let text = printable_lines(text).to_string();
    ENTITIES.iter().fold(text, |text, (c, entity)| text.replace(c, entity))
}

/// Returns the text from which [`escape`] made this HTML.
pub fn unescape(html: &str) -> String {
    let entities = ENTITIES.iter().rev();
    entities.fold(html.to_owned(), |text, (c, entity)| text.replace(entity, c))
}

/// JSON for a `<script>` element: a `<` inside it is written as an escape, so no text can end the element.
pub fn embed_json(json: &str) -> String {
    printable_json(json).replace('<', "\\u003c")
}

/// Fills the template of a page. Texts among the parts are escaped; HTML must be marked by [`safe`].
pub fn render(template: &str, parts: Value) -> String {
    let mut page = environment(escape);
    page.add_filter("capitalised", capitalise);
    page.add_filter("with_code", with_code);
    page.add_filter("with_flags", with_flags);
    page.add_global("style", safe(STYLE));
    share(&mut page, "base", include_str!("base.html.jinja"));
    share(&mut page, "parts", include_str!("parts.html.jinja"));
    share(&mut page, "answer", include_str!("answer.html.jinja"));
    fill(&page, template, parts)
}

fn capitalise(sentence: &str) -> String {
    let mut rest = sentence.chars();
    rest.next()
        .map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

/// Formats text between backticks as code.
fn with_code(text: &str) -> Value {
    let escaped = escape(text);
    let parts = escaped.split('`').enumerate();
    let parts = parts.map(|(place, part)| match place % 2 {
        0 => with_terms(part),
        _ => format!("<code>{part}</code>"),
    });
    safe(parts.collect::<String>())
}

/// Keeps each flag of a command line on one line.
fn with_flags(text: &str) -> Value {
    let escaped = escape(text);
    let parts = escaped
        .split_inclusive(char::is_whitespace)
        .map(|part| match part.trim_end() {
            flag if flag.starts_with("--") => {
                let blank = &part[flag.len()..];
                format!(r#"<span class="flag">{flag}</span>{blank}"#)
            }
            _ => part.to_owned(),
        });
    safe(parts.collect::<String>())
}

/// Abbreviations and terms, with their meanings.
const TERMS: [(&str, &str); 6] = [
    ("TTFT", "time to first token"),
    ("TPOT", "time per output token, after the first"),
    ("ITL", "gap between two pieces of an answer"),
    ("E2EL", "from sending a request to its last token"),
    ("seqs", "max_num_seqs: requests that the server works on at once"),
    ("suspect", "a run whose figures are in doubt, with the reason"),
];

/// Links the terms in a text to their explanations at the end of the page.
fn with_terms(text: &str) -> String {
    // The words within a name such as `max_num_seqs` are no terms.
    let is_between = |letter: char| !letter.is_alphanumeric() && letter != '_';
    let parts = text.split_inclusive(is_between);
    let linked = parts.map(|part| {
        let word = part.trim_end_matches(is_between);
        match TERMS.iter().find(|(term, _)| *term == word) {
            Some((_, meaning)) => {
                let rest = &part[word.len()..];
                format!("<a class=\"term\" href=\"#words\" title=\"{meaning}\">{word}</a>{rest}")
            }
            None => part.to_owned(),
        }
    });
    linked.collect()
}

/// Marks HTML as a part of a page, which is not escaped.
pub fn safe(html: impl Into<String>) -> Value {
    Value::from_safe_string(html.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::context;
    use proptest::prelude::*;
    use vsweep_base::printable::has_effect;

    #[test]
    fn parts_are_not_read_as_templates() {
        let parts = context! { a => "{{b}}<\u{1b}", b => safe("<b>"), d => 2 };
        let filled = render(
            "<{{a}}|{{b}}|{{c}}|{% macro x(a) %}{{a}}{% endmacro %}{{x(\"&\")}}{{d}}>",
            parts,
        );
        assert_eq!(filled, "<{{b}}&lt;\\u{1b}|<b>||&amp;2>");
    }

    #[test]
    fn a_term_is_a_whole_word() {
        let linked = with_code("max_num_seqs binds; seqs 8").to_string();
        assert!(linked.starts_with("max_num_seqs binds; <a "), "{linked}");
        assert!(linked.ends_with(">seqs</a> 8"), "{linked}");
    }

    #[test]
    fn a_flag_stays_on_one_line() {
        let flags = with_flags("vllm serve a&b --max-num-seqs 8\n--eager").to_string();
        assert_eq!(
            flags,
            "vllm serve a&amp;b <span class=\"flag\">--max-num-seqs</span> 8\n<span class=\"flag\">--eager</span>"
        );
    }

    proptest! {
        #[test]
        fn nothing_escaped_opens_an_element(text: String) {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            prop_assert!(!escaped.replace(['\n', '\t'], "").contains(has_effect));
            prop_assert_eq!(unescape(&escaped), printable_lines(&text));
            let json = serde_json::to_string(&text).expect("text is JSON");
            prop_assert!(!embed_json(&json).contains('<'));
            prop_assert_eq!(serde_json::from_str::<String>(&embed_json(&json)).expect("still JSON"), text);
        }
    }
}
