//! Texts with an exact number of tokens: ids are decoded, encoded again, and corrected until the number is right.
//!
//! A correction changes only the end of a text, and tokenizers split a text into words from its start. So words far enough from the end
//! stay the same and keep their tokens, and only the rest is encoded again.

use super::tokenizer::Tokenizer;
use std::ops::Range;
use vsweep_base::threads;

/// Largest number of corrections of a text with the wrong number of tokens.
const MOST_CORRECTIONS: usize = 10;
/// Smallest number of words, and of tokens, between the part that is kept and the correction. No rule for splitting words looks further
/// ahead, nor does a token that was added to the vocabulary.
const MARGIN: usize = 16;

/// Token ids, and the number of tokens that their text should have.
#[derive(Debug)]
pub(in crate::dataset) struct TextDraft {
    pub ids: Vec<u32>,
    pub length: usize,
}

impl From<Vec<u32>> for TextDraft {
    fn from(ids: Vec<u32>) -> Self {
        TextDraft { length: ids.len(), ids }
    }
}

impl FromIterator<u32> for TextDraft {
    fn from_iter<T: IntoIterator<Item = u32>>(ids: T) -> Self {
        Vec::from_iter(ids).into()
    }
}

/// A text, and the tokens to which it is encoded.
#[derive(Debug, PartialEq)]
pub(in crate::dataset) struct RoundTrip {
    pub text: String,
    pub ids: Vec<u32>,
    /// Index of the word to which each token belongs, ascending.
    words: Vec<u32>,
    /// True if decoding the tokens gives the text. A tokenizer that drops or changes letters gives another text.
    is_faithful: bool,
}

impl RoundTrip {
    pub fn of(tokenizer: &Tokenizer, ids: &[u32]) -> Result<RoundTrip, String> {
        let text = tokenizer.decode(ids)?;
        let (ids, words) = tokenizer.encode_in_words(&text)?;
        let is_faithful = tokenizer.decode(&ids)? == text;
        Ok(RoundTrip {
            text,
            ids,
            words,
            is_faithful,
        })
    }

    /// Round trips of all drafts, made on all cores.
    pub fn of_all(tokenizer: &Tokenizer, drafts: &[TextDraft]) -> Result<Vec<RoundTrip>, String> {
        let of = |draft: &TextDraft| RoundTrip::of(tokenizer, &draft.ids);
        threads::map(threads::cores(), drafts, of).into_iter().collect()
    }

    /// Cuts the text, or pads it with ids from `pad`, until it has `target` tokens. Gives up after [`MOST_CORRECTIONS`], and returns the
    /// text as it is.
    pub fn corrected(
        mut self,
        tokenizer: &Tokenizer,
        target: usize,
        pad: &mut dyn FnMut(Range<u32>) -> u32,
    ) -> Result<RoundTrip, String> {
        for _ in 0..MOST_CORRECTIONS {
            if self.ids.len() == target {
                break;
            }
            let missing = target.saturating_sub(self.ids.len());
            let padding: Vec<u32> = (0..missing).map(|_| pad(0..tokenizer.vocabulary_size())).collect();
            self = match self.with_end(tokenizer, target, &padding)? {
                Some(changed) => changed,
                None => {
                    let kept = &self.ids[..target.min(self.ids.len())];
                    RoundTrip::of(tokenizer, &[kept, &padding].concat())?
                }
            };
        }
        Ok(self)
    }

    /// Returns the round trip of the first `target` ids and the padding. `None` if the unchanged part cannot be separated from the rest, or
    /// its ids do not decode to its text.
    fn with_end(&self, tokenizer: &Tokenizer, target: usize, padding: &[u32]) -> Result<Option<RoundTrip>, String> {
        let unchanged = target.min(self.ids.len());
        let Some(start) = self.last_start(unchanged).filter(|_| self.is_faithful) else {
            return Ok(None);
        };
        let end = tokenizer.decode(&self.ids[start..])?;
        let Some(head) = self.text.strip_suffix(end.as_str()) else {
            return Ok(None);
        };
        // Without the text before it, the end must have the same tokens and words.
        let first = self.words[start];
        let (ids, words) = tokenizer.encode_in_words(&end)?;
        if ids != self.ids[start..]
            || !words
                .iter()
                .copied()
                .eq(self.words[start..].iter().map(|word| word.wrapping_sub(first)))
        {
            return Ok(None);
        }
        let end = tokenizer.decode(&[&self.ids[start..unchanged], padding].concat())?;
        let (ids, words) = tokenizer.encode_in_words(&end)?;
        if ids.get(..MARGIN / 2) != self.ids.get(start..start + MARGIN / 2) || tokenizer.decode(&ids)? != end {
            return Ok(None);
        }
        Ok(Some(RoundTrip {
            text: [head, &end].concat(),
            ids: [&self.ids[..start], &ids].concat(),
            words: self.words[..start]
                .iter()
                .copied()
                .chain(words.iter().map(|word| word.wrapping_add(first)))
                .collect(),
            is_faithful: true,
        }))
    }

