//! Hides the secrets in texts, values, command lines and environments.

use super::scan::announced;
use super::{HIDDEN, Secrets, names};
use crate::{Params, spelling};
use regex::{Captures, Regex};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;
use vsweep_base::printable::CUT;

/// A string within JSON, as it is written. Without a closing quote, it reaches to the end of the text.
static JSON_TEXT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"(?s)"((?:[^"\\]|\\.)*)("?)"#).expect("a pattern"));

/// A key of a plan, in quotes or not, that a quoted text follows without `=` or `:`.
static UNSET: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?m)(?:^|[{,])[ \t]*(?:([0-9A-Za-z_-]+)|"([0-9A-Za-z_-]+)")[ \t]*["']+([^"'\n]+)"#;
    Regex::new(pattern).expect("a pattern")
});

impl Secrets {
    /// Returns a text with its secrets replaced by [`HIDDEN`].
    pub fn redact(&self, text: &str) -> String {
        if self.hides_whole_texts && self.knows(text) {
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

    /// Returns a text from outside without the known secrets, and without the values that the text itself announces as secrets, because
    /// programs print their own arguments.
    pub fn redact_foreign(&self, text: &str) -> String {
        replace(text, &self.places(text))
    }

    /// Returns the ranges of secrets in a text from outside, in order; no two touch.
    pub fn places(&self, text: &str) -> Vec<Range<usize>> {
        let announced = announced(text, |name| self.announces(name));
        let announced = announced
            .into_iter()
            .filter(|found| !(names::may_count(&found.name) && text[found.value.clone()].parse::<f64>().is_ok()))
            .map(|found| found.value);
        merged(announced.chain(self.known.iter().flat_map(|known| known.places(text))))
    }

    /// Like `places`, for a plan that may be too broken to be read: a quoted text is also a secret if only `=` or `:` is missing before it.
    pub fn places_in_plan(&self, text: &str) -> Vec<Range<usize>> {
        let unset = UNSET.captures_iter(text).filter_map(|found| {
            let name = found.get(1).or_else(|| found.get(2))?;
            let value = found.get(3)?.range();
            self.announces(name.as_str()).then_some(value)
        });
        merged(self.places(text).into_iter().chain(unset))
    }

    /// Returns plain data without the secrets in its texts. Data that could not be read back afterwards is returned unchanged, because
    /// in such data the value of a secret is also a word of the format.
    pub fn redact_data<T: Serialize + DeserializeOwned>(&self, data: T) -> T {
        // The data is converted through text, because it is written and read as text anyway.
        let Ok(written) = serde_json::to_string(&data).and_then(|text| serde_json::from_str::<Value>(&text)) else {
            return data;
        };
        let redacted = self.redact_value("", &written, false);
        match redacted == written {
            true => data,
            false => serde_json::from_str(&redacted.to_string()).unwrap_or(data),
        }
    }

    /// Returns JSON without the secrets in its strings and keys. Everything else stays as it is, byte for byte.
    pub fn redact_json(&self, json: Vec<u8>) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(&json) else {
            return json;
        };
        // Searches for the value itself, not its places: a short or common value has no places, but is hidden after its name.
        let is_absent = |known: &KnownSecret| !text.contains(&known.value) && known.cut(text).is_empty();
        if self.known.iter().all(is_absent) {
            return json;
        }
        let (mut names, mut at) = (JsonNames::default(), 0);
        let redacted = JSON_TEXT.replace_all(text, |found: &Captures<'_>| {
            let whole = found.get_match();
            names.pass(&text[at..whole.start()]);
            at = whole.end();
            let is_key = text[at..].trim_start().starts_with(':');
            let shown = match !is_key && names.are_announced() && self.knows(&found[1]) {
                true => HIDDEN.to_owned(),
                false => self.redact(&found[1]),
            };
            names.read(&found[1], is_key, |name| self.announces(name));
            format!("\"{shown}{}", &found[2])
        });
        redacted.into_owned().into_bytes()
    }

    /// Returns an environment without the secrets in it.
    pub fn redact_env(&self, env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let redacted = env.iter().map(|(name, value)| match self.announces(name) {
            true => (name.clone(), HIDDEN.to_string()),
            false => (name.clone(), self.redact(value)),
        });
        redacted.collect()
    }

    /// Returns a command line without the secrets in it.
    pub fn redact_argv(&self, argv: &[String]) -> Vec<String> {
        let mut flag = "";
        let shown = argv
            .iter()
            .map(|word| match self.announces_next(&mut flag, word) && self.knows(word) {
                true => HIDDEN.to_owned(),
                false => self.redact(word),
            });
        shown.collect()
    }

    /// Returns parameters without the secrets in them.
    pub fn redact_params(&self, params: &Params) -> Params {
        self.redact_members("", params, true)
    }

    /// Returns a program's result without the secrets in it. Numbers in a result are figures, whatever their names, and
    /// are never hidden.
    pub fn redact_result(&self, result: &Params) -> Params {
        self.redact_members("", result, false)
    }

    /// Hides the secrets in the members of a table of this name.
    fn redact_members(&self, table: &str, members: &Params, with_numbers: bool) -> Params {
        let redacted = members.iter().map(|(name, value)| {
            let value = self.redact_value(self.announcing(table, name), value, with_numbers);
            (self.redact(name), value)
        });
        redacted.collect()
    }

    fn redact_value(&self, name: &str, value: &Value, with_numbers: bool) -> Value {
        match value {
            Value::String(text) if self.is_secret(name, text) || (self.announces(name) && self.knows(text)) => {
                Value::String(HIDDEN.into())
            }
            Value::Number(number)
                if with_numbers && self.announces(name) && self.is_secret(name, &number.to_string()) =>
            {
                Value::String(HIDDEN.into())
            }
            Value::String(text) => Value::String(self.redact(text)),
            Value::Array(items) => {
                // The list may be a command line.
                let mut flag = "";
                let items = items.iter().map(|item| {
                    let text = item.as_str().unwrap_or_default();
                    let is_announced = self.announces_next(&mut flag, text) && self.knows(text);
                    let name = if is_announced { flag } else { name };
                    self.redact_value(name, item, with_numbers)
                });
                Value::Array(items.collect())
            }
            Value::Object(members) => Value::Object(self.redact_members(name, members, with_numbers)),
            scalar => scalar.clone(),
        }
    }

    /// Returns true if a text is a known secret as a whole.
    fn knows(&self, text: &str) -> bool {
        self.known.iter().any(|known| known.value == text)
    }

    /// Splits each word of a command line into plain text and the secrets in it, which are given by their names. A short or common secret
    /// is found only behind a flag that announces it.
    pub fn pieces<'a>(&'a self, argv: &'a [String]) -> Vec<Vec<Piece<'a>>> {
        let mut flag = "";
        let pieces = argv.iter().map(|word| {
            let is_announced = self.announces_next(&mut flag, word);
            let mut whole = self.known.iter().filter(|known| is_announced && known.value == *word);
            match whole.next() {
                Some(known) => vec![Piece::Secret(&known.name)],
                None => self.pieces_of(word),
            }
        });
        pieces.collect()
    }

    /// Splits a word that no flag announces.
    pub fn pieces_of<'a>(&'a self, word: &'a str) -> Vec<Piece<'a>> {
        let found = self.known.iter();
        let found = found.filter_map(|known| Some((known.places(word).into_iter().next()?, known)));
        match found.min_by_key(|(place, _)| (place.start, usize::MAX - place.end)) {
            Some((place, known)) => {
                let mut pieces = vec![Piece::Plain(&word[..place.start]), Piece::Secret(&known.name)];
                if place.end < word.len() {
                    pieces.extend(self.pieces_of(&word[place.end..]));
                }
                pieces.retain(|piece| *piece != Piece::Plain(""));
                pieces
            }
            None => vec![Piece::Plain(word)],
        }
    }

    /// Reads the next word of a command line. `flag` is the last flag before it, which may take several words. Returns true if the word is
    /// a value of a flag that announces a secret.
    fn announces_next<'a>(&self, flag: &mut &'a str, word: &'a str) -> bool {
        if spelling::is_flag(word) {
            // A value in the same word is the only one of its flag.
            *flag = if word.contains('=') { "" } else { word };
            return false;
        }
        self.announces(flag)
    }
}

