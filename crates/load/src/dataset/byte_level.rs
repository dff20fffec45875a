//! A short way through tokenizers of the byte-level kind (those of GPT-2, Llama 3, Qwen, DeepSeek and many others): the
//! same tokens as by the library's general way, without its account of where each letter came from.
//!
//! Such a tokenizer cuts a text into words by regular expressions, writes each word's bytes as letters, and merges the
//! letters of each word by itself. So the tokens of a word are always the same, and are kept. Tokenizers, and texts, for
//! which that might not hold are left to the library.
//!
//! Two cores take 5 to 13 s for a million random tokens of the tokenizers of DeepSeek and Claude by the general way, which is
//! more than a tenth of a run of 1000 prompts on one GPU, and 2 to 3 s by this one.

use aho_corasick::AhoCorasick;
use foldhash::fast::RandomState;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use tokenizers::Model;
use tokenizers::utils::SysRegex;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// How GPT-2 cuts words, which is what a byte-level pre-tokenizer does unless it is told not to.
const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Words whose tokens are kept: as many, and up to so many bytes.
const MOST_KEPT: usize = 1 << 19;
const LONGEST_KEPT: usize = 64;
/// Higher ids are in no vocabulary.
const MOST_IDS: u32 = 1 << 22;

/// What a text was cut into: token ids, and the word that each is from.
pub(super) type InWords = (Vec<u32>, Vec<u32>);

/// What the file of a tokenizer says besides its vocabulary.
#[derive(Deserialize)]
struct Outline {
    #[serde(default)]
    added_tokens: Vec<Added>,
    normalizer: Option<Value>,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    decoder: Value,
    model: Merging,
}

#[derive(Deserialize)]
struct Added {
    content: String,
}

#[derive(Deserialize)]
struct Merging {
    r#type: String,
    dropout: Option<f64>,
}

/// A tokenizer of this kind.
pub(super) struct ByteLevel {
    /// Cut the text one after the other: what matches, and what lies between, are pieces for the next one.
    cuts: Vec<SysRegex>,
    /// Whether texts are brought into Unicode's composed form first.
    composes: bool,
    /// Tokens that are looked for before everything else.
    added: AhoCorasick,
    letters: Vec<char>,
    /// The bytes of each token.
    pieces: Vec<Option<Box<[u8]>>>,
    known: RwLock<HashMap<Box<str>, Box<[u32]>, RandomState>>,
}

impl ByteLevel {
    /// The short way of a tokenizer, from its file; `None` if it is of another kind.
    pub fn of(file: &[u8], tokenizer: &tokenizers::Tokenizer) -> Option<ByteLevel> {
        let outline: Outline = serde_json::from_slice(file).ok()?;
        let is_merging = outline.model.r#type == "BPE" && outline.model.dropout.unwrap_or(0.0) == 0.0;
        if !is_merging || outline.decoder["type"] != "ByteLevel" {
            return None;
        }
        let composes = outline.normalizer.is_some();
        if outline.normalizer.is_some_and(|normalizer| normalizer["type"] != "NFC") {
            return None;
        }
        let added: Vec<String> = outline.added_tokens.into_iter().map(|token| token.content).collect();
        if added.iter().any(|text| text.is_empty() || !text.nfc().eq(text.chars())) {
            return None;
        }
        let letters = letters();
        let bytes: HashMap<char, u8> = letters.iter().copied().zip(0..=255).collect();
        let piece = |id| {
            let token = tokenizer.id_to_token(id)?;
            let spelled: Option<Vec<u8>> = token.chars().map(|letter| bytes.get(&letter).copied()).collect();
            Some(spelled.unwrap_or_else(|| token.into_bytes()).into())
        };
        let last = tokenizer
            .get_vocab(true)
            .into_values()
            .max()
            .filter(|last| *last < MOST_IDS)?;
        Some(ByteLevel {
            cuts: cuts(&outline.pre_tokenizer)?,
            composes,
            added: AhoCorasick::new(added).ok()?,
            pieces: (0..=last).map(piece).collect(),
            letters,
            known: RwLock::default(),
        })
    }

