//! Text that a terminal, a page or an editor shows as it stands: whatever would move the cursor, change the screen, reach the
//! clipboard or turn the direction of writing is written as its escape instead (`\u{1b}`). Text from servers, logs, other
//! programs and their results goes through here where it enters; names and values of a plan, which programs must get
//! unchanged, where they are shown. What quotes mean in a format is for that format's writer.

use std::borrow::Cow;

/// A text on one line.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

/// The same, but line feeds and tabs stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| acts(c) && c != '\n' && c != '\t')
}

/// JSON with escapes for what its writer leaves as it is; such characters stand only within its texts.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    if !json.contains(|c| acts(c) && c != '\n') {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match acts(c) && c != '\n' {
            true => shown += &format!("\\u{:04x}", u32::from(c)),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Whether a character does something instead of being shown: controls (C0, DEL, C1), marks and overrides of direction,
/// separators of lines and paragraphs.
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_escaped(c) {
            true => shown.extend(c.escape_default()),
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

    proptest! {
        #[test]
        fn nothing_acts_any_more(text: String) {
            prop_assert!(!printable(&text).contains(acts));
            prop_assert!(!printable_lines(&text).replace(['\n', '\t'], "").contains(acts));
            let json = serde_json::to_string_pretty(&[&text]).expect("a text is JSON");
            let shown = printable_json(&json);
            prop_assert!(!shown.replace('\n', "").contains(acts));
            prop_assert_eq!(serde_json::from_str::<[String; 1]>(&shown).expect("still JSON"), [text]);
        }
    }
}
