//! Text for a terminal: its width, lines wrapped to it, and colours for words that judge, such as `failed`. No colours if `NO_COLOR` is
//! set.

use console::{Color, Style, Term, measure_text_width};
use std::io::{self, Write};

/// Indentation of the rest of a wrapped line.
const INDENT: usize = 4;

/// Columns of a terminal; `None` if it is not a terminal, or its width is unknown.
pub fn width(term: &Term) -> Option<usize> {
    let (_, width) = term.is_term().then(|| term.size_checked())??;
    Some(width.into())
}

/// A text in lines of at most `most` columns, broken between words; a word that is longer is broken where its parts end, as in a path.
pub fn wrap(text: &str, most: usize) -> Vec<String> {
    wrap_within(text, most, most)
}

/// Like `wrap`, with another width for all lines but the first.
fn wrap_within(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // A number stays together with its percent sign, and the `x` of a multiple with its number.
    let glued = text.replace(" %", "\u{a0}%").replace(" x ", " x\u{a0}");
    for mut word in glued.split(' ') {
        let room = if lines.len() < 2 { first } else { rest };
        if let Some(last) = lines.last_mut()
            && measure_text_width(last) + 1 + measure_text_width(word) <= room
        {
            last.push(' ');
            last.push_str(word);
            continue;
        }
        while let Some(at) = end_of_part(word, if lines.is_empty() { first } else { rest }) {
            lines.push(word[..at].to_owned());
            word = &word[at..];
        }
        lines.push(word.to_owned());
    }
    lines.iter().map(|line| line.replace('\u{a0}', " ")).collect()
}

/// Position at which to break a word that is longer than `most` columns; `None` if it is not longer, or contains an escape sequence.
fn end_of_part(word: &str, most: usize) -> Option<usize> {
    if measure_text_width(word) <= most || word.contains('\u{1b}') {
        return None;
    }
    let ends = || word.char_indices().map(|(at, letter)| (at + letter.len_utf8(), letter));
    let fits = |at: &usize| measure_text_width(&word[..*at]) <= most;
    let parts = ends()
        .filter(|(_, letter)| "/,=:_-".contains(*letter))
        .map(|(at, _)| at);
    let at = parts.take_while(fits).last();
    at.or_else(|| ends().map(|(at, _)| at).take_while(fits).last())
}

/// Returns a text for a terminal, broken to its width and coloured. If `on` is not a terminal, the text is unchanged.
pub fn show(text: &str, on: &Term) -> String {
    if !on.is_term() {
        return text.to_owned();
    }
    let painted = paint(text, on.features().colors_supported());
    // Lines are not broken on a terminal that does not report its width.
    width(on).map_or_else(|| painted.clone(), |width| fold_to(&painted, width))
}

/// A writer that shows each line as [`show`] does on standard output.
pub struct Screen<W: Write> {
    to: W,
    on: Term,
    /// The beginning of a line that has not ended yet.
    begun: Vec<u8>,
}

impl<W: Write> Screen<W> {
    /// A writer whose output goes on to `to`.
    pub fn new(to: W) -> Screen<W> {
        let (on, begun) = (Term::stdout(), Vec::new());
        Screen { to, on, begun }
    }
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        if let Some(end) = self.begun.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.begun.split_off(end + 1);
            let whole = std::mem::replace(&mut self.begun, rest);
            let shown = show(&String::from_utf8_lossy(&whole), &self.on);
            self.to.write_all(shown.as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let begun = std::mem::take(&mut self.begun);
        self.to.write_all(&begun)?;
        self.to.flush()
    }
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        // A caller that needs the result flushes.
        let _ = self.flush();
    }
}

/// Colour of a word of judgement: good, doubtful or bad.
fn colour(word: &str) -> Option<Color> {
    Some(match word {
        "ok" | "improved" | "met" | "up" => Color::Green,
        "suspect" | "cut" | "undecided" | "warning" | "note" | "assumed" => Color::Yellow,
        "failed" | "invalid" | "regressed" | "broken" | "missed" | "error" | "lost" => Color::Red,
        _ => return None,
    })
}

/// Colours words that judge: after a count (`3 failed`, `3 runs failed`), before a colon at the beginning of a line, or alone in a
/// cell of a table. Headings are bold.
fn paint(text: &str, has_colours: bool) -> String {
    if !has_colours {
        return text.to_owned();
    }
    text.split('\n').map(paint_line).collect::<Vec<_>>().join("\n")
}

