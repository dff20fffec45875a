//! One line of a sweep's progress: a word for the event, right-aligned and coloured as in cargo, then the details. No colours if standard
//! error is not a terminal or `NO_COLOR` is set.

use crate::texts::terminal::{width, wrap};
use console::{Color, Style, Term, measure_text_width};
use itertools::Itertools;
use vsweep_base::printable::printable;

/// Separator between the parts of a line.
const JOINT: &str = " · ";
/// Width of the column of headwords.
const COLUMN: usize = 8;

/// First word of a line, and its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headword(&'static str, Color);

impl Headword {
    /// The sweep as a whole.
    pub const SWEEP: Headword = Headword("Sweep", Color::Cyan);
    /// A server is started or connected to.
    pub const START: Headword = Headword("Start", Color::Cyan);
    /// A server is ready.
    pub const READY: Headword = Headword("Ready", Color::Green);
    /// A server was stopped or left.
    pub const STOP: Headword = Headword("Stop", Color::Cyan);
    /// A run that needs no server begins.
    pub const RUN: Headword = Headword("Run", Color::Cyan);
    /// A run was measured.
    pub const OK: Headword = Headword("Ok", Color::Green);
    /// A run was measured, but its figures are in doubt.
    pub const SUSPECT: Headword = Headword("Suspect", Color::Yellow);
    /// A run did not measure what it claims.
    pub const INVALID: Headword = Headword("Invalid", Color::Yellow);
    /// A run was ended early, as nothing more was to be learned.
    pub const CUT: Headword = Headword("Cut", Color::Yellow);
    /// A server, a run or a search failed.
    pub const FAILED: Headword = Headword("Failed", Color::Red);
    /// A search begins.
    pub const SEARCH: Headword = Headword("Search", Color::Cyan);
    /// A search or an exploration ended.
    pub const FOUND: Headword = Headword("Found", Color::Green);
    /// Earlier results count no more.
    pub const RETIRED: Headword = Headword("Retired", Color::Yellow);
    /// The answer so far recommends another server.
    pub const BEST: Headword = Headword("Best", Color::Green);
    /// Something else to know.
    pub const NOTE: Headword = Headword("Note", Color::Yellow);
}

/// The forms of a name, the full one first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

/// A headword and the text after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub headword: Headword,
    pub text: String,
}

impl Line {
    pub fn new(headword: Headword, text: impl Into<String>) -> Line {
        let text = text.into();
        Line { headword, text }
    }

    /// Formats the line for printing, after the time of day if one is given. If standard error is a terminal, the line is broken between
    /// words at its width.
    pub fn paint(&self, time: Option<&str>) -> String {
        let before = time.map_or(String::new(), |time| format!("{time} "));
        let Headword(word, colour) = self.headword;
        let before_word = COLUMN - word.len();
        let word = Style::new().for_stderr().bold().fg(colour).apply_to(word);
        let room = width(&Term::stderr()).map(|width| width.saturating_sub(before.len() + COLUMN + 1).max(20));
        let indent = format!("\n{:1$}", "", before.len() + COLUMN + 1);
        let text = wrap(&printable(&self.text), room.unwrap_or(usize::MAX)).join(&indent);
        format!("{before}{:before_word$}{word} {text}", "")
    }

    /// Formats the line to fit one line of the terminal with a shorter name at its beginning, or else two. If two are too few, the end is
    /// cut. The summary after the sweep has the full text.
    pub fn paint_short(&self, names: &Names) -> String {
        let Some(width) = width(&Term::stderr()) else {
            return self.paint(None);
        };
        let room = width.saturating_sub(COLUMN + 1).max(20);
        Line::new(self.headword, shorten_to_two(&printable(&self.text), names, room)).paint(None)
    }
}

/// Shortens a text to one line of `most` columns if that does not cut its end, else to two lines.
fn shorten_to_two(text: &str, names: &Names, most: usize) -> String {
    let one = shorten(text, names, most);
    if !one.ends_with('…') {
        return one;
    }
    // The break between words may leave columns of the first line empty, so the longest text that fits two lines is sought.
    let roomy = (most..=2 * most).rev().map(|columns| shorten(text, names, columns));
    let mut two = roomy.filter(|line| wrap(line, most).len() <= 2);
    two.next().unwrap_or(one)
}

