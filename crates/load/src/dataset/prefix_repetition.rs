//! The `prefix_repetition` dataset: a few random prefixes, each with many random suffixes.

use super::{Item, Sampling, Vocabulary};
use std::ops::Range;
use vsweep_metrics::rng::NumpyLegacy;

/// Settings of the `prefix_repetition` dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefixRepetition {
    /// Tokens of a prefix.
    pub prefix_len: u64,
    /// Tokens of a suffix.
    pub suffix_len: u64,
    /// Different prefixes.
    pub num_prefixes: usize,
    /// Output tokens.
    pub output_len: u64,
}

impl PrefixRepetition {
    /// The lengths that [`PrefixRepetition::draw`] gives, without the prompts.
    pub(super) fn lengths(&self, sampling: &Sampling) -> Vec<(u64, u64)> {
        let requests = sampling.num_prompts / self.num_prefixes.max(1) * self.num_prefixes;
        vec![(self.prefix_len + self.suffix_len, self.output_len); requests]
    }

    /// Draws the requests: as many as each prefix can have alike, so up to `num_prefixes - 1` fewer than asked for.
    pub fn draw(&self, sampling: &Sampling, vocabulary: &Vocabulary<'_>) -> Result<Vec<Item>, String> {
        let for_each = sampling.num_prompts / self.num_prefixes.max(1);
        if for_each == 0 {
            return Err(format!(
                "num_prompts {} is less than prefix_repetition_num_prefixes {}; raise the former or lower the latter",
                sampling.num_prompts, self.num_prefixes
            ));
        }
        if self.prefix_len + self.suffix_len == 0 {
            return Err(
                "prefix_repetition_prefix_len and prefix_repetition_suffix_len are both 0; raise one".to_owned(),
            );
        }
        // A seed is checked to fit in 32 bits where it is read.
        let mut random = NumpyLegacy::new(sampling.seed as u32);
        let mut tokens = |length: u64| {
            let mut draw = |ids: Range<u32>| ids.start + random.below(ids.end.saturating_sub(ids.start));
            let ids: Vec<u32> = (0..length).map(|_| draw(vocabulary.ids())).collect();
            Ok::<_, String>(vocabulary.settle(ids, &mut draw)?.1)
        };
        let mut items = Vec::with_capacity(for_each * self.num_prefixes);
        for _ in 0..self.num_prefixes {
            let prefix = tokens(self.prefix_len)?;
            for _ in 0..for_each {
                let ids = [prefix.as_slice(), &tokens(self.suffix_len)?].concat();
                let length = ids.len() as u64;
                let mut item = Item::new(0, vocabulary.render(ids)?, length, self.output_len);
                item.id = None;
                items.push(item);
            }
        }
        Ok(sampling.shuffled(items))
    }
}