fn paint_line(line: &str) -> String {
    let style = || Style::new().force_styling(true);
    let is_title = ["server ", "starts  runs ", "predicted: ", "base: ", "new:  "]
        .iter()
        .any(|start| line.starts_with(start));
    if is_title || line.contains("====") || line.contains("----") {
        return style().bold().apply_to(line).to_string();
    }
    if line.contains("will likely fail") || line.starts_with("Failed requests:") && !line.trim_end().ends_with(" 0") {
        return style().red().apply_to(line).to_string();
    }
    let words: Vec<&str> = line.split(' ').collect();
    let is_count = |word: &str| {
        let number = word.trim_start_matches('(');
        number.starts_with(|c: char| c.is_ascii_digit() && c != '0')
            && number.chars().all(|c| c.is_ascii_digit() || c == ',')
    };
    let painted = words.iter().enumerate().map(|(place, word)| {
        let bare = word.trim_end_matches([',', ')', ':', ';']);
        let before = |back: usize| place.checked_sub(back).map(|place| words[place]);
        let is_counted = before(1).is_some_and(is_count)
            || before(1).is_some_and(|noun| noun.starts_with("run")) && before(2).is_some_and(is_count);
        let is_label = words[..place].iter().all(|word| word.is_empty()) && word.ends_with(':');
        let ends_cell = words.get(place + 1).is_none_or(|next| next.is_empty());
        let is_cell = before(1) == Some("") && ends_cell && place > 2;
        match colour(bare).filter(|_| is_counted || is_label || is_cell) {
            Some(colour) => format!("{}{}", style().fg(colour).apply_to(bare), &word[bare.len()..]),
            None => (*word).to_owned(),
        }
    });
    painted.collect::<Vec<_>>().join(" ")
}

/// Wraps a text like `show`, except lines that point into a file (` |`), so that marks stay below their target. Adds no colours.
pub fn show_places(text: &str, on: &Term) -> String {
    let fold = |line: &str| match width(on) {
        Some(width) if !console::strip_ansi_codes(line).contains(" |") => fold_to(line, width),
        _ => line.to_owned(),
    };
    text.split('\n').map(fold).collect::<Vec<_>>().join("\n")
}

fn fold_to(text: &str, width: usize) -> String {
    let line = |line: &str| {
        // A line is a row of a table if two spaces separate cells; indentation does not count.
        let is_row = line.trim().contains("  ");
        let indent = if is_row {
            0
        } else {
            line.len() - line.trim_start().len()
        };
        match measure_text_width(line) > width {
            false => line.to_owned(),
            true => {
                // Half of the width is left for words, whatever the indentation.
                let indent = (indent + INDENT).min(width / 2);
                wrap_within(line, width, width - indent).join(&format!("\n{:1$}", "", indent))
            }
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
        assert_eq!(
            wrap("in results/night/report.html", 14),
            ["in", "results/night/", "report.html"]
        );
        assert_eq!(wrap("abcdefgh i", 5), ["abcde", "fgh i"]);
        assert_eq!(wrap("i e", 0), ["i", "e"], "a terminal without columns");
    }

    #[test]
    fn words_that_judge_have_colours() {
        let plain = "d: 22 of 22 runs done (16 ok, 6 suspect, 0 failed), 0 left";
        let red = "\u{1b}[31m";
        assert_eq!(paint(plain, false), plain);
        let painted = paint(plain, true);
        assert!(
            painted.contains("16 \u{1b}[32mok\u{1b}[0m,") && painted.contains("6 \u{1b}[33msuspect\u{1b}"),
            "{painted}"
        );
        assert_eq!(console::strip_ansi_codes(&painted), plain);
        assert!(!painted.contains(red), "{painted}");
        for bad in [
            "2 runs failed: port_taken (taken)",
            "  p99_ttft_ms  1  2  +100 %  -  1 + 1  regressed",
            "  p99_ttft_ms  x 2.05  x 1.89 to 2.22  regressed  concurrency 8",
            "limits: 3 broken, 1 met",
            "Failed requests:     3",
        ] {
            assert!(paint(bad, true).contains(red), "{bad}");
        }
        for other in [
            "the run that failed",
            "  name=failed",
            "Failed requests:     0",
            "it ended ( failed )",
            "none (0 failed)",
        ] {
            assert_eq!(paint(other, true), other);
        }
    }

    #[test]
    fn a_screen_gets_whole_lines() {
        let mut shown = Vec::new();
        let mut screen = Screen::new(&mut shown);
        for part in ["one ", "line\nand an", "other\n"] {
            screen.write_all(part.as_bytes()).expect("memory");
        }
        drop(screen);
        assert_eq!(String::from_utf8_lossy(&shown), "one line\nand another\n");
    }

    #[test]
    fn only_lines_that_are_too_long_are_broken() {
        let table = "tokens/s  settings\n   3,501  TP 2, seqs 64";
        assert_eq!(fold_to(table, 30), table);
        assert_eq!(fold_to(table, 20), "tokens/s  settings\n   3,501  TP 2, seqs\n    64");
        let deep = format!("{:12}one two three four", "");
        assert!(
            fold_to(&deep, 20).lines().all(|line| line.len() <= 20),
            "{}",
            fold_to(&deep, 20)
        );
    }
}
