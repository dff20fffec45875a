//! Makes text safe to show in a terminal, a page or an editor: characters that would move the cursor, change the screen, reach the
//! clipboard or change the direction of writing become escapes (`\u{1b}`). Text from servers, logs, other programs and their results is
//! escaped on entry. Names and values of a plan are escaped where they are shown, because programs must get them unchanged. Quoting is up
//! to the writer of each format.

use std::borrow::Cow;
use std::io::{self, Write};

/// Largest number of characters of a message that is recorded.
const MOST: usize = 2000;

/// Returns a message of another program in the form in which it is recorded: on one line, and not too long.
pub(crate) fn message(text: &str) -> String {
    printable(&shorten(text, MOST)).into_owned()
}

/// Returns a text on one line, in which characters that [have an effect](has_effect) are escaped.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, has_effect, |c| c.escape_default().to_string())
}

/// Like [`printable`], but keeps line feeds and tabs.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let is_escaped = |c| has_effect(c) && c != '\n' && c != '\t';
    escaped(text, is_escaped, |c| c.escape_default().to_string())
}

/// Returns JSON in which characters that [have an effect](has_effect) are escaped, except line feeds. Other such characters occur only
/// within strings, so the result is still JSON.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    let is_escaped = |c| has_effect(c) && c != '\n';
    escaped(json, is_escaped, |c| format!("\\u{:04x}", u32::from(c)))
}

/// Mark at the end of a text that was cut.
pub const CUT: &str = " …";

/// Returns a text unchanged if it has at most `most` characters. A longer text is cut to `most` characters including the
/// [`CUT`] at its end, between words if that leaves three quarters of it.
pub fn shorten(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let room = most.saturating_sub(CUT.chars().count());
    let end = text.char_indices().nth(room).map_or(0, |(end, _)| end);
    let between_words = text[..end].rfind(' ').filter(|at| *at >= end / 4 * 3);
    let end = between_words.unwrap_or(end);
    format!("{}{CUT}", &text[..end])
}

/// A writer whose text is made printable on the way.
#[derive(Debug)]
pub struct Printable<W> {
    to: W,
    escape: fn(&str) -> Cow<'_, str>,
    /// The first bytes of a character whose other bytes are still to come.
    partial: Vec<u8>,
}

impl<W: Write> Printable<W> {
    /// Writes lines of text, as [`printable_lines`].
    pub fn lines(to: W) -> Printable<W> {
        Printable::with(to, printable_lines)
    }

    /// Writes JSON, as [`printable_json`].
    pub fn json(to: W) -> Printable<W> {
        Printable::with(to, printable_json)
    }

    fn with(to: W, escape: fn(&str) -> Cow<'_, str>) -> Printable<W> {
        let partial = Vec::new();
        Printable { to, escape, partial }
    }
}

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.partial.extend_from_slice(bytes);
        let mut whole = String::with_capacity(self.partial.len());
        let mut rest = Vec::new();
        let mut chunks = self.partial.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            whole += chunk.valid();
            match chunk.invalid() {
                // At most the first three bytes of a character that goes on.
                unfinished if chunks.peek().is_none() && unfinished.len() < 4 => rest.extend_from_slice(unfinished),
                _ => whole.push(char::REPLACEMENT_CHARACTER),
            }
        }
        self.partial = rest;
        self.to.write_all((self.escape)(&whole).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Returns true for characters that have an effect instead of a shape: controls (C0, DEL, C1), direction marks and overrides, line and
/// paragraph separators, and the byte order mark.
pub fn has_effect(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_escaped(c) {
            true => shown += &escape(c),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_acts_is_escaped() {
        assert_eq!(printable("a\u{1b}]52;c;eA==\u{7}\n"), "a\\u{1b}]52;c;eA==\\u{7}\\n");
        assert_eq!(
            printable("\u{9b}31m\u{202e}x\u{2028}é"),
            "\\u{9b}31m\\u{202e}x\\u{2028}é"
        );
        assert_eq!(printable_lines("a\tb\r\nc"), "a\tb\\r\nc");
    }

    #[test]
    fn a_short_text_has_no_more_characters_than_it_may() {
        let text = "three weiße words";
        for most in 2..=text.chars().count() {
            assert!(shorten(text, most).chars().count() <= most, "{most}");
        }
        assert_eq!(shorten(text, 15), "three weiße …");
        assert_eq!(shorten(text, 17), text);
        assert_eq!(shorten("error: aaaaaaaaaaaaaaaaaa", 20), "error: aaaaaaaaaaa …");
    }

    proptest! {
        #[test]
        fn a_writer_does_what_the_functions_do(text: String, cut in 0usize..40) {
            let (mut lines, mut json) = (Printable::lines(Vec::new()), Printable::json(Vec::new()));
            for part in [&text.as_bytes()[..cut.min(text.len())], &text.as_bytes()[cut.min(text.len())..]] {
                lines.write_all(part).expect("memory");
                json.write_all(part).expect("memory");
            }
            prop_assert_eq!(String::from_utf8(lines.to).expect("text"), printable_lines(&text));
            prop_assert_eq!(String::from_utf8(json.to).expect("text"), printable_json(&text));
        }

        #[test]
        fn nothing_acts_any_more(text: String) {
            prop_assert!(!printable(&text).contains(has_effect));
            prop_assert!(!printable_lines(&text).replace(['\n', '\t'], "").contains(has_effect));
            let json = serde_json::to_string_pretty(&[&text]).expect("a text is JSON");
            let shown = printable_json(&json);
            prop_assert!(!shown.replace('\n', "").contains(has_effect));
            prop_assert_eq!(serde_json::from_str::<[String; 1]>(&shown).expect("still JSON"), [text]);
        }
    }
}
