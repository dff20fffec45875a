//! One line of a sweep's story: a word for what happened, right-aligned and coloured as in cargo, then the story. Colours are left
//! out where standard error is no terminal, and where `NO_COLOR` is set.

use crate::report::terminal::{width, wrap};
use console::{Style, Term, measure_text_width};
use vsweep_plan::printable::printable;

/// Between what a line says.
const JOINT: &str = " · ";
/// The column of the words.
const COLUMN: usize = 8;

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The sweep as a whole.
    Sweep,
    /// A server is started or connected to.
    Start,
    /// A server is ready.
    Ready,
    /// A server was stopped or left.
    Stop,
    /// A run that needs no server begins.
    Run,
    /// A run was measured.
    Ok,
    /// A run was measured, but may not be believed.
    Suspect,
    /// A run did not measure what it claims.
    Invalid,
    /// A run was ended early, as nothing more was to be learned.
    Cut,
    /// A server, a run or a search failed.
    Failed,
    /// A search begins.
    Search,
    /// A search ended with answers.
    Found,
    /// Earlier results count no more.
    Retired,
    /// Something else to know.
    Note,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Status::Sweep => "Sweep",
            Status::Start => "Start",
            Status::Ready => "Ready",
            Status::Stop => "Stop",
            Status::Run => "Run",
            Status::Ok => "Ok",
            Status::Suspect => "Suspect",
            Status::Invalid => "Invalid",
            Status::Cut => "Cut",
            Status::Failed => "Failed",
            Status::Search => "Search",
            Status::Found => "Found",
            Status::Retired => "Retired",
            Status::Note => "Note",
        }
    }

    fn style(self) -> Style {
        let style = Style::new().for_stderr().bold();
        match self {
            Status::Ready | Status::Ok | Status::Found => style.green(),
            Status::Suspect | Status::Invalid | Status::Cut | Status::Retired | Status::Note => style.yellow(),
            Status::Failed => style.red(),
            Status::Sweep | Status::Start | Status::Stop | Status::Run | Status::Search => style.cyan(),
        }
    }
}

/// A word and what is said after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub status: Status,
    pub text: String,
}

impl Line {
    pub fn new(status: Status, text: impl Into<String>) -> Line {
        let text = text.into();
        Line { status, text }
    }

    /// The line as it is printed, after the time of day if that is to be said; broken between words at the width of the
    /// terminal, if it goes to one.
    pub fn paint(&self, time: Option<&str>) -> String {
        let before = time.map_or(String::new(), |time| format!("{time} "));
        let word = self.status.style().apply_to(self.status.word());
        let room = width(&Term::stderr()).map(|width| width.saturating_sub(before.len() + COLUMN + 1).max(20));
        let indent = format!("\n{:1$}", "", before.len() + COLUMN + 1);
        let text = wrap(&printable(&self.text), room.unwrap_or(usize::MAX)).join(&indent);
        format!("{before}{:1$}{word} {text}", "", COLUMN - self.status.word().len())
    }
}

impl Line {
    /// The same in a single line of the terminal: what it is about loses its middle, what is said of it its end. The summary at the
    /// end of a sweep has all of it.
    pub fn paint_short(&self) -> String {
        let Some(width) = width(&Term::stderr()) else {
            return self.paint(None);
        };
        let room = width.saturating_sub(COLUMN + 1).max(20);
        Line::new(self.status, shorten(&printable(&self.text), room)).paint(None)
    }
}

fn shorten(text: &str, most: usize) -> String {
    if measure_text_width(text) <= most {
        return text.to_owned();
    }
    let Some((about, said)) = text.split_once(": ") else {
        return without_end(text, most);
    };
    let beside = |text: &str| most.saturating_sub(measure_text_width(text) + ": ".len());
    let about = match measure_text_width(about) > most / 2 {
        true => without_middle(about, beside(&without_end(said, most * 3 / 5))),
        false => about.to_owned(),
    };
    format!("{about}: {}", without_end(said, beside(&about)))
}

