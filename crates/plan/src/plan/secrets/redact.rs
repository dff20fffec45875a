//! Texts, values, command lines and environments without the secrets in them.

use super::scan::announced;
use super::{HIDDEN, Secrets, names};
use crate::plan::Params;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

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

    /// Where secrets stand in a text from outside, in order; no two touch.
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
        params
            .iter()
            .map(|(name, value)| (self.redact(name), self.redact_value(name, value)))
            .collect()
    }

    fn redact_value(&self, name: &str, value: &Value) -> Value {
        match value {
            Value::String(text) if self.is_secret(name, text) => Value::String(HIDDEN.into()),
            Value::Number(number) if self.is_secret(name, &number.to_string()) => Value::String(HIDDEN.into()),
            Value::String(text) => Value::String(self.redact(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.redact_value(name, item)).collect()),
            Value::Object(members) => Value::Object(self.redact_params(members)),
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

/// A part of a word that may be shown, or the name of a secret that stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// May be shown.
    Plain(&'a str),
    /// A secret of this name.
    Secret(&'a str),
}

/// A text with [`HIDDEN`] in these places, which are in order and apart.
pub(in crate::plan) fn replace(text: &str, places: &[Range<usize>]) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut at = 0;
    for place in places {
        replaced += &text[at..place.start];
        replaced += HIDDEN;
        at = place.end;
    }
    replaced + &text[at..]
}
