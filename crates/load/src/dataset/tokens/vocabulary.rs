//! Source of synthetic prompts: tokens of a tokenizer, bare token ids, or words. Also counts the tokens of texts.

use super::round_trip::{RoundTrip, TextDraft};
use super::tokenizer::Tokenizer;
use crate::dataset::{Prompt, PromptSource};
use std::ops::Range;

/// Name of the counter if the number of prompt tokens is only estimated.
pub const ESTIMATE: &str = "estimate";

/// Approximate bytes per token of English text, for use without a tokenizer.
const BYTES_A_TOKEN: usize = 4;

/// Maximum number of ids of a vocabulary without a tokenizer. Real vocabularies have about 2^18.
pub const MOST_IDS: u32 = 1 << 22;

/// Source of prompts.
pub enum Vocabulary<'a> {
    /// Texts that the model's tokenizer decodes from token ids.
    Tokenizer(&'a Tokenizer),
    /// Token ids in this range, sent as they are.
    Ids(Range<u32>),
    /// Common English words.
    Words,
    /// Words that are one token each by the server's own tokenizer, or common words if none were found.
    Server(ServerTokenizer<'a>),
}

/// A function that counts the tokens of a text. It fails if the server does not answer.
pub type Count<'a> = Box<dyn Fn(&str) -> Result<u64, String> + Sync + 'a>;

/// The server's own tokenizer, as far as its API gives access to it.
pub struct ServerTokenizer<'a> {
    /// Words that are one token each, alone and next to each other; empty if no such words were found.
    pub words: Vec<String>,
    /// Number of special tokens that are put around each prompt.
    pub added_specials: u64,
    /// Counts the tokens of a text, special ones included.
    pub count: Count<'a>,
}

impl Vocabulary<'_> {
    /// Name of the source for the result file.
    pub fn source(&self) -> PromptSource {
        match self {
            Vocabulary::Tokenizer(_) => PromptSource::Tokenizer,
            Vocabulary::Ids(_) => PromptSource::TokenIds,
            Vocabulary::Server(server) if !server.words.is_empty() => PromptSource::ServerWords,
            Vocabulary::Words | Vocabulary::Server(_) => PromptSource::Words,
        }
    }

    /// Name of the counter of prompt tokens for the result file. `source` is the source of the prompts.
    pub fn counted_by(&self, source: PromptSource) -> &'static str {
        match (self, source) {
            (_, PromptSource::TokenIds) => "token_ids",
            (Vocabulary::Tokenizer(_), _) => "tokenizer",
            (Vocabulary::Server(_), source) if source != PromptSource::Words => "server",
            _ => ESTIMATE,
        }
    }

    /// Number of tokens of a text, including the special tokens around it. Without a tokenizer, an estimate from its bytes.
    pub fn count(&self, text: &str) -> Result<u64, String> {
        match self {
            Vocabulary::Tokenizer(tokenizer) => Ok(tokenizer.encode(text, true)?.len() as u64),
            Vocabulary::Server(server) => (server.count)(text),
            Vocabulary::Ids(_) | Vocabulary::Words => Ok(text.len().div_ceil(BYTES_A_TOKEN) as u64),
        }
    }

    /// Number of special tokens that are put around each prompt.
    pub(in crate::dataset) fn added_specials(&self) -> u64 {
        match self {
            Vocabulary::Tokenizer(tokenizer) => tokenizer.added_specials(),
            Vocabulary::Server(server) => server.added_specials,
            Vocabulary::Ids(_) | Vocabulary::Words => 0,
        }
    }

    /// Returns the ids that are no special tokens, ascending, or an error if there are none.
    pub(in crate::dataset) fn allowed(&self) -> Result<Vec<u32>, String> {
        let allowed: Vec<u32> = match self {
            Vocabulary::Tokenizer(tokenizer) => (0..tokenizer.vocabulary_size())
                .filter(|id| !tokenizer.special().contains(id))
                .collect(),
            _ => self.ids().collect(),
        };
        if allowed.is_empty() {
            return Err("the vocabulary has no token that may be used; check vocab_size or the tokenizer".to_owned());
        }
        Ok(allowed)
    }

    /// Returns the ids that `tokenizer.json` does not mark as special, ascending; without a tokenizer, the allowed ids.
    pub(in crate::dataset) fn unmarked(&self) -> Result<Vec<u32>, String> {
        match self {
            Vocabulary::Tokenizer(tokenizer) => Ok((0..tokenizer.vocabulary_size())
                .filter(|id| !tokenizer.marked().contains(id))
                .collect()),
            _ => self.allowed(),
        }
    }

    /// Returns the allowed ids, including those of tokens that were added to the vocabulary.
    pub(in crate::dataset) fn allowed_with_added(&self) -> Result<Vec<u32>, String> {
        match self {
            Vocabulary::Tokenizer(tokenizer) => {
                Ok(tokenizer.all_ids().difference(tokenizer.special()).copied().collect())
            }
            _ => self.allowed(),
        }
    }

    /// All ids, special tokens included, without tokens that were added to the vocabulary.
    pub(in crate::dataset) fn ids(&self) -> Range<u32> {
        match self {
            Vocabulary::Tokenizer(tokenizer) => 0..tokenizer.vocabulary_size(),
            Vocabulary::Ids(ids) => ids.clone(),
            Vocabulary::Words | Vocabulary::Server(_) => 0..WORD_IDS,
        }
    }

    /// Converts ids to a prompt.
    pub(in crate::dataset) fn render(&self, ids: Vec<u32>) -> Result<Prompt, String> {
        Ok(match self {
            Vocabulary::Tokenizer(tokenizer) => Prompt::Text(tokenizer.decode(&ids)?),
            Vocabulary::Ids(_) => Prompt::Ids(ids),
            Vocabulary::Server(server) if !server.words.is_empty() => Prompt::Text(words(&server.words, &ids)),
            Vocabulary::Words | Vocabulary::Server(_) => Prompt::Text(words(&COMMON_WORDS, &ids)),
        })
    }

    /// Converts a draft to a prompt, and returns the prompt with its tokens. With a tokenizer, the text is cut, or padded with ids from
    /// `pad`, until it has the length of the draft (see [`RoundTrip::corrected`]).
    pub(in crate::dataset) fn settle(
        &self,
        draft: impl Into<TextDraft>,
        pad: &mut dyn FnMut(Range<u32>) -> u32,
    ) -> Result<(Prompt, Vec<u32>), String> {
        let TextDraft { ids, length } = draft.into();
        match self {
            Vocabulary::Tokenizer(tokenizer) => {
                let trip = RoundTrip::of(tokenizer, &ids)?.corrected(tokenizer, length, pad)?;
                Ok((Prompt::Text(trip.text), trip.ids))
            }
            _ => Ok((self.render(ids.clone())?, ids)),
        }
    }

    /// Like [`Vocabulary::settle`] for each draft, in order: returns the prompts with their lengths in tokens. Texts are made on all cores.
    /// Only corrections, which few texts need, are sequential, because they draw random ids.
    pub(in crate::dataset) fn settle_all(
        &self,
        drafts: Vec<TextDraft>,
        pad: &mut dyn FnMut(Range<u32>) -> u32,
    ) -> Result<Vec<(Prompt, u64)>, String> {
        let Vocabulary::Tokenizer(tokenizer) = self else {
            let render = |ids: Vec<u32>| {
                let length = ids.len() as u64;
                Ok((self.render(ids)?, length))
            };
            return drafts.into_iter().map(|draft| render(draft.ids)).collect();
        };
        let trips = RoundTrip::of_all(tokenizer, &drafts)?;
        trips
            .into_iter()
            .zip(drafts)
            .map(|(trip, draft)| {
                let trip = trip.corrected(tokenizer, draft.length, pad)?;
                let length = trip.ids.len() as u64;
                Ok((Prompt::Text(trip.text), length))
            })
            .collect()
    }
}