    /// Index of the last token that begins a word, at least [`MARGIN`] words and tokens before the token `limit`.
    fn last_start(&self, limit: usize) -> Option<usize> {
        let last = *self.words[..limit].last()? as usize;
        let is_start = |at: &usize| {
            let word = self.words[*at];
            self.words[*at - 1] < word && word as usize + MARGIN <= last
        };
        (1..=limit.checked_sub(MARGIN)?).rev().find(is_start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use vsweep_metrics::rng::NumpyPcg64;

    const LETTERS: &str = "abc12.' ";

    /// A tokenizer made of these pieces. Its tokens are letters, pairs of letters, and a few longer texts.
    fn tokenizer(pieces: Value, added: Value) -> Tokenizer {
        let mut vocabulary = serde_json::Map::new();
        let mut merges = vec![];
        let spelled: Vec<char> = LETTERS
            .replace(' ', pieces["space"].as_str().expect("a text"))
            .chars()
            .collect();
        let mut add = |text: String| {
            let id = vocabulary.len();
            vocabulary.entry(text).or_insert(json!(id));
        };
        spelled.iter().for_each(|letter| add(letter.to_string()));
        for first in &spelled {
            for second in &spelled {
                if *second != spelled[7] && !(*first as u32 + *second as u32).is_multiple_of(3) {
                    add(format!("{first}{second}"));
                    merges.push(format!("{first} {second}"));
                }
            }
        }
        for (left, right) in [("ab", "ca"), ("12", "1"), ("a", "a1")] {
            if vocabulary.contains_key(left) && vocabulary.contains_key(right) {
                vocabulary.insert(format!("{left}{right}"), json!(vocabulary.len()));
                merges.push(format!("{left} {right}"));
            }
        }
        let file = json!({
            "version": "1.0", "added_tokens": added, "normalizer": pieces["normalizer"], "pre_tokenizer": pieces["words"],
            "post_processor": null, "decoder": pieces["decoder"],
            "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
        });
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("tokenizer.json"), file.to_string()).expect("written");
        let found = Tokenizer::find(folder.path().to_str().expect("plain")).expect("valid");
        found.expect("it is there")
    }

    /// Byte-level tokenizers that split texts as GPT-2 does, as Llama 3 does, and with an added token; and tokenizers of other kinds.
    fn tokenizers() -> Vec<Tokenizer> {
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
        let prefixed = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
        let meta = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true});
        let whole = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false});
        let digits = json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "behavior": "Isolated", "invert": false,
             "pattern": {"Regex": r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"}},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        ]});
        let added = json!([
            {"id": 900, "content": "a1 ", "single_word": false, "lstrip": true, "rstrip": true, "normalized": false,
             "special": false},
        ]);
        let all = [
            (json!({"space": "Ġ", "words": bytes, "decoder": bytes}), json!([])),
            (json!({"space": "Ġ", "words": digits, "decoder": bytes}), json!([])),
            (json!({"space": "Ġ", "words": digits, "decoder": bytes}), added),
            (json!({"space": "Ġ", "words": prefixed, "decoder": prefixed}), json!([])),
            (json!({"space": "▁", "words": meta, "decoder": meta}), json!([])),
            (json!({"space": "▁", "words": whole, "decoder": whole}), json!([])),
            (
                json!({"space": "Ġ", "words": bytes, "decoder": bytes, "normalizer": {"type": "NFC"}}),
                json!([]),
            ),
        ];
        all.into_iter()
            .map(|(pieces, added)| tokenizer(pieces, added))
            .collect()
    }

    fn from_scratch(tokenizer: &Tokenizer, ids: &[u32], target: usize, seed: u64) -> RoundTrip {
        let mut random = NumpyPcg64::new(seed);
        let mut trip = RoundTrip::of(tokenizer, ids).expect("ids of the vocabulary");
        for _ in 0..MOST_CORRECTIONS {
            if trip.ids.len() == target {
                break;
            }
            let mut ids = trip.ids;
            while ids.len() < target {
                ids.push(random.integer(0, tokenizer.vocabulary_size().into()) as u32);
            }
            ids.truncate(target);
            trip = RoundTrip::of(tokenizer, &ids).expect("ids of the vocabulary");
        }
        trip
    }

    #[test]
    fn corrections_of_the_end_are_those_of_the_whole() {
        let tokenizers = tokenizers();
        let mut shortcuts = vec![0; tokenizers.len()];
        let strategy = (
            0..tokenizers.len(),
            prop::collection::vec(any::<u32>(), 1..300),
            -90i32..90,
            any::<u64>(),
        );
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        for _ in 0..600 {
            let tree = strategy.new_tree(&mut runner).expect("a case");
            let (which, ids, more, seed) = prop::strategy::ValueTree::current(&tree);
            let tokenizer = &tokenizers[which];
            let ids: Vec<u32> = ids.iter().map(|id| id % tokenizer.vocabulary_size()).collect();
            let target = (ids.len() as i32 + more).max(1) as usize;
            let trip = RoundTrip::of(tokenizer, &ids).expect("ids of the vocabulary");
            let unpadded = trip.ids.len() > target && trip.with_end(tokenizer, target, &[]).expect("ids").is_some();
            shortcuts[which] += usize::from(unpadded);
            let mut random = NumpyPcg64::new(seed);
            let mut pad = |ids| random.id(ids);
            let quick = trip
                .corrected(tokenizer, target, &mut pad)
                .expect("ids of the vocabulary");
            let slow = from_scratch(tokenizer, &ids, target, seed);
            assert_eq!(
                (which, &quick.text, &quick.ids),
                (which, &slow.text, &slow.ids),
                "{ids:?} to {target}"
            );
        }
        // Tokenizers that put a blank before each text, and those without words, have no shortcut.
        let has_shortcut: Vec<bool> = shortcuts.iter().map(|count| *count > 0).collect();
        assert_eq!(
            has_shortcut,
            [true, true, true, false, true, false, true],
            "{shortcuts:?}"
        );
    }
}
