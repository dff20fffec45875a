//! The `prefix_repetition` dataset: a few random prefixes, each with many random suffixes.

use super::kind::share;
use super::{Dataset, Draw, Item, Kind, Material, Sampling, Traits, random};
use crate::Backend;
use crate::params::ParamReader;
use std::ops::Range;
use vsweep_metrics::rng::NumpyLegacy;

pub(super) const KIND: Kind =
    Kind::of::<PrefixRepetition>("prefix_repetition", "random suffixes to a few random prefixes");

crate::params! {
    /// The `prefix_repetition` dataset.
    pub struct PrefixRepetition {
        /// Tokens of a prefix.
        prefix_len: u64 = param("prefix_repetition_prefix_len").default("256"),
        /// Tokens of a suffix.
        suffix_len: u64 = param("prefix_repetition_suffix_len").default("256"),
        /// Different prefixes.
        num_prefixes: usize = param("prefix_repetition_num_prefixes").least(1).default("10"),
        /// Output tokens.
        output_len: u64 = param("prefix_repetition_output_len").or("output_len").least(1).default("128"),
    }
}

impl Dataset for PrefixRepetition {
    fn traits(&self) -> Traits {
        Traits {
            made_of: Material::Vocabulary,
            may_be_cut: true,
            least: self.num_prefixes,
            shared_share: share(self.prefix_len, self.suffix_len),
            ..Traits::default()
        }
    }

    fn check(&self, _: Backend, num_prompts: usize, reader: &mut ParamReader<'_>) {
        random::limit_tokens(num_prompts, self.prefix_len + self.suffix_len, reader);
    }

    fn lengths(&self, sampling: &Sampling, _: u64) -> Option<Vec<(u64, u64)>> {
        let requests = sampling.num_prompts / self.num_prefixes.max(1) * self.num_prefixes;
        Some(vec![(self.prefix_len + self.suffix_len, self.output_len); requests])
    }

    fn round_size(&self) -> Option<usize> {
        Some(2048)
    }

    /// Draws the same number of requests for each prefix. The total may be up to `num_prefixes - 1` smaller than requested.
    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let (sampling, vocabulary) = (draw.sampling, draw.vocabulary);
        let for_each = sampling.num_prompts / self.num_prefixes.max(1);
        if for_each == 0 {
            return Err(format!(
                "num_prompts {} is less than prefix_repetition_num_prefixes {}; raise num_prompts, or lower prefix_repetition_num_prefixes",
                sampling.num_prompts, self.num_prefixes
            ));
        }
        if self.prefix_len + self.suffix_len == 0 {
            return Err(
                "prefix_repetition_prefix_len and prefix_repetition_suffix_len are both 0; raise one".to_owned(),
            );
        }
        // The seed fits in 32 bits: this is checked where it is read.
        let mut random = NumpyLegacy::new(sampling.seed as u32);
        let mut tokens = |length: u64| {
            let mut draw_id = |ids: Range<u32>| ids.start + random.below(ids.end.saturating_sub(ids.start));
            let ids: Vec<u32> = (0..length).map(|_| draw_id(vocabulary.ids())).collect();
            Ok::<_, String>(vocabulary.settle(ids, &mut draw_id)?.1)
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
