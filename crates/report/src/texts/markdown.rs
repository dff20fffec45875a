//! The report as Markdown for a pull request, short enough for a comment; the page has the rest. Its text is in `report.md.jinja`. Inserted
//! values are escaped, so that they mean nothing in Markdown, HTML or on GitHub.

use super::template::{fill, line_environment, share};
use minijinja::{Environment, Value};
use vsweep_base::printable::{printable, shorten};

/// The text of a document.
pub fn render(document: Value) -> String {
    fill(&environment(), include_str!("markdown/report.md.jinja"), document)
}

/// Characters with a meaning anywhere in a line; dollars begin a formula on GitHub, `@` names a person, `#` an issue.
const SPECIAL: &str = "\\`*_[]|~#@$!";

/// Escapes a text for any position in a line.
pub fn escape(text: &str) -> String {
    let text = printable(text);
    let text = text.trim_matches(' ');
    let mut escaped = String::with_capacity(text.len() + 8);
    let mut digits_only = true;
    for (at, c) in text.char_indices() {
        // At the beginning of a line these make a list or a heading; `://` and `www.` make a link.
        let rest = &text[at + c.len_utf8()..];
        let begins = at == 0 && "+-=".contains(c) && (rest.is_empty() || rest.starts_with([' ', c]));
        let numbers = digits_only && at > 0 && ".)".contains(c) && (rest.is_empty() || rest.starts_with(' '));
        let links = (c == '/' && escaped.ends_with(':')) || (c == '.' && text[..at].ends_with("www"));
        digits_only &= c.is_ascii_digit();
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            c if SPECIAL.contains(c) || begins || numbers || links => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Environment for templates of Markdown.
pub fn environment() -> Environment<'static> {
    let mut page = line_environment(escape);
    page.add_filter("code", |text: &str| Value::from_safe_string(code(text)));
    page.add_filter("block", |text: &str| Value::from_safe_string(block(text)));
    share(&mut page, "parts", include_str!("markdown/parts.md.jinja"));
    page
}

/// Text as code, on one line and not too long for a comment.
pub fn code(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = shorten(&printable(&words.join(" ")), 200);
    format!("`{}`", line.replace('`', "'"))
}

/// Lines as a block of code, which none of them can end.
pub fn block(lines: &str) -> String {
    let longest = lines.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n\n", lines.trim_matches('\n'))
}

/// A table whose cells are Markdown already.
pub fn grid(heads: &[String], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(heads) + &line(&vec!["---".to_owned(); heads.len()]);
    text.extend(rows.map(|row| line(&row)));
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

    /// The text of each cell of a page. Panics if a cell contains anything but text.
    fn cells(page: &str) -> Vec<String> {
        let mut cells = Vec::new();
        let mut within = false;
        let github = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        let github = github | Options::ENABLE_FOOTNOTES | Options::ENABLE_MATH | Options::ENABLE_GFM;
        for event in Parser::new_ext(page, github) {
            match event {
                Event::Start(Tag::TableCell) => {
                    within = true;
                    cells.push(String::new());
                }
                Event::End(TagEnd::TableCell) => within = false,
                Event::Text(text) if within => cells.last_mut().expect("a cell").push_str(&text),
                other if within => panic!("{other:?} in a cell of {page}"),
                _ => {}
            }
        }
        cells
    }

    #[test]
    fn text_from_outside_stays_text() {
        assert_eq!(
            escape("a|b <img> [x](y)\n@team http://x"),
            "a\\|b &lt;img&gt; \\[x\\](y)\\\\n\\@team http:\\//x"
        );
        assert_eq!(escape("1. a"), "1\\. a");
        assert_eq!(escape("12.5 max_num_seqs -1"), "12.5 max\\_num\\_seqs -1");
        assert_eq!(code("a `b`\nc\u{1b}"), "`a 'b' c\\u{1b}`");
        assert_eq!(block("a\n```b\n"), "````text\na\n```b\n````\n\n");
    }

    proptest! {
        #[test]
        fn a_reader_gets_every_text(text in "(?s)[-+=>#*_`~|\\\\<&\\[\\]!$@1.) \t\n:/]{0,8}.{0,12}") {
            let wanted = printable(&text).trim_matches(' ').to_owned();
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(vsweep_base::printable::has_effect));
            let table = format!("| A | B |\n| --- | --- |\n| {escaped} | x |\n");
            prop_assert_eq!(cells(&table), ["A", "B", wanted.as_str(), "x"]);
            for (before, depth) in [("- ", 1), ("Said ", 0), ("", 0)] {
                let (mut shown, mut lists) = (String::new(), 0);
                for event in Parser::new_ext(&format!("{before}{escaped}\n"), Options::empty()) {
                    match event {
                        Event::Text(text) => shown += &text,
                        Event::Start(Tag::List(_)) => lists += 1,
                        Event::Start(Tag::Paragraph | Tag::Item) | Event::End(_) => {}
                        other => prop_assert!(false, "{other:?} of {escaped}"),
                    }
                }
                prop_assert_eq!(lists, depth);
                let prefix = before.trim_start_matches("- ");
                let wanted = format!("{prefix}{wanted}");
                prop_assert_eq!(shown, wanted.trim_end_matches(' '));
            }
            let fenced = block(&printable(&text));
            let shown: String = Parser::new(&fenced).filter_map(|event| match event { Event::Text(text) => Some(text.to_string()), _ => None }).collect();
            prop_assert_eq!(shown.trim_end_matches('\n'), &*printable(&text));
        }
    }
}
