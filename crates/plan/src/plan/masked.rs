//! A source of a plan as it may be shown: without secrets, and with its places moved accordingly.

use super::secrets::{HIDDEN, Secrets, replace};
use super::source::Span;
use std::ops::Range;

/// A text without secrets, and where they stood.
pub(super) struct Masked {
    /// The text.
    pub text: String,
    /// What was hidden.
    pub values: Vec<String>,
    cuts: Vec<Range<usize>>,
}

impl Masked {
    /// Hides what is known, and what the text itself announces: a plan may be too broken to be read.
    pub fn of(text: &str, secrets: &Secrets) -> Masked {
        let cuts = secrets.places(text);
        Masked {
            text: replace(text, &cuts),
            values: cuts.iter().map(|cut| text[cut.clone()].to_owned()).collect(),
            cuts,
        }
    }

    /// Where a place of the text is now; one within a secret is the whole of it.
    pub fn place(&self, span: Span) -> Span {
        Span {
            start: self.moved(span.start, false),
            end: self.moved(span.end, true).max(self.moved(span.start, false)),
            ..span
        }
    }

    fn moved(&self, offset: usize, is_end: bool) -> usize {
        let mut moved = offset;
        for cut in self.cuts.iter().take_while(|cut| cut.start < offset) {
            let (length, is_within) = (cut.len(), offset < cut.end);
            let kept = match (is_within, is_end) {
                (true, false) => 0,
                _ => HIDDEN.len(),
            };
            moved = moved - length.min(offset - cut.start) + kept;
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_move_with_the_text() {
        let text = "a_token = 'hunter2222' x_key=k y = 1";
        let masked = Masked::of(text, &Secrets::default());
        assert_eq!(masked.text, "a_token = '***' x_key=*** y = 1");
        let shown = |part: &str| {
            let start = text.find(part).expect("a part");
            let span = masked.place(Span {
                source: 0,
                start,
                end: start + part.len(),
            });
            &masked.text[span.start..span.end]
        };
        for (part, expected) in [
            ("a_token", "a_token"),
            ("'hunter2222'", "'***'"),
            ("hunter2222", "***"),
            ("ter", "***"),
            ("x_key=k", "x_key=***"),
            ("y = 1", "y = 1"),
        ] {
            assert_eq!(shown(part), expected, "{part}");
        }
    }
}