fn without_end(text: &str, most: usize) -> String {
    match measure_text_width(text) > most {
        true => format!("{} …", wrap(text, most.saturating_sub(2))[0]),
        false => text.to_owned(),
    }
}

/// A name without the settings in its middle: it begins with the server and ends with the load.
fn without_middle(text: &str, most: usize) -> String {
    if measure_text_width(text) <= most {
        return text.to_owned();
    }
    let settings: Vec<&str> = text.split(", ").collect();
    let (first, others) = settings.split_first().expect("splitting gives at least one");
    let mut left = most.saturating_sub(measure_text_width(first) + ", …".chars().count());
    let last = others.iter().rev().take_while(|setting| {
        let fits = left.checked_sub(measure_text_width(setting) + 2);
        left = fits.unwrap_or(left);
        fits.is_some()
    });
    let last = last.count();
    let kept = [&[*first, "…"], &others[others.len() - last..]].concat().join(", ");
    without_end(&kept, most)
}

/// As many of the parts as fit the terminal, the first ones first; at least the first, shortened if need be.
pub fn fit(parts: &[String], indent: usize) -> String {
    let most = width(&Term::stderr()).map_or(usize::MAX, |width| width.saturating_sub(indent + 1));
    fit_in(parts, most)
}

fn fit_in(parts: &[String], most: usize) -> String {
    let mut parts = parts.iter().filter(|part| !part.is_empty());
    let Some(first) = parts.next() else {
        return String::new();
    };
    // A long name leaves room for what is said of it.
    let next = parts
        .clone()
        .next()
        .map_or(0, |part| measure_text_width(part) + measure_text_width(JOINT));
    let room = most.saturating_sub(next).max(most / 3);
    let mut text = without_middle(first, room);
    for part in parts {
        let joined = format!("{text}{JOINT}{part}");
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

    #[test]
    fn what_failed_has_one_line_with_its_beginning_and_its_load() {
        let lost = "TP 1, seqs 32, batched tokens 2048, KV cache auto: 20 runs lost: oom_at_load: CUDA out of memory";
        assert_eq!(shorten(lost, 51), "TP 1, …: 20 runs lost: oom_at_load: CUDA out of …");
        assert_eq!(shorten(lost, 200), lost);
        let doubt = "TP 2, seqs 32, in 1024, out 32, concurrency 4 #0 in 426 ms: run_too_short: it took 337 ms";
        let short = shorten(doubt, 71);
        assert!(
            short.starts_with("TP 2,") && short.contains("concurrency 4 #0 in 426 ms: run_too_short"),
            "{short}"
        );
        let long = "seqs 8, concurrency 1 #0 in 1.2 s: sample_too_small: p99 of 32 requests; it takes 100";
        let short = shorten(long, 71);
        assert!(
            short.starts_with("seqs 8, concurrency 1 #0 in 1.2 s: sample_too_small: "),
            "{short}"
        );
        for most in 20..120 {
            assert!(measure_text_width(&shorten(doubt, most)) <= most.max(30), "{most}");
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_whole() {
        let parts = [
            "TP 2, seqs 64".to_owned(),
            "12 of 100 requests".to_owned(),
            "TTFT 43 ms".to_owned(),
        ];
        assert_eq!(fit_in(&parts, 80), "TP 2, seqs 64 · 12 of 100 requests · TTFT 43 ms");
        assert_eq!(fit_in(&parts, 40), "TP 2, seqs 64 · 12 of 100 requests");
        assert_eq!(fit_in(&parts, 30), "TP 2, … · 12 of 100 requests");
        assert_eq!(fit_in(&parts, 10), "T …");
        let long = "TP 8, seqs 256, batched tokens 8192, in 128, out 96, concurrency 256 #1".to_owned();
        let line = fit_in(&[long, "129 of 512 requests".to_owned()], 77);
        assert_eq!(
            line,
            "TP 8, …, in 128, out 96, concurrency 256 #1 · 129 of 512 requests"
        );
    }
}