/// Tracks which names announce strings of a JSON text as secrets, while the text is read from its beginning.
#[derive(Debug, Default)]
struct JsonNames {
    /// For each open table or list, true if its name announces secrets.
    open: Vec<bool>,
    /// True if the last key announces secrets.
    key: bool,
    /// True if the last string is a flag of a command line that announces secrets.
    flag: bool,
}

impl JsonNames {
    /// Reads the text between two strings.
    fn pass(&mut self, between: &str) {
        for c in between.chars() {
            match c {
                '{' | '[' => self.open.push(self.are_announced()),
                '}' | ']' => drop(self.open.pop()),
                ',' => {}
                _ => continue,
            }
            self.key = self.open.last().is_some_and(|is_announced| *is_announced);
            self.flag &= c == ',';
        }
    }

    /// Reads a string.
    fn read(&mut self, text: &str, is_key: bool, announces: impl Fn(&str) -> bool) {
        match is_key {
            true => self.key |= announces(text),
            false if spelling::is_flag(text) => self.flag = announces(text),
            false => {}
        }
    }

    /// Returns true if the next value is announced as a secret.
    fn are_announced(&self) -> bool {
        self.key || self.flag
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

/// Returns a text with [`HIDDEN`] in place of these ranges, which must be in order and must not touch.
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
pub(super) const MIN_ANYWHERE: usize = 8;
/// Length in bytes from which a value is hidden as a separate word. Shorter values, common words and numbers of less than [`MIN_ANYWHERE`]
/// digits are hidden only after a name that announces them: replacing every `1` or `true` would ruin a text.
pub(super) const MIN_WORD: usize = 4;
/// Words that are often given as a key only because some key is required.
const COMMON: &str =
    "auto default dummy empty fake local localhost none null openai password secret test token true vllm";

/// One value that is to be hidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownSecret {
    pub value: String,
    /// Its name, in the form of an environment variable.
    pub name: String,
    /// Text that must precede the value; empty unless the value alone is too short or too common to be hidden.
    pub before: String,
    /// True if it comes from vsweep's own environment and not from the plan.
    pub is_ambient: bool,
}

impl KnownSecret {
    /// Returns the ranges of a text that must be hidden, in order and without overlaps.
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
            let lengths = (MIN_ANYWHERE..self.value.len()).rev();
            let mut beginnings = lengths.filter_map(|length| self.value.get(..length));
            beginnings.find(|beginning| text[..end].ends_with(beginning))
        };
        let ends = text.match_indices(CUT).map(|(end, _)| end);
        ends.filter_map(|end| Some(end - begun(end)?.len()..end)).collect()
    }
}

/// Returns the ranges that are not empty in order, those that touch as one.
fn merged(places: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut places: Vec<Range<usize>> = places.filter(|place| !place.is_empty()).collect();
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
            MIN_ANYWHERE.. => Reach::Anywhere,
            MIN_WORD.. if !is_number => Reach::Word,
            _ => Reach::Named,
        }
    }
}