fn shorten(text: &str, Names(names): &Names, most: usize) -> String {
    if measure_text_width(text) <= most {
        return text.to_owned();
    }
    let rest = names.first().and_then(|full| text.strip_prefix(full.as_str()));
    // The duration is left out, because it is less important than the reason for the failure.
    let Some((_, rest)) = rest.and_then(|rest| rest.split_once(": ")) else {
        return without_end(text, most);
    };
    let parts: Vec<&str> = rest.split(": ").collect();
    // The class of an exception is left out, because it says no more than its text.
    let is_class = |part: &&str| part.ends_with("Error") && !part.contains(' ');
    let rest = parts.iter().filter(|part| !is_class(part)).join(": ");
    let room_after = |text: &str| most.saturating_sub(measure_text_width(text) + ": ".len());
    let name = fitting(
        names,
        room_after(&rest).max(most * 2 / 5),
        room_after(parts[0]).max(most / 2),
    );
    let room = room_after(&name);
    let (cut, first) = (without_end(&rest, room), rest.split(": ").next().unwrap_or_default());
    let is_better = measure_text_width(&cut) < measure_text_width(first) && measure_text_width(first) <= room;
    format!("{name}: {}", if is_better { first } else { &cut })
}

/// The first of the names that fits `room`. If none does, the last one, without its middle if it has more than `most` columns: the server
/// is at its beginning, and the load and the number are at its end.
fn fitting(names: &[String], room: usize, most: usize) -> String {
    let first = names.iter().find(|name| measure_text_width(name) <= room);
    first
        .or(names.last())
        .map_or(String::new(), |name| without_middle(name, most))
}

fn without_end(text: &str, most: usize) -> String {
    match measure_text_width(text) > most {
        true => format!("{} …", wrap(text, most.saturating_sub(2))[0]),
        false => text.to_owned(),
    }
}

/// Cuts the middle of a text. Twice as much is kept of the end as of the beginning.
fn without_middle(text: &str, most: usize) -> String {
    if measure_text_width(text) <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(1);
    let letters: Vec<char> = text.chars().collect();
    let end = letters.len().saturating_sub(kept - kept / 3);
    let begin = letters[..end].iter().take(kept / 3);
    format!(
        "{}…{}",
        begin.collect::<String>(),
        letters[end..].iter().collect::<String>()
    )
}

/// Most columns for the figures of a run so far (requests, tokens a second and TTFT) on a line of `most` columns. Further ones do not
/// shorten the name before them.
fn room_of_figures(most: usize) -> usize {
    match most {
        ..70 => 15,
        70..100 => 45,
        _ => 56,
    }
}

/// Joins a name with as many of the parts as fit the terminal. The last parts are left out first.
pub fn fit(names: &Names, parts: &[String], indent: usize) -> String {
    let most = width(&Term::stderr()).map_or(usize::MAX, |width| width.saturating_sub(indent + 1));
    fit_in(names, parts, most)
}

