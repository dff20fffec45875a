//! The server's own tokenizer: a check that it counts as ours does, and its use if we have none.

use super::endpoint::{Endpoint, NoAnswer};
use crate::dataset::{COMMON_WORDS, Item, Prompt, ServerTokenizer};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Least number of words; with fewer, prompts would be too similar.
const FEWEST_WORDS: usize = 8;
/// Ids whose texts may be used as words if common words are more than one token each.
const IDS_OF_WORDS: std::ops::Range<u32> = 260..1300;

/// Agreement of prompts with the server's own tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) enum Alignment {
    /// The server counts as we do.
    Equal,
    /// Number of prompts that were cut to their length by the server's count.
    Cut(usize),
    /// Not checked: the server gave no answer, or some prompts are not texts.
    Unknown,
}

impl Alignment {
    /// Returns the text for a result file.
    pub fn describe(self) -> String {
        match self {
            Alignment::Equal => "equal".to_owned(),
            Alignment::Cut(prompts) => format!("{prompts} prompts cut"),
            Alignment::Unknown => "not checked".to_owned(),
        }
    }
}

impl Endpoint {
    /// Cuts text prompts that have too many tokens by the server's tokenizer. Nothing is checked if some prompts are not texts. The first
    /// prompt is checked alone, and all others only if its count differs. A prompt that cannot be checked stays as it is. `before` is the
    /// result for earlier prompts of the run.
    pub fn align(&self, before: Option<Alignment>, items: &mut [Item]) -> Alignment {
        if items.iter().any(|item| !matches!(item.prompt, Prompt::Text(_))) {
            return Alignment::Unknown;
        }
        let question = |item: &Item| json!({"prompt": item.prompt, "add_special_tokens": false});
        let cut_before = match (before, items.first()) {
            (Some(Alignment::Cut(prompts)), _) => prompts,
            (Some(other), _) => return other,
            (None, None) => return Alignment::Unknown,
            (None, Some(first)) => {
                let answer = self.question("/tokenize", question(first));
                match answer.ok().as_deref().and_then(token_ids) {
                    None => return Alignment::Unknown,
                    Some(ids) if ids.len() as u64 == first.prompt_len => return Alignment::Equal,
                    Some(_) => 0,
                }
            }
        };
        let Ok(answers) = self.questions("/tokenize", items.iter().map(question)) else {
            return before.unwrap_or(Alignment::Unknown);
        };
        let too_long: Vec<(usize, Value)> = answers
            .iter()
            .enumerate()
            .filter_map(|(i, answer)| {
                let mut ids = token_ids(answer.as_deref().ok()?)?;
                let wanted = items[i].prompt_len as usize;
                (ids.len() > wanted).then(|| {
                    ids.truncate(wanted);
                    (i, json!({"tokens": ids}))
                })
            })
            .collect();
        let (too_long, questions): (Vec<usize>, Vec<Value>) = too_long.into_iter().unzip();
        let Ok(answers) = self.questions("/detokenize", questions.into_iter()) else {
            return before.unwrap_or(Alignment::Unknown);
        };
        let mut cut = cut_before;
        for (i, answer) in too_long.into_iter().zip(answers) {
            if let Some(text) = answer.ok().as_deref().and_then(text_of) {
                items[i].prompt = Prompt::Text(text);
                cut += 1;
            }
        }
        Alignment::Cut(cut)
    }