    /// Token ids to text, special ones included.
    pub fn decode(&self, ids: &[u32]) -> String {
        let pieces = ids.iter().filter_map(|id| self.pieces.get(*id as usize)?.as_deref());
        let bytes = pieces.collect::<Vec<&[u8]>>().concat();
        String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Text to token ids without special ones; `None` if the text needs the general way.
    pub fn encode(&self, text: &str, tokenizer: &tokenizers::Tokenizer) -> Option<InWords> {
        if self.added.is_match(text) || (self.composes && is_nfc_quick(text.chars()) != IsNormalized::Yes) {
            return None;
        }
        let mut spans = vec![(0, text.len())];
        for cut in &self.cuts {
            let pieces = spans.iter().flat_map(|(start, end)| {
                let inner = cut_up(cut, &text[*start..*end]).into_iter();
                inner.map(move |(from, to)| (start + from, start + to))
            });
            spans = pieces.collect();
        }
        let (mut ids, mut words) = (Vec::with_capacity(spans.len() * 2), Vec::with_capacity(spans.len() * 2));
        let mut found: Vec<(Box<str>, Box<[u32]>)> = vec![];
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        for (number, (start, end)) in (0..).zip(spans) {
            let word = &text[start..end];
            match known.get(word) {
                Some(tokens) => ids.extend_from_slice(tokens),
                None => {
                    let spelled: String = word.bytes().map(|byte| self.letters[byte as usize]).collect();
                    let tokens = tokenizer.get_model().tokenize(&spelled).ok()?;
                    let tokens: Box<[u32]> = tokens.into_iter().map(|token| token.id).collect();
                    ids.extend_from_slice(&tokens);
                    if word.len() <= LONGEST_KEPT {
                        found.push((word.into(), tokens));
                    }
                }
            }
            words.resize(ids.len(), number);
        }
        drop(known);
        if !found.is_empty() {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            if known.len() + found.len() > MOST_KEPT {
                known.clear();
            }
            known.extend(found);
        }
        Some((ids, words))
    }
}

/// The expressions of a pre-tokenizer that ends in writing bytes as letters.
fn cuts(pre_tokenizer: &Value) -> Option<Vec<SysRegex>> {
    let steps = match pre_tokenizer["type"].as_str()? {
        "Sequence" => pre_tokenizer["pretokenizers"].as_array()?.as_slice(),
        _ => std::slice::from_ref(pre_tokenizer),
    };
    let (last, splits) = steps.split_last()?;
    if last["type"] != "ByteLevel" || last["add_prefix_space"] != false {
        return None;
    }
    let patterns = splits.iter().map(|split| {
        let is_plain = split["type"] == "Split" && split["behavior"] == "Isolated" && split["invert"] == false;
        split["pattern"]["Regex"].as_str().filter(|_| is_plain)
    });
    let by_default = (last["use_regex"] != false).then_some(Some(GPT_2));
    patterns
        .chain(by_default)
        .map(|pattern| SysRegex::new(pattern?).ok())
        .collect()
}

/// What an expression finds in a text, and what lies between: the same pieces as by the library's general way; nothing empty.
fn cut_up(cut: &SysRegex, text: &str) -> Vec<(usize, usize)> {
    let (mut all, mut end) = (Vec::with_capacity(text.len() / 4), 0);
    let found = cut.find_iter(text).chain([(text.len(), text.len())]);
    for (from, to) in found {
        all.extend([(end, from), (from, to)].into_iter().filter(|(from, to)| from < to));
        end = to;
    }
    all
}

/// The letter that stands for each byte: itself where it can be seen, else the next one from U+0100 on.
fn letters() -> Vec<char> {
    let mut hidden = 0x100..;
    let letter = |byte: u8| match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => Some(char::from(byte)),
        _ => hidden.next().and_then(char::from_u32),
    };
    (0..=255).filter_map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_what_is_found_and_what_lies_between() {
        let cut = |pattern: &str, text: &str| {
            let cut = SysRegex::new(pattern).expect("an expression");
            let pieces = cut_up(&cut, text).into_iter();
            pieces.map(|(from, to)| text[from..to].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(cut(GPT_2, "it's  12 a\n"), ["it", "'s", " ", " 12", " a", "\n"]);
        assert_eq!(cut("b+", "abba"), ["a", "bb", "a"]);
        assert_eq!(cut("b", ""), [""; 0]);
    }
}