fn fit_in(Names(names): &Names, parts: &[String], most: usize) -> String {
    let shown = parts.iter().filter(|part| !part.is_empty());
    let needed: usize = shown
        .map(|part| measure_text_width(JOINT) + measure_text_width(part))
        .sum();
    let room = most.saturating_sub(room_of_figures(most).min(needed)).max(most / 3);
    let mut text = fitting(names, room, room);
    // The word "requests" is obvious, so it is left out if the name fills most of the line.
    let is_narrow = measure_text_width(&text) > most.saturating_sub(room_of_figures(100));
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let part = if is_narrow {
            part.replace(" requests", "")
        } else {
            part.clone()
        };
        let joined = match text.is_empty() {
            true => without_end(&part, most),
            false => format!("{text}{JOINT}{part}"),
        };
        if measure_text_width(&joined) > most {
            break;
        }
        text = joined;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let forms = [
            "TP 8, seqs 256, batched tokens 8192, KV cache fp8, in 128, out 96, concurrency 256 #1",
            "TP 8/256/8192/fp8, in 128, out 96, concurrency 256 #1",
            "TP 8/256/8192/fp8, in 128/96/256 #1",
        ];
        Names(forms.map(str::to_owned).to_vec())
    }

    #[test]
    fn a_short_line_names_its_run_and_says_why() {
        let Names(forms) = names();
        let doubt = format!("{} in 426 ms: run_too_short: it took 337 ms", forms[0]);
        let short = |most| shorten(&doubt, &names(), most);
        assert_eq!(short(200), doubt);
        assert_eq!(short(116), format!("{}: run_too_short: it took 337 ms", forms[0]));
        assert_eq!(short(90), format!("{}: run_too_short: it took 337 ms", forms[1]));
        assert_eq!(short(71), format!("{}: run_too_short: it took 337 ms", forms[2]));
        assert_eq!(short(51), format!("{}: run_too_short", forms[2]));
        for most in 30..120 {
            let short = short(most);
            assert!(
                measure_text_width(&short) <= most && short.contains("#1: "),
                "{most}: {short}"
            );
        }
        let forms = Names(vec![
            "TP 1, seqs 32, batched tokens 2048, KV cache auto".into(),
            "TP 1/32/2048/auto".into(),
        ]);
        let lost = format!(
            "{}: 20 runs lost: out of memory at load: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate",
            forms.0[0]
        );
        assert_eq!(
            shorten(&lost, &forms, 61),
            "TP 1/32/2048/auto: 20 runs lost: out of memory at load: …"
        );
        assert_eq!(
            shorten(&lost, &forms, 81),
            "TP 1/32/2048/auto: 20 runs lost: out of memory at load: CUDA out of memory. …"
        );
        let two = shorten_to_two(&lost, &forms, 71);
        assert!(two.ends_with(": CUDA out of memory. Tried to allocate"), "{two}");
        assert!(wrap(&two, 71).len() <= 2, "{two}");
    }

    #[test]
    fn what_does_not_fit_is_left_out_whole() {
        let name = Names(vec!["TP 2, seqs 64".to_owned()]);
        let parts = ["12 of 100 requests".to_owned(), "TTFT 43 ms".to_owned()];
        assert_eq!(
            fit_in(&name, &parts, 120),
            "TP 2, seqs 64 · 12 of 100 requests · TTFT 43 ms"
        );
        assert_eq!(fit_in(&name, &parts, 30), "TP 2, seqs 64 · 12 of 100");
        assert_eq!(
            fit_in(&names(), &["12s".to_owned()], 60),
            format!("{} · 12s", names().0[1])
        );
        assert_eq!(fit_in(&Names::default(), &parts, 20), "12 of 100 requests");
        assert_eq!(fit_in(&Names::default(), &parts, 10), "12 of …");
    }

    #[test]
    fn figures_have_their_place_and_the_name_stays_as_it_is() {
        let figures = |done: u32, rate: &str| {
            [
                format!("{done} of 512 requests"),
                format!("{rate} tokens/s"),
                "TTFT 123 ms".to_owned(),
            ]
        };
        let Names(forms) = names();
        for (most, form) in [
            (77, None),
            (97, Some(&forms[2])),
            (117, Some(&forms[1])),
            (157, Some(&forms[0])),
        ] {
            let lines = [figures(1, "9"), figures(129, "1,234")].map(|parts| fit_in(&names(), &parts, most));
            let named = lines
                .each_ref()
                .map(|line| line.split(JOINT).next().unwrap_or_default());
            assert_eq!(named[0], named[1]);
            assert!(form.is_none_or(|form| named[0] == form), "{named:?}");
            for line in &lines {
                assert!(
                    line.contains(" tokens/s · TTFT 123 ms") && measure_text_width(line) <= most,
                    "{line}"
                );
            }
        }
    }
}