    /// Returns the server's tokenizer, or the reason why it cannot be asked. Words of one token are looked for only if `wants_words` is
    /// true.
    pub fn tokenizer(&self, wants_words: bool) -> Result<ServerTokenizer<'_>, NoAnswer> {
        let probe = COMMON_WORDS[0];
        let count = |with_specials: bool| {
            let answer = self.question("/tokenize", how_many(probe, with_specials))?;
            let ids = token_ids(&answer).ok_or_else(|| NoAnswer::because("the answer holds no tokens"))?;
            Ok::<usize, NoAnswer>(ids.len())
        };
        let (bare, framed) = (count(false)?, count(true)?);
        let common = || self.one_token_words(COMMON_WORDS.map(str::to_owned).to_vec());
        let words = wants_words.then(|| common().or_else(|| self.one_token_words(self.pieces())));
        let count = |text: &str| {
            let counted = self.counts(&[text.to_owned()], true).pop();
            let counted = counted.flatten().ok_or_else(|| {
                "the server's tokenizer has stopped answering; look into the server's log, or set skip_tokenizer_init to \
                 estimate lengths"
                    .to_owned()
            })?;
            Ok(counted as u64)
        };
        Ok(ServerTokenizer {
            words: words.flatten().unwrap_or_default(),
            added_specials: framed.saturating_sub(bare) as u64,
            count: Box::new(count),
        })
    }

    /// Number of tokens that the server counts in each text; `None` if it gave no count.
    fn counts(&self, texts: &[String], with_specials: bool) -> Vec<Option<usize>> {
        let questions = texts.iter().map(|text| how_many(text, with_specials));
        let answers = self.questions("/tokenize", questions).unwrap_or_default();
        let count = |answer: Result<String, NoAnswer>| Some(token_ids(&answer.ok()?)?.len());
        answers.into_iter().map(count).collect()
    }

    /// Returns the words that are one token each, both at the start of a text and after any of the others, so that prompts have as many
    /// tokens as words. `None` if too few words qualify, or if a text of all pairs of them has another number of tokens.
    fn one_token_words(&self, words: Vec<String>) -> Option<Vec<String>> {
        let doubled: Vec<String> = words.iter().map(|word| format!("{word} {word}")).collect();
        let counts = self.counts(&doubled, false);
        let pairs = words.into_iter().zip(counts);
        let words: Vec<String> = pairs
            .filter(|(_, count)| *count == Some(2))
            .map(|(word, _)| word)
            .collect();
        if words.len() < FEWEST_WORDS {
            return None;
        }
        let text = every_pair(&words).join(" ");
        let is_exact = self.counts(&[text], false) == [Some(words.len() * words.len() + 1)];
        is_exact.then_some(words)
    }

    /// Returns the texts of single ids that can be used as words.
    fn pieces(&self) -> Vec<String> {
        let ids = IDS_OF_WORDS.step_by(IDS_OF_WORDS.len() / COMMON_WORDS.len());
        let questions = ids.map(|id| json!({"tokens": [id]}));
        let answers = self.questions("/detokenize", questions).unwrap_or_default();
        let texts = answers.into_iter().filter_map(|answer| text_of(&answer.ok()?));
        let mut words: BTreeSet<String> = texts.map(|text| text.trim().to_owned()).collect();
        words.retain(|word| !word.is_empty() && word.chars().all(char::is_alphanumeric));
        words.into_iter().collect()
    }
}

/// The question for the number of tokens of a text.
fn how_many(text: &str, with_specials: bool) -> Value {
    json!({"prompt": text, "add_special_tokens": with_specials})
}

/// Returns a sequence in which every word follows every word, itself included (a de Bruijn sequence of order two).
fn every_pair(words: &[String]) -> Vec<&str> {
    let mut sequence = Vec::with_capacity(words.len() * words.len() + 1);
    for (i, word) in words.iter().enumerate() {
        sequence.push(word.as_str());
        for later in &words[i + 1..] {
            sequence.extend([word.as_str(), later]);
        }
    }
    sequence.extend(words.first().map(String::as_str));
    sequence
}

/// The ids in an answer of `/tokenize`.
fn token_ids(answer: &str) -> Option<Vec<u32>> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let ids = answer["tokens"].as_array()?.iter();
    ids.map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()))
        .collect()
}

/// The text in an answer of `/detokenize`.
fn text_of(answer: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    answer["prompt"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_pair_is_there_once() {
        let words: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let sequence = every_pair(&words);
        let pairs: HashSet<(&str, &str)> = sequence.windows(2).map(|pair| (pair[0], pair[1])).collect();
        assert_eq!((sequence.len(), pairs.len()), (17, 16));
    }
}
