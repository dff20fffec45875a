//! Texts, values, command lines and environments without the secrets in them.

use super::scan::announced;
use super::{HIDDEN, Secrets, names};
use crate::Params;
use regex::{Captures, Regex};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;
use vsweep_base::printable::CUT;

/// A text within JSON, as it is written, up to its end if nothing closes it.
static JSON_TEXT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"(?s)"((?:[^"\\]|\\.)*)("?)"#).expect("a pattern"));

impl Secrets {
    /// Any text without the secrets in it.
    pub fn redact(&self, text: &str) -> String {
        if self.known.iter().any(|known| known.value == text) {
            return HIDDEN.to_owned();
        }
        let mut redacted = Cow::Borrowed(text);
        for known in &self.known {
            let places = known.places(&redacted);
            if !places.is_empty() {
                redacted = Cow::Owned(replace(&redacted, &places));
            }
        }
        redacted.into_owned()
    }

    /// A text from outside without the secrets in it, and without what it announces as a secret itself: programs print their own
    /// arguments.
    pub fn redact_foreign(&self, text: &str) -> String {
        replace(text, &self.places(text))
    }

    /// Returns the ranges of secrets in a text from outside, in order; no two touch.
    pub fn places(&self, text: &str) -> Vec<Range<usize>> {
        let announced = announced(text, |name| self.announces(name));
        let mut places: Vec<Range<usize>> = announced
            .into_iter()
            .filter(|found| !(names::may_count(&found.name) && text[found.value.clone()].parse::<f64>().is_ok()))
            .map(|found| found.value)
            .chain(self.known.iter().flat_map(|known| known.places(text)))
            .filter(|place| !place.is_empty())
            .collect();
        places.sort_by_key(|place| (place.start, place.end));
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(places.len());
        for place in places {
            match merged.last_mut() {
                Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
                _ => merged.push(place),
            }
        }
        merged
    }

    /// Returns plain data without the secrets in its texts. Data that could not be read back afterwards is returned unchanged: there the
    /// value is a word of the format.
    pub fn redact_data<T: Serialize + DeserializeOwned>(&self, data: T) -> T {
        // Uses text, because the data is written and read as text anyway.
        let Ok(written) = serde_json::to_string(&data).and_then(|text| serde_json::from_str::<Value>(&text)) else {
            return data;
        };
        let redacted = self.redact_value("", &written, false);
        match redacted == written {
            true => data,
            false => serde_json::from_str(&redacted.to_string()).unwrap_or(data),
        }
    }

    /// JSON without the secrets in its texts and keys; everything else stays byte for byte.
    pub fn redact_json(&self, json: Vec<u8>) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(&json) else {
            return json;
        };
        if self.known.iter().all(|known| known.places(text).is_empty()) {
            return json;
        }
        let redacted = JSON_TEXT.replace_all(text, |found: &Captures<'_>| {
            let text = self.redact(&found[1]);
            format!("\"{text}{}", &found[2])
        });
        redacted.into_owned().into_bytes()
    }

    /// An environment without the secrets in it.
    pub fn redact_env(&self, env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let redacted = env.iter().map(|(name, value)| match self.announces(name) {
            true => (name.clone(), HIDDEN.to_string()),
            false => (name.clone(), self.redact(value)),
        });
        redacted.collect()
    }

    /// A command line without the secrets in it.
    pub fn redact_argv(&self, argv: &[String]) -> Vec<String> {
        argv.iter().map(|word| self.redact(word)).collect()
    }

    /// Parameters without the secrets in them.
    pub fn redact_params(&self, params: &Params) -> Params {
        self.redact_members(params, true)
    }

    /// A program's result without the secrets in it. Its numbers are figures, whatever they are called.
    pub fn redact_result(&self, result: &Params) -> Params {
        self.redact_members(result, false)
    }

    fn redact_members(&self, members: &Params, with_numbers: bool) -> Params {
        let redacted = members.iter().map(|(name, value)| {
            let value = self.redact_value(name, value, with_numbers);
            (self.redact(name), value)
        });
        redacted.collect()
    }

    fn redact_value(&self, name: &str, value: &Value, with_numbers: bool) -> Value {
        match value {
            Value::String(text) if self.is_secret(name, text) => Value::String(HIDDEN.into()),
            Value::Number(number)
                if with_numbers && self.announces(name) && self.is_secret(name, &number.to_string()) =>
            {
                Value::String(HIDDEN.into())
            }
            Value::String(text) => Value::String(self.redact(text)),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.redact_value(name, item, with_numbers));
                Value::Array(items.collect())
            }
            Value::Object(members) => Value::Object(self.redact_members(members, with_numbers)),
            scalar => scalar.clone(),
        }
    }

    /// The pieces of a word: plain text, and names of the secrets between.
    pub fn pieces<'a>(&'a self, word: &'a str) -> Vec<Piece<'a>> {
        if let Some(known) = self.known.iter().find(|known| known.value == word) {
            return vec![Piece::Secret(&known.name)];
        }
        let found = self.known.iter();
        let found = found.filter_map(|known| Some((known.places(word).into_iter().next()?, known)));
        match found.min_by_key(|(place, _)| (place.start, usize::MAX - place.end)) {
            Some((place, known)) => {
                let mut pieces = vec![Piece::Plain(&word[..place.start]), Piece::Secret(&known.name)];
                if place.end < word.len() {
                    pieces.extend(self.pieces(&word[place.end..]));
                }
                pieces.retain(|piece| *piece != Piece::Plain(""));
                pieces
            }
            None => vec![Piece::Plain(word)],
        }
    }
}

/// A part of a word that may be shown, or the name of the secret in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// May be shown.
    Plain(&'a str),
    /// A secret of this name.
    Secret(&'a str),
}

/// A text with [`HIDDEN`] in these places, which are in order and apart.
pub(crate) fn replace(text: &str, places: &[Range<usize>]) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut at = 0;
    for place in places {
        replaced += &text[at..place.start];
        replaced += HIDDEN;
        at = place.end;
    }
    replaced + &text[at..]
}

/// Length in bytes from which a value is hidden wherever it occurs, also within longer words.
pub(super) const LONG: usize = 8;
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
    /// Returns the ranges of a text that must be hidden, in order and apart.
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
        let whole = found
            .filter(|(at, end)| is_apart(*at, *end))
            .map(|(at, end)| at + self.before.len()..end);
        let mut places: Vec<Range<usize>> = whole.chain(self.cut(text)).collect();
        places.sort_by_key(|place| place.start);
        places.dedup_by(|next, place| next.start < place.end);
        places
    }

    /// Returns the ranges of a text that hold the beginning of the value, because the text was cut within it.
    fn cut(&self, text: &str) -> Vec<Range<usize>> {
        let begun = |end: usize| {
            let lengths = (LONG..self.value.len()).rev();
            let mut beginnings = lengths.filter_map(|length| self.value.get(..length));
            beginnings.find(|beginning| text[..end].ends_with(beginning))
        };
        let ends = text.match_indices(CUT).map(|(end, _)| end);
        ends.filter_map(|end| Some(end - begun(end)?.len()..end)).collect()
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