/// Words that are one token each in most tokenizers.
pub const COMMON_WORDS: [&str; 64] = [
    "the", "of", "and", "to", "in", "is", "was", "for", "that", "on", "with", "as", "at", "by", "from", "it", "be",
    "are", "this", "have", "not", "but", "they", "you", "all", "one", "can", "her", "has", "there", "been", "if",
    "more", "when", "will", "would", "who", "so", "no", "out", "up", "what", "time", "about", "into", "than", "them",
    "only", "other", "new", "some", "could", "two", "may", "then", "first", "any", "like", "now", "over", "such",
    "our", "man", "most",
];

/// Number of ids that are mapped to words. It is much larger than the number of words, so that prompts that begin at different ids have
/// different beginnings.
const WORD_IDS: u32 = 32_000;

fn words<W: AsRef<str>>(all: &[W], ids: &[u32]) -> String {
    let words: Vec<&str> = ids
        .iter()
        .map(|id| all[mixed(*id) as usize % all.len()].as_ref())
        .collect();
    words.join(" ")
}

/// Spreads ids over all numbers, by the hash function `lowbias32` of Chris Wellons.
fn mixed(id: u32) -> u32 {
    let id = (id ^ (id >> 16)).wrapping_mul(0x7feb_352d);
    let id = (id ^ (id >> 15)).wrapping_mul(0x846c_a68b);
    id ^ (id >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_of_words_begin_differently() {
        let start = |id: u32| words(&COMMON_WORDS, &(id..id + 8).collect::<Vec<_>>());
        let starts: std::collections::HashSet<String> = (0..WORD_IDS).map(start).collect();
        assert!(starts.len() > WORD_IDS as usize * 99 / 100, "{}", starts.len());
    }
}
