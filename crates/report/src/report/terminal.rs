//! How wide a terminal is, and text that is broken to its width. Knows nothing of what the text says.

use console::{Term, measure_text_width};

/// How far the rest of a broken line stands in.
const INDENT: usize = 4;

/// Columns of a terminal; `None` if it is none.
pub fn width(term: &Term) -> Option<usize> {
    let (_, width) = term.is_term().then(|| term.size_checked())??;
    Some(width.into())
}

/// A text in lines of at most so many columns, broken between words; a word that is longer has a line of its own.
pub fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(last) if measure_text_width(last) + 1 + measure_text_width(word) <= most => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A text for standard output: as it is, or if that is a terminal, with lines that are too long broken between words.
pub fn fold(text: &str) -> String {
    match width(&Term::stdout()) {
        None => text.to_owned(),
        Some(width) => fold_to(text, width),
    }
}

fn fold_to(text: &str, width: usize) -> String {
    let line = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        match measure_text_width(line) > width {
            false => line.to_owned(),
            true => wrap(line, width.saturating_sub(INDENT)).join(&format!("\n{:1$}", "", indent + INDENT)),
        }
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        let wrapped = wrap("TP 2, seqs 64, concurrency 16: out of memory", 20);
        assert_eq!(wrapped, ["TP 2, seqs 64,", "concurrency 16: out", "of memory"]);
        assert_eq!(wrap("a-word-that-is-too-long b", 5), ["a-word-that-is-too-long", "b"]);
    }

    #[test]
    fn only_lines_that_are_too_long_are_broken() {
        let table = "tokens/s  settings\n   3,501  TP 2, seqs 64";
        assert_eq!(fold_to(table, 30), table);
        assert_eq!(
            fold_to(table, 20),
            "tokens/s  settings\n   3,501  TP 2,\n       seqs 64"
        );
    }
}
