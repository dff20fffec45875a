//! One value that is to be hidden, and where: anywhere, as a word, or only where its name announces it.

use std::ops::Range;

/// Length in bytes from which a value is hidden wherever it occurs, also within longer words.
const LONG: usize = 8;
/// Length in bytes from which it is hidden as a separate word. Shorter values, common words and numbers of less than [`LONG`] digits are
/// hidden only where their name announces them: replacing every `1` or `true` would ruin a text.
pub(super) const SHORT: usize = 4;
/// Words that are often given as a key because something must be given.
const COMMON: &str =
    "auto default dummy empty fake local localhost none null openai password secret test token true vllm";

/// One value that is to be hidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub value: String,
    /// The name it goes by, fit for a shell's variable.
    pub name: String,
    /// Text that must precede the value; empty unless the value alone is too short to be hidden.
    pub before: String,
    /// True if it comes from vsweep's own environment and not from the plan.
    pub is_ambient: bool,
}

impl Known {
    /// Returns the ranges of a text that must be hidden.
    pub fn places(&self, text: &str) -> Vec<Range<usize>> {
        let reach = Reach::of(&self.value);
        if reach == Reach::Named && self.before.is_empty() {
            return Vec::new();
        }
        let sought = format!("{}{}", self.before, self.value);
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let starts = self.value.starts_with(is_word) && self.before.is_empty();
        let ends = self.value.ends_with(is_word);
        let is_apart = |at: usize, end: usize| {
            reach == Reach::Anywhere
                || !((starts && text[..at].ends_with(is_word)) || (ends && text[end..].starts_with(is_word)))
        };
        let found = text.match_indices(&sought).map(|(at, found)| (at, at + found.len()));
        found
            .filter(|(at, end)| is_apart(*at, *end))
            .map(|(at, end)| at + self.before.len()..end)
            .collect()
    }
}

/// Contexts in which a value is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Only after a name that announces it.
    Named,
    /// Where it is a separate word.
    Word,
    /// Wherever it occurs.
    Anywhere,
}

impl Reach {
    pub fn of(value: &str) -> Reach {
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
        match value.len() {
            _ if COMMON.split(' ').any(|common| value.eq_ignore_ascii_case(common)) => Reach::Named,
            LONG.. => Reach::Anywhere,
            SHORT.. if !is_number => Reach::Word,
            _ => Reach::Named,
        }
    }
}
